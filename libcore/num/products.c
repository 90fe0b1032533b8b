#include "num/products.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

void np_products_init(struct np_products *products, const struct np_numerics *numerics)
{
    *products = (struct np_products){.numerics = numerics};
    pthread_mutex_init(&products->lock, NULL);
}

void np_products_clear(struct np_products *products)
{
    free(products->list);
    pthread_mutex_destroy(&products->lock);
}

static int compare_sizes(size_t a, size_t b)
{
    return (a > b) - (a < b);
}

static int compare(const struct np_product *a, const struct np_product *b)
{
    int order = compare_sizes(a->m, b->m);
    order = order ? order : compare_sizes(a->n, b->n);
    order = order ? order : compare_sizes(a->k, b->k);
    order = order ? order : a->a_trans - b->a_trans;
    return order ? order : a->b_trans - b->b_trans;
}

/* Where the product is, or would be. */
static size_t find(const struct np_products *products, const struct np_product *product,
                   bool *found)
{
    size_t low = 0, high = products->count;
    *found = false;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = compare(&products->list[middle].product, product);
        if (order == 0) {
            *found = true;
            return middle;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

enum np_status np_products_add(struct np_products *products, const struct np_product_choice *choice,
                               bool *added, struct np_error *err)
{
    bool found;
    size_t at = find(products, &choice->product, &found);
    enum np_status status;
    *added = !found;
    if (found)
        return NP_OK;
    status = np_grow(&products->list, &products->capacity, products->count, sizeof *choice, err);
    if (status != NP_OK)
        return status;
    memmove(products->list + at + 1, products->list + at, (products->count - at) * sizeof *choice);
    products->list[at] = *choice;
    products->count++;
    return NP_OK;
}

enum np_status np_products_algorithm(
    struct np_products *products, struct np_algorithm *out, const struct np_product *product,
    enum np_status (*choose)(void *context, struct np_algorithm *out,
                             const struct np_product *product, struct np_error *err),
    void *context, struct np_error *err)
{
    struct np_product_choice choice = {.product = *product};
    enum np_status status = NP_OK;
    bool found, added;
    pthread_mutex_lock(&products->lock);
    size_t at = find(products, product, &found);
    if (found) {
        *out = products->list[at].algorithm;
        goto out;
    }
    NP_TRY(choose(context, &choice.algorithm, product, err));
    NP_TRY(np_products_add(products, &choice, &added, err));
    if (products->keep)
        NP_TRY(products->keep(products->context, products, err));
    *out = choice.algorithm;
out:
    pthread_mutex_unlock(&products->lock);
    return status;
}

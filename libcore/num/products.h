/* The products of a library, and the algorithm that computes each: numerics fast/... .
 *
 * An algorithm is chosen when a product is first wanted, for its sizes alone, and is the product's
 * from then on; whoever keeps the list (run/products_file.h) has it before it is used.
 *
 * Units     a plan cuts mini-batches at grains, and the library's sums may depend on how many rows
 *           there are. So it is handed the rows of one grain at a time, whatever the plan is:
 *           forward and to the inputs a grain's rows of the result are a product; a gradient of
 *           weights is, for each grain, a product over its rows, and the grains' are added in order
 *           with +, onto what is there when accumulating.
 * Operands  rounded to the numerics' type and laid out anew, rows apart by a multiple of
 *           NP_PRODUCT_PAD, from a multiple of NP_PRODUCT_ALIGN bytes on: nothing but the sizes is
 *           left that an algorithm could depend on. The epilogue is applied to the product's result
 *           as num/arguments.h has it.
 * Errors    of keep and choose; NP_EMEM.
 * Threads   np_products_algorithm: any; the rest before and after.
 */
#ifndef NP_NUM_PRODUCTS_H
#define NP_NUM_PRODUCTS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/memory.h"
#include "num/numerics.h"

#define NP_PRODUCT_PAD 8     /* elements */
#define NP_PRODUCT_ALIGN 256 /* bytes */
#define NP_ALGORITHM_BYTES 64

/* op(A) op(B): op(A) is m x k, op(B) k x n; transposed: stored as k x m, as n x k. */
struct np_product {
    size_t m, n, k;
    bool a_trans, b_trans;
};

/* How far apart the rows of an operand are: elements. */
static inline size_t np_product_ld(size_t cols)
{
    return np_round_up(cols, NP_PRODUCT_PAD);
}

/* The library's own description, to be kept as it is. */
struct np_algorithm {
    unsigned char bytes[NP_ALGORITHM_BYTES];
};

struct np_product_choice {
    struct np_product product;
    struct np_algorithm algorithm;
};

struct np_products {
    const struct np_numerics *numerics;
    char gpu[128], library[64];     /* which the bits depend on: model, and name and version */
    struct np_product_choice *list; /* [count], sorted by product */
    size_t count, capacity;
    /* Called with a choice more, before it is used; NULL: nobody keeps them. */
    enum np_status (*keep)(const void *context, const struct np_products *products,
                           struct np_error *err);
    const void *context;
    pthread_mutex_t lock;
};

void np_products_init(struct np_products *products, const struct np_numerics *numerics);
void np_products_clear(struct np_products *products);

/* Adds a choice; false in *added if the product has one. */
enum np_status np_products_add(struct np_products *products, const struct np_product_choice *choice,
                               bool *added, struct np_error *err);

/* The product's algorithm: the one that is kept, or what `choose` now says. */
enum np_status np_products_algorithm(
    struct np_products *products, struct np_algorithm *out, const struct np_product *product,
    enum np_status (*choose)(void *context, struct np_algorithm *out,
                             const struct np_product *product, struct np_error *err),
    void *context, struct np_error *err);

#endif

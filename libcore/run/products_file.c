#include "run/products_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "io/file.h"
#include "io/sealed.h"

#define FILE_MAX ((size_t)64 << 20)
#define SIZE_MOST ((uint64_t)INT32_MAX)

static enum np_status write_choice(struct np_buf *out, const struct np_product_choice *choice,
                                   struct np_error *err)
{
    const struct np_product *p = &choice->product;
    enum np_status status;
    NP_TRY(np_buf_printf(out, err, "%zu %zu %zu %c%c ", p->m, p->n, p->k, p->a_trans ? 't' : 'n',
                         p->b_trans ? 't' : 'n'));
    for (int i = 0; i < NP_ALGORITHM_BYTES; i++)
        NP_TRY(np_buf_printf(out, err, "%02x", choice->algorithm.bytes[i]));
    NP_TRY(np_buf_append(out, "\n", 1, err));
out:
    return status;
}

enum np_status np_products_write(const struct np_products *products, struct np_buf *out,
                                 struct np_error *err)
{
    enum np_status status;
    NP_TRY(np_buf_printf(out, err, "naspipe products/1\nnumerics %s\ngpu %s\nlibrary %s\n",
                         products->numerics->name, products->gpu, products->library));
    for (size_t i = 0; i < products->count; i++)
        NP_TRY(write_choice(out, &products->list[i], err));
    NP_TRY(np_sealed_end(out, err));
out:
    return status;
}

/* The value of the header line "key value", which must fit. */
static enum np_status read_header(struct np_sealed *text, const char *key, char *out, size_t size,
                                  struct np_error *err)
{
    char *value;
    enum np_status status = np_sealed_header(text, key, &value, err);
    if (status == NP_OK && (size_t)snprintf(out, size, "%s", value) >= size)
        status = np_sealed_damaged(text, "too long", err);
    return status;
}

static bool parse_algorithm(struct np_algorithm *out, const char *hex)
{
    return strlen(hex) == 2 * NP_ALGORITHM_BYTES &&
           np_text_parse_bytes(out->bytes, hex, NP_ALGORITHM_BYTES);
}

/* A word of a line, which is cut behind it. */
static char *word(char **at)
{
    char *begin = *at, *end = begin + strcspn(begin, " ");
    *at = *end ? end + 1 : end;
    *end = '\0';
    return begin;
}

static bool parse_choice(struct np_product_choice *out, char *line)
{
    size_t *const sizes[] = {&out->product.m, &out->product.n, &out->product.k};
    const char *how;
    for (int i = 0; i < 3; i++) {
        uint64_t size;
        if (!np_text_parse_uint64(&size, word(&line), 1, SIZE_MOST))
            return false;
        *sizes[i] = (size_t)size;
    }
    how = word(&line);
    out->product.a_trans = how[0] == 't';
    out->product.b_trans = how[0] && how[1] == 't';
    return strlen(how) == 2 && strspn(how, "nt") == 2 && parse_algorithm(&out->algorithm, line);
}

static enum np_status read_choices(struct np_sealed *text, struct np_products *products,
                                   struct np_error *err)
{
    enum np_status status = NP_OK;
    for (char *line; (line = np_sealed_line(text));) {
        struct np_product_choice choice;
        bool added = true;
        if (!parse_choice(&choice, line))
            return np_sealed_damaged(text, "not a product and its algorithm", err);
        if (products)
            NP_TRY(np_products_add(products, &choice, &added, err));
        if (!added)
            return np_sealed_damaged(text, "a product that is there already", err);
    }
out:
    return status;
}

static enum np_status read_all(struct np_sealed *text, struct np_products_maker *maker,
                               struct np_products *products, struct np_error *err)
{
    enum np_status status;
    NP_TRY(np_sealed_expect(text, "naspipe", "products/1", err));
    NP_TRY(read_header(text, "numerics", maker->numerics, sizeof maker->numerics, err));
    NP_TRY(read_header(text, "gpu", maker->gpu, sizeof maker->gpu, err));
    NP_TRY(read_header(text, "library", maker->library, sizeof maker->library, err));
    NP_TRY(read_choices(text, products, err));
out:
    return status;
}

enum np_status np_products_read(struct np_products_maker *maker, struct np_products *products,
                                const char *run, struct np_error *err)
{
    struct np_sealed text = {.text = NULL};
    char *path = NULL;
    bool there;
    enum np_status status;
    *maker = (struct np_products_maker){.gpu = ""};
    snprintf(maker->numerics, sizeof maker->numerics, "%s", np_numerics_list[0].name);
    NP_TRY(np_file_join(&path, run, NP_PRODUCTS_FILE, err));
    NP_TRY(np_file_exists(&there, path, err));
    if (!there)
        goto out;
    NP_TRY(np_sealed_read(&text, path, "list of products", FILE_MAX, err));
    NP_TRY(read_all(&text, maker, products, err));
out:
    np_sealed_clear(&text);
    free(path);
    return status;
}

static enum np_status keep(const void *context, const struct np_products *products,
                           struct np_error *err)
{
    struct np_buf text = {NULL, 0, 0};
    char *path = NULL;
    enum np_status status;
    NP_TRY(np_products_write(products, &text, err));
    NP_TRY(np_file_join(&path, context, NP_PRODUCTS_FILE, err));
    NP_TRY(np_file_write(path, text.text, text.used, err));
out:
    free(path);
    np_buf_clear(&text);
    return status;
}

void np_products_keep(struct np_products *products, const char *run)
{
    products->keep = keep;
    products->context = run;
}

/* For a message. */
struct described {
    char s[640];
};

static struct described describe(const struct np_products_maker *maker)
{
    struct described out = {"portable numerics, without a " NP_PRODUCTS_FILE};
    if (maker->gpu[0])
        snprintf(out.s, sizeof out.s, "numerics %s, %s on %s", np_text_safe(maker->numerics).s,
                 np_text_safe(maker->library).s, np_text_safe(maker->gpu).s);
    return out;
}

static bool same_maker(const struct np_products_maker *a, const struct np_products_maker *b)
{
    return strcmp(a->numerics, b->numerics) == 0 && strcmp(a->gpu, b->gpu) == 0 &&
           strcmp(a->library, b->library) == 0;
}

enum np_status np_products_resume(struct np_products *products, const char *run,
                                  struct np_error *err)
{
    struct np_products_maker then, now;
    enum np_status status;
    snprintf(now.numerics, sizeof now.numerics, "%s", products->numerics->name);
    snprintf(now.gpu, sizeof now.gpu, "%s", products->gpu);
    snprintf(now.library, sizeof now.library, "%s", products->library);
    NP_TRY(np_products_read(&then, products, run, err));
    if (!same_maker(&then, &now))
        status = np_fail(err, NP_EINPUT, "'%s' cannot go on here: it was made with %s; here is %s",
                         np_text_safe(run).s, describe(&then).s, describe(&now).s);
    np_products_keep(products, run);
out:
    return status;
}

enum np_status np_products_compare(const char *a, const char *b, struct np_error *err)
{
    struct np_products_maker of_a, of_b;
    enum np_status status;
    NP_TRY(np_products_read(&of_a, NULL, a, err));
    NP_TRY(np_products_read(&of_b, NULL, b, err));
    if (!same_maker(&of_a, &of_b))
        status =
            np_fail(err, NP_EINPUT,
                    "'%s' (%s) and '%s' (%s) have not the same arithmetic and cannot be "
                    "compared",
                    np_text_safe(a).s, describe(&of_a).s, np_text_safe(b).s, describe(&of_b).s);
out:
    return status;
}

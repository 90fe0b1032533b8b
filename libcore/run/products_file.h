/* products.txt of a run directory: the algorithms that a run's products have, and what they are of.
 *
 *     naspipe products/1
 *     numerics fast/sm_90-tf32
 *     gpu <model, compute capability, multiprocessors>
 *     library <name and version>
 *     <m> <n> <k> <n or t for A, for B> <the algorithm, 128 hexadecimal digits>
 *     ...
 *     end <SHA-256 of all lines above>
 *
 * Lines are sorted by product. A run of fast numerics has it from its beginning; it is written anew
 * with each product that is met for the first time, before that is computed.
 *
 * Errors    NP_EDATA: damaged, with its line; NP_EINPUT: of another GPU, library or numerics;
 *           NP_EIO.
 * Ownership texts and paths that are given out belong to the caller.
 */
#ifndef NP_RUN_PRODUCTS_FILE_H
#define NP_RUN_PRODUCTS_FILE_H

#include "base/buf.h"
#include "num/products.h"

#define NP_PRODUCTS_FILE "products.txt"

/* What the products are computed by; of a portable run, whose sums anything computes, gpu and
 * library are empty. */
struct np_products_maker {
    char numerics[32], gpu[sizeof((struct np_products *)0)->gpu],
        library[sizeof((struct np_products *)0)->library];
};

enum np_status np_products_write(const struct np_products *products, struct np_buf *out,
                                 struct np_error *err);

/* Fills in whose the file of a run is, and, unless NULL, adds its choices to `products`. Without a
 * file: portable. */
enum np_status np_products_read(struct np_products_maker *maker, struct np_products *products,
                                const char *run, struct np_error *err);

/* From here on the run keeps the products' choices; `run` is borrowed. To go on with a run, those
 * that it has kept are taken, if it is of the same numerics, GPU and library. */
void np_products_keep(struct np_products *products, const char *run);
enum np_status np_products_resume(struct np_products *products, const char *run,
                                  struct np_error *err);

/* NP_EINPUT unless the two runs' products were computed by the same. */
enum np_status np_products_compare(const char *a, const char *b, struct np_error *err);

#endif

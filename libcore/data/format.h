/* What np_data asks of a format: a table of functions for each way to read items (tokens, pairs or
 * images) out of mapped files. data.c knows parts, draws and batches; formats know bytes.
 *
 * Words     an item's number counts through all files in order; a sample begins at an item.
 * Errors    NP_EINPUT names the file and what is wrong with it; NP_EIO; NP_EMEM.
 * Ownership a reader borrows the paths, the recipe and the spec only while it is opened, but the
 *           paths until it is closed.
 */
#ifndef NP_DATA_FORMAT_H
#define NP_DATA_FORMAT_H

#include "data/data.h"
#include "num/philox.h"

/* Draws of a training sample: tensors of NP_DRAW_AUGMENT. */
enum { NP_AUGMENT_VIEW, NP_AUGMENT_SCALE, NP_AUGMENT_JITTER, NP_AUGMENT_ORDER, NP_AUGMENT_DRAWS };

struct np_format {
    const char *items; /* "tokens", for messages */
    /* Opens all files and counts their items; *out may be closed after a failure, too. */
    enum np_status (*open)(void **out, uint64_t *count, char *const *paths,
                           const struct np_recipe *recipe, const struct np_data_spec *spec,
                           struct np_error *err);
    void (*close)(void *reader);
    /* Checks every value of items begin .. begin+count-1, and adds them to the digest. */
    enum np_status (*digest)(const void *reader, struct np_sha256 *sha, uint64_t begin,
                             uint64_t count, struct np_error *err);
    /* The sample at an item, into the arrays that are not NULL; augment: NULL for none. */
    void (*read)(const void *reader, const struct np_batch *sample, uint64_t item,
                 const struct np_philox augment[NP_AUGMENT_DRAWS]);
};

extern const struct np_format np_format_corpus, np_format_pairs, np_format_images;

#endif

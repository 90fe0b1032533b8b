/* Training and evaluation data, and batches as a pure function of (seed, step, member).
 *
 * bytes   the files' bytes, concatenated in order; token = byte; vocab must be >= 256.
 * tokens  llm.c's .bin files: a 256-word int32 header (magic 20240520, version 1: uint16 tokens;
 *         magic 20240801, version 7: uint32 tokens), then the tokens. Every token < vocab.
 * pairs   text lines "source TAB target" without bytes 0; token = byte. Sources are cut or filled
 *         with 0 to the source length, targets to length - 1; the target's input is 1 and the
 *         target, what it shall predict the target and a 0. Every token < vocab. Masked: what is
 *         filled has no target; of a source without a byte one position is not.
 * token_pairs the same of tokens that are written as decimal numbers from 1 on, with spaces between
 *         them.
 * idx     MNIST's format: files are [images, labels], [images, labels] ...; images are uint8, of
 *         three dimensions [n][height][width] for 1 channel, of four, with the channels last, for
 *         more; labels uint8, int16 or int32.
 * cifar10 the binary version: records of a label and the planes R, G, B, 32 x 32 each.
 * cifar100 likewise, but of two labels, a coarse and a fine one, of which the fine one counts.
 *
 * Sample i of (step, member): tokens begin at np_philox_below(np_draw(np_draw_key(seed,
 * NP_DRAW_BATCH, member, 0, 0), step, i), tokens - T), targets are the same window shifted by one;
 * pairs and images take the sample of that number, below their count. Where the order is shuffled,
 * an epoch has every item once: pairs, images, or the windows that begin at 0, T, 2T ...; n of
 * them. Number g = (step * members + member) * batch + i, with one member where all have the same
 * batch, is item np_shuffle(np_draw_key(seed, NP_DRAW_ORDER, 0, 0, 0), g / n, g % n, n).
 * What becomes of an image's pixels, in training with draws of its own: data/image_reader.h.
 *
 * Shapes    images [B][height][width][channels]; tokens [B][T]; source [B][S]; targets [B][T], or
 *           [B] for images; lengths [B].
 * Errors    NP_EINPUT names the file: empty, too short, bad header, token or label too large,
 *           images of another size than the recipe says. NP_ESTOP when hooks.stop said so.
 * Ownership np_data_close; files are mapped read-only while open.
 * Threads   any number may read batches of one np_data.
 */
#ifndef NP_DATA_DATA_H
#define NP_DATA_DATA_H

#include "space/program.h"
#include "space/recipe.h"

struct np_data;

/* The target of a position that is none, where what is filled is masked. */
#define NP_NO_TARGET (-1)

/* A batch's arrays; NULL: the input has none, or it is not wanted. Lengths: positions of a sample
 * that are not filled, 1 at least. */
struct np_batch {
    float *images;
    int32_t *tokens, *source, *targets, *source_lengths, *target_lengths;
};

/* Carves the arrays that the recipe's batches have out of `slab` (NULL: only counts), each on a
 * cache line if the slab begins on one; returns how many 4-byte words they take for `samples`
 * samples. reads: which are wanted, as np_program_reads; the others become NULL. */
size_t np_batch_lay(struct np_batch *batch, const struct np_recipe *recipe, size_t samples,
                    unsigned reads, float *slab);
/* The batch that begins with sample i of this one, in the same arrays. */
struct np_batch np_batch_from(const struct np_batch *batch, const struct np_recipe *recipe,
                              size_t i);
/* Targets a sample has: T, or 1 for images. */
size_t np_batch_targets(const struct np_recipe *recipe);

/* Where a file is that the recipe names in its data: relative names begin at its directory. The
 * text is the caller's. */
enum np_status np_data_path(char **out, const struct np_recipe *recipe, const char *name,
                            struct np_error *err);

/* What reading gigabytes for their digest takes is told meanwhile; either may be NULL. */
struct np_data_hooks {
    void *context;
    void (*progress)(void *context, uint64_t done, uint64_t count); /* items of the part */
    bool (*stop)(void *context);                                    /* NP_ESTOP if so */
};

/* Opens one data spec of the recipe. hooks: NULL for none. */
enum np_status np_data_open(struct np_data **out, const struct np_recipe *recipe,
                            const struct np_data_spec *spec, const struct np_data_hooks *hooks,
                            struct np_error *err);
void np_data_close(struct np_data *data);

/* SHA-256 over what the part holds, before normalisation: tokens as little-endian int32; sample
 * after sample, pairs' rows of source and target input likewise, images' label likewise and pixels
 * as bytes (HWC): which data decided the bits. */
const struct np_digest *np_data_digest(const struct np_data *data);
/* Tokens, pairs or images in the part. */
uint64_t np_data_count(const struct np_data *data);

/* Samples first .. first+samples-1 of the mini-batch of (step, member); member 0 where all members
 * of the recipe have the same batch. */
void np_data_batch(const struct np_data *data, const struct np_batch *batch, uint64_t seed,
                   uint64_t step, uint32_t member, size_t first, size_t samples);
/* The targets of a whole mini-batch, less those that are none. */
uint64_t np_data_targets(const struct np_data *data, uint64_t seed, uint64_t step, uint32_t member);
/* Samples first .. first + samples - 1 of the `total` of an evaluation, spread evenly over the
 * part, the same in every evaluation, not augmented: number w is sample (or window) places * w /
 * total, of `places` places. */
void np_data_eval_batch(const struct np_data *data, const struct np_batch *batch, uint64_t first,
                        size_t samples, uint64_t total);
uint64_t np_data_eval_targets(const struct np_data *data, uint64_t first, size_t samples,
                              uint64_t total);

#endif

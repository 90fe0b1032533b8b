/* Text data: a corpus of tokens, and batches as a pure function of (seed, step, member).
 *
 * bytes   the files' bytes, concatenated in order; token = byte; vocab must be >= 256.
 * tokens  llm.c's .bin files: a 256-word int32 header (magic 20240520, version 1: uint16 tokens;
 *         magic 20240801, version 7: uint32 tokens), then the tokens. Every token < vocab.
 * Sample i of (step, member) begins at np_philox_below(np_draw(np_draw_key(seed, NP_DRAW_BATCH,
 * member, 0, 0), step, i), tokens - T); its targets are the same window shifted by one.
 *
 * Shapes    tokens, targets: [B][T] int32.
 * Errors    NP_EINPUT names the file: empty, shorter than T + 1 tokens, bad header, token too
 *           large.
 * Ownership np_corpus_close; files are mapped read-only while open.
 * Threads   any number may read batches of one corpus.
 */
#ifndef NP_DATA_CORPUS_H
#define NP_DATA_CORPUS_H

#include "space/recipe.h"

struct np_corpus;

/* Opens one data spec of the recipe; relative file names begin at the recipe's directory. */
enum np_status np_corpus_open(struct np_corpus **out, const struct np_recipe *recipe,
                              const struct np_data_spec *spec, struct np_error *err);
void np_corpus_close(struct np_corpus *corpus);

/* SHA-256 over the tokens of the part as little-endian int32: which data decided the bits. */
const struct np_digest *np_corpus_digest(const struct np_corpus *corpus);
uint64_t np_corpus_tokens(const struct np_corpus *corpus);

/* Samples first .. first+samples-1 of the mini-batch of (step, member). */
void np_corpus_batch(const struct np_corpus *corpus, int32_t *tokens, int32_t *targets,
                     uint64_t seed, uint64_t step, uint32_t member, size_t first, size_t samples);
/* Batch `index` of an evaluation: `samples` windows spread evenly over the part, the same in every
 * evaluation: window number w = index * samples + i, below `total`, begins at (tokens - T) * w /
 * total. */
void np_corpus_eval_batch(const struct np_corpus *corpus, int32_t *tokens, int32_t *targets,
                          uint64_t index, size_t samples, uint64_t total);

#endif

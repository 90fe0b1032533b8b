/* The stream of subnets: which candidate each choice block takes, step by step.
 *
 * A stream is drawn by the recipe's sampler (a pure function of the seed: step and member address
 * every draw), or read from a text file or pipe: one member a line, N candidate indices separated
 * by blanks, `#` comments, empty lines ignored.
 *
 * uniform  every choice independent.
 * fair     strict fairness: the members of a step take each candidate of a block equally often (a
 *          permutation per block and step); needs a multiple of every block's candidates.
 * sandwich the first member of a step takes the largest candidate of every block, the second the
 *          smallest (struct np_block); the others draw as in uniform.
 * spread   uniform draws reordered, steps as a whole: of a pool of the next `spread` drawn steps
 *          the one goes first that waits least for layers of steps just emitted, where shallow
 *          layers make wait longest. A function of
 *          the seed alone; any step is reached by replaying less than 4096 steps.
 *
 * Depths are drawn for all blocks of one at once, each as often; fair has none (space/depth.h).
 * Widths are drawn first, then one of the candidates of the width; fair: a permutation for each
 * width, whose places members take as they take the width.
 * Blocks that are tied draw alike, with the key of the first of them, and so do those whose widths
 * are. What is read is not tied, but for widths and depths.
 *
 * Errors    NP_EINPUT "stream.txt:7: 12 indices, not 16", "stream.txt:7:5: candidate 9 of block 3
 *           is not in 0..7"; tied widths of different numbers; blocks of one depth
 *           that go on behind one that is passed over; the end of a file inside a step, or
 *           before step `first`, between steps it is the end; fair with other members.
 * Ownership np_stream_close closes the file unless it is standard input.
 * Threads   one reader; np_stream_eval_subnet any.
 */
#ifndef NP_SPACE_SAMPLER_H
#define NP_SPACE_SAMPLER_H

#include "space/supernet.h"

struct np_stream;

/* What a stream needs to know of a block. */
struct np_stream_block {
    int candidates, widths; /* as in struct np_block */
    int drawn, width_drawn;
    int largest, smallest;
    int level, depths, depth_drawn; /* level 0: none; of its depth, how many, and the first block */
};

struct np_stream_block np_stream_block_of(const struct np_recipe *recipe, int block);

/* Candidates of each width. */
static inline int np_stream_each(const struct np_stream_block *b)
{
    return b->widths ? b->candidates / b->widths : b->candidates;
}

/* Whether the candidate is the one by which the block is passed over (space/depth.h). */
static inline bool np_stream_passes(const struct np_stream_block *b, int candidate)
{
    int each = np_stream_each(b);
    return b->level > 0 && candidate % each == each - 1;
}

/* Of a space; also made without a recipe (--blocks, --candidates). */
struct np_stream_shape {
    int blocks, members;
    const struct np_stream_block *each; /* [blocks] */
};

/* That of a recipe; *each, where its blocks lie, is the caller's to free. */
enum np_status np_stream_shape_init(struct np_stream_shape *shape, struct np_stream_block **each,
                                    const struct np_recipe *recipe, struct np_error *err);

/* choices[block] = candidate, those before it being there. NP_EINPUT if no subnet has them: it is
 * none of the block's; a width is not that of what it is tied to; a block goes on behind one that
 * is passed over. */
enum np_status np_stream_choose(uint16_t *choices, const struct np_stream_shape *shape, int block,
                                int candidate, struct np_error *err);

/* Draws from a sampler, beginning at step `first`. */
enum np_status np_stream_draw(struct np_stream **out, const struct np_stream_shape *shape,
                              enum np_sampler_kind kind, int spread, uint64_t seed, uint64_t first,
                              struct np_error *err);
/* Reads a file, "-" for standard input; `first` steps are read and passed over. A regular file is
 * checked as a whole first. Of a pipe nothing is read beyond the step asked for, so its writer may
 * answer step by step. */
enum np_status np_stream_open(struct np_stream **out, const struct np_stream_shape *shape,
                              const char *path, uint64_t first, bool (*give_up)(void *),
                              void *context, struct np_error *err);
void np_stream_close(struct np_stream *stream);

/* A stream that waits for its writer, also while it is opened, asks a few times a second, and after
 * a signal, whether to go on: where give_up(context) is true, the step is NP_ESTOP. NULL: nobody is
 * asked, and a signal is NP_ESTOP. Now somebody else is. */
void np_stream_give_up(struct np_stream *stream, bool (*give_up)(void *), void *context);

/* The next step: choices[members][blocks]. *more false at the end of the stream. After an error the
 * stream is over: members of a step that were read are lost. */
enum np_status np_stream_next(struct np_stream *stream, uint16_t *choices, bool *more,
                              struct np_error *err);

/* One subnet drawn uniformly for an evaluation: index-th of the seed's sequence. */
void np_stream_eval_subnet(const struct np_stream_shape *shape, uint64_t seed, uint64_t index,
                           uint16_t *choices);

#endif

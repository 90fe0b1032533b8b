/* Chunked sums that a team shares by chunks. Private to num/.
 *
 * Where an output is small and its inner index long (gradients of weights), members do not share
 * the output: each would read all inputs. They sum different chunks, each in its own scratch, meet,
 * and add the chunks up in order, each for a share of the output. A few chunks at a time, a wave,
 * so that they stay in the second-level cache. The first member's chunks come first, so it adds
 * them at once, and they go to nobody else's cache.
 */
#ifndef NP_NUM_CHUNK_SUMS_H
#define NP_NUM_CHUNK_SUMS_H

#include <string.h>

#include "num/chunk.h"
#include "num/elementary.h"
#include "num/loops.h"

#define NP_WAVE (64 << 10) /* floats of a member's sums in a wave, or those of one item */
#define NP_ADDED 1024      /* floats of the output to which all chunks are added, then others */

/* Item: the sums of one chunk for one block of columns, [lines][width]. */
struct np_chunk_sums {
    struct np_team *team;
    float *out;  /* [lines][ld], of which columns `cols` are computed */
    float *last; /* the last line, if it is elsewhere */
    size_t ld, lines;
    struct np_share cols;
    size_t width;        /* of a block */
    size_t count, grain; /* inner indices */
    bool accumulate;
    size_t at, room; /* floats of the scratch, one item at least for every block */
    void (*sum)(void *context, float *sums, struct np_share inner, struct np_share cols);
    void *context;
};

/* out += the sums of a chunk that begins at index begin, or = those of the first. */
static inline void np_add_chunk(float *out, const float *chunk, size_t n, size_t begin,
                                bool accumulate)
{
    if (begin == 0 && !accumulate) {
        memcpy(out, chunk, n * sizeof *out);
        return;
    }
    NP_INDEPENDENT
    for (size_t j = 0; j < n; j++)
        out[j] = out[j] + chunk[j];
}

static inline size_t np_sums_blocks(const struct np_chunk_sums *s)
{
    return (s->cols.end - s->cols.begin + s->width - 1) / s->width;
}

static inline struct np_share np_sums_cols(const struct np_chunk_sums *s, size_t block)
{
    size_t begin = s->cols.begin + block * s->width;
    return (struct np_share){begin, np_min(begin + s->width, s->cols.end)};
}

/* Where one of a wave's items is: in the scratch of the member whose np_team_share it is of,
 * whoever computes it. */
static inline float *np_sums_item(const struct np_chunk_sums *s, size_t item, size_t items)
{
    size_t size = (size_t)s->team->size, rank = ((item + 1) * size - 1) / items;
    float *scratch = np_team_scratch(s->team, (int)rank);
    return scratch + s->at + (item - items * rank / size) * s->lines * s->width;
}

/* Where a line of the output is. */
static inline float *np_sums_line(const struct np_chunk_sums *s, size_t line)
{
    return s->last && line + 1 == s->lines ? s->last : s->out + line * s->ld;
}

/* n lines of a chunk's sums for one block, to the output's from `line` on. */
static inline void np_sums_add_lines(const struct np_chunk_sums *s, const float *part, size_t line,
                                     size_t n, struct np_share cols, size_t chunk)
{
    size_t width = cols.end - cols.begin;
    bool dense = s->ld == width && s->width == width && !s->last;
    for (size_t l = 0; l < (dense ? 1 : n); l++)
        np_add_chunk(np_sums_line(s, line + l) + cols.begin, part + (line + l) * s->width,
                     dense ? n * width : width, chunk, s->accumulate);
}

static inline uint32_t np_sums_not_finite(const float *sums, size_t n)
{
    uint32_t bad = 0;
    for (size_t j = 0; j < n; j++)
        bad |= np_not_finite(sums[j]);
    return bad;
}

/* Chunks first .. first + count - 1 to the caller's share of out, without `added` items that are
 * there: lines of a block, as many at a time as stay in the first cache, while those of other
 * members come in one piece. last: nothing is added later, so that what is not finite is found. */
static inline bool np_sums_add(const struct np_chunk_sums *s, size_t first, size_t count,
                               size_t added, bool last)
{
    size_t blocks = np_sums_blocks(s), items = count * blocks, most = NP_ADDED / s->width + 1;
    struct np_share share = np_team_share(s->team, s->lines * blocks, 1);
    uint32_t bad = 0;
    for (size_t i = share.begin, n; i < share.end; i += n) {
        size_t block = i / s->lines, line = i % s->lines;
        struct np_share cols = np_sums_cols(s, block);
        n = np_min(np_min(s->lines - line, share.end - i), most);
        for (size_t item = block; item < items; item += blocks)
            if (item >= added)
                np_sums_add_lines(s, np_sums_item(s, item, items), line, n, cols,
                                  first + item / blocks);
        for (size_t l = 0; last && l < n; l++)
            bad |=
                np_sums_not_finite(np_sums_line(s, line + l) + cols.begin, cols.end - cols.begin);
    }
    return !bad;
}

/* The caller's items of a wave. Those that the first member takes from the front are added, and so
 * have the place of the first, one after the other. */
static inline void np_sums_wave(const struct np_chunk_sums *s, struct np_deal *deal, size_t first,
                                size_t count)
{
    size_t blocks = np_sums_blocks(s), items = count * blocks;
    for (size_t i; np_deal_item(deal, &i);) {
        size_t chunk = first + i / blocks;
        struct np_share cols = np_sums_cols(s, i % blocks);
        bool adds = s->team->rank == 0 && deal->own;
        float *sums = np_sums_item(s, adds ? 0 : i, items);
        s->sum(s->context, sums, np_chunk_at(chunk, s->count, s->grain), cols);
        if (adds)
            np_sums_add_lines(s, sums, 0, s->lines, cols, chunk);
    }
}

/* False if an element of the caller's share is not finite. Every member calls, and waits. */
static inline bool np_sums_run(const struct np_chunk_sums *s)
{
    size_t size = (size_t)s->team->size, blocks = np_sums_blocks(s), item = s->lines * s->width;
    size_t chunks = np_chunk_count(s->count, s->grain), wave = 1;
    bool finite = true;
    if (size > 1)
        wave = np_min(NP_WAVE > item ? NP_WAVE / item : 1, s->room / item) * size / blocks;
    wave = wave > 0 ? wave : 1;
    for (size_t first = 0, count; first < chunks; first += count) {
        count = np_min(wave, chunks - first);
        struct np_deal deal = np_team_deal(s->team, count * blocks, 1);
        np_sums_wave(s, &deal, first, count);
        np_team_wait(s->team);
        finite = np_sums_add(s, first, count, np_deal_front(&deal), first + count == chunks);
        np_team_wait(s->team);
    }
    return finite;
}

#endif

/* Where the chunks of a chunked sum begin and end (num/kernels.h, Order). Private to num/.
 *
 * Panel: consecutive whole chunks that are worked on together: they all have the same length, but
 *        the last may be shorter, and they are NP_KC indices or fewer.
 */
#ifndef NP_NUM_CHUNK_H
#define NP_NUM_CHUNK_H

#include <stddef.h>
#include <stdint.h>

#include "num/kernels.h"

NP_FN size_t np_min(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The chunk that begins at `begin` ends here; `count` indices in all. */
NP_FN size_t np_chunk_end(size_t begin, size_t count, size_t grain)
{
    size_t end = np_min(begin + NP_KC, count);
    return grain == 0 ? end : np_min(end, begin - begin % grain + grain);
}

/* Chunks of `count` indices, and where one of them is. */
NP_FN size_t np_chunk_count(size_t count, size_t grain)
{
    return grain == 0 ? np_chunks(count)
                      : count / grain * np_chunks(grain) + np_chunks(count % grain);
}

NP_FN struct np_share np_chunk_at(size_t number, size_t count, size_t grain)
{
    size_t each = grain == 0 ? SIZE_MAX : np_chunks(grain);
    struct np_share chunk;
    chunk.begin = number / each * grain + number % each * NP_KC;
    chunk.end = np_chunk_end(chunk.begin, count, grain);
    return chunk;
}

/* The panel that begins at `begin` ends here; *step is the length of its chunks. */
NP_FN size_t np_panel_end(size_t begin, size_t count, size_t grain, size_t *step)
{
    size_t end = np_chunk_end(begin, count, grain);
    *step = end - begin;
    if (grain > 0 && grain < NP_KC)
        end = np_min(begin + NP_KC / grain * grain, count);
    return end;
}

#endif

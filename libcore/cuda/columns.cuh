/* Chunked sums down the columns of segments: a thread a column of a chunk, or of a whole segment
 * where there is no scratch for chunks.
 */
#ifndef NP_CUDA_COLUMNS_CUH
#define NP_CUDA_COLUMNS_CUH

#include "cuda/launch.cuh"

extern "C" {
#include "num/chunk.h"
}

/* SUMS sums at once. term(acc, segment, row, column) adds one row's terms to acc[SUMS]; rows count
 * from the segment's beginning. */
template <int SUMS, class Term> struct column_sums {
    float *out[SUMS]; /* [segments][cols], with NP_SUM_CHUNKS [segments][chunks][cols] */
    size_t segments, rows, cols, grain;
    enum np_sum how;
    bool judged; /* the verdict is about the sums */
    Term term;

    __device__ void sum_chunk(float acc[SUMS], size_t segment, size_t number, uint32_t c) const
    {
        struct np_share chunk = np_chunk_at(number, rows, grain);
        for (int k = 0; k < SUMS; k++)
            acc[k] = 0.0f;
#pragma unroll 4
        for (size_t r = chunk.begin; r < chunk.end; r++)
            term(acc, segment, r, c);
    }
};

template <int SUMS, class Term>
static void sum_columns(struct np_team *team, const column_sums<SUMS, Term> &s)
{
    const struct np_cuda_team *t = cuda_team(team);
    size_t chunks = np_chunk_count(s.rows, s.grain), sums = s.segments * s.cols;
    float *room = static_cast<float *>(t->team.scratch);
    bool fits = chunks > 1 && SUMS * sums * chunks * sizeof(float) <= t->team.scratch_bytes;
    column_sums<SUMS, Term> apart = s;
    for (int k = 0; k < SUMS; k++)
        apart.out[k] = s.how == NP_SUM_CHUNKS ? s.out[k] : room + k * sums * chunks;
    if (s.how == NP_SUM_CHUNKS || fits)
        cuda_cells(team, s.segments * chunks, s.cols, [=] __device__(size_t item, uint32_t c) {
            float acc[SUMS];
            apart.sum_chunk(acc, item / chunks, item % chunks, c);
            for (int k = 0; k < SUMS; k++)
                apart.out[k][item * apart.cols + c] = acc[k];
            return 0u;
        });
    if (s.how == NP_SUM_CHUNKS)
        return;
    cuda_cells(team, s.segments, s.cols, [=] __device__(size_t segment, uint32_t c) {
        size_t at = segment * s.cols + c;
        uint32_t bad = 0;
        float acc[SUMS], total[SUMS] = {};
        for (size_t chunk = 0; chunk < chunks; chunk++) {
            if (!fits)
                s.sum_chunk(acc, segment, chunk, c);
            for (int k = 0; k < SUMS; k++) {
                if (fits)
                    acc[k] = apart.out[k][(segment * chunks + chunk) * s.cols + c];
                bool onto = chunk > 0 || s.how == NP_SUM_ONTO;
                total[k] = chunk > 0 ? total[k] : onto ? s.out[k][at] : 0.0f;
                total[k] = onto ? total[k] + acc[k] : acc[k];
            }
        }
        for (int k = 0; k < SUMS; k++) {
            s.out[k][at] = total[k];
            bad |= s.judged && !np_is_finite(total[k]);
        }
        return bad;
    });
}

#endif

#include <math.h>

#include "num/backend.h"
#include "num/chunk.h"

static float a_at(const struct np_matmul *mm, size_t i, size_t p)
{
    size_t row = mm->a_trans ? p : i, col = mm->a_trans ? i : p;
    size_t skip = mm->period > 0 ? row / mm->period * mm->skip : 0;
    return mm->a[row * mm->lda + skip + col];
}

static float b_at(const struct np_matmul *mm, size_t p, size_t j)
{
    return mm->b_trans ? mm->b[j * mm->ldb + p] : mm->b[p * mm->ldb + j];
}

static void element(const struct np_matmul *mm, size_t i, size_t j)
{
    float *c = mm->c + i * mm->ldc + j;
    size_t end;
    if (mm->k == 0 && !mm->accumulate)
        *c = 0;
    for (size_t begin = 0; begin < mm->k; begin = end) {
        float acc = 0;
        end = np_chunk_end(begin, mm->k, mm->grain);
        for (size_t p = begin; p < end; p++)
            acc = fmaf(a_at(mm, i, p), b_at(mm, p, j), acc);
        *c = begin == 0 && !mm->accumulate ? acc : *c + acc;
    }
}

void np_matmul_scalar(struct np_team *team, const struct np_matmul *mm)
{
    struct np_share rows = np_team_share(team, mm->m, 1);
    for (size_t i = rows.begin; i < rows.end; i++)
        for (size_t j = 0; j < mm->n; j++)
            element(mm, i, j);
}

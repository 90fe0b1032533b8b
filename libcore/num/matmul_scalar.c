#include <math.h>

#include "num/backend.h"
#include "num/chunk.h"
#include "num/epilogue.h"

static float a_at(const struct np_matmul *mm, size_t i, size_t p)
{
    return mm->a_trans ? mm->a[p * mm->lda + i] : mm->a[i * mm->lda + p];
}

static float b_at(const struct np_matmul *mm, size_t p, size_t j)
{
    return mm->b_trans ? mm->b[j * mm->ldb + p] : mm->b[p * mm->ldb + j];
}

static float element(const struct np_matmul *mm, size_t i, size_t j)
{
    float c = mm->accumulate ? mm->c[i * mm->ldc + j] : 0;
    size_t end;
    for (size_t begin = 0; begin < mm->k; begin = end) {
        float acc = 0;
        end = np_chunk_end(begin, mm->k, mm->grain);
        for (size_t p = begin; p < end; p++)
            acc = fmaf(a_at(mm, i, p), b_at(mm, p, j), acc);
        c = begin == 0 && !mm->accumulate ? acc : c + acc;
    }
    return c;
}

bool np_matmul_scalar(struct np_team *team, const struct np_matmul *mm)
{
    struct np_share rows = np_team_share(team, mm->m, 1);
    bool finite = true;
    for (size_t i = rows.begin; i < rows.end; i++)
        for (size_t j = 0; j < mm->n; j++)
            mm->c[i * mm->ldc + j] =
                np_epilogue_element(&mm->epilogue, i, j, element(mm, i, j), &finite);
    return finite;
}

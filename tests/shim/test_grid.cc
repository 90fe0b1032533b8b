/* There may be more columns than a grid has blocks along y: of a product, whose vocabulary has up
 * to 2^24, and of sums, as over the samples for the positions of patches. */
#include <check.h>
#include <stdlib.h>

extern "C" {
#include "cuda/cuda_team.h"
#include "suite.h"
}

enum { BLOCKS = 2, TILE = 128, COLUMNS = BLOCKS * TILE + 1 };

START_TEST(a_row_of_many_tiles)
{
    float *b = static_cast<float *>(malloc(COLUMNS * sizeof *b)), a = 3.0f;
    float *c = static_cast<float *>(malloc(COLUMNS * sizeof *c));
    uint32_t verdict = 0;
    setenv("SHIM_GRID", "2", 1); /* for a product of 8 million columns takes long here */
    struct np_cuda_team team = {{0, 1, NULL, NULL, 0}, NULL, &verdict, NULL};
    struct np_matmul mm = {};
    for (int j = 0; j < COLUMNS; j++)
        b[j] = (float)j;
    mm.a = &a;
    mm.b = b;
    mm.c = c;
    mm.m = mm.k = mm.lda = 1;
    mm.n = mm.ldb = mm.ldc = COLUMNS;
    ck_assert(np_kernels_cuda.matmul(&team.team, &mm));
    for (int j = 0; j < COLUMNS; j++)
        ck_assert_msg(c[j] == a * b[j], "column %d", j);
    free(b);
    free(c);
}
END_TEST

START_TEST(sums_of_many_columns)
{
    float *x = static_cast<float *>(malloc(2 * COLUMNS * sizeof *x)), *sums = x + COLUMNS;
    uint32_t verdict = 0;
    setenv("SHIM_GRID", "2", 1);
    struct np_cuda_team team = {{0, 1, NULL, NULL, 0}, NULL, &verdict, NULL};
    for (int j = 0; j < COLUMNS; j++)
        x[j] = (float)j;
    np_kernels_cuda.col_sum(&team.team, sums, x, 1, 1, COLUMNS, 0, NP_SUM_NEW);
    for (int j = 0; j < COLUMNS; j++)
        ck_assert_msg(sums[j] == x[j], "column %d", j);
    free(x);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("grid");
    TCase *tests = suite_case(suite, "grid");
    tcase_add_test(tests, a_row_of_many_tiles);
    tcase_add_test(tests, sums_of_many_columns);
    return suite_run_apart(suite);
}

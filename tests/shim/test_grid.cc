/* A product may have more columns than a grid has blocks along y: a vocabulary has up to 2^24. */
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

int main(void)
{
    Suite *suite = suite_create("grid");
    TCase *tests = suite_case(suite, "grid");
    tcase_add_test(tests, a_row_of_many_tiles);
    return suite_run_apart(suite);
}

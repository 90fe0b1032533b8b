/* Kernels that go another way where their arrays are larger than caches, or rows are many: every
 * instruction set gives the bits of the scalar reference there too, on teams of any size. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "backends.h"
#include "base/memory.h"
#include "num/philox.h"
#include "suite.h"
#include "team_run.h"

#define ROWS 8200
#define COLS 523
#define COUNT ((size_t)ROWS * COLS)
#define GRAIN 300  /* rows: a chunk and a short one */
#define NARROW 100 /* columns */
#define SCRATCH (1 << 20)

/* Two inputs, what belongs to rows or columns, and room for outputs. */
struct arrays {
    float *a, *b, *out, *expected;
    float vector[4][ROWS];
    int32_t targets[ROWS];
};

static void run_softmax(const struct np_kernels *k, struct np_team *team, struct arrays *d)
{
    k->softmax(team, d->out, d->a, ROWS, COLS);
}

static void run_xent_grad(const struct np_kernels *k, struct np_team *team, struct arrays *d)
{
    k->xent_grad(team, d->out, d->a, d->targets, ROWS, COLS, 0.1f, 0.5f);
}

static void run_layernorm_grad_weight(const struct np_kernels *k, struct np_team *team,
                                      struct arrays *d)
{
    k->layernorm_grad_weight(team, d->out, d->out + COLS, d->a, d->b, d->vector[0], d->vector[1],
                             ROWS, COLS, GRAIN, false);
}

static void run_col_sum(const struct np_kernels *k, struct np_team *team, struct arrays *d)
{
    k->col_sum(team, d->out, d->a, 1, ROWS, COLS, 0, NP_SUM_ONTO);
    k->col_sum(team, d->out + COLS, d->b, 1, ROWS, COLS, GRAIN, NP_SUM_NEW);
}

static void run_col_square(const struct np_kernels *k, struct np_team *team, struct arrays *d)
{
    k->col_square(team, d->out, d->a, d->vector[0], 2, ROWS / 2, COLS, NP_SUM_ONTO);
    k->col_square(team, d->out + 2 * COLS, d->b, d->vector[1], 1, COUNT / NARROW, NARROW,
                  NP_SUM_NEW);
}

static void run_col_dot(const struct np_kernels *k, struct np_team *team, struct arrays *d)
{
    k->col_dot(team, d->out, d->a, d->b, 1, ROWS, COLS, GRAIN);
}

static void run_grad_sums(const struct np_kernels *k, struct np_team *team, struct arrays *d)
{
    struct np_colnorm p = {.segments = 1, .rows = ROWS, .cols = COLS, .x = d->a};
    p.mean = d->vector[0];
    p.rstd = d->vector[1];
    p.gamma = d->vector[2];
    p.beta = d->vector[3];
    p.act = NP_ACT_RELU;
    k->colnorm_grad_sums(team, d->out, d->out + COLS, &p, d->b, NP_SUM_NEW);
}

static void fill(float *x, size_t count, uint64_t step)
{
    for (size_t i = 0; i < count; i++)
        x[i] = 6.0f * np_philox_unit(np_draw((struct np_draw_key){{1, 2}}, step, i).w[0]) - 3.0f;
}

static void run_colnorm(const struct np_kernels *k, struct np_team *team, struct arrays *d)
{
    struct np_colnorm p = {.segments = 2, .rows = ROWS / 2, .cols = COLS, .x = d->a};
    p.mean = d->vector[0];
    p.rstd = d->vector[1];
    p.gamma = d->vector[2];
    p.beta = d->vector[3];
    p.act = NP_ACT_RELU;
    p.residual = d->b;
    k->colnorm(team, d->out, &p);
}

typedef void kernel_run(const struct np_kernels *, struct np_team *, struct arrays *);

static kernel_run *const runs[] = {run_softmax,   run_xent_grad,  run_layernorm_grad_weight,
                                   run_col_sum,   run_col_square, run_col_dot,
                                   run_grad_sums, run_colnorm};

struct job {
    kernel_run *run;
    const struct np_kernels *kernels;
    struct arrays *arrays;
};

static void work(struct np_team *team, void *arg)
{
    const struct job *job = arg;
    job->run(job->kernels, team, job->arrays);
}

START_TEST(large_arrays_give_the_reference_bits)
{
    struct arrays d;
    float *slab;
    ck_assert_int_eq(np_alloc(&slab, 4 * COUNT, sizeof *slab, NULL), NP_OK);
    d.a = slab;
    d.b = slab + COUNT;
    d.out = slab + 2 * COUNT;
    d.expected = slab + 3 * COUNT;
    fill(slab, 2 * COUNT, 0);
    fill(d.vector[0], 4 * ROWS, 1);
    for (int32_t i = 0; i < ROWS; i++)
        d.targets[i] = i * 389 % COLS;
    for (int isa = 0; isa < BACKENDS; isa++)
        for (int size = 1; backend_get(isa) && size <= (isa == 0 ? 1 : 3); size++) {
            struct job job = {runs[_i], backend_get(isa), &d};
            memcpy(d.out, d.b, COUNT * sizeof *d.out);
            team_run(size, SCRATCH, work, &job);
            if (isa == 0)
                memcpy(d.expected, d.out, COUNT * sizeof *d.out);
            ck_assert_msg(memcmp(d.out, d.expected, COUNT * sizeof *d.out) == 0, "%s, a team of %d",
                          backend_get(isa)->name, size);
        }
    free(slab);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kernels_far");
    tcase_add_loop_test(suite_case(suite, "kernels"), large_arrays_give_the_reference_bits, 0,
                        sizeof runs / sizeof *runs);
    return suite_run(suite);
}

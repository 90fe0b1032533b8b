/* Layer operators: equal bits however they are cut, and near the double reference. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "layer_cases.h"
#include "ops/op.h"
#include "reference.h"
#include "team_run.h"

enum { SAMPLES = 8, GRAIN = 2, SEED = 7, STEP = 5, LAYER = 2 };

/* A layer with its inputs, for SAMPLES samples. */
struct setting {
    struct np_kind kind;
    size_t rows, count; /* of activations */
    float *w, *x, *dy;
    int32_t *tokens, *targets;
    bool head, stem;
};

/* How to run it. */
struct plan {
    enum np_isa isa;
    int threads, members;
    size_t micro; /* samples a micro-batch */
};

struct outcome {
    float *y, *dx, *g, *loss; /* y, dx: the last member's; loss a grain */
    bool finite[8];
};

static float *floats(size_t count)
{
    float *x;
    ck_assert_int_eq(np_alloc(&x, count + 1, sizeof *x, NULL), NP_OK);
    memset(x, 0xff, (count + 1) * sizeof *x); /* not a number, until it is written */
    return x;
}

static void setting_init(struct setting *s, const struct layer_case *c)
{
    ck_assert(np_kind_init(&s->kind, &c->spec, c->width, c->length, CASE_VOCAB));
    s->head = c->spec.op == NP_OP_LM;
    s->stem = c->spec.op == NP_OP_EMBEDDING;
    s->rows = SAMPLES * c->length;
    s->count = s->rows * c->width;
    s->w = floats(s->kind.floats);
    s->x = floats(s->count);
    s->dy = floats(s->count);
    s->tokens = calloc(s->rows, sizeof *s->tokens);
    s->targets = calloc(s->rows, sizeof *s->targets);
    for (int k = 0; k < s->kind.tensor_count; k++)
        for (size_t i = 0; i < s->kind.tensors[k].count; i++)
            s->w[s->kind.tensors[k].offset + i] = case_weight(&s->kind.tensors[k], (uint32_t)k, i);
    for (size_t i = 0; i < s->count; i++) {
        s->x[i] = case_value(20, i);
        s->dy[i] = case_value(21, i);
    }
    for (size_t i = 0; i < s->rows; i++) {
        s->tokens[i] = (int32_t)(i * 7 % CASE_VOCAB);
        s->targets[i] = (int32_t)(i * 5 % CASE_VOCAB);
    }
}

static void setting_clear(struct setting *s)
{
    free(s->w);
    free(s->x);
    free(s->dy);
    free(s->tokens);
    free(s->targets);
}

static void outcome_clear(struct outcome *o)
{
    free(o->y);
    free(o->dx);
    free(o->g);
    free(o->loss);
}

struct job {
    const struct setting *setting;
    const struct plan *plan;
    struct outcome *out;
    struct np_op_call call; /* what all micro-batches share */
};

/* Forward, backward and weight gradient of one micro-batch. */
static void run_micro(const struct job *job, struct np_op_call *call, bool accumulate)
{
    const struct setting *s = job->setting;
    struct outcome *out = job->out;
    size_t row = call->first * s->kind.length, at = row * s->kind.width;
    bool finite;
    call->tokens = s->tokens + row;
    call->targets = s->targets + row;
    call->loss = s->head ? out->y + row : NULL;
    finite = np_op_forward(call, s->head ? NULL : out->y + at, s->stem ? NULL : s->x + at);
    if (s->head)
        np_op_grain_losses(call, out->loss + call->first / GRAIN);
    if (!s->stem)
        finite =
            np_op_backward(call, out->dx + at, s->x + at, s->head ? NULL : s->dy + at) && finite;
    np_op_weight(call, out->g, s->stem ? NULL : s->x + at, s->head ? NULL : s->dy + at, accumulate);
    out->finite[call->team->rank] = finite && out->finite[call->team->rank];
}

static void run_job(struct np_team *team, void *context)
{
    const struct job *job = context;
    struct np_op_call call = job->call;
    call.team = team;
    job->out->finite[team->rank] = true;
    for (int member = 0; member < job->plan->members; member++) {
        for (size_t first = 0; first < SAMPLES; first += job->plan->micro) {
            call.member = (uint32_t)member;
            call.first = first;
            call.samples = job->plan->micro;
            run_micro(job, &call, member > 0 || first > 0);
        }
    }
}

static struct outcome run(const struct setting *s, struct plan plan)
{
    struct outcome out = {floats(s->count),
                          floats(s->count),
                          floats(s->kind.floats),
                          floats(SAMPLES / GRAIN),
                          {false}};
    struct np_op_sizes sizes = np_op_sizes(&s->kind, plan.micro);
    struct job job = {s,
                      &plan,
                      &out,
                      {.kernels = np_kernels_get(plan.isa),
                       .kind = &s->kind,
                       .w = s->w,
                       .grain = GRAIN,
                       .seed = SEED,
                       .step = STEP,
                       .layer = LAYER,
                       .train = true,
                       .smoothing = 0.1f,
                       .scale = 0.5f,
                       .saved = floats(sizes.saved),
                       .delta = floats(sizes.delta),
                       .work = floats(sizes.work)}};
    team_run(plan.threads, np_kernels_scratch_bytes(s->kind.length, s->kind.width), run_job, &job);
    free(job.call.saved);
    free(job.call.delta);
    free(job.call.work);
    return out;
}

static bool same(const struct setting *s, const struct outcome *a, const struct outcome *b)
{
    size_t outputs = s->head ? s->rows : s->count, losses = s->head ? SAMPLES / GRAIN : 0;
    return memcmp(a->y, b->y, outputs * sizeof *a->y) == 0 &&
           (s->stem || memcmp(a->dx, b->dx, s->count * sizeof *a->dx) == 0) &&
           memcmp(a->g, b->g, s->kind.floats * sizeof *a->g) == 0 &&
           memcmp(a->loss, b->loss, losses * sizeof *a->loss) == 0;
}

START_TEST(cuts_teams_and_instruction_sets_give_the_same_bits)
{
    struct setting s;
    struct outcome whole, cut;
    setting_init(&s, &layer_cases[_i]);
    whole = run(&s, (struct plan){NP_ISA_SCALAR, 1, 2, SAMPLES});
    ck_assert(whole.finite[0]);
    for (int isa = 0; isa < NP_ISA_COUNT; isa++) {
        for (int threads = 1; np_kernels_get(isa) && threads <= 3; threads++) {
            for (size_t micro = SAMPLES; micro >= GRAIN; micro /= 2) {
                cut = run(&s, (struct plan){isa, threads, 2, micro});
                ck_assert_msg(same(&s, &whole, &cut), "%s, %d threads, micro-batches of %zu",
                              np_isa_name(isa), threads, micro);
                outcome_clear(&cut);
            }
        }
    }
    outcome_clear(&whole);
    setting_clear(&s);
}
END_TEST

static double *doubles(const float *x, size_t count)
{
    double *d = reference_zeros(count);
    for (size_t i = 0; i < count; i++)
        d[i] = (double)x[i];
    return d;
}

/* How many roundings stand behind an output: its longest chain of sums, one inside the other, and
 * a few dozen in elementary functions and norms. */
static double roundings(const struct setting *s, size_t rows)
{
    const struct np_kind *kind = &s->kind;
    size_t inner = 3 * kind->width + (size_t)(kind->spec.ratio + kind->spec.kernel) * kind->width +
                   2 * kind->length + kind->vocab;
    return (double)(inner + rows + 64);
}

/* Every rounding errs by at most eps = 2^-24 of a value no larger than about the largest output
 * (or 1: activations and weights are O(1)), and what follows magnifies it by a factor of order 1:
 * norms of these weights stay below 2, 1/std of these rows below 4. So n roundings cost at most
 * 8 n eps max(1, |output|). */
static void check_near(const char *what, const float *got, const double *want, size_t count,
                       double n)
{
    double largest = 1.0;
    for (size_t i = 0; i < count; i++)
        largest = fmax(largest, fabs(want[i]));
    for (size_t i = 0; i < count; i++)
        ck_assert_msg(fabs((double)got[i] - want[i]) <= 8.0 * n * 0x1p-24 * largest,
                      "%s[%zu] is %.9g, not %.9g", what, i, (double)got[i], want[i]);
}

static void check_against_reference(const struct setting *s, const struct outcome *out, int members)
{
    double *w = doubles(s->w, s->kind.floats), *x = doubles(s->x, s->count);
    double *dy = doubles(s->dy, s->count), *g = reference_zeros(s->kind.floats);
    double *y = reference_zeros(s->count), *dx = reference_zeros(s->count);
    struct reference_call call = {.kind = &s->kind,
                                  .w = w,
                                  .samples = SAMPLES,
                                  .seed = SEED,
                                  .step = STEP,
                                  .layer = LAYER,
                                  .train = true,
                                  .tokens = s->tokens,
                                  .targets = s->targets,
                                  .smoothing = (double)0.1f,
                                  .scale = 0.5};
    for (int member = 0; member < members; member++) {
        call.member = (uint32_t)member;
        reference_forward(&call, y, x);
        reference_backward(&call, dx, g, x, dy);
    }
    check_near("y", out->y, y, s->head ? s->rows : s->count, roundings(s, 0));
    if (!s->stem)
        check_near("dx", out->dx, dx, s->count, roundings(s, 0));
    for (int k = 0; k < s->kind.tensor_count; k++)
        check_near(s->kind.tensors[k].name, out->g + s->kind.tensors[k].offset,
                   g + s->kind.tensors[k].offset, s->kind.tensors[k].count,
                   roundings(s, (size_t)members * s->rows));
    free(w);
    free(x);
    free(dy);
    free(g);
    free(y);
    free(dx);
}

START_TEST(operators_match_the_double_reference)
{
    struct setting s;
    struct outcome out;
    setting_init(&s, &layer_cases[_i]);
    for (int members = 1; members <= 2; members++) {
        out = run(&s, (struct plan){NP_ISA_SCALAR, 1, members, SAMPLES});
        check_against_reference(&s, &out, members);
        outcome_clear(&out);
    }
    setting_clear(&s);
}
END_TEST

/* The loss of a grain is the sum of its rows', a long way off in only the last bits. */
START_TEST(grain_losses_sum_their_rows)
{
    const struct layer_case head = {{.op = NP_OP_LM}, 8, 5};
    struct setting s;
    struct outcome out;
    setting_init(&s, &head);
    out = run(&s, (struct plan){NP_ISA_SCALAR, 1, 1, SAMPLES});
    for (size_t i = 0; i < SAMPLES / GRAIN; i++) {
        double sum = 0.0;
        for (size_t r = 0; r < GRAIN * s.kind.length; r++)
            sum += (double)out.y[i * GRAIN * s.kind.length + r];
        ck_assert(fabs((double)out.loss[i] - sum) <= 6.0 * 0x1p-24 * sum);
    }
    outcome_clear(&out);
    setting_clear(&s);
}
END_TEST

START_TEST(values_that_are_not_finite_are_seen)
{
    const struct layer_case *c = &layer_cases[_i];
    struct setting s;
    struct outcome out;
    bool finite = true;
    setting_init(&s, c);
    if (s.stem)
        s.w[(size_t)s.tokens[s.rows - 1] * s.kind.width] = NAN;
    else
        s.x[s.count - 1] = INFINITY;
    out = run(&s, (struct plan){NP_ISA_SCALAR, 3, 1, SAMPLES});
    for (int rank = 0; rank < 3; rank++)
        finite = finite && out.finite[rank];
    ck_assert_int_eq(finite, c->spec.op == NP_OP_IDENTITY);
    outcome_clear(&out);
    setting_clear(&s);
}
END_TEST

struct evaluation {
    struct np_op_call call;
    float *y;
    const float *x;
};

static void evaluate(struct np_team *team, void *context)
{
    const struct evaluation *e = context;
    struct np_op_call call = e->call;
    call.team = team;
    ck_assert(np_op_forward(&call, e->y, e->x));
}

/* Without training, a layer with dropout is the layer without; it needs no delta and no work. */
START_TEST(evaluation_drops_nothing)
{
    struct layer_case c = {{.op = NP_OP_SEPCONV1D, .kernel = 3, .dropout = 0.5f}, 8, 5};
    float *y[2];
    for (int i = 0; i < 2; i++) {
        struct setting s;
        struct evaluation e;
        setting_init(&s, &c);
        y[i] = floats(s.count);
        e = (struct evaluation){.call = {.kernels = np_kernels_get(NP_ISA_SCALAR),
                                         .kind = &s.kind,
                                         .w = s.w,
                                         .samples = SAMPLES,
                                         .grain = GRAIN,
                                         .train = i == 1,
                                         .saved = floats(np_op_sizes(&s.kind, SAMPLES).saved)},
                                .y = y[i],
                                .x = s.x};
        team_run(1, np_kernels_scratch_bytes(c.length, c.width), evaluate, &e);
        free(e.call.saved);
        setting_clear(&s);
        c.spec.dropout = 0.0f;
    }
    ck_assert_mem_eq(y[0], y[1], SAMPLES * c.width * c.length * sizeof **y);
    free(y[0]);
    free(y[1]);
}
END_TEST

START_TEST(identity_works_in_place)
{
    struct setting s;
    struct evaluation e;
    float *copy;
    setting_init(&s, &layer_cases[0]);
    copy = floats(s.count);
    memcpy(copy, s.x, s.count * sizeof *copy);
    e = (struct evaluation){.call = {.kernels = np_kernels_get(NP_ISA_SCALAR),
                                     .kind = &s.kind,
                                     .samples = SAMPLES,
                                     .grain = GRAIN},
                            .y = copy,
                            .x = copy};
    team_run(2, 64, evaluate, &e);
    ck_assert_mem_eq(copy, s.x, s.count * sizeof *copy);
    free(copy);
    setting_clear(&s);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ops");
    TCase *tcase = tcase_create("ops");
    SRunner *runner;
    int failed;
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, operators_match_the_double_reference, 0, LAYER_CASES);
    tcase_add_loop_test(tcase, cuts_teams_and_instruction_sets_give_the_same_bits, 0, LAYER_CASES);
    tcase_add_loop_test(tcase, values_that_are_not_finite_are_seen, 0, LAYER_CASES);
    tcase_add_test(tcase, grain_losses_sum_their_rows);
    tcase_add_test(tcase, evaluation_drops_nothing);
    tcase_add_test(tcase, identity_works_in_place);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}

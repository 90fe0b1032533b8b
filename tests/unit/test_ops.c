/* Layer operators: equal bits however they are cut, and near the double reference. */
#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "backends.h"
#include "layer_cases.h"
#include "op_runs.h"
#include "reference.h"
#include "suite.h"
#include "team_run.h"

/* Every third of a short run. */
static bool is_tried(int number)
{
    return tests_are_full() || number % 3 == 0;
}

START_TEST(cuts_teams_and_instruction_sets_give_the_same_bits)
{
    struct setting s;
    struct outcome whole, cut;
    op_setting_init(&s, _i);
    for (enum base base = NONE; base <= APART; base++) {
        whole = op_run(&s, (struct plan){0, 1, 2, SAMPLES, base, false, KEPT});
        ck_assert_msg(whole.finite[0], "%s", op_name(&s));
        for (int backend = 0; backend < BACKENDS; backend++) {
            for (int threads = 1; backend_get(backend) && threads <= 3; threads++) {
                if (!team_is_tried(threads, backend) || !is_tried(_i + (int)base + threads))
                    continue;
                for (size_t micro = SAMPLES; micro >= (s.whole ? SAMPLES : GRAIN); micro /= 2) {
                    enum base way = base == NONE ? NONE : micro < SAMPLES ? APART : IN_PLACE;
                    cut = op_run(&s, (struct plan){backend, threads, 2, micro, way, false, KEPT});
                    ck_assert_msg(op_same(&s, &whole, &cut),
                                  "%s: %s, %d threads, micro-batches of %zu", op_name(&s),
                                  backend_get(backend)->name, threads, micro);
                    op_outcome_clear(&cut);
                }
            }
        }
        op_outcome_clear(&whole);
    }
    op_setting_clear(&s);
}
END_TEST

/* With what must not be read any more gone, by every instruction set and some teams; of
 * neighbouring layers another base. */
START_TEST(what_is_computed_again_is_the_same)
{
    const enum base base = _i % 2 ? IN_PLACE : NONE;
    struct setting s;
    op_setting_init(&s, _i);
    struct outcome kept = op_run(&s, (struct plan){0, 1, 2, SAMPLES, base, false, KEPT});
    for (int i = 0; i < 3 * BACKENDS; i++) {
        int backend = i / 3, threads = 1 + i % 3;
        enum saved saved = (backend + threads + _i / 2) % 2 ? AGAIN : TWICE;
        struct outcome again;
        if (!backend_get(backend) || !team_is_tried(threads, backend) ||
            !is_tried(_i + (int)base + threads))
            continue;
        again = op_run(&s, (struct plan){backend, threads, 2, SAMPLES, base, false, saved});
        ck_assert_msg(op_same(&s, &kept, &again), "%s: %s, %d threads, again for %s", op_name(&s),
                      backend_get(backend)->name, threads, saved == TWICE ? "W too" : "B");
        op_outcome_clear(&again);
    }
    op_outcome_clear(&kept);
    op_setting_clear(&s);
}
END_TEST

/* Fused kernels, places used again, shared and accumulated gradients: none of it shows. */
START_TEST(operators_give_the_bits_of_their_nodes_run_plainly)
{
    struct setting s;
    op_setting_init(&s, _i);
    for (enum base base = NONE; base <= IN_PLACE; base++) {
        struct plan plan = {NP_ISA_SCALAR, 1, 2, SAMPLES, base, false, KEPT};
        struct outcome got = op_run(&s, plan), want;
        plan.base = base == IN_PLACE ? APART : base;
        plan.plain = true;
        want = op_run(&s, plan);
        for (size_t i = 0; s.head && i < SAMPLES / GRAIN; i++)
            want.loss[i] = got.loss[i];
        ck_assert_msg(op_same(&s, &want, &got), "%s", op_name(&s));
        op_outcome_clear(&got);
        op_outcome_clear(&want);
    }
    op_setting_clear(&s);
}
END_TEST

static double *doubles(const float *x, size_t count)
{
    double *d = reference_zeros(count);
    for (size_t i = 0; i < count; i++)
        d[i] = (double)x[i];
    return d;
}

/* How many roundings stand behind an output: the longest chain of sums, one inside the other, and a
 * few dozen in elementary functions and norms; behind a weight's gradient, all rows as well. */
static double roundings(const struct setting *s, int members)
{
    const struct np_program *program = &s->kind.program;
    size_t inner = 0, rows = 0;
    for (int i = 0; i < program->node_count; i++) {
        const struct np_node *node = &program->nodes[i];
        struct np_shape in = node->in[0] < 0 ? s->kind.out : program->values[node->in[0]];
        size_t taps = (size_t)node->window.kernel_height * (size_t)node->window.kernel_width;
        inner += (taps > 1 ? taps : 1) * (size_t)in.channels + np_shape_rows(in) + 64;
        if (node->op == NP_NODE_BATCH_NORM)
            inner += SAMPLES * np_shape_rows(in);
        if (SAMPLES * np_shape_rows(in) > rows)
            rows = SAMPLES * np_shape_rows(in);
    }
    return (double)(inner + (size_t)members * rows);
}

/* Every rounding errs by at most eps = 2^-24 of a value no larger than about the largest output
 * (or 1: activations and weights are O(1)), and what follows magnifies it by a factor of order 1:
 * norms of these weights stay below 2, 1/std of these rows below 4. So n roundings cost at most
 * 8 n eps max(1, |output|). */
static void check_near(const struct setting *s, const char *what, const float *got,
                       const double *want, size_t count, double n)
{
    double largest = 1.0;
    for (size_t i = 0; i < count; i++)
        largest = fmax(largest, fabs(want[i]));
    for (size_t i = 0; i < count; i++)
        ck_assert_msg(fabs((double)got[i] - want[i]) <= 8.0 * n * 0x1p-24 * largest,
                      "%s: %s[%zu] is %.9g, not %.9g", op_name(s), what, i, (double)got[i],
                      want[i]);
}

static struct reference_call reference_of(const struct setting *s, const double *w)
{
    return (struct reference_call){.kind = &s->kind,
                                   .w = w,
                                   .samples = SAMPLES,
                                   .seed = SEED,
                                   .step = STEP,
                                   .layer = LAYER,
                                   .train = true,
                                   .images = s->images,
                                   .tokens = s->tokens,
                                   .source = s->source,
                                   .targets = s->targets,
                                   .source_lengths = s->lengths,
                                   .target_lengths = s->lengths,
                                   .smoothing = (double)0.1f,
                                   .scale = 0.5,
                                   .distill = 0.25};
}

struct doubles {
    double *w, *x, *memory, *sum, *dy, *g, *y, *dx, *dmemory;
    double *soft[2]; /* the first member's; what others learn from */
};

static void doubles_init(struct doubles *d, const struct setting *s)
{
    const struct np_kind *kind = &s->kind;
    d->w = doubles(s->w, kind->floats);
    d->x = doubles(s->x, op_floats(kind->in));
    d->memory = doubles(s->memory, op_floats(kind->memory));
    d->sum = doubles(s->sum, op_floats(kind->out));
    d->dy = doubles(s->dy, op_floats(kind->out));
    d->g = reference_zeros(kind->floats);
    d->y = reference_zeros(op_floats(kind->out) + s->rows);
    d->dx = d->dmemory = NULL;
    d->soft[0] = reference_zeros(s->rows * kind->vocab);
    d->soft[1] = doubles(s->soft, s->rows * kind->vocab);
}

static void doubles_clear(struct doubles *d)
{
    double *all[] = {d->w, d->x,  d->memory,  d->sum,     d->dy,     d->g,
                     d->y, d->dx, d->dmemory, d->soft[0], d->soft[1]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static void check_against_reference(const struct setting *s, const struct outcome *out, int members,
                                    bool based)
{
    const struct np_kind *kind = &s->kind;
    struct doubles d;
    struct reference_call call;
    struct reference_inputs in;
    doubles_init(&d, s);
    call = reference_of(s, d.w);
    in = (struct reference_inputs){d.x, d.memory, kind->summed ? d.sum : NULL};
    for (int member = 0; member < members; member++) {
        call.member = (uint32_t)member;
        call.soft = kind->distills ? d.soft[member > 0] : NULL;
        free(d.dx);
        free(d.dmemory);
        d.dx = based ? doubles(s->base, op_floats(kind->in)) : reference_zeros(op_floats(kind->in));
        d.dmemory = based ? doubles(s->memory_base, op_floats(kind->memory))
                          : reference_zeros(op_floats(kind->memory));
        reference_forward(&call, d.y, &in);
        reference_backward(&call, d.dx, d.dmemory, d.g, &in, d.dy);
    }
    check_near(s, "y", out->y, d.y, s->head ? s->rows : op_floats(kind->out), roundings(s, 0));
    if (np_op_gives(kind, NP_VALUE_X))
        check_near(s, "dx", out->dx, d.dx, op_floats(kind->in), roundings(s, 0));
    if (np_op_gives(kind, NP_VALUE_MEMORY))
        check_near(s, "dmemory", out->dmemory, d.dmemory, op_floats(kind->memory), roundings(s, 0));
    if (kind->distills)
        check_near(s, "soft", out->soft, d.soft[0], s->rows * kind->vocab, roundings(s, 0));
    for (int k = 0; k < kind->tensor_count; k++)
        check_near(s, kind->tensors[k].name, out->g + kind->tensors[k].offset,
                   d.g + kind->tensors[k].offset, kind->tensors[k].count, roundings(s, members));
    doubles_clear(&d);
}

START_TEST(operators_match_the_double_reference)
{
    struct setting s;
    struct outcome out;
    op_setting_init(&s, _i);
    for (int members = 1; members <= 2; members++) {
        out = op_run(&s, (struct plan){0, 1, members, SAMPLES, members - 1, false, KEPT});
        check_against_reference(&s, &out, members, members == 2);
        op_outcome_clear(&out);
    }
    op_setting_clear(&s);
}
END_TEST

/* The loss of a grain is the sum of its rows', a long way off in only the last bits. */
START_TEST(grain_losses_sum_their_rows)
{
    struct setting s;
    struct outcome out;
    op_setting_init(&s, _i);
    out = op_run(&s, (struct plan){0, 1, 1, SAMPLES, NONE, false, KEPT});
    for (size_t i = 0; s.head && i < SAMPLES / GRAIN; i++) {
        double sum = 0.0;
        for (size_t r = 0; r < GRAIN * s.kind.length; r++)
            sum += (double)out.y[i * GRAIN * s.kind.length + r];
        ck_assert(fabs((double)out.loss[i] - sum) <= 8.0 * 0x1p-24 * sum);
    }
    op_outcome_clear(&out);
    op_setting_clear(&s);
}
END_TEST

/* What is not finite in a layer's input is seen, unless the layer only hands it on (its maker saw
 * it), or does not read it. */
START_TEST(values_that_are_not_finite_are_seen)
{
    struct setting s;
    struct outcome out;
    bool finite = true, blind;
    op_setting_init(&s, _i);
    blind = np_program_passes_on(&s.kind.program) ||
            (s.kind.spec.op == NP_OP_CONCAT && !s.kind.summed) ||
            np_program_has(&s.kind.program, NP_NODE_ZERO) ||
            np_program_has(&s.kind.program, NP_NODE_CUT) ||
            np_program_has(&s.kind.program, NP_NODE_MAX_POOL);
    if (np_program_has(&s.kind.program, NP_NODE_EMBED))
        for (size_t i = 0; i < s.kind.tensors[0].count; i++)
            s.w[i] = NAN;
    else if (s.kind.in.channels)
        s.x[op_floats(s.kind.in) - 1] = INFINITY;
    else
        s.images[op_floats(s.kind.image) - 1] = INFINITY;
    out = op_run(&s, (struct plan){0, 3, 1, SAMPLES, NONE, false, KEPT});
    for (int rank = 0; rank < 3; rank++)
        finite = finite && out.finite[rank];
    ck_assert_msg(blind || !finite, "%s", op_name(&s));
    op_outcome_clear(&out);
    op_setting_clear(&s);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ops");
    TCase *tests = suite_case(suite, "ops");
    tcase_add_loop_test(tests, what_is_computed_again_is_the_same, 0, layer_cases);
    tcase_add_loop_test(tests, cuts_teams_and_instruction_sets_give_the_same_bits, 0, layer_cases);
    tcase_add_loop_test(tests, values_that_are_not_finite_are_seen, 0, layer_cases);
    if (tests_watch_threads()) /* the others run in one */
        return suite_run(suite);
    tcase_add_loop_test(tests, operators_match_the_double_reference, 0, layer_cases);
    tcase_add_loop_test(tests, operators_give_the_bits_of_their_nodes_run_plainly, 0, layer_cases);
    tcase_add_loop_test(tests, grain_losses_sum_their_rows, 0, layer_cases);
    return suite_run(suite);
}

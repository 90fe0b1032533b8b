/* Layer operators: equal bits however they are cut, and near the double reference. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backends.h"
#include "base/memory.h"
#include "layer_cases.h"
#include "ops/op.h"
#include "plain.h"
#include "reference.h"
#include "space/kinds.h"
#include "suite.h"
#include "team_run.h"

enum { SAMPLES = 8, GRAIN = 2, SEED = 7, STEP = 5, LAYER = 2, THREADS = 4 };

/* Streams of case_value; a kind's tensors have those from 0 on. */
enum { X = 40, MEMORY, SUM, IMAGES, DY, BASE, MEMORY_BASE, SOFT };

/* A layer with its inputs, for SAMPLES samples. */
struct setting {
    struct np_kind kind;
    bool head, whole; /* whole: batch norm, which wants the mini-batch in one piece */
    size_t rows;      /* targets */
    float *w, *x, *memory, *sum, *images, *dy, *base, *memory_base;
    float *soft; /* what later members learn from */
    int32_t *tokens, *source, *targets, *lengths;
};

enum base { NONE, APART, IN_PLACE };

/* What F saves: B and W find it; it is computed again for B; and with what B leaves again for W. */
enum saved { KEPT, AGAIN, TWICE };

/* How to run it. */
struct plan {
    int backend;
    int threads, members;
    size_t micro; /* samples a micro-batch */
    enum base base;
    bool plain; /* not by ops/, but plainly */
    enum saved saved;
};

struct outcome {
    float *y, *dx, *dmemory, *g, *loss; /* y: losses of a head; all but g the last member's */
    float *soft;                        /* of a head that distills: the first member's */
    bool finite[THREADS];
};

static size_t size_of(struct np_shape shape)
{
    return SAMPLES * np_shape_floats(shape);
}

static int32_t *classes(size_t count, size_t step)
{
    int32_t *x = calloc(count + 1, sizeof *x);
    for (size_t i = 0; i < count; i++)
        x[i] = (int32_t)(i * step % CASE_VOCAB);
    return x;
}

static void setting_init(struct setting *s, int index)
{
    const struct np_kind *kind = &s->kind;
    layer_case_init(&s->kind, index);
    s->head = kind->program.output < 0;
    s->whole = np_program_has(&kind->program, NP_NODE_BATCH_NORM);
    s->rows = SAMPLES * kind->length;
    s->w = case_weights(kind);
    s->x = case_drawn(size_of(kind->in), X);
    s->memory = case_drawn(size_of(kind->memory), MEMORY);
    s->sum = case_drawn(size_of(kind->out), SUM);
    s->images = case_drawn(size_of(kind->image), IMAGES);
    s->dy = case_drawn(size_of(kind->out), DY);
    s->base = case_drawn(size_of(kind->in), BASE);
    s->memory_base = case_drawn(size_of(kind->memory), MEMORY_BASE);
    s->tokens = classes(size_of(kind->out), 7);
    s->source = classes(size_of(kind->out), 3);
    s->targets = case_targets(s->rows);
    s->lengths = case_lengths(kind, SAMPLES);
    s->soft = case_drawn(s->rows * kind->vocab, SOFT);
}

static void setting_clear(struct setting *s)
{
    float *all[] = {s->w,  s->x,    s->memory,      s->sum, s->images,
                    s->dy, s->base, s->memory_base, s->soft};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    free(s->tokens);
    free(s->source);
    free(s->targets);
    free(s->lengths);
    np_kind_clear(&s->kind);
}

static void outcome_clear(struct outcome *o)
{
    free(o->y);
    free(o->dx);
    free(o->dmemory);
    free(o->g);
    free(o->loss);
    free(o->soft);
}

struct job {
    const struct setting *setting;
    const struct plan *plan;
    struct outcome *out;
    struct np_op_sizes sizes;
    struct np_op_call call; /* what all micro-batches share */
    float *output;          /* of a pass that is done again */
};

/* Before a call: what it may not read is not a number. */
static void poison(const struct np_op_call *call, float *slab, size_t count)
{
    np_team_wait(call->team);
    if (call->team->rank == 0)
        memset(slab, 0xff, count * sizeof *slab);
    np_team_wait(call->team);
}

/* A part of an array for the micro-batch; NULL if the layer does not have it. */
static float *part(float *x, struct np_shape shape, size_t first)
{
    return shape.channels ? x + first * np_shape_floats(shape) : NULL;
}

static struct np_op_backward backward_of(const struct job *job, size_t first)
{
    const struct setting *s = job->setting;
    const struct np_kind *kind = &s->kind;
    bool dx = np_op_gives(kind, NP_VALUE_X), dmemory = np_op_gives(kind, NP_VALUE_MEMORY);
    struct np_op_backward io = {.x = part(s->x, kind->in, first),
                                .memory = part(s->memory, kind->memory, first),
                                .dy = s->head ? NULL : part(s->dy, kind->out, first),
                                .dx = dx ? part(job->out->dx, kind->in, first) : NULL,
                                .dmemory =
                                    dmemory ? part(job->out->dmemory, kind->memory, first) : NULL};
    if (job->plan->base != NONE) {
        io.base = dx ? part(s->base, kind->in, first) : NULL;
        io.memory_base = dmemory ? part(s->memory_base, kind->memory, first) : NULL;
    }
    return io;
}

/* The base, where the gradient is added to in place. */
static void copy_base(const struct job *job, struct np_team *team, struct np_op_backward *io,
                      size_t samples)
{
    const struct np_kind *kind = &job->setting->kind;
    if (team->rank == 0 && io->base)
        memcpy(io->dx, io->base, samples * np_shape_floats(kind->in) * sizeof *io->dx);
    if (team->rank == 0 && io->memory_base)
        memcpy(io->dmemory, io->memory_base,
               samples * np_shape_floats(kind->memory) * sizeof *io->dx);
    np_team_wait(team);
    io->base = io->base ? io->dx : NULL;
    io->memory_base = io->memory_base ? io->dmemory : NULL;
}

/* What F saved is lost, and computed again, with an output that nobody reads. */
static void recompute(const struct job *job, struct np_op_call *call,
                      const struct np_op_forward *in)
{
    struct np_op_forward again = *in;
    float *loss = call->loss;
    again.y = job->setting->head ? NULL : job->output;
    call->loss = NULL;
    poison(call, call->saved, job->sizes.saved);
    poison(call, call->work, job->sizes.work);
    np_op_recompute(call, &again);
    poison(call, call->work, job->sizes.work);
    call->loss = loss;
}

/* What B left for W too: nothing is given to x and memory a second time. */
static void repeat(const struct job *job, struct np_op_call *call, const struct np_op_forward *in,
                   const struct np_op_backward *io)
{
    struct np_op_backward again = *io;
    recompute(job, call, in);
    poison(call, call->delta, job->sizes.delta);
    again.dx = again.dmemory = NULL;
    again.base = again.memory_base = NULL;
    np_op_backward(call, &again);
}

/* Forward, backward and weight gradient of one micro-batch. */
static void run_micro(const struct job *job, struct np_op_call *call, bool accumulate)
{
    const struct setting *s = job->setting;
    const struct np_kind *kind = &s->kind;
    struct outcome *out = job->out;
    struct np_op_backward io = backward_of(job, call->first);
    struct np_op_forward in = {io.x, io.memory, NULL, NULL};
    size_t row = call->first * kind->length, token = call->first * np_shape_rows(kind->out);
    bool finite;
    if (kind->summed)
        in.sum = part(s->sum, kind->out, call->first);
    in.y = s->head ? NULL : part(out->y, kind->out, call->first);
    call->images = part(s->images, kind->image, call->first);
    call->tokens = s->tokens + token;
    call->source = s->source + token;
    call->targets = s->targets + row;
    call->lengths = s->lengths + call->first;
    call->loss = s->head ? out->y + row : NULL;
    call->soft = call->member == 0 ? out->soft : s->soft;
    call->soft = kind->distills ? call->soft + row * kind->vocab : NULL;
    if (job->plan->plain) {
        plain_run(call, &in, &io, out->g, accumulate);
        return;
    }
    poison(call, call->saved, job->sizes.saved);
    poison(call, call->work, job->sizes.work);
    finite = np_op_forward(call, &in);
    if (s->head)
        np_op_grain_losses(call, out->loss + call->first / GRAIN);
    poison(call, call->delta, job->sizes.delta);
    poison(call, call->work, job->sizes.work);
    if (job->plan->saved != KEPT)
        recompute(job, call, &in);
    if (job->plan->base == IN_PLACE)
        copy_base(job, call->team, &io, call->samples);
    finite = np_op_backward(call, &io) && finite;
    if (job->plan->saved == TWICE)
        repeat(job, call, &in, &io);
    poison(call, call->work, job->sizes.work);
    finite = np_op_weight(call, out->g, &io, accumulate) && finite;
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

/* What later members learn from is the first one's to write. */
static void assert_untouched(const struct setting *s)
{
    size_t count = s->rows * s->kind.vocab;
    float *drawn = case_drawn(count, SOFT);
    ck_assert_mem_eq(s->soft, drawn, count * sizeof *drawn);
    free(drawn);
}

static struct outcome run(const struct setting *s, struct plan plan)
{
    const struct np_kind *kind = &s->kind;
    struct np_op_sizes sizes = np_op_sizes(kind, plan.micro);
    struct outcome out = {case_floats(size_of(kind->out) + s->rows),
                          case_floats(size_of(kind->in)),
                          case_floats(size_of(kind->memory)),
                          case_floats(kind->floats),
                          case_floats(SAMPLES / GRAIN),
                          case_floats(s->rows * kind->vocab),
                          {false}};
    struct job job = {s,
                      &plan,
                      &out,
                      sizes,
                      {.kernels = backend_get(plan.backend),
                       .kind = kind,
                       .w = s->w,
                       .grain = GRAIN,
                       .seed = SEED,
                       .step = STEP,
                       .layer = LAYER,
                       .train = true,
                       .smoothing = 0.1f,
                       .scale = 0.5f,
                       .distill = 0.25f,
                       .saved = case_floats(sizes.saved),
                       .delta = case_floats(sizes.delta),
                       .work = case_floats(sizes.work)},
                      case_floats(size_of(kind->out))};
    team_run(plan.threads, np_kernels_scratch_bytes(64, 64), run_job, &job);
    free(job.call.saved);
    free(job.call.delta);
    free(job.call.work);
    free(job.output);
    assert_untouched(s);
    return out;
}

static bool same_floats(const float *a, const float *b, size_t count)
{
    return memcmp(a, b, count * sizeof *a) == 0;
}

static bool same(const struct setting *s, const struct outcome *a, const struct outcome *b)
{
    const struct np_kind *kind = &s->kind;
    size_t outputs = s->head ? s->rows : size_of(kind->out);
    return same_floats(a->y, b->y, outputs) && same_floats(a->dx, b->dx, size_of(kind->in)) &&
           same_floats(a->dmemory, b->dmemory, size_of(kind->memory)) &&
           same_floats(a->g, b->g, kind->floats) &&
           same_floats(a->loss, b->loss, s->head ? SAMPLES / GRAIN : 0) &&
           same_floats(a->soft, b->soft, kind->distills ? s->rows * kind->vocab : 0);
}

static const char *name_of(const struct setting *s)
{
    static char name[NP_KIND_NAME];
    np_kind_name(&s->kind, name);
    return name;
}

/* Every third of a short run. */
static bool is_tried(int number)
{
    return tests_are_full() || number % 3 == 0;
}

START_TEST(cuts_teams_and_instruction_sets_give_the_same_bits)
{
    struct setting s;
    struct outcome whole, cut;
    setting_init(&s, _i);
    for (enum base base = NONE; base <= APART; base++) {
        whole = run(&s, (struct plan){0, 1, 2, SAMPLES, base, false, KEPT});
        ck_assert_msg(whole.finite[0], "%s", name_of(&s));
        for (int backend = 0; backend < BACKENDS; backend++) {
            for (int threads = 1; backend_get(backend) && threads <= 3; threads++) {
                if (!team_is_tried(threads, backend) || !is_tried(_i + (int)base + threads))
                    continue;
                for (size_t micro = SAMPLES; micro >= (s.whole ? SAMPLES : GRAIN); micro /= 2) {
                    enum base way = base == NONE ? NONE : micro < SAMPLES ? APART : IN_PLACE;
                    cut = run(&s, (struct plan){backend, threads, 2, micro, way, false, KEPT});
                    ck_assert_msg(same(&s, &whole, &cut),
                                  "%s: %s, %d threads, micro-batches of %zu", name_of(&s),
                                  backend_get(backend)->name, threads, micro);
                    outcome_clear(&cut);
                }
            }
        }
        outcome_clear(&whole);
    }
    setting_clear(&s);
}
END_TEST

/* With what must not be read any more gone, by every instruction set and some teams; of
 * neighbouring layers another base. */
START_TEST(what_is_computed_again_is_the_same)
{
    const enum base base = _i % 2 ? IN_PLACE : NONE;
    struct setting s;
    setting_init(&s, _i);
    struct outcome kept = run(&s, (struct plan){0, 1, 2, SAMPLES, base, false, KEPT});
    for (int i = 0; i < 3 * BACKENDS; i++) {
        int backend = i / 3, threads = 1 + i % 3;
        enum saved saved = (backend + threads + _i / 2) % 2 ? AGAIN : TWICE;
        struct outcome again;
        if (!backend_get(backend) || !team_is_tried(threads, backend) ||
            !is_tried(_i + (int)base + threads))
            continue;
        again = run(&s, (struct plan){backend, threads, 2, SAMPLES, base, false, saved});
        ck_assert_msg(same(&s, &kept, &again), "%s: %s, %d threads, again for %s", name_of(&s),
                      backend_get(backend)->name, threads, saved == TWICE ? "W too" : "B");
        outcome_clear(&again);
    }
    outcome_clear(&kept);
    setting_clear(&s);
}
END_TEST

/* Fused kernels, places used again, shared and accumulated gradients: none of it shows. */
START_TEST(operators_give_the_bits_of_their_nodes_run_plainly)
{
    struct setting s;
    setting_init(&s, _i);
    for (enum base base = NONE; base <= IN_PLACE; base++) {
        struct plan plan = {NP_ISA_SCALAR, 1, 2, SAMPLES, base, false, KEPT};
        struct outcome got = run(&s, plan), want;
        plan.base = base == IN_PLACE ? APART : base;
        plan.plain = true;
        want = run(&s, plan);
        for (size_t i = 0; s.head && i < SAMPLES / GRAIN; i++)
            want.loss[i] = got.loss[i];
        ck_assert_msg(same(&s, &want, &got), "%s", name_of(&s));
        outcome_clear(&got);
        outcome_clear(&want);
    }
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
                      "%s: %s[%zu] is %.9g, not %.9g", name_of(s), what, i, (double)got[i],
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
    d->x = doubles(s->x, size_of(kind->in));
    d->memory = doubles(s->memory, size_of(kind->memory));
    d->sum = doubles(s->sum, size_of(kind->out));
    d->dy = doubles(s->dy, size_of(kind->out));
    d->g = reference_zeros(kind->floats);
    d->y = reference_zeros(size_of(kind->out) + s->rows);
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
        d.dx = based ? doubles(s->base, size_of(kind->in)) : reference_zeros(size_of(kind->in));
        d.dmemory = based ? doubles(s->memory_base, size_of(kind->memory))
                          : reference_zeros(size_of(kind->memory));
        reference_forward(&call, d.y, &in);
        reference_backward(&call, d.dx, d.dmemory, d.g, &in, d.dy);
    }
    check_near(s, "y", out->y, d.y, s->head ? s->rows : size_of(kind->out), roundings(s, 0));
    if (np_op_gives(kind, NP_VALUE_X))
        check_near(s, "dx", out->dx, d.dx, size_of(kind->in), roundings(s, 0));
    if (np_op_gives(kind, NP_VALUE_MEMORY))
        check_near(s, "dmemory", out->dmemory, d.dmemory, size_of(kind->memory), roundings(s, 0));
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
    setting_init(&s, _i);
    for (int members = 1; members <= 2; members++) {
        out = run(&s, (struct plan){0, 1, members, SAMPLES, members - 1, false, KEPT});
        check_against_reference(&s, &out, members, members == 2);
        outcome_clear(&out);
    }
    setting_clear(&s);
}
END_TEST

/* The loss of a grain is the sum of its rows', a long way off in only the last bits. */
START_TEST(grain_losses_sum_their_rows)
{
    struct setting s;
    struct outcome out;
    setting_init(&s, _i);
    out = run(&s, (struct plan){0, 1, 1, SAMPLES, NONE, false, KEPT});
    for (size_t i = 0; s.head && i < SAMPLES / GRAIN; i++) {
        double sum = 0.0;
        for (size_t r = 0; r < GRAIN * s.kind.length; r++)
            sum += (double)out.y[i * GRAIN * s.kind.length + r];
        ck_assert(fabs((double)out.loss[i] - sum) <= 8.0 * 0x1p-24 * sum);
    }
    outcome_clear(&out);
    setting_clear(&s);
}
END_TEST

/* What is not finite in a layer's input is seen, unless the layer only hands it on (its maker saw
 * it), or does not read it. */
START_TEST(values_that_are_not_finite_are_seen)
{
    struct setting s;
    struct outcome out;
    bool finite = true, blind;
    setting_init(&s, _i);
    blind = np_program_passes_on(&s.kind.program) ||
            (s.kind.spec.op == NP_OP_CONCAT && !s.kind.summed) ||
            np_program_has(&s.kind.program, NP_NODE_ZERO) ||
            np_program_has(&s.kind.program, NP_NODE_CUT) ||
            np_program_has(&s.kind.program, NP_NODE_MAX_POOL);
    if (np_program_has(&s.kind.program, NP_NODE_EMBED))
        for (size_t i = 0; i < s.kind.tensors[0].count; i++)
            s.w[i] = NAN;
    else if (s.kind.in.channels)
        s.x[size_of(s.kind.in) - 1] = INFINITY;
    else
        s.images[size_of(s.kind.image) - 1] = INFINITY;
    out = run(&s, (struct plan){0, 3, 1, SAMPLES, NONE, false, KEPT});
    for (int rank = 0; rank < 3; rank++)
        finite = finite && out.finite[rank];
    ck_assert_msg(blind || !finite, "%s", name_of(&s));
    outcome_clear(&out);
    setting_clear(&s);
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

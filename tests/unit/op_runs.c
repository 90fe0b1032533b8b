#include "op_runs.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "backends.h"
#include "base/memory.h"
#include "plain.h"
#include "space/kinds.h"
#include "team_run.h"

/* Streams of case_value; a kind's tensors have those from 0 on. */
enum { X = 40, MEMORY, SUM, IMAGES, DY, BASE, MEMORY_BASE, SOFT };

size_t op_floats(struct np_shape shape)
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

void op_setting_init(struct setting *s, int index)
{
    const struct np_kind *kind = &s->kind;
    layer_case_init(&s->kind, index);
    s->head = kind->program.output < 0;
    s->whole = np_program_has(&kind->program, NP_NODE_BATCH_NORM);
    s->rows = SAMPLES * kind->length;
    s->w = case_weights(kind);
    s->x = case_drawn(op_floats(kind->in), X);
    s->memory = case_drawn(op_floats(kind->memory), MEMORY);
    s->sum = case_drawn(op_floats(kind->out), SUM);
    s->images = case_drawn(op_floats(kind->image), IMAGES);
    s->dy = case_drawn(op_floats(kind->out), DY);
    s->base = case_drawn(op_floats(kind->in), BASE);
    s->memory_base = case_drawn(op_floats(kind->memory), MEMORY_BASE);
    s->tokens = classes(op_floats(kind->out), 7);
    s->source = classes(op_floats(kind->out), 3);
    s->targets = case_targets(s->rows);
    s->lengths = case_lengths(kind, SAMPLES);
    s->soft = case_drawn(s->rows * kind->vocab, SOFT);
}

void op_setting_clear(struct setting *s)
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

void op_outcome_clear(struct outcome *o)
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

struct outcome op_run(const struct setting *s, struct plan plan)
{
    const struct np_kind *kind = &s->kind;
    struct np_op_sizes sizes = np_op_sizes(kind, plan.micro);
    struct outcome out = {case_floats(op_floats(kind->out) + s->rows),
                          case_floats(op_floats(kind->in)),
                          case_floats(op_floats(kind->memory)),
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
                      case_floats(op_floats(kind->out))};
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

bool op_same(const struct setting *s, const struct outcome *a, const struct outcome *b)
{
    const struct np_kind *kind = &s->kind;
    size_t outputs = s->head ? s->rows : op_floats(kind->out);
    return same_floats(a->y, b->y, outputs) && same_floats(a->dx, b->dx, op_floats(kind->in)) &&
           same_floats(a->dmemory, b->dmemory, op_floats(kind->memory)) &&
           same_floats(a->g, b->g, kind->floats) &&
           same_floats(a->loss, b->loss, s->head ? SAMPLES / GRAIN : 0) &&
           same_floats(a->soft, b->soft, kind->distills ? s->rows * kind->vocab : 0);
}

const char *op_name(const struct setting *s)
{
    static char name[NP_KIND_NAME];
    np_kind_name(&s->kind, name);
    return name;
}

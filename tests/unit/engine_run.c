#include "engine_run.h"

#include <check.h>
#include <string.h>

#include "plan/stage_memory.h"
#include "team_run.h"

struct np_train_config engine_config(struct tiny *f, struct tiny_outcome *o, struct np_plan *plan,
                                     const struct tiny_shape *shape)
{
    tiny_plan(f, plan, shape);
    return (struct np_train_config){.net = &f->net,
                                    .data = f->data,
                                    .kernels = tiny_kernels(shape->isa),
                                    .plan = plan,
                                    .delay_seed = shape->delay_seed,
                                    .hooks = {.context = o, .step = tiny_on_step}};
}

void engine_took_its_memory(struct tiny *f, const struct np_plan *plan,
                            const struct np_engine *engine)
{
    struct np_stage_memory memory[16];
    ck_assert_int_le(plan->stages, 16);
    tiny_must(np_memory_stages(memory, plan, &f->net, &f->err), &f->err);
    for (int d = 0; d < np_plan_devices(plan); d++) {
        const struct np_stage_memory *m = &memory[d % plan->stages];
        ck_assert_uint_eq(np_engine_memory(engine, d).peak,
                          d < plan->stages ? m->flights : m->replica);
    }
}

void engine_train(struct tiny *f, struct tiny_outcome *o, const struct tiny_shape *shape,
                  uint64_t end)
{
    struct np_plan plan;
    struct np_train_config config = engine_config(f, o, &plan, shape);
    struct np_stream *stream;
    struct np_engine *engine = NULL;
    uint64_t next;
    if (!o->state)
        tiny_must(np_state_new(&o->state, &f->net, &f->err), &f->err);
    stream = tiny_stream(f, o->steps);
    if (shape->stages) {
        tiny_must(np_engine_new(&engine, &config, o->state, &f->err), &f->err);
        tiny_must(np_engine_train(engine, stream, o->steps, end, &next, &f->err), &f->err);
    } else {
        tiny_must(np_train_sequential(&config, o->state, stream, o->steps, end, &next, &f->err),
                  &f->err);
    }
    ck_assert_uint_eq(next, end);
    ck_assert_uint_eq(o->steps, end);
    if (engine)
        engine_took_its_memory(f, &plan, engine);
    np_engine_free(engine);
    np_stream_close(stream);
    np_plan_clear(&plan);
}

void engine_same(const struct tiny *f, const struct tiny_outcome *a, const struct tiny_outcome *b,
                 const char *what)
{
    ck_assert_msg(memcmp(a->fingerprints, b->fingerprints, sizeof a->fingerprints) == 0,
                  "fingerprints differ: %s", what);
    ck_assert_msg(memcmp(a->losses, b->losses, sizeof a->losses) == 0, "losses differ: %s", what);
    for (uint32_t layer = 0; layer < f->net.layers; layer++) {
        const struct np_layer_state *x = &a->state->layers[layer], *y = &b->state->layers[layer];
        const struct np_kind *kind = np_supernet_kind(&f->net, layer);
        size_t stride = np_state_stride(kind);
        ck_assert_msg(x->updates == y->updates, "updates of layer %u differ: %s", layer, what);
        for (size_t part = 0; x->updates && part < 1 + (size_t)f->net.moments; part++)
            ck_assert_msg(memcmp(x->slab + part * stride, y->slab + part * stride,
                                 kind->floats * sizeof(float)) == 0,
                          "layer %u differs: %s", layer, what);
    }
}

void engine_reference(struct tiny *f, struct tiny_outcome *o)
{
    struct tiny_shape shape = {.stages = 0, .micro_batches = 1, .window = 1, .threads = 1};
    shape.isa = tests_are_full() ? NP_ISA_SCALAR : tiny_best_isa();
    memset(o, 0, sizeof *o);
    engine_train(f, o, &shape, TINY_STEPS);
    ck_assert(o->losses[0][0] > 1 && o->losses[0][0] < 9);
}

/* What writes a call and what carries it out are made of one list of kernels. */
#include "mpi/calls.h"

#include <stdio.h>
#include <string.h>

#include "mpi/kernel_list.h"

/* clang-format off */

#define FIELD(kind, type, name) FIELD_##kind(type, name)
#define FIELD_V(type, name) type name;
#define FIELD_S(type, name) struct type name;
#define FIELD_F(type, name) type name;
#define KEEP(kind, type, name) KEEP_##kind(name)
#define KEEP_V(name) args.name = name;
#define KEEP_S(name) args.name = *name;
#define KEEP_F(name) args.name = name;
#define OWN(kind, type, name) OWN_##kind(type, name)
#define OWN_V(type, name) own_value(&args.name, IS_POINTER(args.name));
#define OWN_S(type, name) own_##type(&args.name);
#define OWN_F(type, name)                                                                          \
    uint64_t name##_share = 0;                                                                     \
    own_value(&args.name, true);
#define PASS(kind, type, name) PASS_##kind(name)
#define PASS_V(name) , args.name
#define PASS_S(name) , &args.name
#define PASS_F(name) , team->size > 1 ? &name##_share : args.name
#define DONE(kind, type, name) DONE_##kind(name)
#define DONE_V(name)
#define DONE_S(name)
#define DONE_F(name)                                                                               \
    if (team->size > 1)                                                                            \
        __atomic_fetch_add(args.name, name##_share, __ATOMIC_RELAXED);
#define TAKE_bool(call) call
#define TAKE_void(call) (call, true)
#define RESULT_bool return true
#define RESULT_void return

#define IS_POINTER(value)                                                                          \
    _Generic((value), float *: true, const float *: true, int32_t *: true, const int32_t *: true,  \
             default: false)

/* clang-format on */

enum call {
#define NUMBER(result, kernel, ...) CALL_##kernel,
    NP_KERNELS(NUMBER)
#undef NUMBER
        CALLS
};

#define ARGUMENTS(result, kernel, ...)                                                             \
    struct kernel##_args {                                                                         \
        NP_EACH(FIELD, __VA_ARGS__)                                                                \
    };
NP_KERNELS(ARGUMENTS)

/* --- where they are made --------------------------------------------------------------------- */

static void write_call(struct np_team *team, enum call call, const void *args, size_t bytes)
{
    void *at = np_orders_add(((struct np_far_team *)team)->orders, NP_ORDER_CALL, (int)call, bytes);
    if (at)
        memcpy(at, args, bytes);
}

#define WRITE(result, kernel, ...)                                                                 \
    static result write_##kernel(struct np_team *team NP_EACH(NP_PARAMETER, __VA_ARGS__))          \
    {                                                                                              \
        struct kernel##_args args;                                                                 \
        memset(&args, 0, sizeof args);                                                             \
        NP_EACH(KEEP, __VA_ARGS__)                                                                 \
        write_call(team, CALL_##kernel, &args, sizeof args);                                       \
        RESULT_##result;                                                                           \
    }
NP_KERNELS(WRITE)

#define ENTRY(result, kernel, ...) .kernel = write_##kernel,
const struct np_kernels np_kernels_far = {.name = "mpi", NP_KERNELS(ENTRY)};

/* --- where they are carried out -------------------------------------------------------------- */

static void own_value(void *value, bool is_pointer)
{
    uint64_t at;
    void *own;
    if (!is_pointer)
        return;
    memcpy(&own, value, sizeof own);
    at = (uint64_t)(uintptr_t)own;
    own = np_far_pointer(np_far_own(at));
    memcpy(value, &own, sizeof own);
}

static void own_epilogue(struct np_epilogue *e)
{
    own_value(&e->bias, true);
    own_value(&e->before, true);
    own_value(&e->residual, true);
    own_value(&e->kept, true);
}

static void own_np_matmul(struct np_matmul *call)
{
    own_value(&call->a, true);
    own_value(&call->b, true);
    own_value(&call->c, true);
    own_epilogue(&call->epilogue);
}

static void own_np_conv(struct np_conv *call)
{
    own_value(&call->x, true);
    own_value(&call->w, true);
    own_value(&call->dy, true);
    own_value(&call->out, true);
    own_epilogue(&call->epilogue);
}

/* Numbers alone. */
static void own_np_slice(struct np_slice *slice)
{
    (void)slice;
}

static void own_np_rotation(struct np_rotation *rotation)
{
    (void)rotation;
}

static void own_np_attention(struct np_attention *call)
{
    own_value(&call->q, true);
    own_value(&call->k, true);
    own_value(&call->v, true);
    own_value(&call->relative, true);
    own_value(&call->lengths, true);
}

static void own_np_colnorm(struct np_colnorm *call)
{
    own_value(&call->x, true);
    own_value(&call->mean, true);
    own_value(&call->rstd, true);
    own_value(&call->gamma, true);
    own_value(&call->beta, true);
    own_value(&call->residual, true);
    own_value(&call->kept, true);
}

static void own_np_moments(struct np_moments *call)
{
    for (size_t i = 0; i < sizeof call->of / sizeof call->of[0]; i++) {
        own_value(&call->of[i].sums, true);
        own_value(&call->of[i].gamma, true);
        own_value(&call->of[i].total, true);
        own_value(&call->of[i].quotient, true);
        own_value(&call->of[i].stats, true);
        own_value(&call->of[i].rstd, true);
    }
}

static void own_np_layer_update(struct np_layer_update *call)
{
    struct np_update *layer = &call->layer;
    own_value(&layer->w, true);
    own_value(&layer->m, true);
    own_value(&layer->v, true);
    own_value(&layer->g, true);
    own_value(&layer->square, true);
}

#define RUN(result, kernel, ...)                                                                   \
    static bool run_##kernel(struct np_team *team, const struct np_kernels *kernels,               \
                             const void *from)                                                     \
    {                                                                                              \
        struct kernel##_args args;                                                                 \
        bool finite;                                                                               \
        memcpy(&args, from, sizeof args);                                                          \
        NP_EACH(OWN, __VA_ARGS__)                                                                  \
        finite = TAKE_##result(kernels->kernel(team NP_EACH(PASS, __VA_ARGS__)));                  \
        NP_EACH(DONE, __VA_ARGS__)                                                                 \
        return finite;                                                                             \
    }
NP_KERNELS(RUN)

static const struct {
    bool (*run)(struct np_team *team, const struct np_kernels *kernels, const void *from);
    size_t bytes;
} runs[CALLS] = {
#define RUNS(result, kernel, ...) [CALL_##kernel] = {run_##kernel, sizeof(struct kernel##_args)},
    NP_KERNELS(RUNS)
#undef RUNS
};

static bool is_call(const struct np_order *order)
{
    return order->kind == NP_ORDER_CALL && order->call < CALLS &&
           order->bytes == np_order_padded(runs[order->call].bytes);
}

const char *np_calls_end(const char *at, const char *end)
{
    while (at < end && is_call((const struct np_order *)at))
        at += sizeof(struct np_order) + ((const struct np_order *)at)->bytes;
    return at;
}

bool np_call_run(struct np_team *team, const struct np_kernels *kernels,
                 const struct np_order *order)
{
    return runs[order->call].run(team, kernels, order + 1);
}

void np_call_build(char out[NP_CALL_BUILD_BYTES])
{
    snprintf(out, NP_CALL_BUILD_BYTES, "%s-%s", NP_VERSION, NP_SOURCES);
}

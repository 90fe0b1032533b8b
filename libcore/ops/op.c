#include "ops/op.h"

#include <string.h>

#include "ops/operator.h"

static void begin(struct np_pass *pass, const struct np_op_call *call)
{
    const struct np_kind *kind = call->kind;
    *pass = (struct np_pass){
        .call = call,
        .kind = kind,
        .kernels = call->kernels,
        .team = call->team,
        .rows = call->samples * kind->length,
        .width = kind->width,
        .length = kind->length,
        .pad = kind->spec.kernel > 0 ? (size_t)kind->spec.kernel - 1 : 0,
        .saved = {.base = call->saved},
        .delta = {.base = call->delta},
        .work = {.base = call->work},
    };
    if (kind->spec.op == NP_OP_LM)
        np_head_lay(pass);
    else if (kind->spec.op != NP_OP_IDENTITY && kind->spec.op != NP_OP_EMBEDDING)
        np_residual_lay(pass);
}

struct np_op_sizes np_op_sizes(const struct np_kind *kind, size_t samples)
{
    struct np_op_call call = {.kind = kind, .samples = samples};
    struct np_pass pass;
    begin(&pass, &call);
    return (struct np_op_sizes){pass.saved.used, pass.delta.used, pass.work.used};
}

/* The identity, in either direction. */
static bool pass_on(struct np_pass *pass, float *y, const float *x)
{
    struct np_share share = np_team_share(pass->team, pass->rows, 1);
    if (y != x)
        memcpy(y + share.begin * pass->width, x + share.begin * pass->width,
               (share.end - share.begin) * pass->width * sizeof *y);
    np_team_wait(pass->team);
    return true;
}

bool np_op_forward(const struct np_op_call *call, float *y, const float *x)
{
    struct np_pass pass;
    begin(&pass, call);
    switch (call->kind->spec.op) {
    case NP_OP_IDENTITY:
        return pass_on(&pass, y, x);
    case NP_OP_EMBEDDING:
        return np_embedding_forward(&pass, y);
    case NP_OP_LM:
        return np_head_forward(&pass, x);
    default:
        return np_residual_forward(&pass, y, x);
    }
}

bool np_op_backward(const struct np_op_call *call, float *dx, const float *x, const float *dy)
{
    struct np_pass pass;
    begin(&pass, call);
    switch (call->kind->spec.op) {
    case NP_OP_IDENTITY:
        return pass_on(&pass, dx, dy);
    case NP_OP_LM:
        return np_head_backward(&pass, dx, x);
    default:
        return np_residual_backward(&pass, dx, x, dy);
    }
}

void np_op_weight(const struct np_op_call *call, float *g, const float *x, const float *dy,
                  bool accumulate)
{
    struct np_pass pass;
    begin(&pass, call);
    switch (call->kind->spec.op) {
    case NP_OP_IDENTITY:
        break;
    case NP_OP_EMBEDDING:
        np_embedding_weight(&pass, g, dy, accumulate);
        break;
    case NP_OP_LM:
        np_head_weight(&pass, g, x, accumulate);
        break;
    default:
        np_residual_weight(&pass, g, x, dy, accumulate);
    }
    np_team_wait(call->team);
}

void np_op_grain_losses(const struct np_op_call *call, float *grain_loss)
{
    struct np_team alone = *call->team;
    if (alone.rank > 0)
        return;
    alone.size = 1;
    alone.barrier = NULL;
    call->kernels->rowsum(&alone, grain_loss, call->loss, call->samples / call->grain,
                          call->grain * call->kind->length);
}

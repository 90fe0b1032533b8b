/* The stem: token table plus learned positions. */
#include "ops/operator.h"

enum { TOKENS, POSITIONS };

bool np_embedding_forward(struct np_pass *pass, float *y)
{
    bool finite;
    pass->kernels->embed(pass->team, y, pass->call->tokens, np_pass_tensor(pass, TOKENS),
                         np_pass_tensor(pass, POSITIONS), pass->call->samples, pass->length,
                         pass->width);
    np_team_wait(pass->team);
    finite = pass->kernels->finite(pass->team, y, pass->rows * pass->width);
    np_team_wait(pass->team);
    return finite;
}

void np_embedding_weight(struct np_pass *pass, float *g, const float *dy, bool accumulate)
{
    if (!accumulate) {
        pass->kernels->zero(pass->team, g, pass->kind->floats);
        np_team_wait(pass->team);
    }
    pass->kernels->embed_grad(pass->team, np_pass_gradient(pass, g, TOKENS),
                              np_pass_gradient(pass, g, POSITIONS), pass->call->tokens, dy,
                              pass->call->samples, pass->length, pass->width);
}

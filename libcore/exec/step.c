#include "exec/step.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t np_step_version(const struct np_state *state, int position, uint32_t layer, uint64_t step)
{
    const struct np_recipe *recipe = state->net->recipe;
    if (!np_supernet_is_end(state->net, position) || recipe->shared_frozen)
        return state->layers[layer].updates;
    uint64_t delay = (uint64_t)recipe->delay;
    return step + 1 > delay ? step + 1 - delay : 0;
}

int np_step_owner(const struct np_supernet *net, const uint16_t *choices, int member, int position)
{
    uint32_t layer = np_step_layer(net, choices + member * net->positions, position);
    int owner = 0;
    while (np_step_layer(net, choices + owner * net->positions, position) != layer)
        owner++;
    return owner;
}

enum np_status np_step_read(const struct np_supernet *net, struct np_stream *stream,
                            uint16_t *choices, uint16_t *blocks, bool *more, struct np_error *err)
{
    size_t count = (size_t)net->positions - 2;
    enum np_status status = np_stream_next(stream, blocks, more, err);
    if (status != NP_OK || !*more)
        return status;
    for (int member = 0; member < net->recipe->members; member++) {
        uint16_t *row = choices + (size_t)member * (count + 2);
        row[0] = row[count + 1] = 0;
        memcpy(row + 1, blocks + (size_t)member * count, count * sizeof *row);
    }
    return NP_OK;
}

uint64_t np_step_targets(const struct np_train_config *config, uint64_t step, int member)
{
    const struct np_recipe *recipe = config->net->recipe;
    return np_data_targets(config->data, recipe->seed, step, np_step_batch(recipe, member));
}

float np_step_loss(const struct np_recipe *recipe, const float *grain_loss, uint64_t targets)
{
    float sum = grain_loss[0];
    for (int i = 1; i < recipe->batch / recipe->grain; i++)
        sum = sum + grain_loss[i];
    return sum / (float)targets;
}

static int by_layer(const void *a, const void *b)
{
    const struct np_layer_print *x = a, *y = b;
    return x->layer < y->layer ? -1 : x->layer > y->layer;
}

void np_step_sort_prints(struct np_layer_print *prints, size_t count)
{
    qsort(prints, count, sizeof *prints, by_layer);
}

bool np_step_fault_before(const struct np_step_fault *a, const struct np_step_fault *b)
{
    if (a->step != b->step)
        return a->step < b->step;
    if (a->update != b->update)
        return b->update;
    if (a->member != b->member)
        return a->member < b->member;
    bool forward = a->pass == NP_TASK_F;
    if (!a->update && forward != (b->pass == NP_TASK_F))
        return forward;
    if (a->position != b->position)
        return a->update || forward ? a->position < b->position : a->position > b->position;
    return a->pass < b->pass;
}

/* "3 1 0 2", cut with dots when it does not fit. */
static void write_subnet(char *out, size_t bytes, const struct np_supernet *net,
                         const uint16_t *choices)
{
    size_t used = 0;
    out[0] = '\0';
    for (int p = 1; p < net->positions - 1; p++) {
        int n = snprintf(out + used, bytes - used, "%s%d", p > 1 ? " " : "", choices[p]);
        if ((size_t)n >= bytes - used) {
            memcpy(out + bytes - 4, "...", 4);
            return;
        }
        used += (size_t)n;
    }
}

enum np_status np_step_fault_error(const struct np_step_fault *fault, const struct np_supernet *net,
                                   const uint16_t *choices, struct np_error *err)
{
    char layer[NP_LAYER_NAME], subnet[256];
    const uint16_t *own = choices + fault->member * net->positions;
    write_subnet(subnet, sizeof subnet, net, own);
    np_supernet_layer_name(net, np_step_layer(net, own, fault->position), layer);
    return np_fail(err, NP_ENAN,
                   "step %llu, member %d, subnet '%s': the %s of layer '%s' is not finite",
                   (unsigned long long)fault->step, fault->member, subnet, fault->what, layer);
}

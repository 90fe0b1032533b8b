/* The sequential reference: for every step, member after member, forward through the positions,
 * loss, backward; gradients summed over members in order; then one update of every active layer.
 * No scheduler, no micro-batches, no second step in flight: short enough to be checked by eye. */
#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "exec/solo.h"
#include "exec/step.h"

struct run {
    const struct np_train_config *config;
    const struct np_supernet *net;
    const struct np_recipe *recipe;
    struct np_solo solo;
    struct np_sweep sweep; /* of the member being trained */
    uint16_t *choices, *blocks;
    float *grain_loss, *losses;
    struct np_layer_print *prints;
};

static enum np_status run_init(struct run *r, const struct np_train_config *config,
                               struct np_state *state, struct np_error *err)
{
    const struct np_supernet *net = config->net;
    const struct np_recipe *recipe = net->recipe;
    size_t places = (size_t)recipe->members * (size_t)net->positions;
    size_t grains = (size_t)(recipe->batch / recipe->grain);
    enum np_status status;
    *r = (struct run){.config = config, .net = net, .recipe = recipe};
    NP_TRY(np_solo_init(&r->solo, config, false, err));
    NP_TRY(np_zalloc(&r->choices, places, sizeof *r->choices, err));
    NP_TRY(np_zalloc(&r->blocks, places, sizeof *r->blocks, err));
    NP_TRY(np_zalloc(&r->prints, places, sizeof *r->prints, err));
    NP_TRY(np_zalloc(&r->losses, (size_t)recipe->members, sizeof *r->losses, err));
    NP_TRY(np_zalloc(&r->grain_loss, grains, sizeof(float), err));
    r->sweep = np_solo_sweep(&r->solo, config, state);
    r->sweep.grain_loss = r->grain_loss;
out:
    return status;
}

static void run_clear(struct run *r)
{
    np_solo_clear(&r->solo);
    free(r->choices);
    free(r->blocks);
    free(r->prints);
    free(r->losses);
    free(r->grain_loss);
}

static enum np_status check(const struct run *r, bool finite, int position, const char *what,
                            struct np_error *err)
{
    struct np_step_fault f = {
        .step = r->sweep.step, .member = r->sweep.member, .position = position, .what = what};
    return finite ? NP_OK : np_step_fault_error(&f, r->net, r->choices, err);
}

static void choose_member(struct run *r, int member)
{
    r->sweep.member = member;
    r->sweep.choices = r->choices + member * r->net->positions;
}

static enum np_status forward(struct run *r, struct np_error *err)
{
    enum np_status status = NP_OK;
    for (int p = 0; p < r->net->positions; p++) {
        bool finite = true;
        NP_TRY(np_sweep_forward(&r->sweep, p, &finite, err));
        NP_TRY(np_crew_finish(r->sweep.crew, err));
        NP_TRY(check(r, finite, p, "output", err));
    }
    float loss = np_step_loss(r->recipe, r->grain_loss,
                              np_step_targets(r->sweep.config, r->sweep.step, r->sweep.member));
    r->losses[r->sweep.member] = loss;
    status = check(r, isfinite(loss), r->net->positions - 1, "loss", err);
out:
    return status;
}

/* The sum of the gradients of a member's layer, which it or an earlier member owns. */
static float *sum_of(const struct run *r, int position, int owner)
{
    uint32_t layer = np_step_layer(r->net, r->sweep.choices, position);
    return np_flights_sum(&r->solo.flights, &r->solo.layout.stage[0], position, r->sweep.step,
                          owner, layer - r->net->layer_first[position]);
}

/* Backward-input, then backward-weight, of every position from the head to the stem. */
static enum np_status backward(struct run *r, struct np_error *err)
{
    enum np_status status = NP_OK;
    for (int p = r->net->positions - 1; p >= 0; p--) {
        uint32_t layer = np_step_layer(r->net, r->sweep.choices, p);
        int member = r->sweep.member, owner = np_step_owner(r->net, r->choices, member, p);
        bool finite = true;
        NP_TRY(np_sweep_backward(&r->sweep, p, &finite, err));
        if (np_step_trains(r->net, p, layer))
            NP_TRY(
                np_sweep_weight(&r->sweep, p, sum_of(r, p, owner), owner != member, &finite, err));
        NP_TRY(np_crew_finish(r->sweep.crew, err));
        NP_TRY(check(r, finite, p, "gradient", err));
    }
out:
    return status;
}

/* Updates the layers that the step activated, in (member, position) order. */
static enum np_status update(struct run *r, struct np_step_record *record, struct np_error *err)
{
    enum np_status status = NP_OK;
    for (int i = 0; i < r->recipe->members * r->net->positions; i++) {
        int p = i % r->net->positions, member = i / r->net->positions;
        uint32_t layer;
        struct np_layer_print *print = &r->prints[record->layer_count];
        struct np_update_report report;
        bool finite = true;
        choose_member(r, member);
        layer = np_step_layer(r->net, r->sweep.choices, p);
        if (!np_step_trains(r->net, p, layer) ||
            np_step_owner(r->net, r->choices, member, p) != member)
            continue;
        NP_TRY(np_sweep_update(&r->sweep, p, sum_of(r, p, member), &report, &finite, err));
        NP_TRY(np_crew_finish(r->sweep.crew, err));
        NP_TRY(check(r, finite, p, "update", err));
        *print = np_sweep_print(r->sweep.crew, layer, &report);
        record->fingerprint += print->fingerprint;
        record->layer_count++;
    }
out:
    return status;
}

static enum np_status train_step(struct run *r, struct np_error *err)
{
    struct np_step_record record = {.step = r->sweep.step,
                                    .lr = np_recipe_lr(r->recipe, r->sweep.step),
                                    .members = r->recipe->members,
                                    .choices = r->choices,
                                    .losses = r->losses,
                                    .layers = r->prints};
    enum np_status status;
    for (int member = 0; member < r->recipe->members; member++) {
        choose_member(r, member);
        NP_TRY(forward(r, err));
        NP_TRY(backward(r, err));
    }
    NP_TRY(update(r, &record, err));
    np_step_sort_prints(r->prints, record.layer_count);
    NP_TRY(r->config->hooks.step(r->config->hooks.context, &record, err));
out:
    return status;
}

enum np_status np_train_sequential(const struct np_train_config *config, struct np_state *state,
                                   struct np_stream *stream, uint64_t first, uint64_t end,
                                   uint64_t *next, struct np_error *err)
{
    struct run r;
    bool more = true;
    enum np_status status = run_init(&r, config, state, err);
    *next = first;
    np_stream_give_up(stream, config->hooks.stop, config->hooks.context);
    for (r.sweep.step = first; status == NP_OK && r.sweep.step < end; *next = ++r.sweep.step) {
        if (config->hooks.stop && config->hooks.stop(config->hooks.context)) {
            status = np_fail(err, NP_ESTOP, "stopped on request after step %llu",
                             (unsigned long long)r.sweep.step);
            break;
        }
        NP_TRY(np_step_read(r.net, stream, r.choices, r.blocks, &more, err));
        if (!more)
            break;
        NP_TRY(train_step(&r, err));
    }
out:
    np_stream_give_up(stream, NULL, NULL);
    run_clear(&r);
    return status;
}

#include "sched/rule.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum { HAS_INPUT = 1, STARTED = 2, ENDED = 4 };

struct ruled_step {
    uint64_t number;
    uint64_t started, ended, tasks; /* counted in positions: a unit of 3 counts 3 times */
};

struct np_rule {
    struct np_sched_config config; /* the arrays below instead of the caller's */
    uint32_t *layer_first;
    enum np_shared_kind *kind;
    bool *weightless;
    uint32_t *whole;
    int *stage_first;
    int *width; /* [stages]: flights that may be in flight on each device; 0: any number */
    uint64_t ring, known, last;
    uint64_t *updates, *tickets; /* [layers]: done; wanted by the steps pushed so far */
    struct ruled_step *step;     /* [ring] */
    uint16_t *stage;             /* [ring][positions] */
    uint16_t *choice;            /* [ring][members][positions] */
    uint64_t *ticket;            /* the same */
    uint8_t *state;              /* [ring][members][positions][micro_batches][F, B, W] */
    int running, in_flight;
};

static size_t node(const struct np_rule *r, uint64_t step, int member, int position)
{
    return ((size_t)(step % r->ring) * (size_t)r->config.members + (size_t)member) *
               (size_t)r->config.positions +
           (size_t)position;
}

static uint8_t *state(const struct np_rule *r, uint64_t step, int member, int position, int micro,
                      enum np_task_kind kind)
{
    size_t flight = node(r, step, member, position) * (size_t)r->config.micro_batches;
    return &r->state[(flight + (size_t)micro) * 3 + kind];
}

static int stage_of(const struct np_rule *r, uint64_t step, int position)
{
    return r->stage[(size_t)(step % r->ring) * (size_t)r->config.positions + (size_t)position];
}

static int replica_of(const struct np_rule *r, int member, int micro)
{
    const struct np_sched_share share =
        np_sched_share(r->config.replicas, r->config.members, r->config.micro_batches);
    return np_sched_replica_of(&share, member, micro);
}

static int home_of(const struct np_rule *r, int position)
{
    int home = 0;
    while (r->stage_first[home + 1] <= position)
        home++;
    return home;
}

/* The first position of the home unit that this one belongs to. */
static int unit_of(const struct np_rule *r, int position)
{
    int first = r->stage_first[home_of(r, position)];
    return position - (position - first) % r->config.unit;
}

static uint32_t layer_of(const struct np_rule *r, uint64_t step, int member, int position)
{
    return np_sched_whole(&r->config,
                          r->layer_first[position] + r->choice[node(r, step, member, position)]);
}

static bool learns(const struct np_rule *r, int position, uint32_t layer)
{
    return r->kind[position] != NP_SHARED_FROZEN && !r->weightless[layer];
}

static enum np_status broken(const struct np_task *t, const char *rule, struct np_error *err)
{
    return np_fail(err, NP_ENO, "%c of step %llu, member %d, micro-batch %d, position %d: %s",
                   "FBW"[t->kind], (unsigned long long)t -> step, t -> member, t -> micro,
                   t -> first, rule);
}

enum np_status np_rule_new(struct np_rule **out, const struct np_sched_config *config,
                           struct np_error *err)
{
    size_t positions = (size_t)config->positions, layers = config->layer_first[positions];
    size_t ring = (size_t)config->window + (size_t)config->lookahead;
    size_t nodes = ring * (size_t)config->members * positions;
    struct np_rule *r = NULL;
    enum np_status status;
    NP_TRY(np_zalloc(&r, 1, sizeof *r, err));
    r->config = *config;
    r->config.replicas = config->replicas ? config->replicas : 1;
    r->ring = ring;
    r->last = UINT64_MAX;
    NP_TRY(np_zalloc(&r->layer_first, positions + 1, sizeof *r->layer_first, err));
    NP_TRY(np_zalloc(&r->kind, positions, sizeof *r->kind, err));
    NP_TRY(np_zalloc(&r->weightless, layers, sizeof *r->weightless, err));
    if (config->whole)
        NP_TRY(np_zalloc(&r->whole, layers, sizeof *r->whole, err));
    NP_TRY(np_zalloc(&r->stage_first, (size_t)config->stages + 1, sizeof *r->stage_first, err));
    NP_TRY(np_zalloc(&r->updates, layers, sizeof *r->updates, err));
    NP_TRY(np_zalloc(&r->tickets, layers, sizeof *r->tickets, err));
    NP_TRY(np_zalloc(&r->step, ring, sizeof *r->step, err));
    NP_TRY(np_zalloc(&r->stage, ring, positions * sizeof *r->stage, err));
    NP_TRY(np_zalloc(&r->choice, nodes, sizeof *r->choice, err));
    NP_TRY(np_zalloc(&r->ticket, nodes, sizeof *r->ticket, err));
    NP_TRY(np_zalloc(&r->state, nodes * 3, (size_t)config->micro_batches, err));
    NP_TRY(np_zalloc(&r->width, (size_t)config->stages, sizeof *r->width, err));
    if (config->in_flight)
        memcpy(r->width, config->in_flight, (size_t)config->stages * sizeof *r->width);
    memcpy(r->layer_first, config->layer_first, (positions + 1) * sizeof *r->layer_first);
    memcpy(r->kind, config->kind, positions * sizeof *r->kind);
    memcpy(r->weightless, config->weightless, layers * sizeof *r->weightless);
    if (config->whole)
        memcpy(r->whole, config->whole, layers * sizeof *r->whole);
    r->config.whole = r->whole;
    memcpy(r->stage_first, config->stage_first,
           ((size_t)config->stages + 1) * sizeof *r->stage_first);
    *out = r;
    return NP_OK;
out:
    np_rule_free(r);
    return status;
}

void np_rule_free(struct np_rule *r)
{
    if (!r)
        return;
    free(r->layer_first);
    free(r->kind);
    free(r->weightless);
    free(r->whole);
    free(r->stage_first);
    free(r->width);
    free(r->updates);
    free(r->tickets);
    free(r->step);
    free(r->stage);
    free(r->choice);
    free(r->ticket);
    free(r->state);
    free(r);
}

/* Contributions to the layer that come before (member, micro 0) in the step. */
static int rank_of(const struct np_rule *r, uint64_t step, int member, int position)
{
    uint32_t layer = layer_of(r, step, member, position);
    int rank = 0;
    for (int i = 0; i < member; i++)
        if (layer_of(r, step, i, position) == layer)
            rank += r->config.micro_batches;
    return rank;
}

/* A step's cut: in order, whole units, at most one stage and `reach` positions from home, which is
 * where shared positions and the two ends are. */
static enum np_status check_cut(const struct np_rule *r, const uint16_t *stages,
                                struct np_error *err)
{
    const struct np_sched_config *c = &r->config;
    for (int p = 0; p < c->positions; p++) {
        int home = home_of(r, p), off = stages[p] - home;
        bool stays = c->reach == 0 || r->kind[p] != NP_CHOICE || p == 0 || p == c->positions - 1;
        int way = off > 0 ? r->stage_first[home + 1] - p : p - r->stage_first[home] + 1;
        const char *wrong = NULL;
        if (p > 0 && stages[p] < stages[p - 1])
            wrong = "runs on an earlier stage than the position before it";
        else if (stages[p] != stages[unit_of(r, p)])
            wrong = "runs on another stage than its unit";
        else if (off != 0 && (stays || off > 1 || off < -1 || way > c->reach))
            wrong = "is too far from home";
        if (wrong)
            return np_fail(err, NP_ENO, "step %llu: position %d %s", (unsigned long long)r->known,
                           p, wrong);
    }
    return NP_OK;
}

enum np_status np_rule_push(struct np_rule *r, const uint16_t *choices, const uint16_t *stages,
                            struct np_error *err)
{
    const struct np_sched_config *c = &r->config;
    uint64_t number = r->known;
    struct ruled_step *step = &r->step[number % r->ring];
    size_t nodes = (size_t)c->members * (size_t)c->positions;
    if (step->ended != step->tasks)
        return np_fail(err, NP_ENO, "step %llu is pushed while step %llu is not complete",
                       (unsigned long long)number, (unsigned long long)step->number);
    if (check_cut(r, stages, err) != NP_OK)
        return NP_ENO;
    memcpy(r->stage + (size_t)(number % r->ring) * (size_t)c->positions, stages,
           (size_t)c->positions * sizeof *stages);
    *step = (struct ruled_step){.number = number};
    memcpy(&r->choice[node(r, number, 0, 0)], choices, nodes * sizeof *choices);
    memset(state(r, number, 0, 0, 0, NP_TASK_F), 0, nodes * 3 * (size_t)c->micro_batches);
    r->known++;
    for (int p = 0; p < c->positions; p++) {
        for (int i = 0; i < c->members; i++) {
            uint32_t layer = layer_of(r, number, i, p);
            r->ticket[node(r, number, i, p)] = r->tickets[layer];
            step->tasks += (learns(r, p, layer) ? 3 : 2) * (uint64_t)c->micro_batches;
        }
        for (int i = 0; i < c->members; i++)
            if (learns(r, p, layer_of(r, number, i, p)) && rank_of(r, number, i, p) == 0)
                r->tickets[layer_of(r, number, i, p)]++;
    }
    return NP_OK;
}

void np_rule_stop_after(struct np_rule *r, uint64_t last)
{
    r->last = last < r->last ? last : r->last;
}

/* Where the output of an F or B goes; false if nowhere. */
static bool goes_to(const struct np_rule *r, const struct np_task *t, struct np_task *to)
{
    *to = *t;
    if (t->kind == NP_TASK_W || (t->kind == NP_TASK_B && t->first == 0))
        return false;
    if (t->kind == NP_TASK_F && t->first + t->count == r->config.positions) {
        to->kind = NP_TASK_B;
        return true;
    }
    to->first = t->kind == NP_TASK_F ? t->first + t->count : t->first - 1;
    to->stage = stage_of(r, t->step, to->first);
    to->device = replica_of(r, t->member, t->micro) * r->config.stages + to->stage;
    to->first = unit_of(r, to->first);
    return true;
}

/* The mark stands at the first position of the unit. */
static enum np_status mark_input(struct np_rule *r, const struct np_task *t, struct np_error *err)
{
    uint8_t *mark = state(r, t->step, t->member, t->first, t->micro, t->kind);
    if (*mark & HAS_INPUT)
        return broken(t, "its input arrives twice", err);
    *mark |= HAS_INPUT;
    return NP_OK;
}

enum np_status np_rule_arrived(struct np_rule *r, const struct np_task *t, struct np_error *err)
{
    int last = r->config.positions - 1, end = t->first + t->count, from;
    if (t->kind == NP_TASK_F)
        from = t->first - 1;
    else
        from = end <= last ? end : last;
    if (from < 0 ||
        !(*state(r, t->step, t->member, from, t->micro, end <= last ? t->kind : NP_TASK_F) & ENDED))
        return broken(t, "its input arrives before it was made", err);
    return mark_input(r, t, err);
}

static bool is_a_unit(const struct np_rule *r, const struct np_task *t)
{
    int left = r->stage_first[home_of(r, t->first) + 1] - t->first;
    if (stage_of(r, t->step, t->first) != t->stage ||
        replica_of(r, t->member, t->micro) * r->config.stages + t->stage != t->device)
        return false;
    if (t->kind == NP_TASK_W)
        return t->count == 1;
    return t->first == unit_of(r, t->first) &&
           t->count == (left < r->config.unit ? left : r->config.unit);
}

/* F and B: the input is there, and every layer has the version that the step reads. */
static enum np_status check_pass(const struct np_rule *r, const struct np_task *t,
                                 struct np_error *err)
{
    bool is_first = t->kind == NP_TASK_F && t->first == 0;
    if (!is_first && !(*state(r, t->step, t->member, t->first, t->micro, t->kind) & HAS_INPUT))
        return broken(t, "its input has not arrived", err);
    if (r->config.leads && t->kind == NP_TASK_F && t->member > 0 &&
        t->first + t->count == r->config.positions &&
        !(*state(r, t->step, 0, t->first, t->micro, NP_TASK_F) & ENDED))
        return broken(t, "the first member's has not ended", err);
    for (int p = t->first; p < t->first + t->count; p++) {
        uint32_t layer = layer_of(r, t->step, t->member, p);
        uint64_t delay = (uint64_t)r->config.delay, done = r->updates[layer];
        if (t->kind == NP_TASK_B &&
            !(*state(r, t->step, t->member, p, t->micro, NP_TASK_F) & ENDED))
            return broken(t, "its forward has not ended", err);
        if (!learns(r, p, layer))
            continue;
        if (r->kind[p] == NP_CHOICE && done != r->ticket[node(r, t->step, t->member, p)])
            return broken(t, "the layer has another version", err);
        if (r->kind[p] == NP_SHARED_DELAY &&
            ((t->step >= delay && done < t->step - delay + 1) || done > t->step))
            return broken(t, "the shared layer has no such version", err);
    }
    return NP_OK;
}

/* W: after its B, in its turn; as the update, at its version. */
static enum np_status check_weight(const struct np_rule *r, const struct np_task *t,
                                   struct np_error *err)
{
    uint32_t layer = layer_of(r, t->step, t->member, t->first);
    int rank = 0, total = 0, own = rank_of(r, t->step, t->member, t->first) + t->micro;
    if (!learns(r, t->first, layer))
        return broken(t, "there is nothing to learn", err);
    if (!(*state(r, t->step, t->member, t->first, t->micro, NP_TASK_B) & ENDED))
        return broken(t, "its backward has not ended", err);
    for (int i = 0; i < r->config.members; i++)
        for (int m = 0; m < r->config.micro_batches; m++)
            if (layer_of(r, t->step, i, t->first) == layer) {
                uint8_t other = *state(r, t->step, i, t->first, m, NP_TASK_W);
                if (total < own ? !(other & ENDED) : (other & STARTED) != 0)
                    return broken(t, "it is not its turn", err);
                rank += total < own;
                total++;
            }
    if (t->opens != (rank == 0) || t->updates != (rank + 1 == total))
        return broken(t, "opens or updates wrongly", err);
    if ((t->updates || r->kind[t->first] == NP_CHOICE) &&
        r->updates[layer] != r->ticket[node(r, t->step, t->member, t->first)])
        return broken(t, "the layer has another version", err);
    return NP_OK;
}

/* True if every task of the flight at the stage and later ones has ended. */
static bool is_retired(const struct np_rule *r, uint64_t step, int member, int micro, int stage)
{
    for (int p = 0; p < r->config.positions; p++) {
        const uint8_t *mark = state(r, step, member, p, micro, NP_TASK_F);
        if (stage_of(r, step, p) < stage)
            continue;
        int passes = learns(r, p, layer_of(r, step, member, p)) ? 3 : 2;
        for (int kind = 0; kind < passes; kind++)
            if (!(mark[kind] & ENDED))
                return false;
    }
    return true;
}

/* The first F of a stage: all flights of the replica before it, but as many as may be in flight
 * beside it, are retired. */
static enum np_status check_flight(const struct np_rule *r, const struct np_task *t,
                                   struct np_error *err)
{
    uint64_t members = (uint64_t)r->config.members, micros = (uint64_t)r->config.micro_batches;
    uint64_t own = (t->step * members + (uint64_t)t->member) * micros + (uint64_t)t->micro;
    uint64_t oldest = r->known > r->ring ? (r->known - r->ring) * members * micros : 0;
    int beside = r->width[t->stage];
    if (t->kind != NP_TASK_F || beside == 0 ||
        (t->first > 0 && stage_of(r, t->step, t->first - 1) == t->stage))
        return NP_OK;
    for (uint64_t q = own; q-- > oldest;)
        if (replica_of(r, (int)(q / micros % members), (int)(q % micros)) ==
                replica_of(r, t->member, t->micro) &&
            --beside <= 0 &&
            !is_retired(r, q / micros / members, (int)(q / micros % members), (int)(q % micros),
                        t->stage))
            return broken(t, "too many flights are at the stage", err);
    return NP_OK;
}

enum np_status np_rule_start(struct np_rule *r, const struct np_task *t, struct np_error *err)
{
    struct ruled_step *step = &r->step[t->step % r->ring];
    enum np_status status = NP_OK;
    if (t->step >= r->known || step->number != t->step)
        return broken(t, "the step is not known", err);
    if (t->step > r->last)
        return broken(t, "the step comes after the stop", err);
    if (t->first < 0 || t->first >= r->config.positions || !is_a_unit(r, t))
        return broken(t, "this is no unit of the stage", err);
    if (step->started == 0 && ++r->in_flight > r->config.window)
        return broken(t, "the window is full", err);
    for (int p = t->first; p < t->first + t->count; p++)
        if (*state(r, t->step, t->member, p, t->micro, t->kind) & STARTED)
            return broken(t, "it runs twice", err);
    NP_TRY(check_flight(r, t, err));
    if (t->kind == NP_TASK_W)
        NP_TRY(check_weight(r, t, err));
    else
        NP_TRY(check_pass(r, t, err));
    for (int p = t->first; p < t->first + t->count; p++)
        *state(r, t->step, t->member, p, t->micro, t->kind) |= STARTED;
    step->started += (uint64_t)t->count;
    r->running++;
out:
    return status;
}

enum np_status np_rule_end(struct np_rule *r, const struct np_task *t, struct np_error *err)
{
    struct ruled_step *step = &r->step[t->step % r->ring];
    struct np_task to;
    for (int p = t->first; p < t->first + t->count; p++) {
        uint8_t *mark = state(r, t->step, t->member, p, t->micro, t->kind);
        if ((*mark & (STARTED | ENDED)) != STARTED)
            return broken(t, "it ends without running", err);
        *mark |= ENDED;
    }
    if (t->updates)
        r->updates[layer_of(r, t->step, t->member, t->first)]++;
    step->ended += (uint64_t)t->count;
    if (step->ended == step->tasks)
        r->in_flight--;
    r->running--;
    return goes_to(r, t, &to) && to.device == t->device ? mark_input(r, &to, err) : NP_OK;
}

enum np_status np_rule_finish(const struct np_rule *r, uint64_t steps, struct np_error *err)
{
    if (steps > r->known)
        return np_fail(err, NP_ENO, "only %llu steps are known", (unsigned long long)r->known);
    if (r->running)
        return np_fail(err, NP_ENO, "%d tasks are still running", r->running);
    for (uint64_t s = steps > r->ring ? steps - r->ring : 0; s < steps; s++) {
        const struct ruled_step *step = &r->step[s % r->ring];
        if (step->number == s && step->ended != step->tasks)
            return np_fail(err, NP_ENO, "step %llu is not complete", (unsigned long long)s);
    }
    return NP_OK;
}

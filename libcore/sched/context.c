#include "sched/context.h"

#include <assert.h>
#include <stdlib.h>

#include "base/memory.h"
#include "sched/victims.h"

#define ELSEWHERE UINT64_MAX   /* another stage is next: it leaves at once */
#define NEVER (UINT64_MAX - 1) /* no visit is known */
#define NO_LAYER UINT32_MAX

enum state { ABSENT, COMING, HERE, LEAVING };

struct visit {
    uint64_t step;
    uint64_t next;  /* of the same layer, NEVER: none */
    uint32_t layer; /* from the stage's first */
    uint32_t left;  /* tasks; 0: over */
    enum np_context_pass pass;
};

struct layer {
    enum state state;
    bool dirty;  /* newer than the stash's */
    bool stored; /* the stash has it, newest or not */
    bool in_use;
    bool begun;           /* step and pass are of the last visit that began */
    uint64_t first, last; /* visits known: the earliest and the latest; first NEVER: none */
    uint64_t step, used;  /* used: the context's clock at the last use */
    enum np_context_pass pass;
    uint64_t counted[2]; /* by pass: the step of the last visit that was counted, plus 1 */
};

struct np_context {
    struct np_context_config config; /* bytes: a copy */
    struct np_context *after;        /* of the next stage; NULL: none */
    uint64_t *bytes;
    struct layer *layers;
    struct np_victims victims;
    /* Visit i > 0 lies in visits[i & mask]; those known are begin .. end-1. */
    struct visit *visits;
    uint64_t mask, begin, end;
    uint64_t ahead;    /* the layers of all visits before this one are here or coming */
    uint64_t frontier; /* all visits from this one on have not begun */
    uint64_t used, leaving, clock;
    uint32_t wanted; /* by the task that waits */
    struct np_context_sums sums;
};

const char *np_context_policy_name(enum np_context_policy policy)
{
    static const char *const names[] = {"ahead", "demand", "lru"};
    return names[policy];
}

enum np_status np_context_new(struct np_context **out, const struct np_context_config *config,
                              struct np_error *err)
{
    struct np_context *c = NULL;
    enum np_status status;
    NP_TRY(np_zalloc(&c, 1, sizeof *c, err));
    c->config = *config;
    c->mask = 255;
    c->begin = c->end = c->ahead = c->frontier = 1; /* no visit is 0: that is now */
    c->wanted = NO_LAYER;
    NP_TRY(np_zalloc(&c->bytes, config->count, sizeof *c->bytes, err));
    NP_TRY(np_zalloc(&c->layers, config->count, sizeof *c->layers, err));
    NP_TRY(np_zalloc(&c->victims.entry, config->count, sizeof *c->victims.entry, err));
    NP_TRY(np_zalloc(&c->victims.place, config->count, sizeof *c->victims.place, err));
    NP_TRY(np_zalloc(&c->visits, c->mask + 1, sizeof *c->visits, err));
    c->config.bytes = c->bytes;
    if (config->before)
        config->before->after = c;
    for (uint32_t l = 0; l < config->count; l++) {
        assert(config->bytes[l] <= config->capacity);
        c->bytes[l] = config->bytes[l];
        c->layers[l].first = NEVER;
    }
    *out = c;
    return NP_OK;
out:
    np_context_free(c);
    return status;
}

void np_context_free(struct np_context *c)
{
    if (!c)
        return;
    if (c->config.before)
        c->config.before->after = c->after;
    if (c->after)
        c->after->config.before = c->config.before;
    free(c->bytes);
    free(c->layers);
    free(c->victims.entry);
    free(c->victims.place);
    free(c->visits);
    free(c);
}

static struct visit *visit_at(const struct np_context *c, uint64_t index)
{
    return &c->visits[index & c->mask];
}

/* --- mirrors -------------------------------------------------------------------------------- */

static bool knows(const struct np_context *c, uint32_t number)
{
    return c && number - c->config.first < c->config.count;
}

/* The contexts that know a layer, in turn: the first, and the one after x. */
static struct np_context *first_mirror(struct np_context *c, uint32_t number)
{
    while (knows(c->config.before, number))
        c = c->config.before;
    return c;
}

static struct np_context *next_mirror(const struct np_context *x, uint32_t number)
{
    return knows(x->after, number) ? x->after : NULL;
}

/* What the others that know a layer say of it. */
struct mirrored {
    bool away;   /* it is on a device of theirs, or on its way there or off */
    bool wanted; /* a task of theirs waits for it */
    bool sooner; /* they want it before this one does */
};

static struct mirrored mirrored(struct np_context *c, uint32_t l)
{
    uint32_t number = c->config.first + l;
    uint64_t first = c->layers[l].first;
    struct mirrored m = {.away = false};
    for (struct np_context *x = first_mirror(c, number); x; x = next_mirror(x, number)) {
        const struct layer *layer = &x->layers[number - x->config.first];
        if (x == c)
            continue;
        m.away |= layer->state != ABSENT;
        m.wanted |= x->wanted == number - x->config.first;
        if (layer->first != NEVER)
            m.sooner |=
                first == NEVER || visit_at(x, layer->first)->step < visit_at(c, first)->step;
    }
    return m;
}

/* Enters a layer that is here and not in use among those that may go, or corrects its place. */
static void offer(struct np_context *c, uint32_t l)
{
    const struct layer *layer = &c->layers[l];
    uint64_t next = c->config.policy == NP_CONTEXT_LRU ? NEVER : layer->first;
    struct mirrored m;
    if (layer->state != HERE || layer->in_use || c->wanted == l)
        return;
    m = mirrored(c, l);
    if (m.sooner || m.wanted)
        next = ELSEWHERE;
    np_victims_put(&c->victims, (struct np_victim){next, layer->used, l});
}

/* Something has changed for a layer: who has it may have to give it up, who passed it over when it
 * fetched ahead may fetch it now. */
static void reconsider(struct np_context *c, uint32_t l)
{
    uint32_t number = c->config.first + l;
    for (struct np_context *x = first_mirror(c, number); x; x = next_mirror(x, number)) {
        uint32_t own = number - x->config.first;
        if (x != c && x->layers[own].first < x->ahead)
            x->ahead = x->layers[own].first;
        offer(x, own);
    }
}

/* --- visits --------------------------------------------------------------------------------- */

static bool begins_before(const struct visit *v, uint64_t step, enum np_context_pass pass)
{
    return v->step != step ? v->step < step : v->pass < pass;
}

static enum np_status grow(struct np_context *c, struct np_error *err)
{
    uint64_t mask = 2 * c->mask + 1;
    struct visit *more;
    enum np_status status = np_zalloc(&more, mask + 1, sizeof *more, err);
    if (status != NP_OK)
        return status;
    for (uint64_t i = c->begin; i < c->end; i++)
        more[i & mask] = *visit_at(c, i);
    free(c->visits);
    c->visits = more;
    c->mask = mask;
    return NP_OK;
}

enum np_status np_context_expect(struct np_context *c, uint32_t layer, uint64_t step,
                                 enum np_context_pass pass, uint32_t tasks, struct np_error *err)
{
    uint32_t l = layer - c->config.first;
    struct layer *known = &c->layers[l];
    struct visit visit = {.step = step, .next = NEVER, .layer = l, .left = tasks, .pass = pass};
    enum np_status status = NP_OK;
    if (!c->bytes[l] ||
        (known->begun &&
         !begins_before(&(struct visit){.step = known->step, .pass = known->pass}, step, pass)))
        return NP_OK;
    if (c->end - c->begin > c->mask)
        NP_TRY(grow(c, err));
    *visit_at(c, c->end) = visit;
    if (known->first == NEVER)
        known->first = c->end;
    else
        visit_at(c, known->last)->next = c->end;
    known->last = c->end++;
    if (known->first == known->last)
        reconsider(c, l);
out:
    return status;
}

/* The layer's earliest visit is over. */
static void end_visit(struct np_context *c, uint32_t l)
{
    struct layer *layer = &c->layers[l];
    struct visit *visit = visit_at(c, layer->first);
    visit->left = 0;
    layer->first = visit->next;
    while (c->begin < c->end && visit_at(c, c->begin)->left == 0)
        c->begin++;
    if (c->ahead < c->begin)
        c->ahead = c->begin;
}

/* The layer's earliest visit is this one. */
static bool is_first(const struct np_context *c, uint32_t l, uint64_t step,
                     enum np_context_pass pass)
{
    uint64_t first = c->layers[l].first;
    return first != NEVER && visit_at(c, first)->step == step && visit_at(c, first)->pass == pass;
}

/* The first task of a visit: those before it are over, foretold wrongly or not at all. */
static void begin_visit(struct np_context *c, uint32_t l, uint64_t step, enum np_context_pass pass)
{
    struct layer *layer = &c->layers[l];
    while (layer->first != NEVER && begins_before(visit_at(c, layer->first), step, pass))
        end_visit(c, l);
    if (layer->first >= c->frontier && is_first(c, l, step, pass))
        c->frontier = layer->first + 1;
    layer->begun = true;
    layer->step = step;
    layer->pass = pass;
    if (layer->counted[pass] == step + 1) /* with several micro-batches the passes take turns */
        return;
    layer->counted[pass] = step + 1;
    if (layer->state == HERE)
        c->sums.hits++;
    else if (layer->state == COMING)
        c->sums.late++;
    else
        c->sums.misses++;
}

bool np_context_enter(struct np_context *c, uint32_t number, uint64_t step,
                      enum np_context_pass pass)
{
    uint32_t l = number - c->config.first;
    struct layer *layer = &c->layers[l];
    if (!c->bytes[l])
        return true;
    assert(!layer->in_use && (c->wanted == NO_LAYER || c->wanted == l));
    if (step != NP_NO_STEP && !(layer->begun && layer->step == step && layer->pass == pass))
        begin_visit(c, l, step, pass);
    c->wanted = layer->state == HERE ? NO_LAYER : l;
    if (layer->state != HERE) {
        reconsider(c, l);
        return false;
    }
    np_victims_remove(&c->victims, l);
    layer->in_use = true;
    return true;
}

void np_context_leave(struct np_context *c, uint32_t number, bool updated)
{
    uint32_t l = number - c->config.first;
    struct layer *layer = &c->layers[l];
    if (!c->bytes[l])
        return;
    assert(layer->in_use);
    layer->in_use = false;
    layer->dirty |= updated;
    layer->used = ++c->clock;
    if (is_first(c, l, layer->step, layer->pass) &&
        (updated || --visit_at(c, layer->first)->left == 0))
        end_visit(c, l);
    reconsider(c, l);
}

/* --- copies --------------------------------------------------------------------------------- */

/* The first of those that may go, goes. */
static void begin_leaving(struct np_context *c, struct np_copy *copy)
{
    uint32_t l = c->victims.entry[0].item;
    struct layer *layer = &c->layers[l];
    np_victims_remove(&c->victims, l);
    if (layer->first < c->ahead)
        c->ahead = layer->first;
    layer->state = LEAVING;
    c->leaving += c->bytes[l];
    *copy = (struct np_copy){layer->dirty ? NP_COPY_WRITE : NP_COPY_DROP, c->config.first + l};
    if (layer->dirty)
        c->sums.bytes_out += c->bytes[l];
}

/* Room for a layer that is needed at visit `index`, 0: now. True if it is there; else, if *started,
 * the copy makes some. */
static bool has_room(struct np_context *c, uint64_t bytes, uint64_t index, bool *started,
                     struct np_copy *copy)
{
    *started = false;
    if (c->used + bytes <= c->config.capacity)
        return true;
    if (c->used - c->leaving + bytes <= c->config.capacity || c->victims.count == 0)
        return false;
    if (c->layers[c->victims.entry[0].item].first <= index)
        return false;
    begin_leaving(c, copy);
    *started = true;
    return false;
}

/* A layer that is not here is passed over when others are fetched ahead: reconsider comes back to
 * it. */
static bool is_others(struct np_context *c, uint32_t l)
{
    struct mirrored m = mirrored(c, l);
    return m.away || m.wanted || m.sooner;
}

/* The layer to bring next, and the visit it is for; NO_LAYER: none, or it is still leaving. */
static uint32_t next_target(struct np_context *c, uint64_t *index)
{
    *index = 0;
    if (c->wanted != NO_LAYER && c->layers[c->wanted].state != COMING)
        return c->layers[c->wanted].state == ABSENT && !mirrored(c, c->wanted).away ? c->wanted
                                                                                    : NO_LAYER;
    if (c->config.policy != NP_CONTEXT_AHEAD)
        return NO_LAYER;
    for (; c->ahead < c->end && c->ahead < c->frontier + c->config.distance; c->ahead++) {
        const struct visit *visit = visit_at(c, c->ahead);
        enum state state = c->layers[visit->layer].state;
        *index = c->ahead;
        if (visit->left == 0 || state == HERE || state == COMING)
            continue;
        if (!is_others(c, visit->layer))
            return state == ABSENT ? visit->layer : NO_LAYER;
    }
    return NO_LAYER;
}

bool np_context_next(struct np_context *c, struct np_copy *copy)
{
    uint64_t index;
    uint32_t l;
    bool started;
    struct layer *layer;
    if (c->victims.count > 0 && c->victims.entry[0].next == ELSEWHERE) {
        begin_leaving(c, copy);
        return true;
    }
    l = next_target(c, &index);
    if (l == NO_LAYER)
        return false;
    if (!has_room(c, c->bytes[l], index, &started, copy))
        return started;
    layer = &c->layers[l];
    layer->state = COMING;
    c->used += c->bytes[l];
    if (c->sums.peak_bytes < c->used)
        c->sums.peak_bytes = c->used;
    *copy = (struct np_copy){layer->stored ? NP_COPY_FETCH : NP_COPY_MAKE, c->config.first + l};
    if (layer->stored)
        c->sums.bytes_in += c->bytes[l];
    else
        c->sums.made++;
    return true;
}

void np_context_copied(struct np_context *c, const struct np_copy *copy)
{
    uint32_t l = copy->layer - c->config.first;
    struct layer *layer = &c->layers[l];
    if (copy->kind == NP_COPY_FETCH || copy->kind == NP_COPY_MAKE) {
        assert(layer->state == COMING);
        layer->state = HERE;
        offer(c, l);
        return;
    }
    assert(layer->state == LEAVING);
    layer->state = ABSENT;
    layer->dirty = false;
    c->leaving -= c->bytes[l];
    c->used -= c->bytes[l];
    if (copy->kind == NP_COPY_WRITE)
        np_context_stored(c, copy->layer);
    reconsider(c, l);
}

void np_context_stored(struct np_context *c, uint32_t layer)
{
    assert(c->layers[layer - c->config.first].state == ABSENT);
    for (struct np_context *x = first_mirror(c, layer); x; x = next_mirror(x, layer))
        x->layers[layer - x->config.first].stored = true;
}

bool np_context_may_wait(struct np_context *c, uint32_t layer)
{
    uint32_t l = layer - c->config.first;
    enum state state = c->layers[l].state;
    return state == HERE || state == LEAVING || mirrored(c, l).away;
}

struct np_context_sums np_context_sums(const struct np_context *c)
{
    return c->sums;
}

uint64_t np_context_bytes(const struct np_context *c, uint32_t layer)
{
    return c->bytes[layer - c->config.first];
}

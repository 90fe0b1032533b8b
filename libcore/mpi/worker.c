/* Workers: what they are ordered is what their crews are told, as the engine of one process would
 * tell them. */
#include "mpi/worker.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "mpi/calls.h"

/* Somebody who waits for a crew. */
struct waiter {
    struct waiter *next;
    int rank;
    uint64_t box, count;
};

/* What a crew has been told, and is not known to have done: a task, or a stamp. */
struct told {
    char *notice; /* of the task; NULL: a stamp */
    size_t bytes;
    uint64_t number; /* the task's, for the crew; or rank 0's, of the stamp */
};

enum { TOLD = 4 * NP_CREW_AHEAD };

struct np_worker {
    struct np_worker *next;
    struct np_workers *all;
    struct np_desk_crew config;
    struct np_crew *crew;
    struct np_box orders;
    struct told told[TOLD];
    struct np_stamp *stamps[TOLD]; /* of `told`, in turn */
    uint64_t begun, settled;       /* numbers of `told` */
    char *notice;                  /* of the task that it is being told */
    uint64_t watch;                /* of that: watches so far */
    bool *finite, nobodys; /* what is found goes there: a verdict in `notice`, or nobody's */
    uint64_t count;        /* of its last stamp that is settled */
    struct waiter *waiters;
    enum np_status status;
    struct np_error err;
    pthread_t thread;
    bool started;
};

static void *own(uint64_t at)
{
    return np_far_pointer(np_far_own(at));
}

/* The crew of that name; NULL: there is none. The lock is held. */
static struct np_worker *worker_of(const struct np_workers *all, uint64_t name)
{
    struct np_worker *w = all->first;
    while (w && np_box_name(&w->orders) != name)
        w = w->next;
    return w;
}

/* --- what it is told ------------------------------------------------------------------------- */

static void remember(struct np_worker *w, enum np_status status, const struct np_error *err)
{
    if (status == NP_OK || w->status != NP_OK)
        return;
    w->status = status;
    w->err = *err;
}

/* Those who wait for the stamp hear of it. */
static void reach(struct np_worker *w, uint64_t count)
{
    struct waiter **at = &w->waiters, *waiter;
    struct np_workers *all = w->all;
    struct np_error err;
    pthread_mutex_lock(&all->lock);
    w->count = count;
    while ((waiter = *at)) {
        if (waiter->count > count) {
            at = &waiter->next;
            continue;
        }
        *at = waiter->next;
        remember(w, np_desk_answer(all->post, waiter->rank, waiter->box, NP_OK, 0, NULL, &err),
                 &err);
        free(waiter);
    }
    pthread_cond_broadcast(&all->stamped);
    pthread_mutex_unlock(&all->lock);
}

static size_t verdict_bytes(const struct np_worker *w)
{
    return np_order_padded((size_t)w->config.watches);
}

/* Nothing has been found yet, and nobody watches. */
static enum np_status begin_task(struct np_worker *w, struct np_error *err)
{
    size_t before = sizeof(struct np_notice);
    size_t bytes = before + verdict_bytes(w) + (size_t)w->config.found_bytes;
    enum np_status status = np_zalloc(&w->notice, bytes, 1, err);
    if (status != NP_OK)
        return status;
    memset(w->notice + before, true, (size_t)w->config.watches);
    w->finite = &w->nobodys;
    w->watch = 0;
    return NP_OK;
}

static void watch(struct np_worker *w)
{
    w->finite = (bool *)(w->notice + sizeof(struct np_notice) + w->watch++);
    np_crew_watch(w->crew, w->finite);
}

/* Says what a task has come to. */
static enum np_status notify(struct np_worker *w, const struct told *told, struct np_error *err)
{
    struct np_head head = {.bytes = told->bytes, .d = w->config.notices};
    struct np_notice notice = {.status = w->status};
    if (w->status != NP_OK)
        snprintf(notice.text, sizeof notice.text, "%.*s", (int)sizeof notice.text - 1, w->err.msg);
    memcpy(told->notice, &notice, sizeof notice);
    return np_post_send(w->all->post, 0, &head, told->notice, err);
}

/* Waits for the first of what the crew has been told. */
static enum np_status settle(struct np_worker *w, struct np_error *err)
{
    uint64_t i = w->settled++ % TOLD;
    const struct told *told = &w->told[i];
    struct np_error why;
    if (told->notice) {
        remember(w, np_crew_await(w->crew, told->number, &why), &why);
        return notify(w, told, err);
    }
    remember(w, np_stamp_await(w->crew, w->stamps[i], &why), &why);
    reach(w, told->number);
    return NP_OK;
}

static enum np_status settle_all(struct np_worker *w, struct np_error *err)
{
    enum np_status status = NP_OK;
    while (w->settled < w->begun && status == NP_OK)
        status = settle(w, err);
    return status;
}

/* What it has now been told: done, where the device is not apart. */
static enum np_status add_told(struct np_worker *w, struct told told, struct np_error *err)
{
    uint64_t i = w->begun++ % TOLD;
    w->told[i] = told;
    if (!told.notice)
        np_crew_stamp(w->crew, w->stamps[i]);
    if (!w->all->device->ops->apart)
        return settle_all(w, err);
    return w->begun - w->settled < TOLD ? NP_OK : settle(w, err);
}

static enum np_status after(struct np_worker *w, const struct np_order_after *a,
                            struct np_error *err)
{
    struct np_workers *all = w->all;
    struct np_head head = {.a = NP_DESK_AFTER, .bytes = sizeof *a};
    struct np_worker *other;
    void *body;
    enum np_status status;
    NP_TRY(settle_all(w, err)); /* who is waited for may wait for that */
    if ((int)a->rank != np_post_wire(all->post)->rank) {
        NP_TRY(np_alloc(&body, 1, sizeof *a, err));
        memcpy(body, a, sizeof *a);
        return np_desk_ask(all->post, (int)a->rank, head, body, NULL, err);
    }
    pthread_mutex_lock(&all->lock);
    other = worker_of(all, a->crew);
    while (other && other->count < a->count && !all->over)
        pthread_cond_wait(&all->stamped, &all->lock);
    pthread_mutex_unlock(&all->lock);
    if (!other)
        status = np_fail(err, NP_EIO, "a crew waits for one that is not there");
out:
    return status;
}

/* Between the parts, memory of a device that is apart, and the host's that stands for them. */
static enum np_status move_parts(struct np_worker *w, const struct np_order_part *from,
                                 const struct np_post_part *parts, size_t count, bool out,
                                 struct np_error *err)
{
    enum np_status status = NP_OK;
    for (size_t i = 0; i < count; i++)
        NP_TRY(np_device_copy(w->all->device, out ? parts[i].here : own(from[i].here),
                              out ? own(from[i].here) : parts[i].here, parts[i].bytes, err));
out:
    return status;
}

static enum np_status carry(struct np_worker *w, const struct np_order_carry *c,
                            struct np_error *err)
{
    const struct np_order_part *from = (const struct np_order_part *)(c + 1);
    bool apart = w->all->device->ops->apart;
    struct np_post *post = w->all->post;
    struct np_post_part *parts = NULL;
    size_t count = (size_t)c->count, bytes = 0;
    char *host = NULL;
    enum np_status status;
    NP_TRY(settle_all(w, err));
    NP_TRY(np_alloc(&parts, count, sizeof *parts, err));
    for (size_t i = 0; i < count; i++)
        bytes += (size_t)from[i].bytes;
    if (apart)
        NP_TRY(np_alloc(&host, bytes, 1, err));
    for (size_t i = 0, at = 0; i < count; at += (size_t)from[i++].bytes)
        parts[i] = (struct np_post_part){apart ? host + at : own(from[i].here),
                                         np_far_own(from[i].there), from[i].bytes};
    if (apart && c->puts)
        NP_TRY(move_parts(w, from, parts, count, true, err));
    if (c->puts)
        status = np_post_put(post, (int)c->rank, parts, count, err);
    else
        status = np_post_get(post, (int)c->rank, parts, count, err);
    if (apart && !c->puts && status == NP_OK)
        status = move_parts(w, from, parts, count, false, err);
out:
    free(host);
    free(parts);
    return status;
}

/* What kernels have found is fetched, and cleared for the next task. */
struct finding {
    const struct np_kernels *kernels;
    float *to, *found;
    size_t floats;
};

static void fetch(struct np_team *team, void *argument)
{
    const struct finding *f = argument;
    f->kernels->copy(team, f->to, f->found, f->floats);
    if (team->size > 1)
        np_team_wait(team);
    f->kernels->fill(team, f->found, f->floats, 0);
}

static void clear(struct np_team *team, void *argument)
{
    const struct finding *f = argument;
    f->kernels->fill(team, f->found, f->floats, 0);
}

static enum np_status mark(struct np_worker *w, uint64_t reply_bytes, struct np_error *err)
{
    struct told told = {.notice = w->notice};
    struct finding finding = {.kernels = w->all->kernels, .found = own(w->config.found)};
    char *replies = w->notice + sizeof(struct np_notice) + verdict_bytes(w);
    enum np_status status;
    told.bytes = (size_t)(replies - w->notice) + (size_t)reply_bytes;
    finding.floats = (size_t)reply_bytes / sizeof(float);
    if (reply_bytes && w->status == NP_OK) {
        finding.to = np_crew_reply(w->crew, replies, (size_t)reply_bytes);
        np_crew_run(w->crew, fetch, &finding);
    }
    told.number = np_crew_mark(w->crew, NULL);
    w->notice = NULL;
    NP_TRY(add_told(w, told, err));
    NP_TRY(begin_task(w, err));
out:
    return status;
}

static enum np_status carry_out(struct np_worker *w, const struct np_order *order,
                                struct np_error *err)
{
    const struct np_order_send *send = (const struct np_order_send *)(order + 1);
    void *from;
    switch ((enum np_order_kind)order->kind) {
    case NP_ORDER_SEND:
        from = np_crew_fill(w->crew, own(send->to), (size_t)send->bytes);
        memcpy(from, send + 1, (size_t)send->bytes);
        np_crew_send(w->crew, own(send->to), from, (size_t)send->bytes);
        return NP_OK;
    case NP_ORDER_WATCH:
        watch(w);
        return NP_OK;
    case NP_ORDER_AFTER:
        return after(w, (const struct np_order_after *)(order + 1), err);
    case NP_ORDER_CARRY:
        return carry(w, (const struct np_order_carry *)(order + 1), err);
    default:
        return np_fail(err, NP_EIO, "an order is damaged (a bug in naspipe)");
    }
}

/* Calls that follow each other. */
struct calls {
    const struct np_kernels *kernels;
    const char *at, *end;
    atomic_bool not_finite;
};

static void run_calls(struct np_team *team, void *argument)
{
    struct calls *calls = argument;
    for (const char *at = calls->at; at < calls->end;) {
        const struct np_order *order = (const struct np_order *)at;
        if (!np_call_run(team, calls->kernels, order))
            atomic_store_explicit(&calls->not_finite, true, memory_order_relaxed);
        if (team->size > 1)
            np_team_wait(team);
        at += sizeof *order + order->bytes;
    }
}

static void run_all(struct np_worker *w, const char *at, const char *end)
{
    struct calls calls = {.kernels = w->all->kernels, .at = at, .end = end};
    atomic_init(&calls.not_finite, false);
    np_crew_run(w->crew, run_calls, &calls);
    if (atomic_load(&calls.not_finite))
        *w->finite = false;
}

/* What failed stays so: nothing is computed any more, and every task says it. */
static enum np_status follow(struct np_worker *w, const char *at, const char *end, bool *ended,
                             struct np_error *err)
{
    enum np_status status = NP_OK;
    while (at < end && status == NP_OK) {
        const struct np_order *order = (const struct np_order *)at;
        const char *calls_end = np_calls_end(at, end);
        struct np_error why;
        at += sizeof *order + order->bytes;
        if (order->kind == NP_ORDER_MARK) {
            status = mark(w, *(const uint64_t *)(order + 1), err);
        } else if (order->kind == NP_ORDER_STAMP) {
            status = add_told(w, (struct told){.number = *(const uint64_t *)(order + 1)}, err);
        } else if (order->kind == NP_ORDER_END) {
            *ended = true;
        } else if (w->status == NP_OK && calls_end >= at) {
            run_all(w, (const char *)order, calls_end);
            at = calls_end;
        } else if (w->status == NP_OK) {
            remember(w, carry_out(w, order, &why), &why);
        }
    }
    return status;
}

/* Nothing of the crew's is under way any more: rank 0 may release what it has used. */
static enum np_status say_ended(struct np_worker *w, uint64_t box, struct np_error *err)
{
    struct np_error why;
    enum np_status status;
    NP_TRY(settle_all(w, err));
    remember(w, np_crew_finish(w->crew, &why), &why); /* of what no mark has followed */
    status = np_desk_answer(w->all->post, 0, box, NP_OK, 0, NULL, err);
out:
    return status;
}

/* Where nothing can be told any more, the post fails, and with it whoever trains. */
static enum np_status work(struct np_worker *w, struct np_error *err)
{
    bool ended = false;
    enum np_status status;
    NP_TRY(begin_task(w, err));
    while (!ended) {
        struct np_letter *letter;
        NP_TRY(np_post_take(w->all->post, &w->orders, w->settled == w->begun, &letter, err));
        if (!letter) {
            NP_TRY(settle(w, err));
            continue;
        }
        status = follow(w, letter->body, letter->body + letter->head.bytes, &ended, err);
        if (ended && status == NP_OK)
            status = say_ended(w, letter->head.c, err);
        free(letter);
        NP_TRY(status);
    }
out:
    return status;
}

static void *worker_main(void *argument)
{
    struct np_worker *w = argument;
    struct np_error err;
    enum np_status status;
    w->status = np_float_check(&w->err);
    status = work(w, &err);
    if (status != NP_OK)
        np_post_fail(w->all->post, status, &err);
    return NULL;
}

/* --- the workers ----------------------------------------------------------------------------- */

enum np_status np_worker_new(struct np_workers *all, const struct np_desk_crew *given,
                             uint64_t *name, struct np_error *err)
{
    struct np_worker *w = NULL;
    struct np_crew_config config;
    struct finding finding;
    enum np_status status;
    NP_TRY(np_zalloc(&w, 1, sizeof *w, err));
    w->config = *given;
    w->all = all;
    np_box_init(&w->orders);
    pthread_mutex_lock(&all->lock);
    w->next = all->first;
    all->first = w;
    pthread_mutex_unlock(&all->lock);
    config = (struct np_crew_config){.size = (int)w->config.size,
                                     .scratch = own(w->config.scratch),
                                     .scratch_bytes = (size_t)w->config.scratch_bytes,
                                     .fill_bytes = (size_t)w->config.fill_bytes,
                                     .reply_bytes = (size_t)w->config.found_bytes,
                                     .watches = (size_t)w->config.watches,
                                     .replies = 1};
    NP_TRY(np_crew_new(&w->crew, all->device, &config, err));
    for (int i = 0; i < TOLD; i++)
        NP_TRY(np_stamp_new(&w->stamps[i], w->crew, err));
    finding = (struct finding){.kernels = all->kernels,
                               .found = own(w->config.found),
                               .floats = (size_t)w->config.found_bytes / sizeof(float)};
    np_crew_run(w->crew, clear, &finding);
    errno = pthread_create(&w->thread, NULL, worker_main, w);
    if (errno)
        NP_TRY(np_fail_errno(err, "cannot start a crew's thread"));
    w->started = true;
    *name = np_box_name(&w->orders);
out:
    return status;
}

enum np_status np_worker_tell(struct np_workers *all, const struct np_order_after *stamp, int rank,
                              uint64_t box, struct np_error *err)
{
    struct waiter *waiter = NULL;
    struct np_worker *w;
    enum np_status status;
    NP_TRY(np_zalloc(&waiter, 1, sizeof *waiter, err));
    *waiter = (struct waiter){NULL, rank, box, stamp->count};
    pthread_mutex_lock(&all->lock);
    w = worker_of(all, stamp->crew);
    if (w && w->count < stamp->count) {
        waiter->next = w->waiters;
        w->waiters = waiter;
        waiter = NULL;
    }
    pthread_mutex_unlock(&all->lock);
    if (!w)
        status = np_fail(err, NP_EIO, "a crew waits for one that is not there");
    else if (waiter)
        status = np_desk_answer(all->post, rank, box, NP_OK, 0, NULL, err);
out:
    free(waiter);
    return status;
}

static void worker_free(struct np_worker *w)
{
    struct waiter *next;
    for (; w->waiters; w->waiters = next) {
        next = w->waiters->next;
        free(w->waiters);
    }
    for (int i = 0; i < TOLD; i++)
        np_stamp_free(w->stamps[i], w->crew);
    np_crew_free(w->crew);
    np_box_clear(&w->orders);
    for (; w->settled < w->begun; w->settled++)
        free(w->told[w->settled % TOLD].notice);
    free(w->notice);
    free(w);
}

void np_workers_init(struct np_workers *all, struct np_post *post, const struct np_device *device,
                     const struct np_kernels *kernels)
{
    *all = (struct np_workers){.post = post, .device = device, .kernels = kernels};
    pthread_mutex_init(&all->lock, NULL);
    pthread_cond_init(&all->stamped, NULL);
}

void np_workers_end(struct np_workers *all)
{
    struct np_worker *next;
    pthread_mutex_lock(&all->lock);
    all->over = true;
    pthread_cond_broadcast(&all->stamped);
    pthread_mutex_unlock(&all->lock);
    for (struct np_worker *w = all->first; w; w = w->next) /* they look at one another */
        if (w->started)
            pthread_join(w->thread, NULL);
    for (; all->first; all->first = next) {
        next = all->first->next;
        worker_free(all->first);
    }
    pthread_cond_destroy(&all->stamped);
    pthread_mutex_destroy(&all->lock);
}

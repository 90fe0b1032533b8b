/* The desk of a rank: its memory, and crews that do as they are ordered. */
#include "mpi/desk.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "mpi/calls.h"
#include "num/device.h"

/* Somebody who waits for a crew. */
struct waiter {
    struct waiter *next;
    int rank;
    uint64_t box, count;
};

struct desk;

/* A crew, with the thread that is its first member. It stays when it has ended, for stamps. */
struct worker {
    struct worker *next;
    struct desk *desk;
    struct np_desk_crew config;
    struct np_crew *crew;
    struct np_box orders, answers;
    bool *finite; /* [1 + watches]: nobody watches the first */
    uint32_t watch;
    uint64_t count; /* of its last stamp */
    struct waiter *waiters;
    enum np_status status;
    struct np_error err;
    pthread_t thread;
    bool started;
};

struct desk {
    struct np_post *post;
    const struct np_kernels *kernels;
    pthread_mutex_t lock; /* of the list of workers, their counts and waiters */
    pthread_cond_t stamped;
    struct worker *workers;
    bool over; /* there is no post any more */
};

static void *own(uint64_t at)
{
    return np_far_pointer(np_far_own(at));
}

static enum np_status answer(struct desk *desk, int rank, uint64_t box, enum np_status status,
                             uint64_t value, const struct np_error *why, struct np_error *err)
{
    struct np_head head = {.a = status, .b = value, .d = box};
    char *text = NULL;
    if (status != NP_OK && np_strdup(&text, why->msg, NULL) == NP_OK)
        head.bytes = strlen(text) + 1;
    return np_post_send(desk->post, rank, &head, text, err);
}

enum np_status np_desk_ask(struct np_post *post, int rank, struct np_head head, void *body,
                           uint64_t *value, struct np_error *err)
{
    struct np_letter *letter = NULL;
    struct np_box box;
    enum np_status status;
    np_box_init(&box);
    head.c = np_box_name(&box);
    NP_TRY(np_post_send(post, rank, &head, body, err));
    NP_TRY(np_post_take(post, &box, true, &letter, err));
    status = (enum np_status)letter->head.a;
    if (value)
        *value = letter->head.b;
    if (status != NP_OK)
        np_fail(err, status, "rank %d: %s", rank, letter->head.bytes ? letter->body : "no memory");
out:
    free(letter);
    np_box_clear(&box);
    return status;
}

/* The crew of that name; NULL: there is none. The lock is held. */
static struct worker *worker_of(const struct desk *desk, uint64_t name)
{
    struct worker *w = desk->workers;
    while (w && np_box_name(&w->orders) != name)
        w = w->next;
    return w;
}

/* --- crews ----------------------------------------------------------------------------------- */

static void stamp(struct worker *w, uint64_t count)
{
    struct waiter **at = &w->waiters, *waiter;
    struct desk *desk = w->desk;
    pthread_mutex_lock(&desk->lock);
    w->count = count;
    while ((waiter = *at)) {
        if (waiter->count > count) {
            at = &waiter->next;
            continue;
        }
        *at = waiter->next;
        if (w->status == NP_OK)
            w->status = answer(desk, waiter->rank, waiter->box, NP_OK, 0, NULL, &w->err);
        free(waiter);
    }
    pthread_cond_broadcast(&desk->stamped);
    pthread_mutex_unlock(&desk->lock);
}

static enum np_status after(struct worker *w, const struct np_order_after *a, struct np_error *err)
{
    struct desk *desk = w->desk;
    struct np_head head = {.a = NP_DESK_AFTER, .bytes = sizeof *a};
    struct worker *other;
    void *body;
    enum np_status status;
    if ((int)a->rank != np_post_rank(desk->post)) {
        NP_TRY(np_alloc(&body, 1, sizeof *a, err));
        memcpy(body, a, sizeof *a);
        return np_desk_ask(desk->post, (int)a->rank, head, body, NULL, err);
    }
    status = NP_OK;
    pthread_mutex_lock(&desk->lock);
    other = worker_of(desk, a->crew);
    while (other && other->count < a->count && !desk->over)
        pthread_cond_wait(&desk->stamped, &desk->lock);
    pthread_mutex_unlock(&desk->lock);
    if (!other)
        status = np_fail(err, NP_EIO, "a crew waits for one that is not there");
out:
    return status;
}

static enum np_status carry(struct worker *w, const struct np_order_carry *c, struct np_error *err)
{
    const struct np_order_part *from = (const struct np_order_part *)(c + 1);
    struct np_post_part *parts = NULL;
    enum np_status status;
    NP_TRY(np_alloc(&parts, (size_t)c->count, sizeof *parts, err));
    for (uint64_t i = 0; i < c->count; i++)
        parts[i] =
            (struct np_post_part){own(from[i].here), np_far_own(from[i].there), from[i].bytes};
    status = c->puts ? np_post_put(w->desk->post, (int)c->rank, parts, (size_t)c->count, err)
                     : np_post_get(w->desk->post, (int)c->rank, parts, (size_t)c->count, err);
out:
    free(parts);
    return status;
}

/* Says what a task has come to, and begins the next with nothing found. */
static enum np_status mark(struct worker *w, uint64_t reply_bytes, struct np_error *err)
{
    struct np_notice notice = {.status = w->status, .watches = w->watch};
    size_t verdicts = np_order_padded(w->watch);
    struct np_head head = {.bytes = sizeof notice + verdicts + reply_bytes, .d = w->config.notices};
    char *body, *found = own(w->config.found);
    enum np_status status;
    NP_TRY(np_alloc(&body, (size_t)head.bytes, 1, err));
    if (w->status != NP_OK)
        snprintf(notice.text, sizeof notice.text, "%.*s", (int)sizeof notice.text - 1, w->err.msg);
    memcpy(body, &notice, sizeof notice);
    memset(body + sizeof notice, 0, verdicts);
    memcpy(body + sizeof notice, w->finite + 1, w->watch);
    memcpy(body + sizeof notice + verdicts, found, (size_t)reply_bytes);
    memset(found, 0, (size_t)reply_bytes);
    memset(w->finite, true, 1 + w->config.watches);
    w->watch = 0;
    status = np_post_send(w->desk->post, 0, &head, body, err);
out:
    return status;
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
        if (!np_call_run(team, calls->kernels, order, order + 1))
            atomic_store_explicit(&calls->not_finite, true, memory_order_relaxed);
        if (team->size > 1)
            np_team_wait(team);
        at += sizeof *order + order->bytes;
    }
}

static const char *end_of_calls(const char *at, const char *end)
{
    while (at < end) {
        const struct np_order *order = (const struct np_order *)at;
        if (order->kind != NP_ORDER_CALL || !np_call_check(order))
            break;
        at += sizeof *order + order->bytes;
    }
    return at;
}

static enum np_status carry_out(struct worker *w, const struct np_order *order,
                                struct np_error *err)
{
    const struct np_order_send *send = (const struct np_order_send *)(order + 1);
    const uint64_t *value = (const uint64_t *)(order + 1);
    switch ((enum np_order_kind)order->kind) {
    case NP_ORDER_SEND:
        memcpy(own(send->to), send + 1, (size_t)send->bytes);
        return NP_OK;
    case NP_ORDER_WATCH:
        w->watch++;
        return NP_OK;
    case NP_ORDER_MARK:
        return mark(w, *value, err);
    case NP_ORDER_STAMP:
        stamp(w, *value);
        return NP_OK;
    case NP_ORDER_AFTER:
        return after(w, (const struct np_order_after *)(order + 1), err);
    case NP_ORDER_CARRY:
        return carry(w, (const struct np_order_carry *)(order + 1), err);
    default:
        return np_fail(err, NP_EIO, "an order is damaged (a bug in naspipe)");
    }
}

/* What failed stays so: nothing is computed any more, and every task says it. True at the end. */
static bool follow(struct worker *w, const char *at, const char *end)
{
    while (at < end) {
        const struct np_order *order = (const struct np_order *)at;
        const char *calls_end = end_of_calls(at, end);
        struct np_error err;
        enum np_status status;
        if (order->kind == NP_ORDER_END)
            return true;
        if (calls_end > at) {
            struct calls calls = {.kernels = w->desk->kernels, .at = at, .end = calls_end};
            atomic_init(&calls.not_finite, false);
            if (w->status == NP_OK)
                np_crew_run(w->crew, run_calls, &calls);
            if (atomic_load(&calls.not_finite))
                w->finite[w->watch] = false;
            at = calls_end;
            continue;
        }
        if (w->status != NP_OK && order->kind != NP_ORDER_MARK && order->kind != NP_ORDER_STAMP) {
            at += sizeof *order + order->bytes;
            continue;
        }
        status = carry_out(w, order, &err);
        if (status != NP_OK && w->status == NP_OK) {
            w->status = status;
            w->err = err;
        }
        at += sizeof *order + order->bytes;
    }
    return false;
}

static void *worker_main(void *argument)
{
    struct worker *w = argument;
    bool ended = false;
    w->status = np_float_check(&w->err);
    while (!ended) {
        struct np_letter *letter;
        struct np_error err;
        if (np_post_take(w->desk->post, &w->orders, true, &letter, &err) != NP_OK)
            break;
        ended = follow(w, letter->body, letter->body + letter->head.bytes);
        if (ended)
            answer(w->desk, 0, letter->head.c, NP_OK, 0, NULL, &err);
        free(letter);
    }
    return NULL;
}

static enum np_status crew_new(struct desk *desk, const struct np_letter *letter, uint64_t *value,
                               struct np_error *err)
{
    struct worker *w = NULL;
    struct np_crew_config config;
    enum np_status status;
    NP_TRY(np_zalloc(&w, 1, sizeof *w, err));
    memcpy(&w->config, letter->body, sizeof w->config);
    w->desk = desk;
    np_box_init(&w->orders);
    pthread_mutex_lock(&desk->lock);
    w->next = desk->workers;
    desk->workers = w;
    pthread_mutex_unlock(&desk->lock);
    NP_TRY(np_alloc(&w->finite, 1 + (size_t)w->config.watches, sizeof *w->finite, err));
    memset(w->finite, true, 1 + (size_t)w->config.watches);
    config = (struct np_crew_config){.size = (int)w->config.size,
                                     .scratch = own(w->config.scratch),
                                     .scratch_bytes = (size_t)w->config.scratch_bytes};
    memset(own(w->config.found), 0, (size_t)w->config.found_bytes);
    NP_TRY(np_crew_new(&w->crew, &np_device_host, &config, err));
    errno = pthread_create(&w->thread, NULL, worker_main, w);
    if (errno)
        NP_TRY(np_fail_errno(err, "cannot start a crew's thread"));
    w->started = true;
    *value = np_box_name(&w->orders);
out:
    return status;
}

/* --- the desk -------------------------------------------------------------------------------- */

static enum np_status wait_for(struct desk *desk, const struct np_letter *letter,
                               struct np_error *err)
{
    const struct np_order_after *a = (const struct np_order_after *)letter->body;
    struct waiter *waiter = NULL;
    struct worker *w;
    enum np_status status;
    NP_TRY(np_zalloc(&waiter, 1, sizeof *waiter, err));
    *waiter = (struct waiter){NULL, (int)letter->head.from, letter->head.c, a->count};
    pthread_mutex_lock(&desk->lock);
    w = worker_of(desk, a->crew);
    if (w && w->count < a->count) {
        waiter->next = w->waiters;
        w->waiters = waiter;
        waiter = NULL;
    }
    pthread_mutex_unlock(&desk->lock);
    if (!w)
        status = np_fail(err, NP_EIO, "a crew waits for one that is not there");
    else if (waiter)
        status = answer(desk, waiter->rank, waiter->box, NP_OK, 0, NULL, err);
out:
    free(waiter);
    return status;
}

/* Rank 0 comes first with this. */
static enum np_status meet(const struct np_letter *letter, struct np_error *err)
{
    char own_build[NP_CALL_BUILD_BYTES], build[NP_CALL_BUILD_BYTES] = "";
    size_t bytes = (size_t)letter->head.bytes;
    np_call_build(own_build);
    memcpy(build, letter->body, bytes < sizeof build ? bytes : sizeof build - 1);
    if (strcmp(own_build, build) == 0)
        return NP_OK;
    return np_fail(err, NP_EINPUT, "it runs naspipe %s, rank 0 runs %s: all must run the same one",
                   own_build, build);
}

static enum np_status serve(struct desk *desk, const struct np_letter *letter, struct np_error *err)
{
    struct np_error why;
    uint64_t value = 0;
    void *block = NULL;
    enum np_status status;
    switch ((enum np_desk_kind)letter->head.a) {
    case NP_DESK_HELLO:
        status = meet(letter, &why);
        break;
    case NP_DESK_ALLOC:
        status = np_device_alloc(&np_device_host, &block, letter->head.b, &why);
        value = (uint64_t)(uintptr_t)block;
        break;
    case NP_DESK_RELEASE:
        np_device_release(&np_device_host, own(letter->head.b));
        return NP_OK;
    case NP_DESK_CREW:
        status = crew_new(desk, letter, &value, &why);
        break;
    case NP_DESK_AFTER:
        return wait_for(desk, letter, err);
    default:
        return np_fail(err, NP_EIO, "rank %u asks for what is not there", letter->head.from);
    }
    return answer(desk, (int)letter->head.from, letter->head.c, status, value, &why, err);
}

static void worker_free(struct worker *w)
{
    struct waiter *next;
    if (w->started)
        pthread_join(w->thread, NULL);
    for (; w->waiters; w->waiters = next) {
        next = w->waiters->next;
        free(w->waiters);
    }
    np_crew_free(w->crew);
    np_box_clear(&w->orders);
    free(w->finite);
    free(w);
}

enum np_status np_desk_serve(struct np_post *post, const struct np_kernels *kernels,
                             struct np_error *err)
{
    struct desk desk = {.post = post, .kernels = kernels};
    struct worker *next;
    enum np_status status;
    bool closes = false;
    pthread_mutex_init(&desk.lock, NULL);
    pthread_cond_init(&desk.stamped, NULL);
    do {
        struct np_letter *letter;
        status = np_post_take(post, np_post_desk(post), true, &letter, err);
        if (status != NP_OK)
            break;
        closes = letter->head.a == NP_DESK_CLOSE;
        if (!closes)
            status = serve(&desk, letter, err);
        free(letter);
    } while (!closes && status == NP_OK);
    if (status != NP_OK) {
        struct np_error why = {status, "a rank's desk has failed"};
        np_post_fail(post, status, err ? err : &why);
    }
    pthread_mutex_lock(&desk.lock);
    desk.over = true;
    pthread_cond_broadcast(&desk.stamped);
    pthread_mutex_unlock(&desk.lock);
    for (; desk.workers; desk.workers = next) {
        next = desk.workers->next;
        worker_free(desk.workers);
    }
    pthread_cond_destroy(&desk.stamped);
    pthread_mutex_destroy(&desk.lock);
    return status;
}

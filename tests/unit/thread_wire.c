/* A queue for every rank. What is sent is copied; what has ended is told the next time, or, of
 * short bodies, at once. */
#include "thread_wire.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "mpi/bell.h"

#define MOST 8
#define SHORT 512

struct item {
    struct item *next;
    struct np_head head;
    void *token; /* of something that has ended */
    char body[];
};

struct queue {
    struct item *first, *last;
};

struct rank {
    struct np_wire base;
    struct hub *hub;
    struct queue come, ended; /* come: under the hub's lock */
    struct item *taken;       /* its body is still to be asked for */
    struct np_bell bell;
    uint32_t heard;
};

struct hub {
    pthread_mutex_t lock;
    int open;
    bool broken;
    size_t longest; /* bytes of a letter, so far */
    struct rank ranks[MOST];
};

static void *must(void *block)
{
    ck_assert_ptr_nonnull(block);
    return block;
}

static void append(struct queue *queue, struct item *item)
{
    if (queue->last)
        queue->last->next = item;
    else
        queue->first = item;
    queue->last = item;
}

static struct item *take(struct queue *queue)
{
    struct item *item = queue->first;
    if (item && !(queue->first = item->next))
        queue->last = NULL;
    return item;
}

static void end(struct rank *r, void *token)
{
    struct item *item = must(calloc(1, sizeof *item));
    item->token = token;
    append(&r->ended, item);
}

static enum np_status wire_send(struct np_wire *base, int to, const struct np_head *head,
                                const void *body, void *token, bool *over, struct np_error *err)
{
    struct rank *r = (struct rank *)base, *other = &r->hub->ranks[to];
    struct item *item = must(calloc(1, sizeof *item + (size_t)head->bytes));
    (void)err;
    item->head = *head;
    item->head.from = (uint32_t)base->rank;
    if (head->bytes)
        memcpy(item->body, body, (size_t)head->bytes);
    *over = head->bytes <= SHORT;
    if (!*over)
        end(r, token);
    pthread_mutex_lock(&r->hub->lock);
    append(&other->come, item);
    if (head->bytes > r->hub->longest)
        r->hub->longest = (size_t)head->bytes;
    np_bell_ring(&other->bell);
    pthread_mutex_unlock(&r->hub->lock);
    return NP_OK;
}

static enum np_status wire_next(struct np_wire *base, struct np_head *head, bool *is,
                                struct np_error *err)
{
    struct rank *r = (struct rank *)base;
    struct item *item;
    (void)err;
    ck_assert_ptr_null(r->taken);
    pthread_mutex_lock(&r->hub->lock);
    item = take(&r->come);
    pthread_mutex_unlock(&r->hub->lock);
    *is = item != NULL;
    if (!item)
        return NP_OK;
    *head = item->head;
    if (head->bytes)
        r->taken = item;
    else
        free(item);
    return NP_OK;
}

static enum np_status wire_body(struct np_wire *base, const struct np_head *head, void *to,
                                void *token, bool *over, struct np_error *err)
{
    struct rank *r = (struct rank *)base;
    (void)err;
    ck_assert_ptr_nonnull(r->taken);
    memcpy(to, r->taken->body, (size_t)head->bytes);
    free(r->taken);
    r->taken = NULL;
    *over = head->bytes <= SHORT;
    if (!*over)
        end(r, token);
    return NP_OK;
}

static enum np_status wire_ended(struct np_wire *base, void **token, struct np_error *err)
{
    struct item *item = take(&((struct rank *)base)->ended);
    (void)err;
    *token = item ? item->token : NULL;
    free(item);
    return NP_OK;
}

static void wire_wait(struct np_wire *base, bool under_way, bool moved)
{
    struct rank *r = (struct rank *)base;
    (void)moved;
    np_bell_wait(&r->bell, &r->heard, under_way ? 20000 : 2000000);
}

static void wire_wake(struct np_wire *base)
{
    np_bell_ring(&((struct rank *)base)->bell);
}

/* Nothing was sent in vain. */
static void drop(const struct hub *hub, struct queue *come)
{
    struct item *item;
    ck_assert(hub->broken || !come->first);
    while ((item = take(come)))
        free(item);
}

static void wire_close(struct np_wire *base, bool failed)
{
    struct hub *hub = ((struct rank *)base)->hub;
    bool last;
    ck_assert(!failed || hub->broken);
    pthread_mutex_lock(&hub->lock);
    last = --hub->open == 0;
    pthread_mutex_unlock(&hub->lock);
    if (!last)
        return;
    for (int i = 0; i < base->ranks; i++)
        drop(hub, &hub->ranks[i].come);
    pthread_mutex_destroy(&hub->lock);
    free(hub);
}

static const struct np_wire_ops thread_ops = {wire_send, wire_next, wire_body, wire_ended,
                                              wire_wait, wire_wake, wire_close};

void thread_wires(struct np_wire **wires, int count)
{
    struct hub *hub;
    ck_assert_int_le(count, MOST);
    ck_assert_int_eq(np_alloc(&hub, 1, sizeof *hub, NULL), NP_OK);
    memset(hub, 0, sizeof *hub);
    pthread_mutex_init(&hub->lock, NULL);
    hub->open = count;
    for (int i = 0; i < count; i++) {
        hub->ranks[i].base = (struct np_wire){&thread_ops, i, count, i, 1};
        hub->ranks[i].hub = hub;
        wires[i] = &hub->ranks[i].base;
    }
}

void thread_wires_break(struct np_wire *wire)
{
    ((struct rank *)wire)->hub->broken = true;
}

size_t thread_wires_longest(struct np_wire *wire)
{
    struct hub *hub = ((struct rank *)wire)->hub;
    size_t longest;
    pthread_mutex_lock(&hub->lock);
    longest = hub->longest;
    pthread_mutex_unlock(&hub->lock);
    return longest;
}

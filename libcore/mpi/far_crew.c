/* Crews of ranks: what they are told is written down, and sent when a task or a stamp ends it, or
 * when it has become much. What fails here is found where a task is awaited. */
#include "mpi/far_crew.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "mpi/calls.h"
#include "mpi/desk.h"

enum {
    LINE = 16,       /* bytes: where replies begin */
    MUCH = 24 << 10, /* bytes of orders */
    TASKS = NP_CREW_AHEAD + 1
};

struct reply {
    void *to;
    size_t at, bytes;
};

/* What the host wants to know of a task. */
struct task {
    struct reply *reply;
    bool **watch;
    size_t replies, watches, used; /* used: bytes of replies */
};

struct crew {
    struct np_crew base;
    struct np_post *post;
    int rank;
    uint64_t name; /* there */
    struct np_far_team team;
    struct np_crew_config config;
    struct np_orders orders;
    struct np_box notices;
    uint64_t found; /* replies, there */
    char *fill;
    size_t filled;
    struct reply *replies;
    bool **watches;
    uint64_t marked, awaited, stamped;
    struct task tasks[TASKS];
    enum np_status status; /* the first failure */
    struct np_error err;
};

struct np_stamp {
    struct crew *crew;
    uint64_t count; /* 0: notes nothing */
};

static struct crew *crew_of(struct np_crew *base)
{
    return (struct crew *)base;
}

static struct task *task_of(struct crew *crew, uint64_t before)
{
    return &crew->tasks[before % TASKS];
}

static size_t lines(size_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

/* The box for the answer, or 0. A crew that lacks orders may be waited for by any other, there and
 * here: where they are lost, so is the job. */
static void send_orders(struct crew *crew, uint64_t box)
{
    struct np_head head = {.bytes = crew->orders.used, .c = box, .d = crew->name};
    enum np_status status;
    struct np_error err;
    if (!crew->orders.used && !crew->orders.lost)
        return;
    status = crew->orders.lost ? np_fail(&err, NP_EMEM, "out of memory for orders")
                               : np_post_send(crew->post, crew->rank, &head, crew->orders.at, &err);
    if (crew->orders.lost)
        free(crew->orders.at);
    crew->orders = (struct np_orders){NULL, 0, 0, false};
    if (status != NP_OK)
        np_post_fail(crew->post, status, &err);
    if (status != NP_OK && crew->status == NP_OK) {
        crew->status = status;
        crew->err = err;
    }
}

static void send_much(struct crew *crew)
{
    if (crew->orders.used >= MUCH || crew->orders.lost)
        send_orders(crew, 0);
}

static void add_value(struct crew *crew, enum np_order_kind kind, uint64_t value)
{
    void *at = np_orders_add(&crew->orders, kind, 0, sizeof value);
    if (at)
        memcpy(at, &value, sizeof value);
}

static void begin_task(struct crew *crew)
{
    struct task *task = task_of(crew, crew->marked);
    task->replies = task->watches = task->used = 0;
    crew->filled = 0;
}

/* It has ended when it answers: then nothing of it is on its way. */
void np_far_crew_free(struct np_crew *base)
{
    struct crew *crew = crew_of(base);
    struct np_letter *letter = NULL;
    struct np_error err;
    struct np_box ended;
    if (crew->name) {
        np_box_init(&ended);
        np_orders_add(&crew->orders, NP_ORDER_END, 0, 0);
        send_orders(crew, np_box_name(&ended));
        np_post_take(crew->post, &ended, true, &letter, &err);
        free(letter);
        np_box_clear(&ended);
        np_device_release(
            &(struct np_device){.ops = base->ops, .number = crew->rank, .context = crew->post},
            np_far_pointer(crew->found));
    }
    np_orders_clear(&crew->orders);
    np_box_clear(&crew->notices);
    free(crew->fill);
    free(crew->replies);
    free(crew->watches);
    free(crew);
}

static enum np_status hire(struct crew *crew, const struct np_device *device, struct np_error *err)
{
    struct np_desk_crew *there = NULL;
    size_t found_bytes = lines(crew->config.reply_bytes) + (crew->config.replies + 1) * LINE;
    void *found = NULL;
    enum np_status status;
    NP_TRY(np_device_alloc(device, &found, found_bytes, err));
    crew->found = (uint64_t)(uintptr_t)found;
    NP_TRY(np_zalloc(&there, 1, sizeof *there, err));
    *there = (struct np_desk_crew){.size = (uint64_t)crew->config.size,
                                   .scratch = (uint64_t)(uintptr_t)crew->config.scratch,
                                   .scratch_bytes = crew->config.scratch_bytes,
                                   .found = crew->found,
                                   .found_bytes = found_bytes,
                                   .fill_bytes = lines(crew->config.fill_bytes),
                                   .watches = crew->config.watches,
                                   .notices = np_box_name(&crew->notices)};
    status = np_desk_ask(crew->post, crew->rank,
                         (struct np_head){.a = NP_DESK_CREW, .bytes = sizeof *there}, there,
                         &crew->name, err);
out:
    if (status != NP_OK)
        np_device_release(device, found);
    return status;
}

enum np_status np_far_crew_new(struct np_crew **out, const struct np_device *device,
                               const struct np_crew_config *config, struct np_error *err)
{
    struct crew *crew = NULL;
    enum np_status status;
    NP_TRY(np_zalloc(&crew, 1, sizeof *crew, err));
    crew->base = (struct np_crew){.ops = device->ops, .size = 1};
    crew->post = device->context;
    crew->rank = device->number;
    crew->config = *config;
    np_box_init(&crew->notices);
    NP_TRY(np_alloc(&crew->fill, lines(config->fill_bytes), 1, err));
    NP_TRY(np_zalloc(&crew->replies, TASKS * config->replies, sizeof(struct reply), err));
    NP_TRY(np_zalloc(&crew->watches, TASKS * config->watches, sizeof(bool *), err));
    for (size_t i = 0; i < TASKS; i++) {
        crew->tasks[i].reply = crew->replies + i * config->replies;
        crew->tasks[i].watch = crew->watches + i * config->watches;
    }
    crew->team.team = (struct np_team){.size = 1};
    crew->team.team.scratch = config->scratch;
    crew->team.team.scratch_bytes = config->scratch_bytes;
    crew->team.orders = &crew->orders;
    begin_task(crew);
    NP_TRY(hire(crew, device, err));
    *out = &crew->base;
    crew = NULL;
out:
    if (crew)
        np_far_crew_free(&crew->base);
    return status;
}

void np_far_crew_run(struct np_crew *base, void (*function)(struct np_team *team, void *argument),
                     void *argument)
{
    struct crew *crew = crew_of(base);
    function(&crew->team.team, argument);
    send_much(crew);
}

void *np_far_crew_fill(struct np_crew *base, void *to, size_t bytes)
{
    struct crew *crew = crew_of(base);
    char *at = crew->fill + crew->filled;
    (void)to;
    crew->filled += lines(bytes);
    assert(crew->filled <= lines(crew->config.fill_bytes));
    return at;
}

void np_far_crew_send(struct np_crew *base, void *to, const void *from, size_t bytes)
{
    struct crew *crew = crew_of(base);
    struct np_order_send send = {(uint64_t)(uintptr_t)to, bytes};
    char *at = np_orders_add(&crew->orders, NP_ORDER_SEND, 0, sizeof send + bytes);
    if (at) {
        memcpy(at, &send, sizeof send);
        memcpy(at + sizeof send, from, bytes);
    }
    send_much(crew);
}

void *np_far_crew_reply(struct np_crew *base, void *to, size_t bytes)
{
    struct crew *crew = crew_of(base);
    struct task *task = task_of(crew, crew->marked);
    uint64_t at = crew->found + task->used;
    assert(task->replies < crew->config.replies);
    task->reply[task->replies++] = (struct reply){to, task->used, bytes};
    task->used += lines(bytes);
    return np_far_pointer(at);
}

void np_far_crew_watch(struct np_crew *base, bool *finite)
{
    struct crew *crew = crew_of(base);
    struct task *task = task_of(crew, crew->marked);
    assert(task->watches < crew->config.watches);
    task->watch[task->watches++] = finite;
    np_orders_add(&crew->orders, NP_ORDER_WATCH, 0, 0);
}

static void note(struct crew *crew, struct np_stamp *stamp)
{
    stamp->count = ++crew->stamped;
    add_value(crew, NP_ORDER_STAMP, stamp->count);
}

uint64_t np_far_crew_mark(struct np_crew *base, struct np_stamp *stamp)
{
    struct crew *crew = crew_of(base);
    assert(crew->marked - crew->awaited < NP_CREW_AHEAD);
    if (stamp)
        note(crew, stamp);
    add_value(crew, NP_ORDER_MARK, task_of(crew, crew->marked)->used);
    send_orders(crew, 0);
    crew->marked++;
    begin_task(crew);
    return crew->marked;
}

static enum np_status deliver(const struct crew *crew, const struct task *task,
                              const struct np_letter *letter, struct np_error *err)
{
    const char *at = letter->body;
    struct np_notice notice;
    memcpy(&notice, at, sizeof notice);
    at += sizeof notice;
    if (notice.status != NP_OK)
        return np_fail(err, (enum np_status)notice.status, "rank %d: %s", crew->rank, notice.text);
    for (size_t i = 0; i < task->watches; i++)
        if (!at[i])
            *task->watch[i] = false;
    at += np_order_padded(crew->config.watches);
    for (size_t i = 0; i < task->replies; i++)
        memcpy(task->reply[i].to, at + task->reply[i].at, task->reply[i].bytes);
    return NP_OK;
}

/* Takes the next notice; *is: there was one. */
static enum np_status take(struct crew *crew, bool waits, bool *is, struct np_error *err)
{
    struct np_letter *letter;
    enum np_status status = crew->status;
    *is = false;
    if (status != NP_OK)
        return np_fail(err, status, "%s", crew->err.msg);
    NP_TRY(np_post_take(crew->post, &crew->notices, waits, &letter, &crew->err));
    if (!letter)
        return NP_OK;
    *is = true;
    status = deliver(crew, task_of(crew, crew->awaited++), letter, &crew->err);
    free(letter);
out:
    crew->status = status;
    return status == NP_OK ? NP_OK : np_fail(err, status, "%s", crew->err.msg);
}

/* A failure is told by await. */
bool np_far_crew_reached(struct np_crew *base, uint64_t mark)
{
    struct crew *crew = crew_of(base);
    bool is = true;
    while (crew->awaited < mark && is)
        if (take(crew, false, &is, NULL) != NP_OK)
            return true;
    return crew->awaited >= mark;
}

enum np_status np_far_crew_await(struct np_crew *base, uint64_t mark, struct np_error *err)
{
    struct crew *crew = crew_of(base);
    enum np_status status = NP_OK;
    bool is;
    while (crew->awaited < mark && status == NP_OK)
        status = take(crew, true, &is, err);
    if (status != NP_OK)
        crew->awaited = mark;
    return status;
}

/* --- stamps ---------------------------------------------------------------------------------- */

enum np_status np_far_stamp_new(struct np_stamp **out, struct np_crew *base, struct np_error *err)
{
    enum np_status status = np_zalloc(out, 1, sizeof **out, err);
    if (status == NP_OK)
        (*out)->crew = crew_of(base);
    return status;
}

void np_far_stamp_free(struct np_stamp *stamp, struct np_crew *base)
{
    (void)base;
    free(stamp);
}

void np_far_crew_stamp(struct np_crew *base, struct np_stamp *stamp)
{
    struct crew *crew = crew_of(base);
    note(crew, stamp);
    send_orders(crew, 0);
}

void np_far_crew_after(struct np_crew *base, struct np_stamp *stamp)
{
    struct crew *crew = crew_of(base);
    struct np_order_after after = {(uint64_t)stamp->crew->rank, stamp->crew->name, stamp->count};
    void *at;
    if (!stamp->count || stamp->crew == crew)
        return;
    at = np_orders_add(&crew->orders, NP_ORDER_AFTER, 0, sizeof after);
    if (at)
        memcpy(at, &after, sizeof after);
    send_much(crew); /* one that does nothing else is told so all the time */
}

enum np_status np_far_stamp_await(struct np_crew *base, struct np_stamp *stamp,
                                  struct np_error *err)
{
    struct crew *crew = crew_of(base);
    struct np_order_after *after;
    enum np_status status;
    if (!stamp->count)
        return NP_OK;
    status = np_zalloc(&after, 1, sizeof *after, err);
    if (status != NP_OK)
        return status;
    *after = (struct np_order_after){(uint64_t)crew->rank, crew->name, stamp->count};
    return np_desk_ask(crew->post, crew->rank,
                       (struct np_head){.a = NP_DESK_AFTER, .bytes = sizeof *after}, after, NULL,
                       err);
}

/* --- between ranks --------------------------------------------------------------------------- */

enum np_status np_far_crew_carry(struct np_crew *base, int from, int to,
                                 const struct np_link_part *parts, int count, struct np_error *err)
{
    struct crew *crew = crew_of(base);
    bool puts = crew->rank == from;
    struct np_order_carry carry = {puts, (uint32_t)(puts ? to : from), (uint64_t)count};
    size_t bytes = sizeof carry + (size_t)count * sizeof(struct np_order_part);
    char *at = np_orders_add(&crew->orders, NP_ORDER_CARRY, 0, bytes);
    if (!at) {
        send_orders(crew, 0);
        return np_fail(err, NP_EMEM, "out of memory for orders to rank %d", crew->rank);
    }
    memcpy(at, &carry, sizeof carry);
    at += sizeof carry;
    for (int i = 0; i < count; i++, at += sizeof(struct np_order_part)) {
        uint64_t source = (uint64_t)(uintptr_t)parts[i].from;
        uint64_t target = (uint64_t)(uintptr_t)parts[i].to;
        struct np_order_part part = {puts ? source : target, puts ? target : source,
                                     parts[i].bytes};
        memcpy(at, &part, sizeof part);
    }
    send_much(crew);
    return NP_OK;
}

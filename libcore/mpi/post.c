#include "mpi/post.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "mpi/turn.h"

/* --- its thread ------------------------------------------------------------------------------ */

void np_post_fail(struct np_post *p, enum np_status status, const struct np_error *err)
{
    pthread_mutex_lock(&p->lock);
    if (p->status == NP_OK) {
        p->status = status;
        p->err = *err;
    }
    pthread_mutex_unlock(&p->lock);
}

/* Nothing is left to be done, and nothing will come; the turn is the caller's. */
static bool is_over(struct np_post *p)
{
    bool is;
    pthread_mutex_lock(&p->lock);
    is = p->quit && !p->first && !p->open && np_pulse_is_calm(&p->pulse);
    pthread_mutex_unlock(&p->lock);
    return is;
}

static void *post_main(void *argument)
{
    struct np_post *p = argument;
    bool over = false, under_way, moved;
    prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL); /* waits are no longer than they are */
    while (!over) {
        pthread_mutex_lock(&p->turn);
        over = np_turn_take(p, &moved) != NP_OK || np_turn_mind(p) != NP_OK || is_over(p);
        under_way = p->open > 0;
        pthread_mutex_unlock(&p->turn);
        if (!over)
            p->wire->ops->wait(p->wire, under_way, moved);
    }
    return NULL;
}

/* Something is to be sent: at once, by the caller, if nobody has the wire; else by who has it, or
 * by the thread when it looks again. */
static void hurry(struct np_post *p)
{
    bool left = true, moved;
    if (pthread_mutex_trylock(&p->turn) == 0) {
        left = np_turn_take(p, &moved) == NP_OK && p->open > 0;
        pthread_mutex_unlock(&p->turn);
    }
    if (left)
        p->wire->ops->wake(p->wire);
}

/* --- what others ask ------------------------------------------------------------------------- */

enum np_status np_post_new(struct np_post **out, struct np_wire *wire, uint64_t deadline_ns,
                           struct np_error *err)
{
    struct np_post *p = NULL;
    enum np_status status = np_zalloc(&p, 1, sizeof *p, err);
    if (status != NP_OK) {
        wire->ops->close(wire, true);
        return status;
    }
    p->wire = wire;
    p->device = &np_device_host;
    pthread_mutex_init(&p->turn, NULL);
    pthread_mutex_init(&p->lock, NULL);
    np_box_init(&p->desk);
    p->looked_ns = np_now_ns();
    NP_TRY(np_pulse_init(&p->pulse, wire->rank, wire->ranks, deadline_ns, err));
    errno = pthread_create(&p->thread, NULL, post_main, p);
    if (errno)
        NP_TRY(np_fail_errno(err, "cannot start the thread of MPI"));
    p->started = true;
    *out = p;
    return NP_OK;
out:
    np_post_free(p);
    return status;
}

void np_post_free(struct np_post *p)
{
    struct np_parcel *next;
    if (!p)
        return;
    np_post_rest(p);
    pthread_mutex_lock(&p->lock);
    p->quit = true;
    pthread_mutex_unlock(&p->lock);
    p->wire->ops->wake(p->wire);
    if (p->started)
        pthread_join(p->thread, NULL);
    for (; p->first; p->first = next) {
        next = p->first->next;
        free(p->first->owned ? p->first->body : NULL);
        free(p->first);
    }
    p->wire->ops->close(p->wire, p->status != NP_OK);
    np_box_clear(&p->desk);
    np_pulse_clear(&p->pulse);
    pthread_mutex_destroy(&p->lock);
    pthread_mutex_destroy(&p->turn);
    free(p);
}

void np_post_rest(struct np_post *p)
{
    pthread_mutex_lock(&p->turn);
    p->pulse.rests = true;
    pthread_mutex_unlock(&p->turn);
}

/* Nobody has been told of memory that is here yet. */
void np_post_place(struct np_post *p, const struct np_device *device)
{
    pthread_mutex_lock(&p->lock);
    p->device = device;
    pthread_mutex_unlock(&p->lock);
}

struct np_box *np_post_desk(struct np_post *p)
{
    return &p->desk;
}

const struct np_wire *np_post_wire(const struct np_post *p)
{
    return p->wire;
}

/* Waited for by a clock that nobody sets. */
static void condition_init(pthread_cond_t *what)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(what, &attributes);
    pthread_condattr_destroy(&attributes);
}

void np_box_init(struct np_box *box)
{
    box->first = box->last = NULL;
    condition_init(&box->come);
}

void np_box_clear(struct np_box *box)
{
    struct np_letter *next;
    for (; box->first; box->first = next) {
        next = box->first->next;
        free(box->first);
    }
    pthread_cond_destroy(&box->come);
}

static enum np_status failure(const struct np_post *p, struct np_error *err)
{
    return p->status == NP_OK ? NP_OK : np_fail(err, p->status, "%s", p->err.msg);
}

/* Once the post has failed nobody begins anything with the wire; but who has the turn may be about
 * to tell of what has come, or to fetch it. Then what was waited with may go. */
static void wait_for_turn(struct np_post *p)
{
    pthread_mutex_lock(&p->turn);
    pthread_mutex_unlock(&p->turn);
}

/* Waits, and looks now and then whether the post has failed; the lock is held. */
static void wait_for(struct np_post *p, pthread_cond_t *what)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec++;
    pthread_cond_timedwait(what, &p->lock, &until);
}

enum np_status np_post_ask_last(struct np_post *p, struct np_error *err)
{
    const struct timespec a_while = {0, 1000000};
    enum np_status status;
    bool calm;
    pthread_mutex_lock(&p->turn);
    pthread_mutex_lock(&p->lock);
    status = failure(p, err);
    pthread_mutex_unlock(&p->lock);
    if (status == NP_OK) /* or nobody may use the wire any more */
        np_turn_ask_last(p);
    pthread_mutex_unlock(&p->turn);
    p->wire->ops->wake(p->wire);
    do {
        pthread_mutex_lock(&p->turn);
        calm = np_pulse_is_calm(&p->pulse);
        pthread_mutex_unlock(&p->turn);
        pthread_mutex_lock(&p->lock);
        status = failure(p, err);
        pthread_mutex_unlock(&p->lock);
        if (!calm && status == NP_OK)
            nanosleep(&a_while, NULL);
    } while (!calm && status == NP_OK);
    return status;
}

static enum np_status enqueue(struct np_post *p, struct np_parcel parcel, struct np_error *err)
{
    struct np_parcel *kept;
    enum np_status status = np_zalloc(&kept, 1, sizeof *kept, err);
    if (status != NP_OK)
        return status;
    *kept = parcel;
    pthread_mutex_lock(&p->lock);
    status = failure(p, err);
    if (status == NP_OK) {
        if (p->last)
            p->last->next = kept;
        else
            p->first = kept;
        p->last = kept;
        kept = NULL;
    }
    pthread_mutex_unlock(&p->lock);
    free(kept);
    if (status == NP_OK)
        hurry(p);
    return status;
}

/* To this process itself: the wire has nothing to do with it. Boxes may be gone once the post has
 * failed. */
static enum np_status hand_over(struct np_post *p, const struct np_head *head, const void *body,
                                struct np_error *err)
{
    struct np_letter *letter;
    enum np_status status = np_turn_letter(&letter, head, err);
    if (status != NP_OK)
        return status;
    letter->head.from = (uint32_t)p->wire->rank;
    if (head->bytes)
        memcpy(letter->body, body, (size_t)head->bytes);
    pthread_mutex_lock(&p->lock);
    status = failure(p, err);
    if (status == NP_OK)
        np_turn_put_in(np_turn_box(p, head), letter, true);
    pthread_mutex_unlock(&p->lock);
    if (status != NP_OK)
        free(letter);
    return status;
}

enum np_status np_post_send(struct np_post *p, int rank, const struct np_head *head, void *body,
                            struct np_error *err)
{
    struct np_parcel parcel = {
        .what = SENT, .to = rank, .head = *head, .body = body, .owned = true};
    enum np_status status;
    if (!head->bytes)
        parcel.body = NULL;
    parcel.head.kind = LETTER;
    if (rank == p->wire->rank) {
        status = hand_over(p, head, body, err);
        free(body);
        return status;
    }
    status = enqueue(p, parcel, err);
    if (status != NP_OK || !head->bytes)
        free(body);
    return status;
}

enum np_status np_post_take(struct np_post *p, struct np_box *box, bool waits,
                            struct np_letter **out, struct np_error *err)
{
    enum np_status status;
    *out = NULL;
    pthread_mutex_lock(&p->lock);
    while ((status = failure(p, err)) == NP_OK && waits && !(box->first && box->first->here))
        wait_for(p, &box->come);
    if (status == NP_OK && box->first && box->first->here) {
        *out = box->first;
        box->first = box->first->next;
        if (!box->first)
            box->last = NULL;
    }
    pthread_mutex_unlock(&p->lock);
    if (status != NP_OK)
        wait_for_turn(p);
    return status;
}

/* --- memory ---------------------------------------------------------------------------------- */

static enum np_status ask(struct np_post *p, int rank, bool puts, struct np_asked_part *part,
                          const struct np_post_part *given, struct np_error *err)
{
    struct np_parcel parcel = {.what = SENT, .to = rank, .body = puts ? given->here : NULL};
    parcel.head = (struct np_head){.kind = puts ? PUT : GET,
                                   .bytes = puts ? given->bytes : 0,
                                   .a = given->there,
                                   .b = (uint64_t)(uintptr_t)part,
                                   .c = given->bytes};
    return enqueue(p, parcel, err);
}

/* From and to memory of this process's own device. */
static enum np_status copy_here(const struct np_post *p, bool puts,
                                const struct np_post_part *given, size_t count,
                                struct np_error *err)
{
    enum np_status status = NP_OK;
    for (size_t i = 0; i < count; i++)
        NP_TRY(np_device_copy(p->device, puts ? np_turn_own(given[i].there) : given[i].here,
                              puts ? given[i].here : np_turn_own(given[i].there), given[i].bytes,
                              err));
out:
    return status;
}

/* What has been asked is waited for in any case: it is told by where `parts` are. */
static enum np_status transfer(struct np_post *p, int rank, bool puts,
                               const struct np_post_part *given, size_t count, struct np_error *err)
{
    struct np_asked asked = {.open = 0};
    struct np_asked_part *parts = NULL;
    enum np_status status, later;
    struct np_error why;
    if (rank == p->wire->rank)
        return copy_here(p, puts, given, count, err);
    NP_TRY(np_zalloc(&parts, count, sizeof *parts, err));
    condition_init(&asked.done);
    for (size_t i = 0; i < count && status == NP_OK; i++) {
        if (!given[i].bytes)
            continue;
        parts[i] = (struct np_asked_part){.asked = &asked, .here = given[i].here};
        pthread_mutex_lock(&p->lock);
        asked.open++;
        pthread_mutex_unlock(&p->lock);
        status = ask(p, rank, puts, &parts[i], &given[i], err);
        if (status != NP_OK)
            np_turn_end_part(p, &parts[i]);
    }
    pthread_mutex_lock(&p->lock);
    while ((later = failure(p, &why)) == NP_OK && asked.open)
        wait_for(p, &asked.done);
    pthread_mutex_unlock(&p->lock);
    if (later != NP_OK)
        wait_for_turn(p);
    if (status == NP_OK && later != NP_OK)
        status = np_fail(err, later, "%s", why.msg);
    pthread_cond_destroy(&asked.done);
out:
    free(parts);
    return status;
}

enum np_status np_post_put(struct np_post *p, int rank, const struct np_post_part *parts,
                           size_t count, struct np_error *err)
{
    return transfer(p, rank, true, parts, count, err);
}

enum np_status np_post_get(struct np_post *p, int rank, const struct np_post_part *parts,
                           size_t count, struct np_error *err)
{
    return transfer(p, rank, false, parts, count, err);
}

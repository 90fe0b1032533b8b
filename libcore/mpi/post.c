#include "mpi/post.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "base/memory.h"

enum kind { LETTER, PUT, PUT_DONE, GET, GOT };

/* What was asked of another rank. */
struct asked {
    size_t open; /* parts */
    pthread_cond_t done;
};

/* A part of it. */
struct part {
    struct asked *asked;
    void *here;
};

/* Something to be sent, then told of a body that is under way. */
struct parcel {
    struct parcel *next;
    enum { SENT, LETTER_COMES, PUT_COMES, GOT_COMES } what;
    int to;
    struct np_head head;
    void *body;
    bool owned; /* the body is freed when it has gone, or come */
    struct np_letter *letter;
    struct np_box *box;
    struct part *part;
};

struct np_post {
    struct np_wire *wire;
    const struct np_device *device;
    pthread_t thread;
    bool started;
    pthread_mutex_t lock;
    struct parcel *first, *last; /* to be sent */
    struct np_box desk;
    size_t open, coming; /* bodies under way; those that come */
    bool quit;
    enum np_status status;
    struct np_error err;
};

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

static enum np_status begin(struct np_post *p, struct parcel *parcel, struct np_error *err)
{
    struct np_wire *wire = p->wire;
    bool has_body = parcel->head.bytes > 0;
    enum np_status status =
        wire->ops->send(wire, parcel->to, &parcel->head, parcel->body, parcel, err);
    if (has_body && status == NP_OK)
        p->open++;
    if (!has_body)
        free(parcel);
    return status;
}

static enum np_status send_all(struct np_post *p, bool *moved, struct np_error *err)
{
    enum np_status status = NP_OK;
    struct parcel *parcel;
    do {
        pthread_mutex_lock(&p->lock);
        parcel = p->first;
        if (parcel)
            p->first = parcel->next;
        if (!p->first)
            p->last = NULL;
        pthread_mutex_unlock(&p->lock);
        *moved = *moved || parcel;
        if (parcel)
            status = begin(p, parcel, err);
    } while (parcel && status == NP_OK);
    return status;
}

/* The body is the post's from here on, if it shall be. */
static enum np_status answer(struct np_post *p, const struct np_head *to, struct np_head head,
                             void *body, bool owned, struct np_error *err)
{
    struct parcel *parcel;
    enum np_status status = np_zalloc(&parcel, 1, sizeof *parcel, err);
    if (status != NP_OK) {
        free(owned ? body : NULL);
        return status;
    }
    *parcel = (struct parcel){
        .what = SENT, .to = (int)to->from, .head = head, .body = body, .owned = owned};
    return begin(p, parcel, err);
}

static void *own(uint64_t at)
{
    return (void *)(uintptr_t)at; // NOLINT(performance-no-int-to-ptr): another rank was told it
}

static enum np_status expect(struct np_post *p, const struct np_head *head, struct parcel parcel,
                             void *to, struct np_error *err)
{
    struct parcel *kept;
    enum np_status status = np_zalloc(&kept, 1, sizeof *kept, err);
    if (status != NP_OK)
        return status;
    *kept = parcel;
    kept->head = *head;
    p->open++;
    p->coming++;
    return p->wire->ops->body(p->wire, head, to, kept, err);
}

/* A part has come, or is there. */
static void end_part(struct np_post *p, struct part *part)
{
    pthread_mutex_lock(&p->lock);
    if (--part->asked->open == 0)
        pthread_cond_signal(&part->asked->done);
    pthread_mutex_unlock(&p->lock);
}

static struct np_box *box_of(struct np_post *p, const struct np_head *head)
{
    return head->d ? own(head->d) : &p->desk;
}

static enum np_status letter_new(struct np_letter **out, const struct np_head *head,
                                 struct np_error *err)
{
    size_t bytes;
    enum np_status status;
    if (!np_add_size(&bytes, sizeof **out, (size_t)head->bytes))
        return np_fail(err, NP_EMEM, "a letter is too large");
    status = np_alloc(out, bytes, 1, err);
    if (status == NP_OK)
        **out = (struct np_letter){.head = *head};
    return status;
}

/* The lock is held. */
static void put_in(struct np_box *box, struct np_letter *letter, bool here)
{
    letter->here = here;
    if (box->last)
        box->last->next = letter;
    else
        box->first = letter;
    box->last = letter;
    if (here)
        pthread_cond_signal(&box->come);
}

static enum np_status letter_comes(struct np_post *p, const struct np_head *head,
                                   struct np_error *err)
{
    struct np_letter *letter;
    struct np_box *box = box_of(p, head);
    enum np_status status;
    NP_TRY(letter_new(&letter, head, err));
    pthread_mutex_lock(&p->lock);
    put_in(box, letter, head->bytes == 0);
    pthread_mutex_unlock(&p->lock);
    if (head->bytes)
        status =
            expect(p, head, (struct parcel){.what = LETTER_COMES, .letter = letter, .box = box},
                   letter->body, err);
out:
    return status;
}

/* Into the device's memory: by memory of the host, where that is apart. */
static enum np_status put_comes(struct np_post *p, const struct np_head *head, struct np_error *err)
{
    struct parcel parcel = {.what = PUT_COMES};
    enum np_status status;
    if (!p->device->ops->apart)
        return expect(p, head, parcel, own(head->a), err);
    parcel.owned = true;
    status = np_alloc(&parcel.body, (size_t)head->bytes, 1, err);
    return status == NP_OK ? expect(p, head, parcel, parcel.body, err) : status;
}

static enum np_status put_came(struct np_post *p, const struct parcel *parcel, struct np_error *err)
{
    const struct np_head *head = &parcel->head;
    enum np_status status = NP_OK;
    if (parcel->owned)
        status = np_device_copy(p->device, own(head->a), parcel->body, head->bytes, err);
    free(parcel->owned ? parcel->body : NULL);
    if (status != NP_OK)
        return status;
    return answer(p, head, (struct np_head){.kind = PUT_DONE, .b = head->b}, NULL, false, err);
}

static enum np_status get_comes(struct np_post *p, const struct np_head *head, struct np_error *err)
{
    const struct np_head got = {.kind = GOT, .bytes = head->c, .b = head->b};
    enum np_status status;
    void *body;
    if (!p->device->ops->apart)
        return answer(p, head, got, own(head->a), false, err);
    status = np_alloc(&body, (size_t)got.bytes, 1, err);
    if (status != NP_OK)
        return status;
    status = np_device_copy(p->device, body, own(head->a), got.bytes, err);
    if (status == NP_OK)
        return answer(p, head, got, body, true, err);
    free(body);
    return status;
}

static enum np_status take_head(struct np_post *p, const struct np_head *head, struct np_error *err)
{
    struct part *part;
    switch ((enum kind)head->kind) {
    case LETTER:
        return letter_comes(p, head, err);
    case PUT:
        return put_comes(p, head, err);
    case PUT_DONE:
        end_part(p, own(head->b));
        return NP_OK;
    case GET:
        return get_comes(p, head, err);
    case GOT:
        part = own(head->b);
        return expect(p, head, (struct parcel){.what = GOT_COMES, .part = part}, part->here, err);
    }
    return np_fail(err, NP_EIO, "rank %u sends what is no message", head->from);
}

/* A body has gone or come. */
static enum np_status take_ended(struct np_post *p, struct parcel *parcel, struct np_error *err)
{
    enum np_status status = NP_OK;
    p->open--;
    p->coming -= parcel->what != SENT;
    switch (parcel->what) {
    case SENT:
        if (parcel->owned)
            free(parcel->body);
        break;
    case LETTER_COMES:
        pthread_mutex_lock(&p->lock);
        parcel->letter->here = true;
        pthread_cond_signal(&parcel->box->come);
        pthread_mutex_unlock(&p->lock);
        break;
    case PUT_COMES:
        status = put_came(p, parcel, err);
        break;
    case GOT_COMES:
        end_part(p, parcel->part);
    }
    free(parcel);
    return status;
}

static enum np_status look(struct np_post *p, bool *moved, struct np_error *err)
{
    struct np_wire *wire = p->wire;
    struct np_head head;
    void *token;
    bool is;
    enum np_status status;
    NP_TRY(send_all(p, moved, err));
    NP_TRY(wire->ops->next(wire, &head, &is, err));
    if (is) {
        *moved = true;
        NP_TRY(take_head(p, &head, err));
    }
    NP_TRY(wire->ops->ended(wire, &token, err));
    if (token) {
        *moved = true;
        NP_TRY(take_ended(p, token, err));
    }
out:
    return status;
}

/* False: it is over. */
static bool goes_on(struct np_post *p)
{
    bool is;
    pthread_mutex_lock(&p->lock);
    is = p->first || !p->quit || p->open;
    pthread_mutex_unlock(&p->lock);
    return is;
}

static void *post_main(void *argument)
{
    struct np_post *p = argument;
    struct np_error err;
    enum np_status status = NP_OK;
    bool moved = true;
    prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL); /* waits are no longer than they are */
    while (status == NP_OK && (moved || goes_on(p))) {
        if (!moved)
            p->wire->ops->wait(p->wire, p->open > 0);
        moved = false;
        status = look(p, &moved, &err);
    }
    if (status != NP_OK)
        np_post_fail(p, status, &err);
    return NULL;
}

/* --- what others ask ------------------------------------------------------------------------- */

enum np_status np_post_new(struct np_post **out, struct np_wire *wire, struct np_error *err)
{
    struct np_post *p = NULL;
    enum np_status status = np_zalloc(&p, 1, sizeof *p, err);
    if (status != NP_OK) {
        wire->ops->close(wire, true);
        return status;
    }
    p->wire = wire;
    p->device = &np_device_host;
    pthread_mutex_init(&p->lock, NULL);
    np_box_init(&p->desk);
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
    struct parcel *next;
    if (!p)
        return;
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
    pthread_mutex_destroy(&p->lock);
    free(p);
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

void np_box_init(struct np_box *box)
{
    box->first = box->last = NULL;
    pthread_cond_init(&box->come, NULL);
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

/* Waits, and looks now and then whether the post has failed; the lock is held. */
static void wait_for(struct np_post *p, pthread_cond_t *what)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    pthread_cond_timedwait(what, &p->lock, &until);
}

static enum np_status enqueue(struct np_post *p, struct parcel parcel, struct np_error *err)
{
    struct parcel *kept;
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
    p->wire->ops->wake(p->wire);
    return status;
}

/* To this process itself: the wire has nothing to do with it. */
static enum np_status hand_over(struct np_post *p, const struct np_head *head, const void *body,
                                struct np_error *err)
{
    struct np_letter *letter;
    enum np_status status = letter_new(&letter, head, err);
    if (status != NP_OK)
        return status;
    letter->head.from = (uint32_t)p->wire->rank;
    if (head->bytes)
        memcpy(letter->body, body, (size_t)head->bytes);
    pthread_mutex_lock(&p->lock);
    put_in(box_of(p, head), letter, true);
    pthread_mutex_unlock(&p->lock);
    return NP_OK;
}

enum np_status np_post_send(struct np_post *p, int rank, const struct np_head *head, void *body,
                            struct np_error *err)
{
    struct parcel parcel = {.what = SENT, .to = rank, .head = *head, .body = body, .owned = true};
    enum np_status status;
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
    return status;
}

/* --- memory ---------------------------------------------------------------------------------- */

static enum np_status ask(struct np_post *p, int rank, bool puts, struct part *part,
                          const struct np_post_part *given, struct np_error *err)
{
    struct parcel parcel = {.what = SENT, .to = rank, .body = puts ? given->here : NULL};
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
        NP_TRY(np_device_copy(p->device, puts ? own(given[i].there) : given[i].here,
                              puts ? given[i].here : own(given[i].there), given[i].bytes, err));
out:
    return status;
}

/* What has been asked is waited for in any case: it is told by where `parts` are. */
static enum np_status transfer(struct np_post *p, int rank, bool puts,
                               const struct np_post_part *given, size_t count, struct np_error *err)
{
    struct asked asked = {.open = 0};
    struct part *parts = NULL;
    enum np_status status, later;
    struct np_error why;
    if (rank == p->wire->rank)
        return copy_here(p, puts, given, count, err);
    NP_TRY(np_zalloc(&parts, count, sizeof *parts, err));
    pthread_cond_init(&asked.done, NULL);
    for (size_t i = 0; i < count && status == NP_OK; i++) {
        if (!given[i].bytes)
            continue;
        parts[i] = (struct part){.asked = &asked, .here = given[i].here};
        pthread_mutex_lock(&p->lock);
        asked.open++;
        pthread_mutex_unlock(&p->lock);
        status = ask(p, rank, puts, &parts[i], &given[i], err);
        if (status != NP_OK)
            end_part(p, &parts[i]);
    }
    pthread_mutex_lock(&p->lock);
    while ((later = failure(p, &why)) == NP_OK && asked.open)
        wait_for(p, &asked.done);
    pthread_mutex_unlock(&p->lock);
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

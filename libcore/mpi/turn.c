#include "mpi/turn.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"

#define MIND_NS 1e7 /* how often it minds the other ranks */

static void sent(struct np_parcel *parcel)
{
    free(parcel->owned ? parcel->body : NULL);
    free(parcel);
}

static enum np_status begin(struct np_post *p, struct np_parcel *parcel, struct np_error *err)
{
    struct np_wire *wire = p->wire;
    bool over;
    enum np_status status =
        wire->ops->send(wire, parcel->to, &parcel->head, parcel->body, parcel, &over, err);
    if (status != NP_OK || over)
        sent(parcel);
    else
        p->open++;
    return status;
}

static enum np_status send_all(struct np_post *p, bool *moved, struct np_error *err)
{
    enum np_status status = NP_OK;
    struct np_parcel *parcel;
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
static enum np_status tell(struct np_post *p, int to, struct np_head head, void *body, bool owned,
                           struct np_error *err)
{
    struct np_parcel *parcel;
    enum np_status status = np_zalloc(&parcel, 1, sizeof *parcel, err);
    if (status != NP_OK) {
        free(owned ? body : NULL);
        return status;
    }
    *parcel =
        (struct np_parcel){.what = SENT, .to = to, .head = head, .body = body, .owned = owned};
    return begin(p, parcel, err);
}

static enum np_status come(struct np_post *p, struct np_parcel *parcel, struct np_error *err);

static enum np_status expect(struct np_post *p, const struct np_head *head, struct np_parcel parcel,
                             void *to, struct np_error *err)
{
    struct np_parcel *kept;
    bool over;
    enum np_status status;
    NP_TRY(np_zalloc(&kept, 1, sizeof *kept, err));
    *kept = parcel;
    kept->head = *head;
    NP_TRY(p->wire->ops->body(p->wire, head, to, kept, &over, err));
    if (over)
        return come(p, kept, err);
    p->open++;
out:
    return status;
}

void np_turn_end_part(struct np_post *p, struct np_asked_part *part)
{
    pthread_mutex_lock(&p->lock);
    if (--part->asked->open == 0)
        pthread_cond_signal(&part->asked->done);
    pthread_mutex_unlock(&p->lock);
}

enum np_status np_turn_letter(struct np_letter **out, const struct np_head *head,
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

void np_turn_put_in(struct np_box *box, struct np_letter *letter, bool here)
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
    struct np_box *box = np_turn_box(p, head);
    enum np_status status;
    NP_TRY(np_turn_letter(&letter, head, err));
    pthread_mutex_lock(&p->lock);
    np_turn_put_in(box, letter, head->bytes == 0);
    pthread_mutex_unlock(&p->lock);
    if (head->bytes)
        status =
            expect(p, head, (struct np_parcel){.what = LETTER_COMES, .letter = letter, .box = box},
                   letter->body, err);
out:
    return status;
}

/* Into the device's memory: by memory of the host, where that is apart. */
static enum np_status put_comes(struct np_post *p, const struct np_head *head, struct np_error *err)
{
    struct np_parcel parcel = {.what = PUT_COMES};
    enum np_status status;
    if (!p->device->ops->apart)
        return expect(p, head, parcel, np_turn_own(head->a), err);
    parcel.owned = true;
    status = np_alloc(&parcel.body, (size_t)head->bytes, 1, err);
    return status == NP_OK ? expect(p, head, parcel, parcel.body, err) : status;
}

static enum np_status put_came(struct np_post *p, const struct np_parcel *parcel,
                               struct np_error *err)
{
    const struct np_head *head = &parcel->head;
    enum np_status status = NP_OK;
    if (parcel->owned)
        status = np_device_copy(p->device, np_turn_own(head->a), parcel->body, head->bytes, err);
    free(parcel->owned ? parcel->body : NULL);
    if (status != NP_OK)
        return status;
    return tell(p, (int)head->from, (struct np_head){.kind = PUT_DONE, .b = head->b}, NULL, false,
                err);
}

static enum np_status get_comes(struct np_post *p, const struct np_head *head, struct np_error *err)
{
    const struct np_head got = {.kind = GOT, .bytes = head->c, .b = head->b};
    enum np_status status;
    void *body;
    if (!p->device->ops->apart)
        return tell(p, (int)head->from, got, np_turn_own(head->a), false, err);
    status = np_alloc(&body, (size_t)got.bytes, 1, err);
    if (status != NP_OK)
        return status;
    status = np_device_copy(p->device, body, np_turn_own(head->a), got.bytes, err);
    if (status == NP_OK)
        return tell(p, (int)head->from, got, body, true, err);
    free(body);
    return status;
}

static enum np_status take_head(struct np_post *p, const struct np_head *head, struct np_error *err)
{
    struct np_asked_part *part;
    np_pulse_heard(&p->pulse, (int)head->from);
    switch ((enum np_turn_kind)head->kind) {
    case LETTER:
        return letter_comes(p, head, err);
    case PUT:
        return put_comes(p, head, err);
    case PUT_DONE:
        np_turn_end_part(p, np_turn_own(head->b));
        return NP_OK;
    case GET:
        return get_comes(p, head, err);
    case GOT:
        part = np_turn_own(head->b);
        return expect(p, head, (struct np_parcel){.what = GOT_COMES, .part = part}, part->here,
                      err);
    case ASK:
        return tell(p, (int)head->from, (struct np_head){.kind = ANSWER}, NULL, false, err);
    case ANSWER:
        np_pulse_answered(&p->pulse, (int)head->from);
        return NP_OK;
    }
    return np_fail(err, NP_EIO, "rank %u sends what is no message", head->from);
}

/* A body has come. */
static enum np_status come(struct np_post *p, struct np_parcel *parcel, struct np_error *err)
{
    enum np_status status = NP_OK;
    np_pulse_heard(&p->pulse, (int)parcel->head.from);
    switch (parcel->what) {
    case SENT:
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
        np_turn_end_part(p, parcel->part);
    }
    free(parcel);
    return status;
}

static enum np_status take_ended(struct np_post *p, struct np_parcel *parcel, struct np_error *err)
{
    p->open--;
    if (parcel->what != SENT)
        return come(p, parcel, err);
    sent(parcel);
    return NP_OK;
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

enum np_status np_turn_take(struct np_post *p, bool *moved)
{
    struct np_error err;
    enum np_status status;
    bool more;
    *moved = false;
    do {
        pthread_mutex_lock(&p->lock);
        status = p->status;
        pthread_mutex_unlock(&p->lock);
        if (status != NP_OK) /* nobody may use the wire any more */
            return status;
        more = false;
        status = look(p, &more, &err);
        *moved = *moved || more;
    } while (more && status == NP_OK);
    if (status != NP_OK)
        np_post_fail(p, status, &err);
    return status;
}

static enum np_status ask_all(struct np_post *p, struct np_error *err)
{
    enum np_status status = NP_OK;
    for (int i = 1; i < p->wire->ranks && status == NP_OK; i++)
        status = tell(p, i, (struct np_head){.kind = ASK}, NULL, false, err);
    return status;
}

enum np_status np_turn_ask_last(struct np_post *p)
{
    struct np_error err;
    enum np_status status = NP_OK;
    if (np_pulse_ask_last(&p->pulse))
        status = ask_all(p, &err);
    if (status != NP_OK)
        np_post_fail(p, status, &err);
    return status;
}

enum np_status np_turn_mind(struct np_post *p)
{
    struct np_error err;
    double now = np_now_ns(), passed = now - p->looked_ns;
    enum np_status status = NP_OK;
    bool asks;
    if (passed < MIND_NS)
        return NP_OK;
    p->looked_ns = now;
    NP_TRY(np_pulse_pass(&p->pulse, (uint64_t)passed, &asks, &err));
    if (asks)
        NP_TRY(ask_all(p, &err));
out:
    if (status != NP_OK)
        np_post_fail(p, status, &err);
    return status;
}

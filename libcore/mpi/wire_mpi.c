/* The wire by MPI: non-blocking sends and receives alone. A short body goes with its head; a longer
 * one follows, by another tag: both ends go by the order of heads, so bodies need no numbers.
 *
 * MPI has no way to wait but to look all the time, which takes a processor from who computes. So
 * ranks of a host share memory with a bell for each, which is rung when something was sent, and
 * when a body has come that its sender waits for; for ranks of other hosts, and while bodies are
 * under way, the wire looks every 20 microseconds, and every 80 when nothing has come for long. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/memory.h"
#include "mpi/bell.h"
#include "mpi/mpi_device.h"
#include "mpi/wire.h"

enum { TAG_HEAD = 1, TAG_BODY = 2 };

enum { SHORT = 3 << 10 }; /* bytes: what MPI sends at once, with the head and its own */

enum { LOOK_NS = 20000, LOOKS = 2, LONG_NS = 2000000 };

#define PIECE ((uint64_t)1 << 30) /* bytes: MPI counts in int */

/* What is under way: a request, and what it was for. */
struct way {
    void *copy;  /* that is being sent; NULL */
    void *token; /* told when it has ended; NULL */
    int from;    /* the rank it comes from, which waits for it to have come; -1: it is sent */
};

struct mpi_wire {
    struct np_wire base;
    MPI_Request *requests;
    struct way *ways;
    int *indices;
    size_t used, request_room, way_room, index_room;
    int ended, told;        /* of `indices` */
    MPI_Win window;         /* with the bells; MPI_WIN_NULL */
    struct np_bell **bells; /* [ranks]; NULL: on another host */
    int beside;             /* ranks of this host, this one too */
    uint32_t heard;
    int looks; /* in vain */
    struct {
        struct np_head head;
        char body[SHORT];
    } come; /* the head that was taken last */
};

static enum np_status mpi_fail(struct np_error *err, const char *what, int code)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    return np_fail(err, NP_EIO, "MPI: cannot %s: %s", what, text);
}

static enum np_status check(struct np_error *err, const char *what, int code)
{
    return code == MPI_SUCCESS ? NP_OK : mpi_fail(err, what, code);
}

static void ring(struct mpi_wire *w, int rank)
{
    if (w->bells[rank])
        np_bell_ring(w->bells[rank]);
}

/* A request to be begun, and room for it. */
static enum np_status add_way(struct mpi_wire *w, MPI_Request **out, struct way way,
                              struct np_error *err)
{
    enum np_status status;
    NP_TRY(np_grow(&w->requests, &w->request_room, w->used, sizeof *w->requests, err));
    NP_TRY(np_grow(&w->ways, &w->way_room, w->used, sizeof *w->ways, err));
    NP_TRY(np_grow(&w->indices, &w->index_room, w->used, sizeof *w->indices, err));
    w->requests[w->used] = MPI_REQUEST_NULL;
    w->ways[w->used] = way;
    *out = &w->requests[w->used++];
out:
    return status;
}

/* A body in pieces, the last of which has the token. */
static enum np_status begin_body(struct mpi_wire *w, int peer, char *body, uint64_t bytes,
                                 bool sends, void *token, struct np_error *err)
{
    enum np_status status = NP_OK;
    for (uint64_t at = 0; at < bytes; at += PIECE) {
        bool last = bytes - at <= PIECE;
        int count = last ? (int)(bytes - at) : (int)PIECE;
        MPI_Request *request;
        NP_TRY(
            add_way(w, &request, (struct way){NULL, last ? token : NULL, sends ? -1 : peer}, err));
        if (sends)
            NP_TRY(check(
                err, "send",
                MPI_Isend(body + at, count, MPI_BYTE, peer, TAG_BODY, MPI_COMM_WORLD, request)));
        else
            NP_TRY(check(
                err, "receive",
                MPI_Irecv(body + at, count, MPI_BYTE, peer, TAG_BODY, MPI_COMM_WORLD, request)));
    }
out:
    return status;
}

static enum np_status wire_send(struct np_wire *base, int to, const struct np_head *head,
                                const void *body, void *token, bool *over, struct np_error *err)
{
    struct mpi_wire *w = (struct mpi_wire *)base;
    size_t beside = head->bytes <= SHORT ? (size_t)head->bytes : 0;
    char *copy = NULL;
    MPI_Request *request;
    enum np_status status;
    *over = head->bytes == beside;
    NP_TRY(np_alloc(&copy, sizeof *head + beside, 1, err));
    memcpy(copy, head, sizeof *head);
    if (beside)
        memcpy(copy + sizeof *head, body, beside);
    NP_TRY(add_way(w, &request, (struct way){copy, NULL, -1}, err));
    NP_TRY(check(err, "send",
                 MPI_Isend(copy, (int)(sizeof *head + beside), MPI_BYTE, to, TAG_HEAD,
                           MPI_COMM_WORLD, request)));
    copy = NULL;
    if (!*over)
        status = begin_body(w, to, (char *)(uintptr_t)body, head->bytes, true, token, err);
    ring(w, to);
out:
    free(copy);
    return status;
}

static enum np_status wire_next(struct np_wire *base, struct np_head *head, bool *is,
                                struct np_error *err)
{
    struct mpi_wire *w = (struct mpi_wire *)base;
    MPI_Status from;
    int there = 0;
    enum np_status status;
    *is = false;
    for (int look = 0; look < 2 && !there; look++) /* one may only fetch what the next one finds */
        NP_TRY(check(err, "look for messages",
                     MPI_Iprobe(MPI_ANY_SOURCE, TAG_HEAD, MPI_COMM_WORLD, &there, &from)));
    if (!there)
        return NP_OK;
    NP_TRY(check(err, "receive",
                 MPI_Recv(&w->come, (int)sizeof w->come, MPI_BYTE, from.MPI_SOURCE, TAG_HEAD,
                          MPI_COMM_WORLD, MPI_STATUS_IGNORE)));
    *head = w->come.head;
    head->from = (uint32_t)from.MPI_SOURCE;
    *is = true;
out:
    return status;
}

static enum np_status wire_body(struct np_wire *base, const struct np_head *head, void *to,
                                void *token, bool *over, struct np_error *err)
{
    struct mpi_wire *w = (struct mpi_wire *)base;
    *over = head->bytes <= SHORT;
    if (!*over)
        return begin_body(w, (int)head->from, to, head->bytes, false, token, err);
    memcpy(to, w->come.body, (size_t)head->bytes);
    return NP_OK;
}

static int downwards(const void *a, const void *b)
{
    const int *x = a, *y = b;
    return *x > *y ? -1 : *x < *y;
}

/* The last one takes the place of one that is told: so they are told from the end. */
static void *tell(struct mpi_wire *w)
{
    size_t i = (size_t)w->indices[w->told++];
    void *token = w->ways[i].token;
    if (w->ways[i].from >= 0)
        ring(w, w->ways[i].from);
    free(w->ways[i].copy);
    w->used--;
    w->ways[i] = w->ways[w->used];
    w->requests[i] = w->requests[w->used];
    return token;
}

static enum np_status wire_ended(struct np_wire *base, void **token, struct np_error *err)
{
    struct mpi_wire *w = (struct mpi_wire *)base;
    enum np_status status = NP_OK;
    *token = NULL;
    if (w->told == w->ended && w->used) {
        w->told = w->ended = 0;
        NP_TRY(check(
            err, "go on",
            MPI_Testsome((int)w->used, w->requests, &w->ended, w->indices, MPI_STATUSES_IGNORE)));
        if (w->ended == MPI_UNDEFINED) /* one could not be begun: the wire has failed */
            w->ended = 0;
        qsort(w->indices, (size_t)w->ended, sizeof *w->indices, downwards);
    }
    while (!*token && w->told < w->ended)
        *token = tell(w);
out:
    return status;
}

static void wire_wait(struct np_wire *base, bool under_way, bool moved)
{
    struct mpi_wire *w = (struct mpi_wire *)base;
    bool told = !under_way && w->beside == w->base.ranks;
    w->looks = moved ? 0 : w->looks + (w->looks < LOOKS);
    np_bell_wait(w->bells[w->base.rank], &w->heard, told ? LONG_NS : LOOK_NS << w->looks);
}

static void wire_wake(struct np_wire *base)
{
    struct mpi_wire *w = (struct mpi_wire *)base;
    ring(w, w->base.rank);
}

/* What is still being sent is received, for its receiver closes last or has asked for it. */
static void wire_close(struct np_wire *base, bool failed)
{
    struct mpi_wire *w = (struct mpi_wire *)base;
    if (failed)
        MPI_Abort(MPI_COMM_WORLD, 2);
    MPI_Waitall((int)w->used, w->requests, MPI_STATUSES_IGNORE);
    for (size_t i = 0; i < w->used; i++)
        free(w->ways[i].copy);
    MPI_Win_free(&w->window);
    MPI_Finalize();
    free(w->bells);
    free(w->requests);
    free(w->ways);
    free(w->indices);
    free(w);
}

static const struct np_wire_ops mpi_ops = {wire_send, wire_next, wire_body, wire_ended,
                                           wire_wait, wire_wake, wire_close};

/* Ranks may be bound to processors of their own, or to the same. */
static enum np_status deal_processors(struct mpi_wire *w, MPI_Comm host, struct np_error *err)
{
    struct np_processors bound = np_processors_bound();
    enum np_status status =
        check(err, "ask what ranks of this host are bound to",
              MPI_Allreduce(MPI_IN_PLACE, bound.set, sizeof bound.set, MPI_BYTE, MPI_BOR, host));
    w->base.processors = np_processors_usable(&bound) / w->beside;
    if (w->base.processors < 1)
        w->base.processors = 1;
    return status;
}

/* The bells of this host's ranks, and its processors. */
static enum np_status hang_bells(struct mpi_wire *w, struct np_error *err)
{
    MPI_Comm host;
    MPI_Group all, near;
    struct np_bell *own;
    enum np_status status;
    NP_TRY(np_zalloc(&w->bells, (size_t)w->base.ranks, sizeof(struct np_bell *), err));
    NP_TRY(
        check(err, "find the ranks of this host",
              MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host)));
    MPI_Comm_size(host, &w->beside);
    MPI_Comm_rank(host, &w->base.among);
    NP_TRY(deal_processors(w, host, err));
    NP_TRY(check(err, "share memory with ranks of this host",
                 MPI_Win_allocate_shared(sizeof *own, 1, MPI_INFO_NULL, host, &own, &w->window)));
    memset(own, 0, sizeof *own);
    MPI_Barrier(host);
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Comm_group(host, &near);
    for (int i = 0; i < w->beside; i++) {
        int rank, unit;
        MPI_Aint bytes;
        MPI_Group_translate_ranks(near, 1, &i, all, &rank);
        MPI_Win_shared_query(w->window, i, &bytes, &unit, &w->bells[rank]);
    }
    MPI_Group_free(&all);
    MPI_Group_free(&near);
    MPI_Comm_free(&host);
out:
    return status;
}

enum np_status np_wire_mpi(struct np_wire **out, struct np_error *err)
{
    struct mpi_wire *w = NULL;
    int given;
    enum np_status status;
    NP_TRY(np_zalloc(&w, 1, sizeof *w, err));
    w->base.ops = &mpi_ops;
    NP_TRY(check(err, "begin", MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &given)));
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &w->base.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &w->base.ranks);
    if (given < MPI_THREAD_SERIALIZED)
        NP_TRY(np_fail(err, NP_EIO, "this MPI may not be called by another thread than the first"));
    NP_TRY(hang_bells(w, err));
    *out = &w->base;
    w = NULL;
out:
    free(w ? w->bells : NULL);
    free(w);
    return status;
}

void np_mpi_version(char *out, size_t bytes)
{
    char name[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(name, &length);
    snprintf(out, bytes, "%.*s", (int)strcspn(name, ",\n"), name);
    for (char *tab = out; (tab = strchr(tab, '\t'));)
        *tab = ' ';
}

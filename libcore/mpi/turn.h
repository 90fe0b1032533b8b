/* What a post does with its wire, in turns. Private to post.c and turn.c, and so of post.h's
 * contract: who takes the turn has `turn` locked. */
#ifndef NP_MPI_TURN_H
#define NP_MPI_TURN_H

#include "mpi/post.h"
#include "mpi/pulse.h"

enum np_turn_kind { LETTER, PUT, PUT_DONE, GET, GOT, ASK, ANSWER };

/* What was asked of another rank. */
struct np_asked {
    size_t open; /* parts */
    pthread_cond_t done;
};

/* A part of it. */
struct np_asked_part {
    struct np_asked *asked;
    void *here;
};

/* Something to be sent, then told of a body that is under way. */
struct np_parcel {
    struct np_parcel *next;
    enum { SENT, LETTER_COMES, PUT_COMES, GOT_COMES } what;
    int to;
    struct np_head head;
    void *body;
    bool owned; /* the body is freed when it has gone, or come */
    struct np_letter *letter;
    struct np_box *box;
    struct np_asked_part *part;
};

struct np_post {
    struct np_wire *wire;
    const struct np_device *device;
    pthread_t thread;
    bool started;
    pthread_mutex_t turn; /* has the wire, and what follows */
    size_t open;          /* bodies under way */
    struct np_pulse pulse;
    double looked_ns;               /* when its time was told last */
    pthread_mutex_t lock;           /* has the rest; taken after the other */
    struct np_parcel *first, *last; /* to be sent */
    struct np_box desk;
    bool quit;
    enum np_status status;
    struct np_error err;
};

static inline void *np_turn_own(uint64_t at)
{
    return (void *)(uintptr_t)at; // NOLINT(performance-no-int-to-ptr): another rank was told it
}

static inline struct np_box *np_turn_box(struct np_post *post, const struct np_head *head)
{
    return head->d ? np_turn_own(head->d) : &post->desk;
}

/* Sends what is to be sent and takes what has come, until nothing does; *moved: something did.
 * What fails is the post's failure, too. */
enum np_status np_turn_take(struct np_post *post, bool *moved);
/* Now and then: tells the pulse what time has passed, and asks whom it wants asked. */
enum np_status np_turn_mind(struct np_post *post);
/* Asks all others a last time (np_pulse_ask_last). */
enum np_status np_turn_ask_last(struct np_post *post);

enum np_status np_turn_letter(struct np_letter **out, const struct np_head *head,
                              struct np_error *err);
/* The lock is held. */
void np_turn_put_in(struct np_box *box, struct np_letter *letter, bool here);
/* A part has come, or is there, or will not. */
void np_turn_end_part(struct np_post *post, struct np_asked_part *part);

#endif

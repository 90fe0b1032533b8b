#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "num/team.h"

#define FEW_SPINS 50    /* where others want the processor: what is waited for may not be running */
#if defined(NP_COMPACT) /* tests have more members than processors (num/loops.h) */
#define SPINS FEW_SPINS
#else
#define SPINS 1000 /* some microseconds: longer than most kernels' imbalance */
#endif
#define YIELDS 400   /* some hundred: shorter than a member is made to wake up, once asleep */
#define LONG_NS 1e5  /* a yield that takes longer has let other work run for a slice of time */
#define CROWDED 1000 /* meetings after such a yield at which nobody tries it again */
#define PIECES 16    /* of a member's share, the least that is taken of it */

/* What is left of a member's share of a deal: its number << 32 | first piece << 16 | the end. */
struct left {
    _Alignas(NP_ALIGN) atomic_uint_least64_t pieces;
};

/* Each meeting is a new `phase`; the last to arrive begins the next one. Members that have waited
 * for a while let others run, and then sleep, so that a machine with fewer cores than threads does
 * not crawl. Where others want the processor a yield takes as long as they are let run: there
 * members sleep soon, and without it. What the last one writes has a cache line apart from what
 * the others look at. */
struct np_barrier {
    _Alignas(NP_ALIGN) atomic_int arrived;
    _Alignas(NP_ALIGN) atomic_uint phase;
    _Alignas(NP_ALIGN) atomic_int asleep; /* or about to be */
    int size;
    struct left *left; /* [size] */
};

enum np_status np_barrier_new(struct np_barrier **out, int size, struct np_error *err)
{
    struct np_barrier *barrier = NULL;
    enum np_status status = NP_OK;
    NP_TRY(np_alloc(&barrier, 1, sizeof(*barrier), err));
    barrier->left = NULL;
    NP_TRY(np_alloc(&barrier->left, (size_t)size, sizeof(*barrier->left), err));
    atomic_init(&barrier->arrived, 0);
    atomic_init(&barrier->phase, 0);
    atomic_init(&barrier->asleep, 0);
    barrier->size = size;
    for (int i = 0; i < size; i++)
        atomic_init(&barrier->left[i].pieces, 0);
    *out = barrier;
    return NP_OK;
out:
    free(barrier);
    return status;
}

void np_barrier_free(struct np_barrier *barrier)
{
    if (!barrier)
        return;
    free(barrier->left);
    free(barrier);
}

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb"); /* waits longer than yield, which most cores ignore */
#endif
}

/* Either sees the phase that the last to arrive has begun, or is seen by it to be asleep. */
static void sleep_until_moved(struct np_barrier *barrier, unsigned phase)
{
    atomic_fetch_add(&barrier->asleep, 1);
    while (atomic_load(&barrier->phase) == phase)
        syscall(SYS_futex, &barrier->phase, FUTEX_WAIT_PRIVATE, phase, NULL, NULL, 0);
    atomic_fetch_sub(&barrier->asleep, 1);
}

/* Whether it moved while the caller yielded; false also where others want the processor. */
static bool yield_until_moved(struct np_team *team, unsigned phase)
{
    for (int turn = 0; turn < YIELDS && !team->crowded; turn++) {
        double before = np_now_ns();
        sched_yield();
        if (np_now_ns() - before > LONG_NS)
            team->crowded = CROWDED;
        if (atomic_load(&team->barrier->phase) != phase)
            return true;
    }
    return false;
}

static void begin_phase(struct np_barrier *barrier, unsigned phase)
{
    atomic_store(&barrier->arrived, 0);
    atomic_store(&barrier->phase, phase);
    if (atomic_load(&barrier->asleep) > 0)
        syscall(SYS_futex, &barrier->phase, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void np_team_wait(struct np_team *team)
{
    struct np_barrier *barrier = team->barrier;
    if (team->size == 1)
        return;
    unsigned phase = atomic_load(&barrier->phase);
    if (atomic_fetch_add(&barrier->arrived, 1) == barrier->size - 1) {
        begin_phase(barrier, phase + 1);
        return;
    }
    for (int turn = 0, turns = team->crowded > 0 ? FEW_SPINS : SPINS; turn < turns; turn++) {
        if (atomic_load(&barrier->phase) != phase)
            return;
        relax();
    }
    if (team->crowded > 0)
        team->crowded--;
    else if (yield_until_moved(team, phase))
        return;
    sleep_until_moved(barrier, phase);
}

void np_team_excuse(struct np_team *team, int absent)
{
    atomic_fetch_add(&team->barrier->arrived, absent);
}

struct np_deal np_team_deal(struct np_team *team, size_t count, size_t unit)
{
    struct np_deal deal = {.team = team, .count = count, .unit = unit};
    size_t units = (count + unit - 1) / unit, most = PIECES * (size_t)team->size;
    if (!team->barrier)
        return (struct np_deal){.piece = np_team_share(team, count, unit), .own = true};
    deal.pieces = units < most ? units : most;
    deal.number = ++team->deals;
    struct np_share own = np_team_share(team, deal.pieces, 1);
    atomic_store(&team->barrier->left[team->rank].pieces,
                 (uint64_t)deal.number << 32 | (uint64_t)own.begin << 16 | (uint64_t)own.end);
    return deal;
}

/* Takes half of the pieces that are left to a member, the first ones or the last. */
static bool take(const struct np_deal *deal, int member, bool first, struct np_share *taken)
{
    atomic_uint_least64_t *left = &deal->team->barrier->left[member].pieces;
    uint64_t now = atomic_load(left), begin, end, half;
    do {
        begin = now >> 16 & 0xffff;
        end = now & 0xffff;
        half = (end - begin + 1) / 2;
        if (now >> 32 != deal->number || begin == end)
            return false;
    } while (!atomic_compare_exchange_weak(left, &now, first ? now + (half << 16) : now - half));
    *taken = first ? (struct np_share){begin, begin + half} : (struct np_share){end - half, end};
    return true;
}

/* Where a piece begins. */
static size_t border(const struct np_deal *deal, size_t piece)
{
    struct np_team pieces = {.rank = (int)piece, .size = (int)deal->pieces};
    return np_team_share(&pieces, deal->count, deal->unit).begin;
}

bool np_deal_more(struct np_deal *deal)
{
    const struct np_team *team = deal->team;
    struct np_share taken;
    for (int i = 0; team && i < team->size; i++)
        if (take(deal, (team->rank + i) % team->size, i == 0, &taken)) {
            deal->piece = (struct np_share){border(deal, taken.begin), border(deal, taken.end)};
            deal->own = i == 0;
            return true;
        }
    return false;
}

size_t np_deal_front(const struct np_deal *deal)
{
    const struct np_team *team = deal->team;
    if (!team)
        return deal->piece.end;
    return border(deal, atomic_load(&team->barrier->left[0].pieces) >> 16 & 0xffff);
}

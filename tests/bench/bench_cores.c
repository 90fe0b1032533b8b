/* What the machine does to two threads that work together, looked at for some seconds: how long a
 * cache line takes from one to the other and back, which is several times longer where they are on
 * cores that share no cache, and what multiply-adds the slower of the two does while both work,
 * which is less where a core is shared with somebody else. On a virtual machine both change from
 * second to second, and with them every figure of two threads that is taken meanwhile. And what two
 * read from memory beside what one does: what is bound by memory gains so much by a second thread.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/memory.h"
#include "roofs.h"
#include "row.h"
#include "timing.h"

enum {
    LOOKS = 40,
    TRIES = 20,        /* of a look: the least counts, when nobody else ran */
    TURNS = 50,        /* there and back */
    FLOATS = 32 << 20, /* of a member, far more than caches hold */
    READS = 9
};

struct look {
    atomic_int turn;
    char apart[NP_ALIGN]; /* from what follows */
    enum np_isa isa;
    double ns;       /* there and back */
    double speed[2]; /* GFLOP/s */
};

static void look(struct np_team *team, void *arg)
{
    struct look *l = arg;
    int rank = team->rank, turn = rank;
    np_team_wait(team);
    for (int i = 0; i < TRIES; i++) {
        double begin = bench_seconds(2), ns;
        for (int end = turn + 2 * TURNS; turn < end; turn += 2) {
            while (atomic_load(&l->turn) != turn)
                ;
            atomic_store(&l->turn, turn + 1);
        }
        ns = 1e9 * (bench_seconds(2) - begin) / TURNS;
        if (rank == 0)
            l->ns = i == 0 || ns < l->ns ? ns : l->ns;
    }
    np_team_wait(team);
    l->speed[rank] = bench_peak(l->isa);
}

/* What a member reads, of its own. */
struct reading {
    float *floats[2];
    double seconds; /* of the quickest time that all were at it */
};

static void read_memory(struct np_team *team, void *arg)
{
    struct reading *r = arg;
    float *a[1] = {r->floats[team->rank]};
    for (size_t i = 0; i < FLOATS; i++)
        a[0][i] = (float)i;
    for (int i = 0; i < READS; i++) {
        np_team_wait(team);
        double begin = bench_seconds(2), s;
        bench_read.run(a, FLOATS);
        np_team_wait(team);
        s = bench_seconds(2) - begin;
        if (team->rank == 0)
            r->seconds = i == 0 || s < r->seconds ? s : r->seconds;
    }
}

/* GB/s of so many threads; 0: there is no memory for it. */
static double memory_speed(int threads)
{
    struct bench_team *team = bench_team_new(threads);
    struct reading r = {.floats = {NULL, NULL}};
    bool ok = team != NULL;
    for (int i = 0; i < threads; i++)
        ok = np_alloc(&r.floats[i], FLOATS, sizeof(float), NULL) == NP_OK && ok;
    if (ok)
        bench_team_run(team, read_memory, &r);
    bench_team_free(team);
    free(r.floats[0]);
    free(r.floats[1]);
    return ok ? 1e-9 * sizeof(float) * FLOATS * threads / r.seconds : 0;
}

static void memory_rows(void)
{
    double one = memory_speed(1), two = memory_speed(2);
    if (one > 0 && two > 0) {
        bench_row("reading memory, 1 thread", one, "GB/s", 0, NULL);
        bench_row("reading memory, 2 threads", two, "GB/s", two / one, "1 thread");
    }
}

int main(void)
{
    const struct timespec pause = {0, 50000000};
    struct bench_team *team = bench_team_new(2);
    struct look l = {.isa = bench_isa(NULL)};
    double ns[LOOKS], slower[LOOKS], best = 0;
    if (!team)
        return 1;
    for (int i = 0; i < LOOKS; i++) {
        nanosleep(&pause, NULL);
        atomic_store(&l.turn, 0);
        bench_team_run(team, look, &l);
        ns[i] = l.ns;
        slower[i] = l.speed[l.speed[1] < l.speed[0]];
        for (int rank = 0; rank < 2; rank++)
            best = l.speed[rank] > best ? l.speed[rank] : best;
    }
    bench_team_free(team);
    double usual = bench_median(ns, LOOKS); /* sorts */
    bench_row("a cache line to another core and back, least", ns[0], "ns", 0, NULL);
    bench_row("a cache line to another core and back, median", usual, "ns", ns[0] / usual,
              "the least");
    bench_row("a cache line to another core and back, most", ns[LOOKS - 1], "ns",
              ns[0] / ns[LOOKS - 1], "the least");
    if (best > 0) {
        usual = bench_median(slower, LOOKS);
        bench_row("the slower of two cores at work, median", usual, "GFLOP/s", usual / best,
                  "the best seen");
        bench_row("the slower of two cores at work, least", slower[0], "GFLOP/s", slower[0] / best,
                  "the best seen");
    }
    memory_rows();
    return 0;
}

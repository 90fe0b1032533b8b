/* What the benchmarks share: clocks, medians, the peak of the machine, and a team whose members
 * wait for work.
 */
#ifndef NP_BENCH_TIMING_H
#define NP_BENCH_TIMING_H

#include "num/kernels.h"

/* With one thread its processor time, so that other programs do not count; else the time of day. */
double bench_seconds(int threads);

/* For programs that time peers with threads of their own, which spin for a while when they have
 * nothing to do: on a machine with no processor to spare they would halve what runs next.
 * bench_calm_peers shortens that while to what lies between two calls, by starting the program
 * again with what the libraries read when they are loaded. An OpenBLAS that runs an older core's
 * code, by its openblas_get_corename(), is told to run the best that the processor can. */
void bench_calm_peers(char **argv, const char *openblas_core);

/* Seconds of one call of `function`, in the mean of `repeat`. With more than one thread, after a
 * pause in which the peers' threads go to sleep, and calls that wake those of `function`. */
double bench_call(int threads, int repeat, void (*function)(void *), void *arg);

double bench_median(double *values, size_t count);

/* The instruction set of that name, or for NULL the best here; NP_ISA_COUNT if this machine lacks
 * it. */
enum np_isa bench_isa(const char *name);

/* GFLOP/s of one thread: chains of multiply-adds that never leave the registers. 0: not known. */
double bench_peak(enum np_isa isa);

struct bench_team;

/* `threads` members with scratch, the caller being the first; NULL if there is no memory. */
struct bench_team *bench_team_new(int threads);
void bench_team_free(struct bench_team *team);

/* Calls function on every member and returns when all are done. */
void bench_team_run(struct bench_team *team, void (*function)(struct np_team *, void *), void *arg);

#endif

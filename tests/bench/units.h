/* The least time that arithmetic takes on this machine: what it is made of, and how fast that is.
 *
 * Work is counted in instructions on vectors, by class, with the fewest that we know for what
 * num/kernels.h and num/elementary.h prescribe. How long a class takes is measured in the same run,
 * on straight-line code whose instructions wait for nothing: each class alone, and each two by
 * turns. No code takes less time than
 *   - a class takes alone;
 *   - two classes take that are slower by turns than either alone, and so share units (on AMD's
 *     Zen 3 products with choices, sums with maxima, shifts in part with both);
 *   - all take at the pace of the two classes that go best together;
 *   - products take, and what divisions and roots keep their units from them.
 * How long a result takes to come and how many instructions a core looks ahead do not count.
 */
#ifndef NP_BENCH_UNITS_H
#define NP_BENCH_UNITS_H

#include "num/kernels.h"

enum bench_class {
    MUL,    /* products, fused with a sum or not */
    ADD,    /* sums, differences, comparisons, maxima */
    SELECT, /* choices between two by the sign bits of a third */
    LOGIC,  /* of bits; sums and comparisons of integers */
    SHIFT,  /* also of elements to other places */
    IMUL,   /* products of integers */
    DIV,
    ROOT,
    LOAD, /* from the first cache, of what no register can hold until it is wanted */
    STORE,
    BENCH_CLASSES
};

/* Instructions for a vector of each array. */
struct bench_work {
    double n[BENCH_CLASSES];
};

struct bench_units {
    int floats;                                /* of a vector */
    double both[BENCH_CLASSES][BENCH_CLASSES]; /* seconds of one of each; [c][c]: of one */
    double least;                              /* of one where two classes go best together */
    double turn[BENCH_CLASSES];                /* DIV, ROOT: what products lose by one */
};

/* All is zero but for x86: no limit is known there. */
struct bench_units bench_units(enum np_isa isa);

/* Seconds that `work` for each vector of `floats` takes at least. */
double bench_work_seconds(const struct bench_units *units, const struct bench_work *work,
                          double floats);

#endif

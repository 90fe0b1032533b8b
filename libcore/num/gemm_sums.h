/* What a register tile is, and its sums on their way to and from memory: a part of num/gemm_tile.h.
 *
 * MR x NR is as large as the registers allow: MR * 2 sums, two vectors of B, one element of A.
 * Where that leaves too few sums in tiles of one vector to hide how long an addition takes (AVX2),
 * those are higher, and a vector that is left over goes with the last two, in lower tiles of three.
 * The last vector of a tile may be whole, in part outside of C, or, where registers are wide enough
 * for it to pay, summed in halves of registers. Where groups are narrow, a tile is one vector wide.
 */
#ifndef NP_NUM_GEMM_SUMS_H
#define NP_NUM_GEMM_SUMS_H

#include "num/chunk.h"
#include "num/gemm.h"
#include "num/loops.h"
#include "num/simd.h"

#if NP_VW == 16
#define MR 14
#define HIGH MR /* rows of a tile of one vector ... */
#define TALL 28 /* ... and of one whose A is transposed and read in place, if it is all of C */
#define WIDE 2  /* vectors of the widest tile */
#define LOW MR  /* rows of that */
#define HEIGHTS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#define MORE_HEIGHTS(X)
#define TALL_HEIGHTS(X)                                                                            \
    X(15) X(16) X(17) X(18) X(19) X(20) X(21) X(22) X(23) X(24) X(25) X(26) X(27) X(28)
#define LOW_HEIGHTS(X)
#elif NP_VW == 8
#define MR 6
#define HIGH 8
#define TALL HIGH
#define WIDE 3
#define LOW 4
#define HEIGHTS(X) X(1) X(2) X(3) X(4) X(5) X(6)
#define MORE_HEIGHTS(X) X(7) X(8)
#define TALL_HEIGHTS(X)
#define LOW_HEIGHTS(X) X(1) X(2) X(3) X(4)
#else
#define MR 12
#define HIGH MR
#define TALL HIGH
#define WIDE 2
#define LOW MR
#define HEIGHTS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)
#define MORE_HEIGHTS(X)
#define TALL_HEIGHTS(X)
#define LOW_HEIGHTS(X)
#endif
#define NR (2 * NP_VW)
#define PACKED_COLS 48 /* of C: fewer do not pay for packing A ... */
#define WHOLE_COLS 80  /* ... and fewer than these not where its rows are read in one piece */
#define STRIP MR       /* floats of packed A for an inner index */
#define STRIP_SIZE (NP_KC * STRIP + NP_GEMM_PAD)
#define STRIPS_AT_ONCE 8                /* rows of tiles whose A is packed together ... */
#define MOST_STRIPS (NP_GEMM_ROWS / MR) /* ... and where slivers of B are copied beside them */
#define FINISHED 384 /* columns whose sums are finished together: a whole number of slivers */
#define STEPS 4      /* inner indices per prefetched row of C */
#define LINE 16      /* floats of a cache line */
/* Rows of A to prefetch a line of per STEPS, under a tile of h rows, and under any tile. */
#define AHEAD(h) ((LINE - 1 + STEPS * (h)) / LINE)
#define MOST_AHEAD (AHEAD(HIGH) * LINE / STEPS)
/* Sums of so many STEPS read A in the order of memory, and are over before their C would come. */
#define SHORT_SUM (NP_VW == 8 ? 7 : 0)
/* Sums of at most so many STEPS need nothing fetched but C, where that was measured to pay: of any
 * number of columns, and of one vector. */
#define SHORT_ROWS (NP_VW == 8 ? 20 : 0)
#define SHORT_COLUMN (NP_VW == 16 ? NP_KC / STEPS : SHORT_ROWS)
/* Whether the latter have tiles of their own for any epilogue. */
#define SHORT_FINISHES (NP_VW == 16)
/* Whether all that goes for small products, too, which nobody finishes. */
#define SHORT_SMALL (NP_VW == 8)
/* Rows of a tile where all of C is one vector wide: as many as leave their addresses registers. */
#define COLUMN_HIGH (NP_VW == 16 ? 12 : HIGH)
#define LOWEST (LOW < COLUMN_HIGH ? LOW : COLUMN_HIGH) /* rows that C is cut in */
#if defined(__clang__)
#define ROLLED _Pragma("clang loop unroll(disable)")
#else
#define ROLLED _Pragma("GCC unroll 1")
#endif

_Static_assert(!NP_GEMM_PACKS_A || MR <= STRIP, "a strip holds the rows of a tile");
_Static_assert(NP_GEMM_STRIPS >= MOST_STRIPS * STRIP_SIZE, "packed A of a block of rows fits");
_Static_assert(PACKED_COLS <= NP_GEMM_COPIED, "slivers of B are copied only beside packed A");
_Static_assert(FINISHED % NR == 0 && TALL <= 2 * MR, "a buffer of MR x FINISHED holds any tile");

/* Rows of C under a row of tiles. */
struct band {
    size_t row, height;
};

/* Rows of A, or lines, that are packed next, to fetch while tiles are worked on. */
struct coming {
    const float *const *row;
    size_t count, at, width; /* each from `at` on, `width` floats */
    size_t tiles, due;
    const float *b;             /* the next sliver of B, where these are copied */
    size_t b_step, lines, each; /* how many inner indices are left of it; of them, for a tile */
};

/* One tile of C: where its operands begin. Where A is packed, some of one height may follow. */
struct tile {
    const float *const *a;
    size_t a_at;
    size_t row;           /* of C, where the tile begins */
    const int32_t *order; /* where groups are narrow: those of np_groups, from the tile's row on */
    size_t seen;          /* and floats of A for all groups */
    const float *b, *b_last; /* of three vectors, the last apart */
    size_t b_step, last_step;
    const float *const *next;  /* not NULL: HIGH or more rows of A to fetch for the next tile */
    size_t next_line, next_at; /* or of every STEPS lines that one, unless it is STEPS or more */
    float *const *c;           /* rows; the tile begins at column j of them */
    const float *const *ahead, *const *ahead_end; /* rows, those of C first, to fetch meanwhile */
    size_t j, last;                               /* columns of the last vector */
    float *out; /* finished sums go here, rows `pitch` floats apart; NULL: to c */
    size_t pitch;
    const float *bias;
    size_t each; /* rows that `residual`, or where A is packed those to fetch, have for one of C;
                  * or 0: they begin with this tile's */
    const float *const *residual; /* each * row behind it: rows; NULL: none is added here */
    vf bad;                       /* 0, NaN where a finished sum was not finite */
    const float *strip;           /* packed A; NULL: it is read in place */
    struct coming *coming;        /* and what is packed next */
    size_t tiles;                 /* this, and those under it */
    const float *const *rows_end; /* of those to fetch under all of them */
};

enum last { LAST_WHOLE, LAST_PART, LAST_HALF };

/* How A lies there: in place, rows of op(A) or, transposed, lines of inner indices; or packed.
 * Where that was measured to pay, rows know whether B is packed: from one step to the next its
 * address then moves by a constant. ROWS_SHORT: gemm_short.h. */
enum left { ROWS, ROWS_DIRECT, LINES, STRIPS, LEFTS, ROWS_SHORT };
#define ROWS_KNOW_B (NP_VW == 8)

/* What a tile function is made for; all constants where this is inlined. */
struct shape {
    size_t h, vectors, lines; /* lines: 0, or of a window's taps */
    enum left left;
    bool narrow;
    enum last last;
};

/* Sums of a chunk. While it runs, a last vector that is half lies in its own registers. */
struct sums {
    vf v[TALL][WIDE];
    vh half[TALL];
};

NP_INLINE vf load_last(const float *p, enum last last, size_t n)
{
    return last == LAST_WHOLE ? v_load(p) : v_load_n(p, n);
}

NP_INLINE void store_last(float *p, enum last last, size_t n, vf v)
{
    if (last == LAST_WHOLE)
        v_store(p, v);
    else
        v_store_n(p, n, v);
}

NP_INLINE void clear(struct sums *acc, struct shape s)
{
    NP_UNROLL
    for (size_t i = 0; i < s.h; i++) {
        NP_UNROLL
        for (size_t v = 0; v < s.vectors; v++)
            acc->v[i][v] = v_zero();
        acc->half[i] = vh_zero();
    }
}

/* Adds a chunk to what `rows` hold. */
NP_INLINE void add_rows(struct sums *acc, struct shape s, const struct tile *t,
                        const float *const *rows)
{
    size_t last = s.vectors - 1;
    NP_UNROLL
    for (size_t i = 0; i < s.h; i++) {
        const float *c = rows[i] + t->j;
        NP_UNROLL
        for (size_t v = 0; v < last; v++)
            acc->v[i][v] = v_add(v_load(c + v * NP_VW), acc->v[i][v]);
        acc->v[i][last] = v_add(load_last(c + last * NP_VW, s.last, t->last), acc->v[i][last]);
    }
}

NP_INLINE void store_chunk(struct sums *acc, struct shape s, const struct tile *t)
{
    size_t last = s.vectors - 1;
    NP_UNROLL
    for (size_t i = 0; i < s.h; i++) {
        float *c = t->c[i] + t->j;
        NP_UNROLL
        for (size_t v = 0; v < last; v++)
            v_store(c + v * NP_VW, acc->v[i][v]);
        store_last(c + last * NP_VW, s.last, t->last, acc->v[i][last]);
    }
}

NP_INLINE void add_bias(struct sums *acc, struct shape s, const float *bias, size_t n)
{
    size_t last = s.vectors - 1;
    NP_UNROLL
    for (size_t v = 0; v < s.vectors; v++) {
        vf b = v < last ? v_load(bias + v * NP_VW) : load_last(bias + v * NP_VW, s.last, n);
        NP_UNROLL
        for (size_t i = 0; i < s.h; i++)
            acc->v[i][v] = v_add(acc->v[i][v], b);
    }
}

/* The sums are complete: to where they are finished, or finished here. */
NP_INLINE void finish_sums(struct sums *acc, struct shape s, struct tile *t)
{
    vf bad = t->bad;
    if (t->bias)
        add_bias(acc, s, t->bias + t->j, t->last);
    if (t->residual)
        add_rows(acc, s, t, t->residual + t->each * t->row);
    if (t->out) {
        NP_UNROLL
        for (size_t i = 0; i < s.h; i++)
            for (size_t v = 0; v < s.vectors; v++)
                v_store(t->out + i * t->pitch + v * NP_VW, acc->v[i][v]);
        return;
    }
    NP_UNROLL
    for (size_t i = 0; i < s.h; i++)
        for (size_t v = 0; v < s.vectors; v++)
            bad = v_or(bad, v_sub(acc->v[i][v], acc->v[i][v]));
    t->bad = bad;
    store_chunk(acc, s, t);
}

#endif

/* Memory that is wanted soon. Private to num/.
 *
 * Kernels that go over a row of an image once for each vector of channels meet memory in strides,
 * which the hardware does not foresee. So while they compute a row they fetch what the next one
 * reads and writes, in order and evenly, into the second-level cache: asking for the first-level
 * cache, or for lines to write, is slower. Operands that are close by anyway lose by it.
 */
#ifndef NP_NUM_IMAGE_AHEAD_H
#define NP_NUM_IMAGE_AHEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "num/arguments.h"
#include "num/grid.h"
#include "num/loops.h"

/* Bytes of operands from which it pays: where one was last used a whole pass ago, as what a forward
 * pass leaves and weights' gradients read; and where the kernel before has just written them. */
#define AHEAD_COLD (128 << 10)
#define AHEAD_WARM (2 << 20)
#define AHEAD_LINE 64

static inline bool ahead_pays(const struct np_conv *v, size_t least)
{
    size_t x = v->in_height * v->in_width * v->ldx, y = v->out_height * v->out_width * v->ldy;
    return v->samples * (x + y) * sizeof(float) >= least;
}

struct ahead {
    const char *at, *end;
    size_t each; /* bytes of a step */
};

/* Floats from `from` to before `end`, in so many steps; none if that is no later. */
static inline struct ahead ahead_of(const float *from, const float *end, size_t steps)
{
    struct ahead a = {(const char *)from, (const char *)end, 0};
    if (from < end)
        a.each = ((size_t)(a.end - a.at) / steps + AHEAD_LINE - 1) / AHEAD_LINE * AHEAD_LINE;
    return a;
}

/* Not a function that could be taken for one without effect. */
NP_INLINE void ahead_fetch(const void *from, const void *end)
{
    for (uintptr_t at = (uintptr_t)from / AHEAD_LINE * AHEAD_LINE; at < (uintptr_t)end;
         at += AHEAD_LINE)
        __builtin_prefetch((const void *)at, 0, 2);
}

static inline void ahead_step(struct ahead *a)
{
    const char *at = a->at, *end = (size_t)(a->end - at) < a->each ? a->end : at + a->each;
    a->at = end;
    ahead_fetch(at, end);
}

/* Runs of memory, that many bytes apart, of which `each` lines are fetched at a time: a processor
 * with enough to wait for drops what it is asked to fetch. */
struct ahead_runs {
    uintptr_t at, end, next; /* in a run; of one to come */
    size_t runs;             /* to come */
    size_t bytes, apart, each;
};

/* Columns of positions, rows `ld` floats apart from `p` on, in so many steps. */
static inline struct ahead_runs ahead_runs_of(const float *p, size_t ld, struct np_share positions,
                                              struct np_share cols, size_t steps)
{
    struct ahead_runs a = {.apart = ld * sizeof *p, .bytes = np_share_count(cols) * sizeof *p};
    a.runs = positions.begin < positions.end ? np_share_count(positions) : 0;
    a.next = (uintptr_t)p + positions.begin * a.apart + cols.begin * sizeof *p;
    if (a.runs > 0 && a.bytes == a.apart) {
        a.bytes *= a.runs;
        a.runs = 1;
    }
    a.each = (a.runs * ((a.bytes + 2 * AHEAD_LINE - 2) / AHEAD_LINE) + steps - 1) / steps;
    return a;
}

NP_INLINE void ahead_runs_step(struct ahead_runs *a)
{
    uintptr_t at = a->at, end = a->end;
    for (size_t i = 0; i < a->each; i++, at += AHEAD_LINE) {
        if (at >= end) {
            if (a->runs == 0)
                break;
            a->runs--;
            at = a->next / AHEAD_LINE * AHEAD_LINE;
            end = a->next + a->bytes;
            a->next += a->apart;
        }
        __builtin_prefetch((const void *)at, 0, 2);
    }
    a->at = at;
    a->end = end;
}

#endif

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
#include "num/loops.h"

#define AHEAD_BYTES (2 << 20) /* of operands, from which it pays: then others came in between */
#define AHEAD_LINE 64

static inline bool ahead_pays(const struct np_conv *v)
{
    size_t x = v->in_height * v->in_width * v->ldx, y = v->out_height * v->out_width * v->ldy;
    return v->samples * (x + y) * sizeof(float) >= AHEAD_BYTES;
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

#endif

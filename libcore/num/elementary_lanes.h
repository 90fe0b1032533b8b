/* Elementary functions (num/elementary.h) of 32 elements abreast, operation for operation the same:
 * one vector's chain of operations takes several times as long as a core takes for its share of
 * them, and ends too late for a core to find enough of the next one's. Constants stay in registers
 * for all vectors: a core loads no more vectors at a time than it multiplies.
 *
 * Private to num/.
 */
#ifndef NP_NUM_ELEMENTARY_LANES_H
#define NP_NUM_ELEMENTARY_LANES_H

#include "num/elementary.h"
#include "num/lanes.h"
#include "num/simd_loops.h"

#define EACH_VECTOR NP_UNROLL for (size_t k = 0; k < LANE_VECTORS; k++)

/* STEP(at, n) for every block of the elements begin..end-1: n, 32 but for the last, from `at`. */
#define LANES_BLOCKS(begin, end, STEP)                                                             \
    do {                                                                                           \
        size_t block_at = (begin);                                                                 \
        for (; block_at + 32 <= (end); block_at += 32)                                             \
            STEP(block_at, 32);                                                                    \
        if (block_at < (end))                                                                      \
            STEP(block_at, (end)-block_at);                                                        \
    } while (0)

/* Without masks each vector of a part is a choice of its own, and wherever eight of them stand in
 * line, compilers take long. */
#if NP_VW == 4
#define LANES_PART static __attribute__((noinline))
#else
#define LANES_PART NP_INLINE
#endif

LANES_PART struct lanes lanes_load_part(const float *p, size_t n)
{
    struct lanes x;
    EACH_VECTOR x.v[k] = lane_load(p + k * NP_VW, lane_part(n, k));
    return x;
}

LANES_PART void lanes_store_part(float *p, size_t n, struct lanes x)
{
    EACH_VECTOR v_put(p + k * NP_VW, lane_part(n, k), x.v[k]);
}

/* The first n (1..32) elements; the others are zero, are not written. */
NP_INLINE struct lanes lanes_load(const float *p, size_t n)
{
    struct lanes x;
    if (n < 32)
        return lanes_load_part(p, n);
    EACH_VECTOR x.v[k] = v_load(p + k * NP_VW);
    return x;
}

NP_INLINE void lanes_store(float *p, size_t n, struct lanes x)
{
    if (n < 32)
        lanes_store_part(p, n, x);
    else
        EACH_VECTOR v_store(p + k * NP_VW, x.v[k]);
}

/* lanes_store; far: whole blocks go past the caches, and p is aligned to a vector. */
NP_INLINE void lanes_put(float *p, size_t n, struct lanes x, bool far)
{
    if (far && n == 32)
        EACH_VECTOR v_stream(p + k * NP_VW, x.v[k]);
    else
        lanes_store(p, n, x);
}

/* s + x in the first n elements */
NP_INLINE struct lanes lanes_plus(struct lanes s, struct lanes x, size_t n)
{
    EACH_VECTOR s.v[k] = lane_keep(lane_part(n, k), v_add(s.v[k], x.v[k]), s.v[k]);
    return s;
}

/* The larger of top and x in the first n elements. */
NP_INLINE vf lanes_most(vf top, struct lanes x, size_t n)
{
    EACH_VECTOR x.v[k] = lane_keep(lane_part(n, k), x.v[k], top);
    for (size_t stride = LANE_VECTORS / 2; stride > 0; stride /= 2)
        for (size_t k = 0; k < stride; k++)
            x.v[k] = v_max(x.v[k], x.v[k + stride]);
    return v_max(top, x.v[0]);
}

/* Lines of 16 floats that are wanted soon, of 32: where rows are worked on in several passes,
 * memory would rest in all but the first. */
NP_INLINE void lanes_fetch(const float *p)
{
    __builtin_prefetch(p);
    __builtin_prefetch(p + 16);
}

/* The same of lines that are written. */
NP_INLINE void lanes_fetch_to(float *p)
{
    __builtin_prefetch(p, 1);
    __builtin_prefetch(p + 16, 1);
}

/* Sets bits of bad where x is not finite. */
NP_INLINE vf lanes_bad(vf bad, struct lanes x)
{
    EACH_VECTOR bad = v_or(bad, v_sub(x.v[k], x.v[k]));
    return bad;
}

NP_INLINE struct lanes l_set1(float x)
{
    struct lanes a;
    vf each = v_set1(x);
    v_keep(each);
    EACH_VECTOR a.v[k] = each;
    return a;
}

#define LANES_OF_1(name)                                                                           \
    NP_INLINE struct lanes l_##name(struct lanes a)                                                \
    {                                                                                              \
        EACH_VECTOR a.v[k] = v_##name(a.v[k]);                                                     \
        return a;                                                                                  \
    }
#define LANES_OF_2(name)                                                                           \
    NP_INLINE struct lanes l_##name(struct lanes a, struct lanes b)                                \
    {                                                                                              \
        EACH_VECTOR a.v[k] = v_##name(a.v[k], b.v[k]);                                             \
        return a;                                                                                  \
    }
#define LANES_OF_3(name)                                                                           \
    NP_INLINE struct lanes l_##name(struct lanes a, struct lanes b, struct lanes c)                \
    {                                                                                              \
        EACH_VECTOR a.v[k] = v_##name(a.v[k], b.v[k], c.v[k]);                                     \
        return a;                                                                                  \
    }

LANES_OF_1(abs)
LANES_OF_1(sqrt)
LANES_OF_2(add)
LANES_OF_2(sub)
LANES_OF_2(mul)
LANES_OF_2(div)
LANES_OF_2(max)
LANES_OF_2(min)
LANES_OF_2(or)
LANES_OF_2(scale)
LANES_OF_3(fma)
LANES_OF_3(fms)
LANES_OF_3(fnma)
LANES_OF_3(drop)
LANES_OF_3(only)
LANES_OF_3(below)

NP_INLINE struct lanes l_pick(struct lanes x, struct lanes limit, struct lanes a, struct lanes b)
{
    EACH_VECTOR a.v[k] = v_pick(x.v[k], limit.v[k], a.v[k], b.v[k]);
    return a;
}

NP_INLINE struct lanes l_scale_or_0(struct lanes p, struct lanes t, struct lanes a, struct lanes b)
{
    EACH_VECTOR p.v[k] = v_scale_or_0(p.v[k], t.v[k], a.v[k], b.v[k]);
    return p;
}

NP_INLINE struct lanes l_flush(struct lanes x)
{
    return l_drop(x, l_abs(x), l_set1(NP_FLUSH));
}

/* The same of what is not negative. */
NP_INLINE struct lanes l_flush_small(struct lanes x)
{
    return l_drop(x, x, l_set1(NP_FLUSH));
}

/* np_expf(x) of an x that is not positive. */
NP_INLINE struct lanes l_exp_below(struct lanes x)
{
    struct lanes t = l_fma(x, l_set1(NP_LOG2E), l_set1(NP_ROUND)), n = l_sub(t, l_set1(NP_ROUND));
    struct lanes r = l_add(l_fma(n, l_set1(-NP_LN2_HI), x), l_mul(n, l_set1(-NP_LN2_LO)));
    struct lanes p = l_fma(l_set1(NP_EXP6), r, l_set1(NP_EXP5));
    p = l_fma(p, r, l_set1(NP_EXP4));
    p = l_fma(p, r, l_set1(NP_EXP3));
    p = l_fma(p, r, l_set1(NP_EXP2));
    p = l_fma(p, r, l_set1(1.0f));
    p = l_fma(p, r, l_set1(1.0f));
    return l_scale_or_0(p, t, x, l_set1(NP_EXP_LEAST));
}

/* z = exp(-|x|), of which both signs' sigmoids are made: 1 for either zero. */
NP_INLINE struct lanes l_sigmoid_exp(struct lanes x)
{
    return l_exp_below(l_or(x, l_set1(-0.0f)));
}

NP_INLINE struct lanes l_sigmoid(struct lanes x)
{
    struct lanes z = l_sigmoid_exp(x), one = l_set1(1.0f);
    return l_div(l_below(x, z, one), l_add(one, z));
}

NP_INLINE struct lanes l_sigmoid_grad(struct lanes x)
{
    struct lanes s = l_sigmoid(x);
    return l_mul(s, l_sub(l_set1(1.0f), s));
}

NP_INLINE struct lanes l_swish_grad(struct lanes x)
{
    struct lanes z = l_sigmoid_exp(x), one = l_set1(1.0f), d = l_add(one, z);
    struct lanes s = l_div(l_below(x, z, one), d), rest = l_div(l_below(x, one, z), d);
    return l_mul(s, l_fma(x, rest, one));
}

/* What gelu and its slope are made of: the factors of the normal tail at a. */
struct lanes_tail {
    struct lanes exp;         /* np_tail_exp(a) */
    struct lanes poly, d, ad; /* T(u), a + NP_MILLS_POLE, a / d */
};

/* Both polynomials at once, by turns. */
NP_INLINE struct lanes_tail l_tail(struct lanes a)
{
    struct lanes d = l_add(a, l_set1(NP_MILLS_POLE)), ad = l_div(a, d);
    struct lanes b = l_mul(l_set1(-0.5f), a), h = l_mul(a, b), tail = l_fms(a, b, h);
    struct lanes t = l_fma(h, l_set1(NP_LOG2E), l_set1(NP_ROUND)), n = l_sub(t, l_set1(NP_ROUND));
    struct lanes r = l_add(l_fma(n, l_set1(-NP_LN2_HI), h), l_fma(n, l_set1(-NP_LN2_LO), tail));
    struct lanes u = l_fma(ad, l_set1(2.0f), l_set1(-1.0f));
    struct lanes p = l_fma(l_set1(NP_MILLS9), u, l_set1(NP_MILLS8));
    struct lanes e = l_fma(l_set1(NP_EXP6), r, l_set1(NP_EXP5));
    p = l_fma(p, u, l_set1(NP_MILLS7));
    e = l_fma(e, r, l_set1(NP_EXP4));
    p = l_fma(p, u, l_set1(NP_MILLS6));
    e = l_fma(e, r, l_set1(NP_EXP3));
    p = l_fma(p, u, l_set1(NP_MILLS5));
    e = l_fma(e, r, l_set1(NP_EXP2));
    p = l_fma(p, u, l_set1(NP_MILLS4));
    e = l_fma(e, r, l_set1(1.0f));
    p = l_fma(p, u, l_set1(NP_MILLS3));
    e = l_fma(e, r, l_set1(1.0f));
    p = l_fma(p, u, l_set1(NP_MILLS2));
    p = l_fma(p, u, l_set1(NP_MILLS1));
    p = l_fma(p, u, l_set1(NP_MILLS0));
    return (struct lanes_tail){l_scale(e, t), p, d, ad};
}

NP_INLINE struct lanes l_gelu(struct lanes x)
{
    struct lanes_tail t = l_tail(l_min(l_abs(x), l_set1(NP_TAIL_MAX)));
    struct lanes y = l_fnma(l_mul(t.ad, t.poly), t.exp, l_max(l_set1(-0.0f), x));
    return l_drop(y, x, l_set1(-NP_TAIL_MAX));
}

NP_INLINE struct lanes l_gelu_grad(struct lanes x)
{
    struct lanes a = l_min(l_abs(x), l_set1(NP_TAIL_MAX)), one = l_set1(1.0f);
    struct lanes_tail t = l_tail(a);
    struct lanes mills = l_mul(l_div(one, t.d), t.poly);
    struct lanes g = l_mul(t.exp, l_fma(a, l_set1(-NP_INV_SQRT_2PI), mills));
    struct lanes y = l_pick(l_set1(0.0f), x, l_sub(one, g), g);
    return l_pick(x, x, l_drop(y, x, l_set1(-NP_TAIL_MAX)), x);
}

#endif

/* Elementary functions: the same bits from every compiler, instruction set and vector width.
 *
 * Built from + - * /, explicit np_fmaf, compares, selects and integer operations on bit patterns;
 * no tables, no branches, no libm, so a loop over any of them vectorises, and C and CUDA C compile
 * the very same text. Compile without contraction (-ffp-contract=off, nvcc --fmad=false); vector
 * code also wants -fno-trapping-math.
 *
 * Error   largest found against double libm, in ulp of the result: exp 0.892, log 0.876 (all 2^32
 *         inputs); tanh 1.59, sigmoid 2.41, erf 0.986, gelu 3.97, swish 3.23, cos2pi and sin2pi
 *         0.881 (every input of the range where the function is not trivial). gelu_grad 5
 *         ulp or 2^-23 absolute, swish_grad 5 ulp or 2^-25 absolute. Results that a contract below
 *         returns as zero are excepted.
 * Source  coefficients are our own weighted minimax fits, rounded to float one after the other
 *         (each rounding is made good by the coefficients that follow).
 * NaN     in, NaN out, unless a contract says otherwise. Only exp, log, sigmoid, tanh, erf, gelu,
 *         gelu_grad and relu define their value at infinities.
 */
#ifndef NP_NUM_ELEMENTARY_H
#define NP_NUM_ELEMENTARY_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "num/function.h"

NP_FN uint32_t np_float_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

NP_FN float np_bits_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

NP_FN bool np_is_finite(float x)
{
    return (np_float_bits(x) & 0x7f800000u) != 0x7f800000u;
}

/* 0 if x is finite, other bits if not: for loops that collect them with |. */
NP_FN uint32_t np_not_finite(float x)
{
    return np_float_bits(x - x);
}

/* Where the first of the largest of count >= 1 numbers is. What is not a number is never larger. */
NP_FN size_t np_first_largest(const float *x, size_t count)
{
    size_t best = 0;
    for (size_t i = 1; i < count; i++)
        if (x[i] > x[best])
            best = i;
    return best;
}

NP_FN float np_absf(float x)
{
    return np_bits_float(np_float_bits(x) & 0x7fffffffu);
}

/* magnitude (which is not negative) with the sign of x */
NP_FN float np_signf(float magnitude, float x)
{
    return np_bits_float(np_float_bits(magnitude) | (np_float_bits(x) & 0x80000000u));
}

/* +0 where |x| < 2^-100, else x: keeps subnormals out of matrix products. */
NP_FN float np_flushf(float x)
{
    return np_absf(x) < 0x1p-100f ? 0.0f : x;
}

/* t = x + NP_ROUND holds x, rounded to an integer (|x| < 2^22), in its low bits and as
 * t - NP_ROUND. */
#define NP_ROUND 0x1.8p+23f
#define NP_LOG2E 0x1.715476p+0f
#define NP_LN2_HI 0x1.62e4p-1f /* 15 bits: products with exponents are exact */
#define NP_LN2_LO 0x1.7f7d1cp-20f

#define NP_EXP2 0x1.fffffcp-2f /* exp(r) is about 1 + r + NP_EXP2 r^2 + ... */
#define NP_EXP3 0x1.555492p-3f
#define NP_EXP4 0x1.5558b6p-5f
#define NP_EXP5 0x1.1239a8p-7f
#define NP_EXP6 0x1.6a474p-10f
#define NP_EXP_LEAST -87.33f
#define NP_EXP_MOST 0x1.62e42ep+6f

/* exp(x + tail) for -87.34 < x < 88.73 and a tail below an ulp of x; anything for other x. */
NP_FN float np_exp_core(float x, float tail)
{
    float t = np_fmaf(x, NP_LOG2E, NP_ROUND);
    float n = t - NP_ROUND;
    float r = np_fmaf(n, -NP_LN2_HI, x) + np_fmaf(n, -NP_LN2_LO, tail);
    float p = np_fmaf(NP_EXP6, r, NP_EXP5);
    p = np_fmaf(p, r, NP_EXP4);
    p = np_fmaf(p, r, NP_EXP3);
    p = np_fmaf(p, r, NP_EXP2);
    p = np_fmaf(p, r, 1.0f);
    p = np_fmaf(p, r, 1.0f);
    return np_bits_float(np_float_bits(p) + (np_float_bits(t) << 23));
}

/* exp(x); +0 for x < -87.33, so never subnormal; +inf where the result overflows. */
NP_FN float np_expf(float x)
{
    float y = np_exp_core(x, 0.0f);
    y = x < NP_EXP_LEAST ? 0.0f : y;
    return x <= NP_EXP_MOST ? y : x + INFINITY;
}

/* log(x), subnormals included; -inf at either zero, NaN below, +inf at +inf.
 * x = 2^e * (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)); e*ln2 + f is summed without error. */
NP_FN float np_logf(float x)
{
    uint32_t bits = np_float_bits(x);
    bool tiny = bits < 0x00800000u; /* subnormal: the bits as a number are x * 2^149 */
    uint32_t scaled = tiny ? np_float_bits((float)(int32_t)bits) : bits;
    uint32_t shifted = scaled + (0x3f800000u - 0x3f3504f3u); /* 0x3f3504f3: sqrt(1/2) */
    float e = (float)((int32_t)(shifted >> 23) - (tiny ? 127 + 149 : 127));
    float f = np_bits_float((shifted & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
    float p = -0x1.37a6e2p-4f;
    p = np_fmaf(p, f, 0x1.083188p-3f);
    p = np_fmaf(p, f, -0x1.0f4694p-3f);
    p = np_fmaf(p, f, 0x1.2274eap-3f);
    p = np_fmaf(p, f, -0x1.5425eep-3f);
    p = np_fmaf(p, f, 0x1.99a3dap-3f);
    p = np_fmaf(p, f, -0x1.00043p-2f);
    p = np_fmaf(p, f, 0x1.55555p-2f);
    p = np_fmaf(p, f, -0x1.fffff8p-2f);
    float high = e * NP_LN2_HI;
    float head = high + f;
    float rest = np_fmaf(e, NP_LN2_LO, f - (head - high));
    float y = head + np_fmaf(f * f, p, rest);
    y = x < INFINITY ? y : x;
    return x > 0.0f ? y : (x == 0.0f ? -INFINITY : NAN);
}

/* tanh(x): x + x^3 P(x^2) below 0.55, 1 - 2 / (exp(2x) + 1) above. */
NP_FN float np_tanhf(float x)
{
    float a = np_absf(x);
    float s = a * a;
    float p = -0x1.99a7a4p-8f;
    p = np_fmaf(p, s, 0x1.58f6d4p-6f);
    p = np_fmaf(p, s, -0x1.b91fe6p-5f);
    p = np_fmaf(p, s, 0x1.110cf2p-3f);
    p = np_fmaf(p, s, -0x1.55554ap-2f);
    float small = np_fmaf(a * s, p, a);
    float large = 1.0f - 2.0f / (np_expf(a + a) + 1.0f);
    return np_signf(a >= 0.55f ? large : small, x);
}

/* 1 / (1 + exp(-x)); +0 for x < -87.33. */
NP_FN float np_sigmoidf(float x)
{
    float z = np_expf(-np_absf(x));
    return (x < 0.0f ? z : 1.0f) / (1.0f + z);
}

/* erf(x): x + x P(x^2) below 1, 1 - exp(x Q(x)) above. */
NP_FN float np_erff(float x)
{
    float a = np_absf(x);
    float s = a * a;
    float p = 0x1.477e96p-14f;
    p = np_fmaf(p, s, -0x1.a354bcp-11f);
    p = np_fmaf(p, s, 0x1.53f26ep-8f);
    p = np_fmaf(p, s, -0x1.b7f71ep-6f);
    p = np_fmaf(p, s, 0x1.ce2ce6p-4f);
    p = np_fmaf(p, s, -0x1.81273ep-2f);
    p = np_fmaf(p, s, 0x1.06eba8p-3f);
    float small = np_fmaf(a, p, a);
    float b = a < 3.93f ? a : 3.93f; /* erf rounds to 1 from here */
    float q = 0x1.b9c122p-13f;
    q = np_fmaf(q, b, -0x1.a1b8dep-9f);
    q = np_fmaf(q, b, 0x1.758806p-6f);
    q = np_fmaf(q, b, -0x1.ae8e6ap-4f);
    q = np_fmaf(q, b, -0x1.458bbp-1f);
    q = np_fmaf(q, b, -0x1.20e412p+0f);
    float h = b * q;
    float large = 1.0f - np_exp_core(h, np_fmaf(b, q, -h));
    return np_signf(a >= 1.0f ? large : small, x);
}

/* The normal tail Phi(-a) for 0 <= a <= 13.2 is np_tail_exp(a) * mills(a): two factors, so that
 * neither loses accuracy where their product is small. */
#define NP_TAIL_MAX 13.146f /* beyond, a * Phi(-a) would be subnormal */
#define NP_INV_SQRT_2PI 0x1.988454p-2f

NP_FN float np_tail_exp(float a)
{
    float b = -0.5f * a;
    float h = a * b;
    return np_exp_core(h, np_fmaf(a, b, -h));
}

/* scale * mills(a), mills(a) = T(u) / (a + NP_MILLS_POLE). With scale = a, both quotients are one
 * and the result hardly feels its rounding, as a * mills(a) tends to a constant. */
#define NP_MILLS_POLE 3.375f
#define NP_MILLS9 0x1.2b2d36p-13f
#define NP_MILLS8 0x1.519d5ep-12f
#define NP_MILLS7 -0x1.be887ap-11f
#define NP_MILLS6 -0x1.285d4cp-9f
#define NP_MILLS5 0x1.006168p-7f
#define NP_MILLS4 0x1.1dcbfcp-7f
#define NP_MILLS3 -0x1.92fb46p-4f
#define NP_MILLS2 0x1.2e76f6p-2f
#define NP_MILLS1 -0x1.1b21ccp-1f
#define NP_MILLS0 0x1.7b6eep-1f

NP_FN float np_tail_mills(float a, float scale)
{
    float d = a + NP_MILLS_POLE;
    float u = np_fmaf(a / d, 2.0f, -1.0f);
    float p = np_fmaf(NP_MILLS9, u, NP_MILLS8);
    p = np_fmaf(p, u, NP_MILLS7);
    p = np_fmaf(p, u, NP_MILLS6);
    p = np_fmaf(p, u, NP_MILLS5);
    p = np_fmaf(p, u, NP_MILLS4);
    p = np_fmaf(p, u, NP_MILLS3);
    p = np_fmaf(p, u, NP_MILLS2);
    p = np_fmaf(p, u, NP_MILLS1);
    p = np_fmaf(p, u, NP_MILLS0);
    return scale / d * p;
}

/* x * Phi(x), the exact gelu; +0 for x < -13.146, where it would become subnormal. */
NP_FN float np_geluf(float x)
{
    float a = np_absf(x);
    a = a < NP_TAIL_MAX ? a : NP_TAIL_MAX;
    float y = np_fmaf(-np_tail_mills(a, a), np_tail_exp(a), x < 0.0f ? -0.0f : x);
    return x < -NP_TAIL_MAX ? 0.0f : y;
}

/* d/dx (x Phi(x)) = Phi(x) + x phi(x); +0 for x < -13.146. */
NP_FN float np_gelu_gradf(float x)
{
    float a = np_absf(x);
    a = a < NP_TAIL_MAX ? a : NP_TAIL_MAX;
    float g = np_tail_exp(a) * np_fmaf(-a, NP_INV_SQRT_2PI, np_tail_mills(a, 1.0f));
    float y = x < 0.0f ? g : 1.0f - g;
    y = x < -NP_TAIL_MAX ? 0.0f : y;
    return x == x ? y : x;
}

/* x > 0 ? x : +0; +0 for NaN. */
NP_FN float np_reluf(float x)
{
    return x > 0.0f ? x : 0.0f;
}

NP_FN float np_relu_gradf(float x)
{
    return x > 0.0f ? 1.0f : 0.0f;
}

/* x > 0 ? (x < 6 ? x : 6) : +0; +0 for NaN. */
NP_FN float np_relu6f(float x)
{
    float y = x < 6.0f ? x : 6.0f;
    return x > 0.0f ? y : 0.0f;
}

NP_FN float np_relu6_gradf(float x)
{
    float y = x < 6.0f ? 1.0f : 0.0f;
    return x > 0.0f ? y : 0.0f;
}

/* x * sigmoid(x); -0 for x < -87.33. */
NP_FN float np_swishf(float x)
{
    return x * np_sigmoidf(x);
}

/* d/dx (x s) = s + x s (1 - s) with s = sigmoid(x), 1 - s = sigmoid(-x). */
NP_FN float np_swish_gradf(float x)
{
    return np_sigmoidf(x) * np_fmaf(x, np_sigmoidf(-x), 1.0f);
}

/* s * (1 - s) with s = sigmoid(x), 1 - s rounded. */
NP_FN float np_sigmoid_gradf(float x)
{
    float s = np_sigmoidf(x);
    return s * (1.0f - s);
}

#define NP_SIXTH 0x1.555556p-3f /* 1/6 and 1/3, rounded */
#define NP_THIRD 0x1.555556p-2f

/* relu6(x + 3) * (1/6); +0 for NaN. */
NP_FN float np_hsigmoidf(float x)
{
    return np_relu6f(x + 3.0f) * NP_SIXTH;
}

/* -3 < x < 3 ? 1/6 : +0 */
NP_FN float np_hsigmoid_gradf(float x)
{
    return np_absf(x) < 3.0f ? NP_SIXTH : 0.0f;
}

/* x * hsigmoid(x); -0 for x <= -3. */
NP_FN float np_hswishf(float x)
{
    return x * np_hsigmoidf(x);
}

/* x <= -3: +0; x >= 3: 1; else fma(x, 1/3, 1/2). +0 for NaN. */
NP_FN float np_hswish_gradf(float x)
{
    float y = x < 3.0f ? np_fmaf(x, NP_THIRD, 0.5f) : 1.0f;
    return x > -3.0f ? y : 0.0f;
}

/* cos(2 pi (u - quarters / 4)) for u in [0,1): u = k/4 + f exactly, |f| <= 1/8. */
NP_FN float np_turnf(float u, uint32_t quarters)
{
    float t = np_fmaf(u, 4.0f, NP_ROUND);
    uint32_t k = np_float_bits(t) - quarters;
    float f = np_fmaf(t - NP_ROUND, -0.25f, u);
    float q = f * f;
    float s = -0x1.2db9c2p+6f;
    s = np_fmaf(s, q, 0x1.465fb6p+6f);
    s = np_fmaf(s, q, -0x1.4abbbep+5f);
    s = np_fmaf(s, q, -0x1.777a5cp-23f); /* 2 pi in two floats */
    s = np_fmaf(f, 0x1.921fb6p+2f, f * s);
    float c = 0x1.d4e30ep+5f;
    c = np_fmaf(c, q, -0x1.55b298p+6f);
    c = np_fmaf(c, q, 0x1.03c1bp+6f);
    c = np_fmaf(c, q, -0x1.3bd3ccp+4f);
    c = np_fmaf(c, q, 1.0f);
    float y = (k & 1u) != 0 ? s : c;
    return np_bits_float(np_float_bits(y) ^ (((k + 1u) & 2u) << 30));
}

/* cos(2 pi u), sin(2 pi u) for u in [0,1). A zero may have either sign. */
NP_FN float np_cos2pif(float u)
{
    return np_turnf(u, 0);
}

NP_FN float np_sin2pif(float u)
{
    return np_turnf(u, 1);
}

#endif

/* Vectors of NEON, a part of num/simd.h, where the names are explained. */
#if !defined(NP_NUM_SIMD_NEON_H) && defined(__aarch64__)
#define NP_NUM_SIMD_NEON_H

#include <arm_neon.h>
#include <stddef.h>
#include <stdint.h>

#define NP_VW 4
#define NP_SIMD(name) name##_neon
typedef float32x4_t vf;
#define v_zero() vdupq_n_f32(0.0f)
#define v_set1(x) vdupq_n_f32(x)
#define v_load(p) vld1q_f32(p)
#define v_store(p, v) vst1q_f32(p, v)
#define v_stream(p, v) v_store(p, v)
#define v_streamed() ((void)0)
#define v_add(a, b) vaddq_f32(a, b)
#define v_sub(a, b) vsubq_f32(a, b)
#define v_mul(a, b) vmulq_f32(a, b)
#define v_div(a, b) vdivq_f32(a, b)
#define v_fma(a, b, c) vfmaq_f32(c, a, b)
#define v_fms(a, b, c) vfmaq_f32(vnegq_f32(c), a, b)
#define v_fnma(a, b, c) vfmsq_f32(c, a, b)
#define v_fma1(x, b, c) vfmaq_n_f32(c, b, x)
#define v_keep(v) __asm__("" : "+w"(v))
typedef uint8x16_t vi; /* bytes of a vector */
static inline vi vi_load(const int32_t *p)
{
    uint32x4_t each = vmulq_n_u32(vreinterpretq_u32_s32(vld1q_s32(p)), 0x04040404);
    return vreinterpretq_u8_u32(vaddq_u32(each, vdupq_n_u32(0x03020100)));
}
#define v_choose(v, i) vreinterpretq_f32_u8(vqtbl1q_u8(vreinterpretq_u8_f32(v), i))
#define v_zip_low(a, b) vzip1q_f32(a, b)
#define v_zip_high(a, b) vzip2q_f32(a, b)
#define v_even(a, b) vuzp1q_f32(a, b)
#define v_odd(a, b) vuzp2q_f32(a, b)

#define v_sqrt(a) vsqrtq_f32(a)
#define v_abs(a) vabsq_f32(a)

/* Not vmaxq and vminq, which order the zeros. */
static inline vf v_max(vf a, vf b)
{
    return vbslq_f32(vcgtq_f32(a, b), a, b);
}

static inline vf v_min(vf a, vf b)
{
    return vbslq_f32(vcltq_f32(a, b), a, b);
}

static inline vf v_drop(vf x, vf a, vf b)
{
    return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(x), vcltq_f32(a, b)));
}

static inline vf v_only(vf x, vf a, vf b)
{
    return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(x), vcltq_f32(a, b)));
}

static inline vf v_pick(vf x, vf limit, vf a, vf b)
{
    return vbslq_f32(vcleq_f32(x, limit), a, b);
}

static inline vf v_below(vf x, vf a, vf b)
{
    return vbslq_f32(vcltzq_s32(vreinterpretq_s32_f32(x)), a, b);
}

static inline vf v_add_same(vf acc, vf x, vf a, vf b)
{
    uint32x4_t same = vceqq_u32(vreinterpretq_u32_f32(a), vreinterpretq_u32_f32(b));
    return v_add(acc, vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(x), same)));
}

static inline vf v_scale(vf p, vf t)
{
    uint32x4_t shifted = vshlq_n_u32(vreinterpretq_u32_f32(t), 23);
    return vreinterpretq_f32_u32(vaddq_u32(vreinterpretq_u32_f32(p), shifted));
}

static inline vf v_or(vf a, vf b)
{
    return vreinterpretq_f32_u32(vorrq_u32(vreinterpretq_u32_f32(a), vreinterpretq_u32_f32(b)));
}
#define v_any(a) (vmaxvq_u32(vreinterpretq_u32_f32(a)) != 0)

static inline vf v_first(size_t n, vf a, vf b)
{
    static const uint32_t index[4] = {0, 1, 2, 3};
    return vbslq_f32(vcltq_u32(vld1q_u32(index), vdupq_n_u32((uint32_t)n)), a, b);
}

static inline vf v_load_n(const float *p, size_t n)
{
    vf v = v_zero();
    if (n >= NP_VW)
        return v_load(p);
    if (n == 1)
        return vld1q_lane_f32(p, v, 0);
    if (n >= 2)
        v = vcombine_f32(vld1_f32(p), vdup_n_f32(0.0f));
    return n == 3 ? vld1q_lane_f32(p + 2, v, 2) : v;
}

static inline void v_store_n(float *p, size_t n, vf v)
{
    if (n >= NP_VW)
        v_store(p, v);
    else if (n == 1)
        vst1q_lane_f32(p, v, 0);
    else if (n >= 2)
        vst1_f32(p, vget_low_f32(v));
    if (n == 3)
        vst1q_lane_f32(p + 2, v, 2);
}

static inline float v_total(vf v)
{
    return vpadds_f32(vadd_f32(vget_low_f32(v), vget_high_f32(v)));
}
#define v_most(v) vmaxvq_f32(v)

typedef uint64x2_t vq;
#define q_set1(x) vdupq_n_u64(x)
#define q_load(p) vld1q_u64(p)
#define q_add(a, b) vaddq_u64(a, b)
#define q_xor(a, b) veorq_u64(a, b)
#define q_xor3(a, b, c) q_xor(q_xor(a, b), c)
#define q_high(a) vshrq_n_u64(a, 32)
#define q_mul(a, b) vmull_u32(vmovn_u64(a), vmovn_u64(b))
static inline vq q_mul64(vq a, vq b)
{
    vq cross = vmlal_u32(q_mul(q_high(a), b), vmovn_u64(a), vshrn_n_u64(b, 32));
    return q_add(q_mul(a, b), vshlq_n_u64(cross, 32));
}
static inline void q_mul_bits(vq *even, vq *odd, vf v, uint64_t x)
{
    uint32x4_t bits = vreinterpretq_u32_f32(v), upper = vmulq_n_u32(bits, (uint32_t)(x >> 32));
    uint32x2_t by = vdup_n_u32((uint32_t)x);
    vq wide = vreinterpretq_u64_u32(bits), cross = vreinterpretq_u64_u32(upper);
    *even = q_add(vmull_u32(vmovn_u64(wide), by), vshlq_n_u64(cross, 32));
    *odd =
        q_add(vmull_u32(vshrn_n_u64(wide, 32), by), vandq_u64(cross, q_set1(0xffffffffull << 32)));
}
#define q_total(a) vaddvq_u64(a)
static inline void q_store4(uint32_t *p, vq a, vq b, vq c, vq d)
{
    vq ab = vreinterpretq_u64_u32(vtrn1q_u32(vreinterpretq_u32_u64(a), vreinterpretq_u32_u64(b)));
    vq cd = vreinterpretq_u64_u32(vtrn1q_u32(vreinterpretq_u32_u64(c), vreinterpretq_u32_u64(d)));
    vst1q_u32(p, vreinterpretq_u32_u64(vzip1q_u64(ab, cd)));
    vst1q_u32(p + 4, vreinterpretq_u32_u64(vzip2q_u64(ab, cd)));
}

/* Four 4 x 4 blocks. */
static inline void v_transpose8(float *to, size_t ld, const float *const from[8], size_t at)
{
    for (size_t j = 0; j < 8; j += 4)
        for (size_t i = 0; i < 8; i += 4) {
            float *y = to + i * ld + j;
            float32x4x2_t a = vtrnq_f32(v_load(from[j] + at + i), v_load(from[j + 1] + at + i));
            float32x4x2_t b = vtrnq_f32(v_load(from[j + 2] + at + i), v_load(from[j + 3] + at + i));
            v_store(y, vcombine_f32(vget_low_f32(a.val[0]), vget_low_f32(b.val[0])));
            v_store(y + ld, vcombine_f32(vget_low_f32(a.val[1]), vget_low_f32(b.val[1])));
            v_store(y + 2 * ld, vcombine_f32(vget_high_f32(a.val[0]), vget_high_f32(b.val[0])));
            v_store(y + 3 * ld, vcombine_f32(vget_high_f32(a.val[1]), vget_high_f32(b.val[1])));
        }
}

#endif

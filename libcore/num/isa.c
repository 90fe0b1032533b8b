#include <string.h>

#include "num/backend.h"

static const char *const names[NP_ISA_COUNT] = {"scalar", "avx2", "avx512", "neon"};

const struct np_kernels *np_kernels_get(enum np_isa isa)
{
    switch (isa) {
    case NP_ISA_SCALAR:
        return &np_kernels_scalar;
#if defined(__x86_64__)
    case NP_ISA_AVX2:
        if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
            return &np_kernels_avx2;
        return NULL;
#if !defined(NP_NO_AVX512)
    case NP_ISA_AVX512:
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
            __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma"))
            return &np_kernels_avx512;
        return NULL;
#endif
#elif defined(__aarch64__)
    case NP_ISA_NEON:
        return &np_kernels_neon;
#endif
    default:
        return NULL;
    }
}

const struct np_kernels *np_kernels_best(void)
{
    for (int isa = NP_ISA_COUNT - 1; isa > NP_ISA_SCALAR; isa--) {
        const struct np_kernels *kernels = np_kernels_get((enum np_isa)isa);
        if (kernels)
            return kernels;
    }
    return &np_kernels_scalar;
}

const char *np_isa_name(enum np_isa isa)
{
    return names[isa];
}

/* The sums and products are computed at run time: the operands are volatile. */
enum np_status np_float_check(struct np_error *err)
{
    volatile float one = 1.0f, ulp = 0x1p-23f, half = 0x1p-24f;
    volatile float smallest = 0x1p-126f, subnormal = 0x1p-149f, two = 2.0f;
    if (one + half != 1.0f || -one - half != -1.0f || (one + ulp) + half != 1.0f + 0x1p-22f)
        return np_fail(err, NP_EINPUT, "floating point does not round to nearest");
    /* To compare with what they should be would flush that, too. */
    if (smallest / two == 0.0f || subnormal * two == 0.0f)
        return np_fail(err, NP_EINPUT, "floating point flushes subnormal numbers to zero");
    return NP_OK;
}

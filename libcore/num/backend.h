/* What the backends are made of: each kernel that has a file of its own, per instruction set.
 * The tables (kernels_scalar.c, kernels_avx2.c, kernels_avx512.c) collect them; contracts stand in
 * num/kernels.h. Private to num/.
 */
#ifndef NP_NUM_BACKEND_H
#define NP_NUM_BACKEND_H

#include "num/kernels.h"

#define NP_BACKEND(isa)                                                                            \
    extern const struct np_kernels np_kernels_##isa;                                               \
    void np_matmul_##isa(struct np_team *, const struct np_matmul *);                              \
    void np_attention_##isa(struct np_team *, float *out, float *stats,                            \
                            const struct np_attention *);                                          \
    void np_attention_grad_##isa(struct np_team *, float *dqkv, const float *dout,                 \
                                 const float *stats, const struct np_attention *);

NP_BACKEND(scalar)
#if defined(__x86_64__)
NP_BACKEND(avx2)
NP_BACKEND(avx512)
#endif

#endif

/* What the backends are made of: each kernel that has a file of its own, per instruction set.
 * The tables (kernels_scalar.c, kernels_avx2.c, ...) collect them; contracts stand in
 * num/kernels.h. Private to num/.
 */
#ifndef NP_NUM_BACKEND_H
#define NP_NUM_BACKEND_H

#include "num/isa.h"
#include "num/kernels.h"

#define NP_BACKEND(isa)                                                                            \
    extern const struct np_kernels np_kernels_##isa;                                               \
    bool np_matmul_##isa(struct np_team *, const struct np_matmul *);                              \
    bool np_conv_##isa(struct np_team *, const struct np_conv *);                                  \
    bool np_conv_grad_##isa(struct np_team *, const struct np_conv *);                             \
    bool np_conv_grad_weight_##isa(struct np_team *, const struct np_conv *);                      \
    bool np_dwconv_##isa(struct np_team *, const struct np_conv *);                                \
    bool np_dwconv_grad_##isa(struct np_team *, const struct np_conv *);                           \
    bool np_dwconv_grad_weight_##isa(struct np_team *, const struct np_conv *);                    \
    void np_attention_##isa(struct np_team *, float *out, float *stats,                            \
                            const struct np_attention *);                                          \
    void np_attention_grad_##isa(struct np_team *, float *dq, float *dk, float *dv,                \
                                 float *drelative, const float *dout, const float *stats,          \
                                 const struct np_attention *);

NP_BACKEND(scalar)
NP_EACH_SIMD(NP_BACKEND)

#endif

/* The table of one backend, made of the functions in scope where this is included (once a backend:
 * kernels_scalar.c, kernels_avx2.c, kernels_avx512.c). Private to num/.
 */
#ifndef NP_NUM_KERNELS_TABLE_H
#define NP_NUM_KERNELS_TABLE_H

#define NP_TABLE(isa)                                                                              \
    const struct np_kernels np_kernels_##isa = {                                                   \
        .name = #isa,                                                                              \
        .matmul = np_matmul_##isa,                                                                 \
        .bias_add = bias_add,                                                                      \
        .bias_act = bias_act,                                                                      \
        .act_grad = act_grad,                                                                      \
        .bias_glu = bias_glu,                                                                      \
        .glu_grad = glu_grad,                                                                      \
        .add = add,                                                                                \
        .finite = all_finite,                                                                      \
        .zero = zero,                                                                              \
        .transpose = transpose,                                                                    \
        .dropout = dropout,                                                                        \
        .normal = normal,                                                                          \
        .layernorm = layernorm,                                                                    \
        .layernorm_grad = layernorm_grad,                                                          \
        .layernorm_grad_weight = layernorm_grad_weight,                                            \
        .colsum = colsum,                                                                          \
        .rowsum = rowsum,                                                                          \
        .sumsq = sumsq,                                                                            \
        .softmax = softmax,                                                                        \
        .softmax_grad = softmax_grad,                                                              \
        .attention = np_attention_##isa,                                                           \
        .attention_grad = np_attention_grad_##isa,                                                 \
        .dwconv = dwconv,                                                                          \
        .dwconv_grad = dwconv_grad,                                                                \
        .dwconv_grad_weight = dwconv_grad_weight,                                                  \
        .embed = embed,                                                                            \
        .embed_grad = embed_grad,                                                                  \
        .xent = xent,                                                                              \
        .xent_grad = xent_grad,                                                                    \
        .adamw = adamw,                                                                            \
        .sgd = sgd,                                                                                \
        .fingerprint = fingerprint,                                                                \
    }

#endif

/* The table of one backend, made of the functions in scope where this is included (once a backend:
 * kernels_scalar.c, kernels_avx2.c, kernels_avx512.c). Private to num/.
 */
#ifndef NP_NUM_KERNELS_TABLE_H
#define NP_NUM_KERNELS_TABLE_H

#define NP_TABLE(isa)                                                                              \
    const struct np_kernels np_kernels_##isa = {                                                   \
        .name = #isa,                                                                              \
        .matmul = np_matmul_##isa,                                                                 \
        .conv = np_conv_##isa,                                                                     \
        .conv_grad = np_conv_grad_##isa,                                                           \
        .conv_grad_weight = np_conv_grad_weight_##isa,                                             \
        .bias_add = bias_add,                                                                      \
        .act_grad = act_grad,                                                                      \
        .bias_glu = bias_glu,                                                                      \
        .glu_grad = glu_grad,                                                                      \
        .add = add,                                                                                \
        .act = act,                                                                                \
        .finite = all_finite,                                                                      \
        .fill = fill,                                                                              \
        .copy = copy,                                                                              \
        .gather = gather,                                                                          \
        .scatter = scatter,                                                                        \
        .divide = divide,                                                                          \
        .rstd = rstd,                                                                              \
        .spread = spread,                                                                          \
        .transpose = transpose,                                                                    \
        .dropout = dropout,                                                                        \
        .normal = normal,                                                                          \
        .layernorm = layernorm,                                                                    \
        .layernorm_grad = layernorm_grad,                                                          \
        .layernorm_grad_weight = layernorm_grad_weight,                                            \
        .rowsum = rowsum,                                                                          \
        .sumsq = sumsq,                                                                            \
        .softmax = softmax,                                                                        \
        .softmax_grad = softmax_grad,                                                              \
        .rotate = rotate,                                                                          \
        .attention = np_attention_##isa,                                                           \
        .attention_grad = np_attention_grad_##isa,                                                 \
        .dwconv = np_dwconv_##isa,                                                                 \
        .dwconv_grad = np_dwconv_grad_##isa,                                                       \
        .dwconv_grad_weight = np_dwconv_grad_weight_##isa,                                         \
        .max_pool = max_pool,                                                                      \
        .max_pool_grad = max_pool_grad,                                                            \
        .avg_pool = avg_pool,                                                                      \
        .avg_pool_grad = avg_pool_grad,                                                            \
        .col_sum = col_sum,                                                                        \
        .col_square = col_square,                                                                  \
        .col_dot = col_dot,                                                                        \
        .moments = moments,                                                                        \
        .norm_weight = norm_weight,                                                                \
        .colnorm = colnorm,                                                                        \
        .colnorm_grad_sums = colnorm_grad_sums,                                                    \
        .colnorm_grad = colnorm_grad,                                                              \
        .col_scale = col_scale,                                                                    \
        .col_spread = col_spread,                                                                  \
        .merge = merge,                                                                            \
        .split = split,                                                                            \
        .drop_path = drop_path,                                                                    \
        .embed = embed,                                                                            \
        .embed_grad = embed_grad,                                                                  \
        .xent = xent,                                                                              \
        .hits = hits,                                                                              \
        .xent_grad = xent_grad,                                                                    \
        .distill = distill,                                                                        \
        .adamw = adamw,                                                                            \
        .sgd = sgd,                                                                                \
        .fingerprint = fingerprint,                                                                \
    }

#endif

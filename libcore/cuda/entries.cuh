/* The functions np_cuda_matmul, np_cuda_conv, ... that cuda_table.cu collects; contracts stand in
 * num/kernels.h. Private to cuda/. */
#ifndef NP_CUDA_ENTRIES_CUH
#define NP_CUDA_ENTRIES_CUH

/* X(name) for every entry of the table, in its order. */
#define NP_CUDA_ENTRIES(X)                                                                         \
    X(matmul)                                                                                      \
    X(conv)                                                                                        \
    X(conv_grad)                                                                                   \
    X(conv_grad_weight)                                                                            \
    X(bias_add)                                                                                    \
    X(act_grad)                                                                                    \
    X(bias_glu)                                                                                    \
    X(glu_grad)                                                                                    \
    X(add)                                                                                         \
    X(act)                                                                                         \
    X(finite)                                                                                      \
    X(fill)                                                                                        \
    X(copy)                                                                                        \
    X(gather)                                                                                      \
    X(scatter)                                                                                     \
    X(divide)                                                                                      \
    X(rstd)                                                                                        \
    X(spread)                                                                                      \
    X(transpose)                                                                                   \
    X(dropout)                                                                                     \
    X(normal)                                                                                      \
    X(layernorm)                                                                                   \
    X(layernorm_grad)                                                                              \
    X(layernorm_grad_weight)                                                                       \
    X(rowsum)                                                                                      \
    X(sumsq)                                                                                       \
    X(softmax)                                                                                     \
    X(softmax_grad)                                                                                \
    X(rotate)                                                                                      \
    X(attention)                                                                                   \
    X(attention_grad)                                                                              \
    X(dwconv)                                                                                      \
    X(dwconv_grad)                                                                                 \
    X(dwconv_grad_weight)                                                                          \
    X(max_pool)                                                                                    \
    X(max_pool_grad)                                                                               \
    X(avg_pool)                                                                                    \
    X(avg_pool_grad)                                                                               \
    X(col_sum)                                                                                     \
    X(col_square)                                                                                  \
    X(col_dot)                                                                                     \
    X(moments)                                                                                     \
    X(norm_weight)                                                                                 \
    X(colnorm)                                                                                     \
    X(colnorm_grad_sums)                                                                           \
    X(colnorm_grad)                                                                                \
    X(col_scale)                                                                                   \
    X(col_spread)                                                                                  \
    X(merge)                                                                                       \
    X(split)                                                                                       \
    X(drop_path)                                                                                   \
    X(embed)                                                                                       \
    X(embed_grad)                                                                                  \
    X(xent)                                                                                        \
    X(hits)                                                                                        \
    X(xent_grad)                                                                                   \
    X(distill)                                                                                     \
    X(adamw)                                                                                       \
    X(sgd)                                                                                         \
    X(fingerprint)

/* Each is declared with the type that its entry points to. */
template <class Type> struct cuda_pointed;
template <class Type> struct cuda_pointed<Type *> {
    typedef Type type;
};
#define NP_CUDA_DECLARE(name) cuda_pointed<decltype(np_kernels::name)>::type np_cuda_##name;
NP_CUDA_ENTRIES(NP_CUDA_DECLARE)

#endif

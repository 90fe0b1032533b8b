/* The kernels of num/kernels.h and what each is called with, for whoever makes something of all of
 * them. Private to mpi/, and its tests.
 */
#ifndef NP_MPI_KERNEL_LIST_H
#define NP_MPI_KERNEL_LIST_H

/* clang-format off */

/* X(result, kernel, arguments): V is a value or a pointer to memory, S a struct that is passed by
 * its address, F where members add their shares of a fingerprint. */
#define NP_KERNELS(X)                                                                              \
    X(bool, matmul, (S, np_matmul, call))                                                          \
    X(bool, conv, (S, np_conv, call))                                                              \
    X(bool, conv_grad, (S, np_conv, call))                                                         \
    X(bool, conv_grad_weight, (S, np_conv, call))                                                  \
    X(void, bias_add, (V, float *, y), (V, const float *, x), (V, const float *, bias),            \
      (V, size_t, rows), (V, size_t, cols))                                                        \
    X(bool, act_grad, (V, enum np_act, act), (V, float *, dx), (V, const float *, base),           \
      (V, const float *, u), (V, const float *, dy), (V, size_t, count))                           \
    X(void, bias_glu, (V, float *, y), (V, float *, u), (V, const float *, bias),                  \
      (V, size_t, rows), (V, size_t, cols))                                                        \
    X(void, glu_grad, (V, float *, du), (V, const float *, u), (V, const float *, dy),             \
      (V, size_t, rows), (V, size_t, cols))                                                        \
    X(bool, add, (V, enum np_act, act), (V, float *, y), (V, float *, kept),                       \
      (V, const float *, a), (V, const float *, b), (V, size_t, count))                            \
    X(bool, act, (V, enum np_act, act), (V, float *, y), (V, const float *, x),                    \
      (V, size_t, count))                                                                          \
    X(bool, finite, (V, const float *, x), (V, size_t, count))                                     \
    X(void, fill, (V, float *, y), (V, size_t, count), (V, float, value))                          \
    X(void, copy, (V, float *, y), (V, const float *, x), (V, size_t, count))                      \
    X(void, gather, (V, float *, y), (V, const float *, x), (S, np_slice, slice))                  \
    X(void, scatter, (V, float *, y), (V, const float *, x), (S, np_slice, slice))                 \
    X(bool, divide, (V, float *, y), (V, const float *, x), (V, const float *, gamma),             \
      (V, size_t, count), (V, float, by))                                                          \
    X(bool, rstd, (V, float *, y), (V, const float *, x), (V, size_t, count), (V, float, eps))     \
    X(void, spread, (V, float *, y), (V, const float *, x), (V, size_t, count),                    \
      (V, size_t, width))                                                                          \
    X(void, transpose, (V, float *, y), (V, const float *, x), (V, size_t, rows),                  \
      (V, size_t, cols))                                                                           \
    X(void, dropout, (V, float *, y), (V, const float *, x), (V, size_t, count),                   \
      (V, struct np_draw_key, key), (V, uint64_t, step), (V, uint64_t, first),                     \
      (V, uint32_t, threshold), (V, float, keep_scale))                                            \
    X(void, normal, (V, float *, w), (V, size_t, count), (V, struct np_draw_key, key),             \
      (V, float, std))                                                                             \
    X(void, layernorm, (V, float *, y), (V, float *, mean), (V, float *, rstd),                    \
      (V, const float *, x), (V, const float *, gamma), (V, const float *, beta),                  \
      (V, size_t, rows), (V, size_t, cols), (V, float, eps))                                       \
    X(bool, layernorm_grad, (V, float *, dx), (V, const float *, base), (V, const float *, x),     \
      (V, const float *, dy), (V, const float *, mean), (V, const float *, rstd),                  \
      (V, const float *, gamma), (V, size_t, rows), (V, size_t, cols))                             \
    X(void, layernorm_grad_weight, (V, float *, dgamma), (V, float *, dbeta),                      \
      (V, const float *, x), (V, const float *, dy), (V, const float *, mean),                     \
      (V, const float *, rstd), (V, size_t, rows), (V, size_t, cols), (V, size_t, grain),          \
      (V, bool, accumulate))                                                                       \
    X(void, rowsum, (V, float *, out), (V, const float *, x), (V, size_t, rows),                   \
      (V, size_t, cols))                                                                           \
    X(void, sumsq, (V, float *, sum), (V, const float *, x), (V, size_t, count),                   \
      (V, bool, accumulate))                                                                       \
    X(void, softmax, (V, float *, y), (V, const float *, x), (V, size_t, rows), (V, size_t, cols)) \
    X(void, softmax_grad, (V, float *, dx), (V, const float *, y), (V, const float *, dy),         \
      (V, size_t, rows), (V, size_t, cols))                                                        \
    X(void, rotate, (V, float *, y), (V, const float *, x), (S, np_rotation, rotation))            \
    X(void, attention, (V, float *, out), (V, float *, stats), (S, np_attention, call))            \
    X(void, attention_grad, (V, float *, dq), (V, float *, dk), (V, float *, dv),                  \
      (V, float *, drelative), (V, const float *, dout), (V, const float *, stats),                \
      (S, np_attention, call))                                                                     \
    X(bool, dwconv, (S, np_conv, call))                                                            \
    X(bool, dwconv_grad, (S, np_conv, call))                                                       \
    X(bool, dwconv_grad_weight, (S, np_conv, call))                                                \
    X(void, max_pool, (S, np_conv, call), (V, int32_t *, which))                                   \
    X(bool, max_pool_grad, (S, np_conv, call), (V, const int32_t *, which),                        \
      (V, const float *, base))                                                                    \
    X(void, avg_pool, (S, np_conv, call))                                                          \
    X(bool, avg_pool_grad, (S, np_conv, call), (V, const float *, base))                           \
    X(void, col_sum, (V, float *, out), (V, const float *, x), (V, size_t, segments),              \
      (V, size_t, rows), (V, size_t, cols), (V, size_t, grain), (V, enum np_sum, sum))             \
    X(void, col_square, (V, float *, out), (V, const float *, x), (V, const float *, mean),        \
      (V, size_t, segments), (V, size_t, rows), (V, size_t, cols), (V, enum np_sum, sum))          \
    X(void, col_dot, (V, float *, out), (V, const float *, a), (V, const float *, b),              \
      (V, size_t, segments), (V, size_t, rows), (V, size_t, cols), (V, size_t, grain))             \
    X(bool, moments, (S, np_moments, call))                                                        \
    X(bool, norm_weight, (V, float *, dgamma), (V, float *, dbeta), (V, const float *, dot),       \
      (V, const float *, sum), (V, size_t, cols), (V, bool, accumulate))                           \
    X(bool, colnorm, (V, float *, y), (S, np_colnorm, call))                                       \
    X(void, colnorm_grad_sums, (V, float *, sum), (V, float *, dot), (S, np_colnorm, call),        \
      (V, const float *, dy), (V, enum np_sum, how))                                               \
    X(bool, colnorm_grad, (V, float *, dx), (V, const float *, base), (S, np_colnorm, call),       \
      (V, const float *, dy), (V, const float *, a), (V, const float *, b))                        \
    X(bool, col_scale, (V, float *, y), (V, const float *, base), (V, const float *, x),           \
      (V, const float *, s), (V, size_t, segments), (V, size_t, rows), (V, size_t, cols))          \
    X(bool, col_spread, (V, float *, y), (V, const float *, base), (V, const float *, s),          \
      (V, size_t, segments), (V, size_t, rows), (V, size_t, cols))                                 \
    X(void, merge, (V, float *, y), (V, const float *, a), (V, const float *, b),                  \
      (V, size_t, rows), (V, size_t, na), (V, size_t, nb), (V, size_t, lda), (V, size_t, ldb),     \
      (V, bool, interleave))                                                                       \
    X(bool, split, (V, float *, a), (V, float *, b), (V, const float *, base_a),                   \
      (V, const float *, base_b), (V, const float *, y), (V, size_t, rows), (V, size_t, na),       \
      (V, size_t, nb), (V, size_t, lda), (V, size_t, ldb), (V, bool, interleave))                  \
    X(void, drop_path, (V, float *, y), (V, const float *, x), (V, size_t, samples),               \
      (V, size_t, each), (V, struct np_draw_key, key), (V, uint64_t, step), (V, uint64_t, first),  \
      (V, uint32_t, threshold), (V, float, keep_scale))                                            \
    X(void, embed, (V, float *, y), (V, const int32_t *, tokens), (V, const float *, table),       \
      (V, const float *, positions), (V, size_t, samples), (V, size_t, length), (V, size_t, cols)) \
    X(void, embed_grad, (V, float *, dtable), (V, float *, dpositions),                            \
      (V, const int32_t *, tokens), (V, const float *, dy), (V, size_t, samples),                  \
      (V, size_t, length), (V, size_t, cols))                                                      \
    X(void, xent, (V, float *, loss), (V, const float *, logits), (V, const int32_t *, targets),   \
      (V, size_t, rows), (V, size_t, classes), (V, float, smoothing))                              \
    X(void, hits, (V, int32_t *, hits), (V, const float *, logits),                                \
      (V, const int32_t *, targets), (V, size_t, rows), (V, size_t, classes))                      \
    X(void, xent_grad, (V, float *, dlogits), (V, const float *, logits),                          \
      (V, const int32_t *, targets), (V, size_t, rows), (V, size_t, classes),                      \
      (V, float, smoothing), (V, float, scale))                                                    \
    X(void, distill, (V, float *, y), (V, const float *, p), (V, const float *, q),                \
      (V, const int32_t *, targets), (V, size_t, rows), (V, size_t, classes), (V, float, scale))   \
    X(bool, adamw, (S, np_layer_update, call), (F, uint64_t *, fingerprint))                       \
    X(bool, sgd, (S, np_layer_update, call), (F, uint64_t *, fingerprint))

/* NP_EACH(F, arguments) is F of one argument after the other, of 12 at most. */
#define NP_EACH(...) NP_EACH_OF(__VA_ARGS__, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1)(__VA_ARGS__)
#define NP_EACH_OF(f, a, b, c, d, e, g, h, i, j, k, l, m, n, ...) NP_EACH_##n
#define NP_EACH_1(f, a) f a
#define NP_EACH_2(f, a, ...) f a NP_EACH_1(f, __VA_ARGS__)
#define NP_EACH_3(f, a, ...) f a NP_EACH_2(f, __VA_ARGS__)
#define NP_EACH_4(f, a, ...) f a NP_EACH_3(f, __VA_ARGS__)
#define NP_EACH_5(f, a, ...) f a NP_EACH_4(f, __VA_ARGS__)
#define NP_EACH_6(f, a, ...) f a NP_EACH_5(f, __VA_ARGS__)
#define NP_EACH_7(f, a, ...) f a NP_EACH_6(f, __VA_ARGS__)
#define NP_EACH_8(f, a, ...) f a NP_EACH_7(f, __VA_ARGS__)
#define NP_EACH_9(f, a, ...) f a NP_EACH_8(f, __VA_ARGS__)
#define NP_EACH_10(f, a, ...) f a NP_EACH_9(f, __VA_ARGS__)
#define NP_EACH_11(f, a, ...) f a NP_EACH_10(f, __VA_ARGS__)
#define NP_EACH_12(f, a, ...) f a NP_EACH_11(f, __VA_ARGS__)

/* The parameters behind a team. */
#define NP_PARAMETER(kind, type, name) NP_PARAMETER_##kind(type, name)
#define NP_PARAMETER_V(type, name) , type name
#define NP_PARAMETER_S(type, name) , const struct type *name
#define NP_PARAMETER_F(type, name) , type name

/* clang-format on */

#endif

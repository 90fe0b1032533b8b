/* The activations of enum np_act and their slopes, for every kernel that applies one.
 *
 * Where `act` is a constant no choice is left: write a loop as an NP_INLINE function (num/loops.h)
 * of it and let NP_ACT_EACH call it, so that the choice is made once and the loop vectorises.
 *
 * Order   the gradient through an activation is dy * np_act_grad(act, u), one multiplication, for
 *         all of them and in every kernel: a slope of +0 gives a zero of dy's sign, and what is not
 *         finite stays so.
 */
#ifndef NP_NUM_ACTIVATION_H
#define NP_NUM_ACTIVATION_H

#include "num/arguments.h"
#include "num/elementary.h"

/* act(u) */
NP_FN __attribute__((always_inline)) float np_act(enum np_act act, float u)
{
    switch (act) {
    case NP_ACT_RELU:
        return np_reluf(u);
    case NP_ACT_RELU6:
        return np_relu6f(u);
    case NP_ACT_GELU:
        return np_geluf(u);
    case NP_ACT_SWISH:
        return np_swishf(u);
    case NP_ACT_HSWISH:
        return np_hswishf(u);
    case NP_ACT_SIGMOID:
        return np_sigmoidf(u);
    case NP_ACT_HSIGMOID:
        return np_hsigmoidf(u);
    default:
        return u;
    }
}

/* act'(u); 1 for NP_ACT_NONE */
NP_FN __attribute__((always_inline)) float np_act_grad(enum np_act act, float u)
{
    switch (act) {
    case NP_ACT_RELU:
        return np_relu_gradf(u);
    case NP_ACT_RELU6:
        return np_relu6_gradf(u);
    case NP_ACT_GELU:
        return np_gelu_gradf(u);
    case NP_ACT_SWISH:
        return np_swish_gradf(u);
    case NP_ACT_HSWISH:
        return np_hswish_gradf(u);
    case NP_ACT_SIGMOID:
        return np_sigmoid_gradf(u);
    case NP_ACT_HSIGMOID:
        return np_hsigmoid_gradf(u);
    default:
        return 1.0f;
    }
}

/* X(name) for every activation NP_ACT_<name>. */
#define NP_ACT_LIST(X)                                                                             \
    X(NONE)                                                                                        \
    X(RELU)                                                                                        \
    X(RELU6)                                                                                       \
    X(GELU) X(SWISH) X(HSWISH) X(SIGMOID) X(HSIGMOID)

/* CALL(constant) for the constant that act is. */
#define NP_ACT_EACH(act, CALL)                                                                     \
    do {                                                                                           \
        switch (act) {                                                                             \
        case NP_ACT_NONE:                                                                          \
            CALL(NP_ACT_NONE);                                                                     \
            break;                                                                                 \
        case NP_ACT_RELU:                                                                          \
            CALL(NP_ACT_RELU);                                                                     \
            break;                                                                                 \
        case NP_ACT_RELU6:                                                                         \
            CALL(NP_ACT_RELU6);                                                                    \
            break;                                                                                 \
        case NP_ACT_GELU:                                                                          \
            CALL(NP_ACT_GELU);                                                                     \
            break;                                                                                 \
        case NP_ACT_SWISH:                                                                         \
            CALL(NP_ACT_SWISH);                                                                    \
            break;                                                                                 \
        case NP_ACT_HSWISH:                                                                        \
            CALL(NP_ACT_HSWISH);                                                                   \
            break;                                                                                 \
        case NP_ACT_SIGMOID:                                                                       \
            CALL(NP_ACT_SIGMOID);                                                                  \
            break;                                                                                 \
        case NP_ACT_HSIGMOID:                                                                      \
            CALL(NP_ACT_HSIGMOID);                                                                 \
            break;                                                                                 \
        }                                                                                          \
    } while (0)

#endif

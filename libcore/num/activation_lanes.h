/* Activations and their slopes (num/activation.h) of 32 elements abreast. `act` is a constant
 * wherever these are inlined. Private to num/.
 */
#ifndef NP_NUM_ACTIVATION_LANES_H
#define NP_NUM_ACTIVATION_LANES_H

#include "num/activation.h"
#include "num/elementary_lanes.h"

NP_INLINE struct lanes l_relu6(struct lanes u)
{
    return l_min(l_max(u, l_set1(0.0f)), l_set1(6.0f));
}

NP_INLINE struct lanes l_hsigmoid(struct lanes u)
{
    return l_mul(l_relu6(l_add(u, l_set1(3.0f))), l_set1(NP_SIXTH));
}

NP_INLINE struct lanes l_act(enum np_act act, struct lanes u)
{
    switch (act) {
    case NP_ACT_RELU:
        return l_max(u, l_set1(0.0f));
    case NP_ACT_RELU6:
        return l_relu6(u);
    case NP_ACT_GELU:
        return l_gelu(u);
    case NP_ACT_SWISH:
        return l_mul(u, l_sigmoid(u));
    case NP_ACT_HSWISH:
        return l_mul(u, l_hsigmoid(u));
    case NP_ACT_SIGMOID:
        return l_sigmoid(u);
    case NP_ACT_HSIGMOID:
        return l_hsigmoid(u);
    default:
        return u;
    }
}

NP_INLINE struct lanes l_hswish_grad(struct lanes u)
{
    struct lanes one = l_set1(1.0f), middle = l_fma(u, l_set1(NP_THIRD), l_set1(0.5f));
    return l_only(l_pick(l_set1(3.0f), u, one, middle), l_set1(-3.0f), u);
}

NP_INLINE struct lanes l_act_grad(enum np_act act, struct lanes u)
{
    struct lanes zero = l_set1(0.0f), one = l_set1(1.0f);
    switch (act) {
    case NP_ACT_RELU:
        return l_only(one, zero, u);
    case NP_ACT_RELU6:
        return l_only(l_only(one, u, l_set1(6.0f)), zero, u);
    case NP_ACT_GELU:
        return l_gelu_grad(u);
    case NP_ACT_SWISH:
        return l_swish_grad(u);
    case NP_ACT_HSWISH:
        return l_hswish_grad(u);
    case NP_ACT_SIGMOID:
        return l_sigmoid_grad(u);
    case NP_ACT_HSIGMOID:
        return l_only(l_set1(NP_SIXTH), l_abs(u), l_set1(3.0f));
    default:
        return one;
    }
}

#endif

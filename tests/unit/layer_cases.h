/* The layers that operator tests run over: every kind, odd shapes, kernels longer than samples. */
#ifndef LAYER_CASES_H
#define LAYER_CASES_H

#include "num/philox.h"
#include "space/kinds.h"

#define CASE_VOCAB 11

struct layer_case {
    struct np_layer_spec spec;
    size_t width, length;
};

static const struct layer_case layer_cases[] = {
    {{.op = NP_OP_IDENTITY}, 8, 5},
    {{.op = NP_OP_MHA, .heads = 1}, 4, 1},
    {{.op = NP_OP_MHA, .heads = 2, .dropout = 0.25f}, 8, 5},
    {{.op = NP_OP_MHA, .heads = 4}, 24, 33},
    {{.op = NP_OP_FFN, .ratio = 1, .act = NP_ACT_RELU}, 4, 5},
    {{.op = NP_OP_FFN, .ratio = 4, .act = NP_ACT_GELU, .dropout = 0.1f}, 24, 33},
    {{.op = NP_OP_FFN, .ratio = 2, .act = NP_ACT_SWISH}, 8, 1},
    {{.op = NP_OP_GLU}, 8, 33},
    {{.op = NP_OP_GLU, .dropout = 0.5f}, 24, 5},
    {{.op = NP_OP_CONV1D, .kernel = 1}, 8, 5},
    {{.op = NP_OP_CONV1D, .kernel = 3}, 24, 33},
    {{.op = NP_OP_CONV1D, .kernel = 7, .dropout = 0.1f}, 4, 5},
    {{.op = NP_OP_CONV1D, .kernel = 2}, 8, 1},
    {{.op = NP_OP_SEPCONV1D, .kernel = 1}, 8, 1},
    {{.op = NP_OP_SEPCONV1D, .kernel = 5}, 24, 33},
    {{.op = NP_OP_SEPCONV1D, .kernel = 6, .dropout = 0.3f}, 4, 5},
    {{.op = NP_OP_LIGHTCONV, .kernel = 4, .heads = 4}, 24, 33},
    {{.op = NP_OP_LIGHTCONV, .kernel = 7, .heads = 2, .dropout = 0.2f}, 8, 5},
    {{.op = NP_OP_LIGHTCONV, .kernel = 1, .heads = 1}, 4, 1},
    {{.op = NP_OP_EMBEDDING}, 24, 33},
    {{.op = NP_OP_EMBEDDING}, 4, 1},
    {{.op = NP_OP_LM}, 24, 33},
    {{.op = NP_OP_LM}, 4, 1},
};

#define LAYER_CASES ((int)(sizeof layer_cases / sizeof *layer_cases))

/* An even value in [-1, 1) that the pair (stream, i) addresses; exact in float. */
static inline float case_value(uint32_t stream, uint64_t i)
{
    struct np_draw_key key = np_draw_key(2026, NP_DRAW_DELAY, 0, 0, stream);
    return 2.0f * np_philox_unit(np_draw(key, 0, i).w[0]) - 1.0f;
}

/* A weight of a trained layer, so to speak: norms near 1, matrices near their initial spread. */
static inline float case_weight(const struct np_tensor *tensor, uint32_t stream, size_t i)
{
    float value = case_value(stream, i);
    if (tensor->init == NP_INIT_NORMAL)
        return 2.0f * tensor->std * value;
    return (tensor->init == NP_INIT_ONE ? 1.0f : 0.0f) + 0.25f * value;
}

#endif

/* The layers that operator tests run over: every operator of recipes in odd shapes, and programs
 * made to try what operators do not. */
#ifndef LAYER_CASES_H
#define LAYER_CASES_H

#include "num/philox.h"
#include "space/supernet.h"

#define CASE_VOCAB 11

extern const int layer_cases;

/* The kind of a case, to be cleared with np_kind_clear. */
void layer_case_init(struct np_kind *kind, int index);

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

/* Arrays to be freed. Floats that are not numbers, until they are written; case_value of a stream;
 * a case's weights, whose tensors are the streams from 0 on. */
float *case_floats(size_t count);
float *case_drawn(size_t count, uint32_t stream);
float *case_weights(const struct np_kind *kind);
/* To be freed, too: targets, some of which are none; lengths of samples where keys are padded, the
 * first and the last of all keys among them. */
int32_t *case_targets(size_t count);
int32_t *case_lengths(const struct np_kind *kind, size_t samples);

#endif

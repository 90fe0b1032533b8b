/* Convolutions of every backend and team beside those of the scalar one: the same bits, and the
 * same word on whether they are finite. */
#ifndef CONV_CHECK_H
#define CONV_CHECK_H

#include "num/kernels.h"

enum conv_kind { FORWARD, GRAD, GRAD_WEIGHT, KINDS };

/* Tensors begin with their float `first`, 1 unless a test wants them aligned, and end with their
 * last element. */
enum { X, W, DY, BIAS, BEFORE, RESIDUAL, OUT, KEPT, TENSORS };
struct conv_data {
    float *tensor[TENSORS], *expected[2], *got[2];
    size_t count[TENSORS], first;
};

/* How a convolution ends. */
struct conv_ending {
    bool bias, before, kept, residual, in_place;
    enum np_act act;
};

size_t conv_rows_out(const struct np_conv *v);
size_t conv_weights(const struct np_conv *v);

/* Any numbers from -1 to 1 (numbers()). */
void conv_data_init(struct conv_data *d, const struct np_conv *v, enum conv_kind kind, size_t first,
                    uint64_t *state);
void conv_data_clear(struct conv_data *d);

/* The scalar backend's output in out[0], what went into the activation in out[1]; whether all is
 * finite. */
bool conv_reference(const struct np_conv *v, enum conv_kind kind, const struct conv_ending *e,
                    const struct conv_data *d, float *const out[2]);

/* Fails where a backend or a team differs from the scalar one. */
void conv_compare_data(const struct np_conv *v, enum conv_kind kind, const struct conv_ending *e,
                       const struct conv_data *d);
void conv_compare(const struct np_conv *v, enum conv_kind kind, struct conv_ending e,
                  uint64_t seed);

#endif

/* Kinds of layers: the tensor table of a layer spec in a space of given width, length, vocabulary.
 *
 * Every operator but identity begins with its layer norm; weights of linear layers are normal with
 * std 1/sqrt(3 fan_in) (the variance of PyTorch's default), biases zero, both embedding tables and
 * the logits of lightconv normal with std 0.1. Tensors of rank 1 do not decay.
 */
#ifndef NP_SPACE_KINDS_H
#define NP_SPACE_KINDS_H

#include "space/supernet.h"

/* Three slabs (weights, two moments) stay below 2^40, the distance of fingerprint addresses. */
#define NP_MAX_LAYER_FLOATS ((size_t)1 << 38)

/* False if a layer of this kind has more than NP_MAX_LAYER_FLOATS weights. */
bool np_kind_init(struct np_kind *kind, const struct np_layer_spec *spec, size_t width,
                  size_t length, size_t vocab);

#endif

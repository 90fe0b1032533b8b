/* Entangled weights: candidates whose weights are a part of those of a larger one of their block.
 *
 * Which candidates  all of one operator, in a block with `weights: entangled`: the layer is that of
 *         the one with the most weights, the first of such, the whole; the others' are parts of it.
 * Which part  of a tensor of the same name the first indices of every dimension, of q, k and v
 *         apart; of a window the taps that read the same positions: around the one that the output
 *         lies at, or of a sequence the last ones.
 * Errors  NP_EMEM; otherwise as np_kind_build.
 */
#ifndef NP_SPACE_PARTS_H
#define NP_SPACE_PARTS_H

#include "space/kinds.h"

/* Candidates in one place, as kinds with weights of their own, and whose weights each has. */
struct np_family {
    int count;
    struct np_kind *kinds; /* [count] */
    int *whole;            /* [count]: itself, or a candidate whose weights it has a part of */
};

/* Of a block's candidates in a setting; to be cleared also where it fails. */
enum np_status np_family_init(struct np_family *family, const struct np_recipe *recipe,
                              const struct np_block *block, const struct np_setting *setting,
                              struct np_error *err);
void np_family_clear(struct np_family *family);

/* The first tensor of a kind that has no place in another, which has the operator of both; NULL if
 * all have. */
const struct np_tensor *np_part_misfit(const struct np_kind *part, const struct np_kind *whole);
/* The tensor with a name; NULL: there is none. */
const struct np_tensor *np_kind_tensor(const struct np_kind *kind, const char *name);

/* Makes a kind, as built, which has a place in another a part of that. */
enum np_status np_part_join(struct np_kind *part, const struct np_kind *whole,
                            struct np_error *err);

/* The weights of a part, cut from the slab of its whole: out[kind->part_floats]; and the inverse,
 * which leaves the rest of the slab as it is. */
void np_part_cut(float *out, const struct np_kind *part, const float *slab);
void np_part_paste(float *slab, const struct np_kind *part, const float *weights);

/* Whether the weights of one can be the other's: the same operator, but for what is dropped, on
 * the same tensors, and so the same floats in the same order. */
bool np_kind_same_weights(const struct np_kind *a, const struct np_kind *b);
/* Tensors of the same name and shape. */
bool np_tensor_same(const struct np_tensor *a, const struct np_tensor *b);

#endif

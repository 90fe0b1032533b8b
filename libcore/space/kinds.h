/* Kinds of layers: the program of a layer spec in its surroundings, and the tensors it asks for. */
#ifndef NP_SPACE_KINDS_H
#define NP_SPACE_KINDS_H

#include "space/supernet.h"

/* What a layer stands among: the values that it reads and makes. */
struct np_setting {
    struct np_shape in, memory, out;
    int stride; /* of images */
    bool summed;
    const struct np_block *x;                /* that makes `in`; NULL: the stem */
    enum np_padded in_padded, memory_padded; /* what stands for filled positions in them */
};

/* A kind to look for or to build; padding is zero. memory: of what reads it alone. */
void np_kind_set(struct np_kind *kind, const struct np_recipe *recipe,
                 const struct np_layer_spec *spec, const struct np_setting *setting);

/* That of a block's candidate, which may have a width. */
void np_kind_set_candidate(struct np_kind *kind, const struct np_recipe *recipe,
                           const struct np_block *block, int candidate,
                           const struct np_setting *setting);

/* Builds what follows `program` in a kind from what stands before it, the kind being zeroed else.
 * Errors: NP_EINPUT "path: a layer NAME has more than 2^38 weights", or a value of more than 2^38
 * floats a sample; NP_EMEM. */
enum np_status np_kind_build(struct np_kind *kind, const char *path, struct np_error *err);
void np_kind_clear(struct np_kind *kind);

/* Of what stands before `program`. */
bool np_kind_equal(const struct np_kind *a, const struct np_kind *b);
uint64_t np_kind_hash(const struct np_kind *kind);

#endif

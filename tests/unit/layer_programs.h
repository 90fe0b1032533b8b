/* Programs with what operators do not have: activations within convolutions and sums that others
 * read, values with several readers, a value twice in a node, slices of slices of all sorts. Each
 * builds in the kind's place and returns the value that is its result, as operators do
 * (space/programs.h).
 */
#ifndef LAYER_PROGRAMS_H
#define LAYER_PROGRAMS_H

#include "space/program_build.h"

int layer_program_activations(struct np_build *b);
int layer_program_lone_activations(struct np_build *b);
int layer_program_readers(struct np_build *b);
int layer_program_through(struct np_build *b);
int layer_program_sums(struct np_build *b);
int layer_program_drops(struct np_build *b);
int layer_program_slices(struct np_build *b);
int layer_program_slices_of_x(struct np_build *b);
int layer_program_cuts(struct np_build *b);
int layer_program_squeeze(struct np_build *b);
int layer_program_pools(struct np_build *b);
int layer_program_bare_attention(struct np_build *b);
int layer_program_rotations(struct np_build *b);
int layer_program_repeats(struct np_build *b);
int layer_program_norms(struct np_build *b);
int layer_program_batch_norms(struct np_build *b);
int layer_program_unread(struct np_build *b);
int layer_program_half_read(struct np_build *b);

#endif

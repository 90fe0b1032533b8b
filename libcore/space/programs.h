/* The operators, written as programs: each function builds what a kind's spec says in the kind's
 * place and returns the value that is its result; kinds.c adds it to the block's sum.
 *
 * A new one is a value of enum np_op, a row of op_fields.c, a function here and its entry in
 * kinds.c; and in recipe_fit.c, if it has a batch norm whatever its norm is. Everything else
 * follows from its program: passes, costs, memory, parts, backends. Which tests and manual pages
 * lack it then, test_recipe, test_coverage, test_program and manual.bats tell; not
 * tests/fuzz/spaces.py.
 */
#ifndef NP_SPACE_PROGRAMS_H
#define NP_SPACE_PROGRAMS_H

#include "space/program_build.h"

/* Sequences, and images as sequences of their positions. */
int np_program_mha(struct np_build *b);
int np_program_ffn(struct np_build *b);
int np_program_gated_ffn(struct np_build *b);
int np_program_glu(struct np_build *b);
int np_program_conv1d(struct np_build *b);
int np_program_sepconv1d(struct np_build *b);
int np_program_lightconv(struct np_build *b);
int np_program_embedding(struct np_build *b);
int np_program_lm(struct np_build *b); /* -1 */

/* Both. */
int np_program_identity(struct np_build *b);
int np_program_norm(struct np_build *b);

/* Images. */
int np_program_conv2d(struct np_build *b); /* also the stem */
int np_program_patch(struct np_build *b);
int np_program_dwconv2d(struct np_build *b);
int np_program_pool(struct np_build *b); /* max_pool, avg_pool */
int np_program_concat(struct np_build *b);
int np_program_zero(struct np_build *b);
int np_program_classifier(struct np_build *b); /* -1 */

/* Images, of several convolutions. */
int np_program_relu_conv_bn(struct np_build *b);
int np_program_sepconv(struct np_build *b);
int np_program_dilconv(struct np_build *b);
int np_program_resnet_basic(struct np_build *b);
int np_program_bottleneck(struct np_build *b);
int np_program_mbconv(struct np_build *b);
int np_program_shuffle(struct np_build *b);

#endif

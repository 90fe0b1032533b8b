/* The shapes of the values between blocks: what a stem makes, and a block of what it reads. */
#ifndef NP_SPACE_SHAPES_H
#define NP_SPACE_SHAPES_H

#include "space/program.h"
#include "space/recipe.h"

struct np_shape np_shape_of_images(const struct np_recipe *recipe); /* 0 channels: no images */
struct np_shape np_shape_of_stem(const struct np_recipe *recipe);
struct np_shape np_shape_of_block(const struct np_recipe *recipe, const struct np_block *block,
                                  struct np_shape in);

#endif

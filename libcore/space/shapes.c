#include "space/shapes.h"

static int halved(int size, int stride)
{
    return (size + stride - 1) / stride;
}

struct np_shape np_shape_of_images(const struct np_recipe *recipe)
{
    if (recipe->input != NP_INPUT_IMAGES)
        return (struct np_shape){0, 0, 0};
    return (struct np_shape){recipe->height, recipe->image_width, recipe->channels};
}

struct np_shape np_shape_of_stem(const struct np_recipe *recipe)
{
    const struct np_layer_spec *stem = &recipe->stem;
    if (recipe->input == NP_INPUT_TOKENS)
        return (struct np_shape){1, recipe->length, recipe->width};
    if (recipe->input == NP_INPUT_PAIRS)
        return (struct np_shape){1, recipe->source_length, recipe->width};
    if (stem->op == NP_OP_PATCH)
        return (struct np_shape){recipe->height / stem->kernel[0],
                                 recipe->image_width / stem->kernel[1], recipe->width};
    return (struct np_shape){halved(recipe->height, stem->stride),
                             halved(recipe->image_width, stem->stride), recipe->width};
}

struct np_shape np_shape_of_block(const struct np_recipe *recipe, const struct np_block *block,
                                  struct np_shape in)
{
    if (block->choices[0].op == NP_OP_EMBEDDING)
        return (struct np_shape){1, recipe->length, recipe->width};
    if (recipe->input != NP_INPUT_IMAGES)
        return in;
    return (struct np_shape){halved(in.height, block->stride), halved(in.width, block->stride),
                             block->out};
}

#include "plan_space.h"

#include <check.h>
#include <stdio.h>

#include "plan/stage_memory.h"
#include "suite.h"

static const char recipe_text[] = "naspipe: recipe/1\n"
                                  "seed: 3\n"
                                  "numerics: portable/1\n"
                                  "data:\n"
                                  "  train: {kind: bytes, files: [corpus.txt]}\n"
                                  "space:\n"
                                  "  input: {kind: tokens, vocab: 256, length: 16}\n"
                                  "  width: 32\n"
                                  "  stem: {op: embedding, positions: learned}\n"
                                  "  blocks:\n"
                                  "    - repeat: 6\n"
                                  "      choices:\n"
                                  "        - {op: mha, heads: 2}\n"
                                  "        - {op: ffn, ratio: 2, act: gelu}\n"
                                  "        - {op: identity}\n"
                                  "  head: {op: lm}\n"
                                  "shared: {policy: delay, steps: 2}\n"
                                  "sampler: {kind: uniform, members: 1}\n"
                                  "train:\n"
                                  "  steps: 20\n"
                                  "  batch: 8\n"
                                  "  grain: 1\n"
                                  "  optimizer: {kind: adamw, lr: 1.0e-3}\n";

struct np_recipe plan_recipe;
struct np_supernet plan_net;

void plan_setup(void)
{
    struct np_error err = {.msg = ""};
    suite_write("recipe.yaml", recipe_text);
    ck_assert_msg(np_recipe_read(&plan_recipe, "recipe.yaml", NULL, 0, &err) == NP_OK, "%s",
                  err.msg);
    ck_assert_msg(np_supernet_init(&plan_net, &plan_recipe, &err) == NP_OK, "%s", err.msg);
}

void plan_teardown(void)
{
    np_supernet_clear(&plan_net);
    np_recipe_clear(&plan_recipe);
}

struct np_partition_request plan_request(int stages)
{
    return (struct np_partition_request){
        .stages = stages, .model = true, .kernels = np_kernels_best(), .processors = 4};
}

enum np_status plan_partition(struct np_plan *plan, const struct np_partition_request *r,
                              struct np_error *err)
{
    struct np_alternatives tried;
    enum np_status status = np_partition(plan, &tried, &plan_net, r, err);
    np_alternatives_clear(&tried);
    return status;
}

void plan_assert_memory_filled(const struct np_plan *plan)
{
    struct np_stage_memory memory[8];
    ck_assert_int_eq(np_memory_stages(memory, plan, &plan_net, NULL), NP_OK);
    for (int k = 0; k < plan->stages; k++) {
        uint64_t sum = memory[k].flights + memory[k].shared + memory[k].layers;
        ck_assert_uint_eq(plan->stage_bytes[k], sum);
    }
}

#include "space/recipe_internal.h"

static enum np_status read_shared(struct np_recipe *recipe, const struct np_yaml_node *node,
                                  struct np_error *err)
{
    static const char *const policies[] = {"delay", "frozen"};
    struct np_yaml_map map;
    enum np_status status;
    int policy = 0;
    NP_TRY(np_yaml_get_map(node, &map, err));
    NP_TRY(np_yaml_get_word(np_yaml_find(&map, "policy"), &policy, policies, 2, err));
    recipe->shared_frozen = policy == 1;
    if (!recipe->shared_frozen) {
        recipe->delay = 1;
        NP_TRY(
            np_recipe_get_int(np_yaml_find(&map, "steps"), &recipe->delay, 1, NP_MAX_DELAY, err));
    }
    NP_TRY(np_yaml_map_finish(&map, err));
out:
    return status;
}

/* The candidates of the block that has the most. */
static int fair_members(const struct np_recipe *recipe)
{
    int most = 1;
    for (int i = 0; i < recipe->block_count; i++)
        most = recipe->blocks[i].count > most ? recipe->blocks[i].count : most;
    return most;
}

/* Strict fairness: a step takes every candidate of a block equally often. */
static enum np_status check_fair(const struct np_recipe *recipe, const struct np_yaml_node *members,
                                 struct np_error *err)
{
    if (recipe->depth_count > 0)
        return np_yaml_fail(members, err,
                            "fair takes every candidate equally often: it has no 'depth'");
    for (int i = 0; i < recipe->block_count; i++)
        if (recipe->members % recipe->blocks[i].count != 0)
            return np_yaml_fail(members, err,
                                "fair needs a multiple of the %d candidates of block %d, not %d "
                                "members",
                                recipe->blocks[i].count, i, recipe->members);
    if (recipe->members > NP_MAX_MEMBERS)
        return np_yaml_fail(members, err, "fair would need %d members, more than %d",
                            recipe->members, NP_MAX_MEMBERS);
    return NP_OK;
}

/* Subnets of a step, when that is not said. */
static int default_members(const struct np_recipe *recipe)
{
    if (recipe->sampler == NP_SAMPLER_FAIR)
        return fair_members(recipe);
    return recipe->sampler == NP_SAMPLER_SANDWICH ? 4 : 1;
}

static enum np_status check_sandwich(const struct np_recipe *recipe,
                                     const struct np_yaml_node *members, struct np_error *err)
{
    if (recipe->members > 1)
        return NP_OK;
    return np_yaml_fail(members, err,
                        "sandwich needs 2 members or more: the largest subnet, the smallest, and "
                        "what is drawn");
}

static enum np_status read_sampler(struct np_recipe *recipe, const struct np_yaml_node *node,
                                   struct np_error *err)
{
    static const char *const batches[] = {"own", "same"};
    const struct np_yaml_node *members;
    struct np_yaml_map map;
    enum np_status status;
    int kind = NP_SAMPLER_UNIFORM, batch;
    NP_TRY(np_yaml_get_map(node, &map, err));
    NP_TRY(np_recipe_get_name(np_yaml_find(&map, "kind"), &kind, &np_names_sampler, err));
    recipe->sampler = (enum np_sampler_kind)kind;
    members = np_yaml_find(&map, "members");
    recipe->members = default_members(recipe);
    NP_TRY(np_recipe_get_int(members, &recipe->members, 1, NP_MAX_MEMBERS, err));
    if (recipe->sampler == NP_SAMPLER_FAIR)
        NP_TRY(check_fair(recipe, members, err));
    if (recipe->sampler == NP_SAMPLER_SANDWICH)
        NP_TRY(check_sandwich(recipe, members, err));
    batch = recipe->sampler == NP_SAMPLER_SANDWICH;
    NP_TRY(np_yaml_get_word(np_yaml_find(&map, "batch"), &batch, batches, 2, err));
    recipe->same_batch = batch == 1;
    if (recipe->sampler == NP_SAMPLER_SPREAD) {
        recipe->spread = 64;
        NP_TRY(np_recipe_get_int(np_yaml_find(&map, "spread"), &recipe->spread, 1, NP_MAX_SPREAD,
                                 err));
    }
    NP_TRY(np_yaml_map_finish(&map, err));
out:
    return status;
}

enum np_status np_recipe_read_policies(struct np_recipe *recipe, struct np_yaml_map *root,
                                       struct np_error *err)
{
    enum np_status status;
    NP_TRY(read_shared(recipe, np_yaml_find(root, "shared"), err));
    NP_TRY(read_sampler(recipe, np_yaml_find(root, "sampler"), err));
out:
    return status;
}

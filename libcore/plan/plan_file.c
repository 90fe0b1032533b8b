/* The plan as YAML: written for people to read and edit, read back strictly. */
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/memory.h"
#include "base/text.h"
#include "io/yaml.h"
#include "num/team.h"
#include "plan/plan.h"
#include "plan/profile.h"
#include "plan/stage_memory.h"

#define POSITION_NAME 24
#define NS_MAX ((uint64_t)NP_PLAN_COST_MAX_NS)
#define MAX_STEP_MS 1e30

static void position_name(char out[POSITION_NAME], const struct np_supernet *net, int position)
{
    if (position == 0)
        snprintf(out, POSITION_NAME, "stem");
    else if (position == net->positions - 1)
        snprintf(out, POSITION_NAME, "head");
    else
        snprintf(out, POSITION_NAME, "block%0*d", net->block_digits, position - 1);
}

static bool position_find(int *position, const struct np_supernet *net, const char *name)
{
    int64_t block;
    if (strcmp(name, "stem") == 0)
        *position = 0;
    else if (strcmp(name, "head") == 0)
        *position = net->positions - 1;
    else if (strncmp(name, "block", 5) == 0 &&
             np_text_parse_int64(&block, name + 5, 0, net->positions - 3))
        *position = (int)block + 1;
    else
        return false;
    return true;
}

static enum np_status write_stages(const struct np_plan *plan, const struct np_supernet *net,
                                   struct np_buf *out, struct np_error *err)
{
    enum np_status status;
    NP_TRY(np_buf_printf(out, err, "stages:\n"));
    for (int k = 0; k < plan->stages; k++) {
        char first[POSITION_NAME], last[POSITION_NAME];
        position_name(first, net, plan->stage_first[k]);
        position_name(last, net, plan->stage_first[k + 1] - 1);
        NP_TRY(np_buf_printf(out, err, "  - {first: %s, last: %s, ", first, last));
        if (plan->in_flight[k])
            NP_TRY(np_buf_printf(out, err, "in_flight: %d, ", plan->in_flight[k]));
        NP_TRY(np_buf_printf(out, err, "memory_bytes: %" PRIu64 "}\n", plan->stage_bytes[k]));
    }
out:
    return status;
}

static enum np_status write_profile(const struct np_plan *plan, const struct np_supernet *net,
                                    struct np_buf *out, struct np_error *err)
{
    enum np_status status;
    NP_TRY(np_buf_printf(out, err, "profile:\n  from: %s\n  costs:\n",
                         plan->measured ? "measured" : "model"));
    for (int k = 0; k < net->kind_count; k++) {
        char name[NP_KIND_NAME];
        struct np_layer_cost cost = plan->kind_cost[k];
        np_kind_name(&net->kinds[k], name);
        NP_TRY(np_buf_printf(
            out, err,
            "    - {kind: \"%s\", forward_ns: %.0f, backward_ns: %.0f, weight_ns: %.0f}\n", name,
            (double)cost.f, (double)cost.b, (double)cost.w));
    }
out:
    return status;
}

enum np_status np_plan_write(const struct np_plan *plan, const struct np_supernet *net,
                             struct np_buf *out, struct np_error *err)
{
    enum np_status status;
    NP_TRY(np_buf_printf(out, err, "naspipe: plan/1\nrecipe: %s\n",
                         np_digest_hex(&net->recipe->planned).s));
    NP_TRY(np_buf_printf(
        out, err, "micro_batches: %d\nwindow: %d\nlookahead: %d\nunit: %d\nthreads: %d\n",
        plan->micro_batches, plan->window, plan->lookahead, plan->unit, plan->threads));
    if (plan->replicas > 1)
        NP_TRY(np_buf_printf(out, err, "replicas: %d\n", plan->replicas));
    if (plan->recompute)
        NP_TRY(np_buf_printf(out, err, "recompute: true\n"));
    if (plan->reach)
        NP_TRY(np_buf_printf(out, err, "cut: balanced\nreach: %d\n", plan->reach));
    if (plan->device_bytes)
        NP_TRY(np_buf_printf(out, err, "device_memory: %" PRIu64 "\n", plan->device_bytes));
    if (plan->disk.read)
        NP_TRY(np_buf_printf(out, err,
                             "stash: {read: %" PRIu64 ", write: %" PRIu64 ", both: %" PRIu64
                             ", processor: %" PRIu64 "}\n",
                             plan->disk.read, plan->disk.write, plan->disk.both,
                             plan->disk.processor));
    if (plan->link.latency_ns)
        NP_TRY(np_buf_printf(out, err,
                             "link: {task_ns: %" PRIu64 ", latency_ns: %" PRIu64
                             ", bandwidth: %" PRIu64 "}\n",
                             plan->link.task_ns, plan->link.latency_ns, plan->link.bandwidth));
    NP_TRY(write_stages(plan, net, out, err));
    NP_TRY(np_buf_printf(out, err, "predicted: {step_ms: %.6g, bubble: %.4f}\n",
                         plan->step_ns / 1e6, plan->bubble));
    NP_TRY(write_profile(plan, net, out, err));
out:
    return status;
}

static enum np_status read_int(struct np_yaml_map *map, const char *key, int *out, int max,
                               struct np_error *err)
{
    int64_t value;
    enum np_status status = np_yaml_get_int(np_yaml_need(map, key), &value, 1, max, err);
    if (status == NP_OK)
        *out = (int)value;
    return status;
}

static enum np_status read_recipe(struct np_yaml_map *map, const struct np_supernet *net,
                                  struct np_error *err)
{
    enum np_status status;
    static const char *const versions[] = {"plan/1"};
    const struct np_yaml_node *node = np_yaml_need(map, "recipe");
    const char *digest;
    int version;
    NP_TRY(np_yaml_get_word(np_yaml_need(map, "naspipe"), &version, versions, 1, err));
    NP_TRY(np_yaml_get_string(node, &digest, err));
    if (strcmp(digest, np_digest_hex(&net->recipe->planned).s) != 0)
        status = np_yaml_fail(node, err, "this plan was made for recipe %.8s..., not %.8s...",
                              np_text_safe(digest).s, np_digest_hex(&net->recipe->planned).s);
out:
    return status;
}

static enum np_status read_position(const struct np_yaml_node *node, int *position,
                                    const struct np_supernet *net, struct np_error *err)
{
    const char *name;
    char last[POSITION_NAME];
    enum np_status status = np_yaml_get_string(node, &name, err);
    if (status != NP_OK || position_find(position, net, name))
        return status;
    position_name(last, net, net->positions - 2);
    return np_yaml_fail(node, err, "unknown position '%s': stem, block%0*d .. %s or head",
                        np_text_safe(name).s, net->block_digits, 0, last);
}

/* Stage k from a map {first, last, in_flight, memory_bytes}; the last two stay 0 if not given. */
static enum np_status read_stage(struct np_plan *plan, int k, const struct np_yaml_node *node,
                                 const struct np_supernet *net, struct np_error *err)
{
    enum np_status status;
    struct np_yaml_map map;
    int first, last, due = plan->stage_first[k];
    int64_t in_flight = 0;
    char name[POSITION_NAME];
    NP_TRY(np_yaml_get_map(node, &map, err));
    const struct np_yaml_node *at_first = np_yaml_need(&map, "first");
    const struct np_yaml_node *at_last = np_yaml_need(&map, "last");
    NP_TRY(read_position(at_first, &first, net, err));
    NP_TRY(read_position(at_last, &last, net, err));
    NP_TRY(np_yaml_get_int(np_yaml_find(&map, "in_flight"), &in_flight, 1, INT_MAX, err));
    plan->in_flight[k] = (int)in_flight;
    NP_TRY(np_yaml_get_uint(np_yaml_find(&map, "memory_bytes"), &plan->stage_bytes[k], 0,
                            UINT64_MAX, err));
    NP_TRY(np_yaml_map_finish(&map, err));
    position_name(name, net, due < net->positions ? due : net->positions - 1);
    if (due >= net->positions)
        status = np_yaml_fail(at_first, err, "no position is left for stage %d", k);
    else if (first != due)
        status = np_yaml_fail(at_first, err, "stage %d must begin with %s", k, name);
    else if (last < first)
        status = np_yaml_fail(at_last, err, "stage %d ends before it begins", k);
    else if (k == plan->stages - 1 && last != net->positions - 1)
        status = np_yaml_fail(at_last, err, "the last stage must end with head");
    plan->stage_first[k + 1] = last + 1;
out:
    return status;
}

/* Looked for from the kind that `*next` is on, and it is the one behind that then: they are written
 * in order. */
static enum np_status read_cost(struct np_plan *plan, bool *known, int *next,
                                const struct np_yaml_node *node, const struct np_supernet *net,
                                struct np_error *err)
{
    enum np_status status;
    struct np_yaml_map map;
    const char *kind;
    char name[NP_KIND_NAME];
    double f, b, w;
    int k = 0, found = net->kind_count;
    NP_TRY(np_yaml_get_map(node, &map, err));
    const struct np_yaml_node *at_kind = np_yaml_need(&map, "kind");
    NP_TRY(np_yaml_get_string(at_kind, &kind, err));
    for (int i = 0; i < net->kind_count && found == net->kind_count; i++) {
        k = (*next + i) % net->kind_count;
        np_kind_name(&net->kinds[k], name);
        found = strcmp(name, kind) == 0 ? k : found;
    }
    *next = found + 1;
    if (found == net->kind_count || known[k]) {
        status = np_yaml_fail(at_kind, err,
                              found == net->kind_count ? "the recipe has no layer '%s'"
                                                       : "costs of '%s' are given twice",
                              np_text_safe(kind).s);
        goto out;
    }
    NP_TRY(np_yaml_get_double(np_yaml_need(&map, "forward_ns"), &f, 0, NP_PLAN_COST_MAX_NS,
                              NP_YAML_CLOSED, err));
    NP_TRY(np_yaml_get_double(np_yaml_need(&map, "backward_ns"), &b, 0, NP_PLAN_COST_MAX_NS,
                              NP_YAML_CLOSED, err));
    NP_TRY(np_yaml_get_double(np_yaml_need(&map, "weight_ns"), &w, 0, NP_PLAN_COST_MAX_NS,
                              NP_YAML_CLOSED, err));
    NP_TRY(np_yaml_map_finish(&map, err));
    plan->kind_cost[k] = (struct np_layer_cost){(float)f, (float)b, (float)w};
    known[k] = true;
out:
    return status;
}

static enum np_status read_costs(struct np_plan *plan, const struct np_yaml_node *node,
                                 const struct np_supernet *net, struct np_error *err)
{
    enum np_status status;
    const struct np_yaml_node *item;
    bool *known = NULL;
    int next = 0;
    NP_TRY(np_zalloc(&known, (size_t)net->kind_count, sizeof *known, err));
    NP_TRY(np_yaml_get_list(node, &item, 1, (size_t)net->kind_count, err));
    for (; item; item = item->next)
        NP_TRY(read_cost(plan, known, &next, item, net, err));
    for (int k = 0; k < net->kind_count; k++) {
        char name[NP_KIND_NAME];
        if (!known[k]) {
            np_kind_name(&net->kinds[k], name);
            status = np_yaml_fail(node, err, "the costs of '%s' are missing", name);
            goto out;
        }
    }
out:
    free(known);
    return status;
}

static enum np_status read_profile(struct np_plan *plan, struct np_yaml_map *top,
                                   const struct np_supernet *net, struct np_error *err)
{
    enum np_status status;
    static const char *const sources[] = {"model", "measured"};
    struct np_yaml_map map;
    const struct np_yaml_node *node = np_yaml_find(top, "profile");
    int source = 0;
    np_profile_model(plan->kind_cost, net, (size_t)(net->recipe->batch / plan->micro_batches),
                     plan->micro_batches, plan->threads);
    if (node->kind == NP_YAML_ABSENT)
        return NP_OK;
    NP_TRY(np_yaml_get_map(node, &map, err));
    NP_TRY(np_yaml_get_word(np_yaml_need(&map, "from"), &source, sources, 2, err));
    plan->measured = source == 1;
    NP_TRY(read_costs(plan, np_yaml_need(&map, "costs"), net, err));
    NP_TRY(np_yaml_map_finish(&map, err));
out:
    return status;
}

static enum np_status read_predicted(struct np_plan *plan, struct np_yaml_map *top,
                                     struct np_error *err)
{
    enum np_status status;
    struct np_yaml_map map;
    double step_ms = 0;
    NP_TRY(np_yaml_get_map(np_yaml_find(top, "predicted"), &map, err));
    NP_TRY(np_yaml_get_double(np_yaml_find(&map, "step_ms"), &step_ms, 0, MAX_STEP_MS,
                              NP_YAML_CLOSED, err));
    NP_TRY(
        np_yaml_get_double(np_yaml_find(&map, "bubble"), &plan->bubble, 0, 1, NP_YAML_CLOSED, err));
    NP_TRY(np_yaml_map_finish(&map, err));
    plan->step_ns = step_ms * 1e6;
out:
    return status;
}

/* `reach` goes with balanced cuts, and they need it. */
static enum np_status read_cut(struct np_plan *plan, struct np_yaml_map *map,
                               const struct np_supernet *net, struct np_error *err)
{
    enum np_status status;
    static const char *const cuts[] = {"static", "balanced"};
    const struct np_yaml_node *reach = np_yaml_find(map, "reach");
    int cut = 0;
    NP_TRY(np_yaml_get_word(np_yaml_find(map, "cut"), &cut, cuts, 2, err));
    if (cut == 1)
        NP_TRY(read_int(map, "reach", &plan->reach, net->positions, err));
    else if (reach->kind != NP_YAML_ABSENT)
        status = np_yaml_fail(reach, err, "'reach' belongs to 'cut: balanced'");
out:
    return status;
}

/* After what it must agree with. */
static enum np_status read_replicas(struct np_plan *plan, struct np_yaml_map *map,
                                    const struct np_supernet *net, struct np_error *err)
{
    enum np_status status;
    const struct np_yaml_node *node = np_yaml_find(map, "replicas");
    int64_t replicas = 1;
    struct np_error why;
    NP_TRY(np_yaml_get_int(node, &replicas, 1, NP_MAX_GRAINS, err));
    plan->replicas = (int)replicas;
    if (np_plan_check_replicas(plan, net, &why) != NP_OK)
        status = np_yaml_fail(node, err, "%s", why.msg);
out:
    return status;
}

/* Whether it is enough is known with the machine: the message for that says where it stands. */
static enum np_status read_device_memory(struct np_plan *plan, struct np_yaml_map *top,
                                         struct np_error *err)
{
    enum np_status status;
    struct np_buf place = {0};
    const struct np_yaml_node *node = np_yaml_find(top, "device_memory");
    NP_TRY(np_yaml_get_uint(node, &plan->device_bytes, 0, INT64_MAX, err));
    if (plan->device_bytes)
        NP_TRY(np_buf_printf(&place, err, "%s:%u:%u: ", node->place, node->line, node->column));
    plan->device_place = place.text;
    return NP_OK;
out:
    np_buf_clear(&place);
    return status;
}

/* Left out, the stash is memory. */
static enum np_status read_disk(struct np_plan *plan, struct np_yaml_map *top, struct np_error *err)
{
    enum np_status status;
    struct np_yaml_map map;
    const struct np_yaml_node *node = np_yaml_find(top, "stash");
    if (node->kind == NP_YAML_ABSENT)
        return NP_OK;
    NP_TRY(np_yaml_get_map(node, &map, err));
    NP_TRY(np_yaml_get_uint(np_yaml_need(&map, "read"), &plan->disk.read, 1, INT64_MAX, err));
    NP_TRY(np_yaml_get_uint(np_yaml_need(&map, "write"), &plan->disk.write, 1, INT64_MAX, err));
    NP_TRY(np_yaml_get_uint(np_yaml_need(&map, "both"), &plan->disk.both, 1, INT64_MAX, err));
    NP_TRY(np_yaml_get_uint(np_yaml_find(&map, "processor"), &plan->disk.processor, 0, INT64_MAX,
                            err));
    NP_TRY(np_yaml_map_finish(&map, err));
out:
    return status;
}

static enum np_status read_link(struct np_plan *plan, struct np_yaml_map *top, struct np_error *err)
{
    enum np_status status;
    struct np_yaml_map map;
    struct np_link_pace *link = &plan->link;
    const struct np_yaml_node *node = np_yaml_find(top, "link");
    if (node->kind == NP_YAML_ABSENT)
        return NP_OK;
    NP_TRY(np_yaml_get_map(node, &map, err));
    NP_TRY(np_yaml_get_uint(np_yaml_need(&map, "task_ns"), &link->task_ns, 1, NS_MAX, err));
    NP_TRY(np_yaml_get_uint(np_yaml_need(&map, "latency_ns"), &link->latency_ns, 1, NS_MAX, err));
    NP_TRY(np_yaml_get_uint(np_yaml_find(&map, "bandwidth"), &link->bandwidth, 0, INT64_MAX, err));
    NP_TRY(np_yaml_map_finish(&map, err));
out:
    return status;
}

static enum np_status read_numbers(struct np_plan *plan, struct np_yaml_map *map,
                                   const struct np_supernet *net, struct np_error *err)
{
    enum np_status status;
    struct np_error why;
    bool recompute = false;
    NP_TRY(read_int(map, "micro_batches", &plan->micro_batches, NP_MAX_GRAINS, err));
    NP_TRY(read_int(map, "window", &plan->window, NP_SCHED_MOST_AHEAD, err));
    NP_TRY(read_int(map, "lookahead", &plan->lookahead, NP_SCHED_MOST_AHEAD, err));
    if (plan->window + plan->lookahead > NP_SCHED_MOST_AHEAD)
        NP_TRY(np_yaml_fail(np_yaml_find(map, "window"), err,
                            "'window' and 'lookahead' are %d steps together: %d are the most",
                            plan->window + plan->lookahead, NP_SCHED_MOST_AHEAD));
    NP_TRY(read_int(map, "unit", &plan->unit, NP_MAX_BLOCKS, err));
    NP_TRY(read_int(map, "threads", &plan->threads, NP_MAX_TEAM, err));
    NP_TRY(np_yaml_get_bool(np_yaml_find(map, "recompute"), &recompute, err));
    NP_TRY(np_plan_set_recompute(plan, net, recompute, err));
    NP_TRY(read_cut(plan, map, net, err));
    NP_TRY(read_device_memory(plan, map, err));
    NP_TRY(read_disk(plan, map, err));
    NP_TRY(read_link(plan, map, err));
    if (np_plan_check_cuts(plan->micro_batches, net, &why) != NP_OK)
        status = np_yaml_fail(np_yaml_find(map, "micro_batches"), err, "%s", why.msg);
    NP_TRY(status);
    NP_TRY(read_replicas(plan, map, net, err));
out:
    return status;
}

/* No stage holds more flights than the window lets begin, nor has room for them. */
static void bound_flights(struct np_plan *plan, const struct np_supernet *net)
{
    int most = np_plan_flights(plan, net);
    for (int k = 0; k < plan->stages; k++)
        if (plan->in_flight[k] > most)
            plan->in_flight[k] = most;
}

static enum np_status read_plan(struct np_plan *plan, const struct np_yaml_node *root,
                                const struct np_supernet *net, struct np_error *err)
{
    enum np_status status;
    struct np_yaml_map map;
    const struct np_yaml_node *stages, *stage;
    size_t most = (size_t)(net->positions < NP_MAX_STAGES ? net->positions : NP_MAX_STAGES);
    NP_TRY(np_yaml_get_map(root, &map, err));
    NP_TRY(read_recipe(&map, net, err));
    stages = np_yaml_need(&map, "stages");
    NP_TRY(np_yaml_get_list(stages, &stage, 1, most, err));
    NP_TRY(np_plan_init(plan, net, (int)stages->count, err));
    NP_TRY(read_numbers(plan, &map, net, err));
    for (int k = 0; stage; k++, stage = stage->next)
        NP_TRY(read_stage(plan, k, stage, net, err));
    bound_flights(plan, net);
    NP_TRY(read_predicted(plan, &map, err));
    NP_TRY(read_profile(plan, &map, net, err));
    NP_TRY(np_yaml_map_finish(&map, err));
    NP_TRY(np_memory_fill(plan, net, err)); /* what the file says is for people */
out:
    return status;
}

enum np_status np_plan_read(struct np_plan *plan, const char *path, const struct np_supernet *net,
                            struct np_error *err)
{
    enum np_status status;
    struct np_yaml doc = {0};
    *plan = (struct np_plan){0};
    if (strcmp(path, "-") == 0)
        NP_TRY(np_yaml_read_fd(&doc, 0, "<stdin>", err));
    else
        NP_TRY(np_yaml_read(&doc, path, err));
    NP_TRY(read_plan(plan, doc.root, net, err));
out:
    if (status != NP_OK)
        np_plan_clear(plan);
    np_yaml_clear(&doc);
    return status;
}

/* Plans that the partitioner makes: what it was asked for, the fastest of what it tried, and what
 * cannot be had. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "plan/fit.h"
#include "plan/stage_memory.h"
#include "plan_space.h"
#include "suite.h"

START_TEST(keeps_what_is_asked)
{
    struct np_plan plan;
    struct np_partition_request r = plan_request(3);
    r.micro_batches = 4;
    r.window = 5;
    r.unit = 2;
    r.threads = 2;
    r.replicas = 2;
    ck_assert_int_eq(plan_partition(&plan, &r, NULL), NP_OK);
    ck_assert_int_eq(plan.replicas, 2);
    ck_assert_int_eq(plan.micro_batches, 4);
    ck_assert_int_eq(plan.window, 5);
    ck_assert_int_eq(plan.unit, 2);
    ck_assert_int_eq(plan.threads, 2);
    plan_assert_memory_filled(&plan);
    np_plan_clear(&plan);
}
END_TEST

/* Pipelines of at most six threads, in order of replicas and stages. */
static const struct np_pipeline of_six[] = {
    {1, 1, 1, 0, false}, {1, 1, 6, 0, false}, {1, 2, 3, 0, false}, {1, 3, 2, 0, false},
    {1, 6, 1, 0, false}, {2, 1, 3, 0, false}, {2, 3, 1, 0, false}, {4, 1, 1, 0, false}};

/* A single stage is not filled with micro-batches; they spare memory, where that is bound. */
static int most_cuts(const struct np_pipeline *p, uint64_t memory)
{
    return p->stages * p->replicas == 1 && !memory ? 1 : 8;
}

START_TEST(tries_the_pipelines_that_fill_the_devices)
{
    struct np_plan plan;
    struct np_alternatives tried;
    struct np_partition_request r = plan_request(0);
    size_t next = 0;
    r.devices = 6;
    r.memory_bytes = _i ? (uint64_t)1 << 40 : 0;
    ck_assert_int_eq(np_partition(&plan, &tried, &plan_net, &r, NULL), NP_OK);
    for (size_t i = 0; i < sizeof of_six / sizeof *of_six; i++)
        for (int m = of_six[i].replicas; m <= most_cuts(&of_six[i], r.memory_bytes); m *= 2)
            for (int again = 0; again <= (_i && of_six[i].replicas == 1); again++, next++) {
                ck_assert_uint_lt(next, tried.count);
                ck_assert_int_eq(tried.list[next].pipeline.replicas, of_six[i].replicas);
                ck_assert_int_eq(tried.list[next].pipeline.stages, of_six[i].stages);
                ck_assert_int_eq(tried.list[next].pipeline.threads, of_six[i].threads);
                ck_assert_int_eq(tried.list[next].pipeline.micro_batches, m);
                ck_assert_int_eq(tried.list[next].pipeline.recompute, again);
            }
    ck_assert_uint_eq(next, tried.count);
    np_plan_clear(&plan);
    np_alternatives_clear(&tried);
}
END_TEST

static const struct {
    int devices, stages, threads; /* asked */
    int first[2], last[2];        /* stages and threads of the first and last pipeline */
} splits[] = {
    {1, 0, 0, {1, 1}, {1, 1}}, {4, 2, 0, {2, 1}, {2, 2}}, {6, 4, 0, {4, 1}, {4, 1}},
    {8, 0, 2, {1, 2}, {4, 2}}, {3, 4, 0, {4, 1}, {4, 1}}, {64, 0, 0, {1, 1}, {8, 8}},
    {0, 0, 0, {1, 1}, {4, 1}}, {2, 0, 4, {1, 4}, {1, 4}},
};

START_TEST(splits_what_is_left_open)
{
    struct np_plan plan;
    struct np_alternatives tried;
    struct np_partition_request r = plan_request(splits[_i].stages);
    r.devices = splits[_i].devices;
    r.threads = splits[_i].threads;
    r.micro_batches = 2;
    r.replicas = 1;
    ck_assert_int_eq(np_partition(&plan, &tried, &plan_net, &r, NULL), NP_OK);
    const struct np_pipeline *first = &tried.list[0].pipeline;
    const struct np_pipeline *last = &tried.list[tried.count - 1].pipeline;
    ck_assert_int_eq(first->stages, splits[_i].first[0]);
    ck_assert_int_eq(first->threads, splits[_i].first[1]);
    ck_assert_int_eq(last->stages, splits[_i].last[0]);
    ck_assert_int_eq(last->threads, splits[_i].last[1]);
    np_plan_clear(&plan);
    np_alternatives_clear(&tried);
}
END_TEST

START_TEST(takes_the_fastest_alternative)
{
    struct np_plan plan;
    struct np_alternatives tried;
    const struct np_alternative *chosen = NULL;
    struct np_partition_request r = plan_request(0);
    r.processors = 1 + _i;
    ck_assert_int_eq(np_partition(&plan, &tried, &plan_net, &r, NULL), NP_OK);
    for (size_t i = 0; i < tried.count; i++) {
        if (tried.list[i].chosen) {
            ck_assert_ptr_null(chosen);
            chosen = &tried.list[i];
        }
    }
    ck_assert_ptr_nonnull(chosen);
    ck_assert_int_eq(plan.stages, chosen->pipeline.stages);
    ck_assert_int_eq(plan.threads, chosen->pipeline.threads);
    ck_assert_int_eq(plan.micro_batches, chosen->pipeline.micro_batches);
    ck_assert(plan.step_ns == chosen->step_ns);
    for (size_t i = 0; i < tried.count; i++) {
        const struct np_alternative *a = &tried.list[i];
        ck_assert(a->fits && a->resident);
        double worth = 1;
        if (a->pipeline.micro_batches / a->pipeline.replicas >
            plan.micro_batches / np_plan_replicas(&plan))
            worth *= 0.97;
        if (a->pipeline.stages > plan.stages)
            worth *= 0.97;
        if (a->pipeline.replicas > np_plan_replicas(&plan))
            worth *= 0.97;
        ck_assert(a->step_ns >= plan.step_ns * worth);
    }
    np_plan_clear(&plan);
    np_alternatives_clear(&tried);
}
END_TEST

static void assert_reads_back(const struct np_plan *plan)
{
    struct np_plan again;
    struct np_buf text = {0};
    ck_assert_int_eq(np_plan_write(plan, &plan_net, &text, NULL), NP_OK);
    suite_write("plan.yaml", text.text);
    ck_assert_int_eq(np_plan_read(&again, "plan.yaml", &plan_net, NULL), NP_OK);
    ck_assert_int_eq(again.reach, plan->reach);
    ck_assert_int_eq(again.recompute != NULL, plan->recompute != NULL);
    ck_assert_mem_eq(again.stage_bytes, plan->stage_bytes,
                     (size_t)plan->stages * sizeof *plan->stage_bytes);
    np_buf_clear(&text);
    np_plan_clear(&again);
}

/* Balanced cuts where they are asked for, and by themselves where they save 2 %. */
START_TEST(balances_where_it_pays)
{
    struct np_plan fixed, free, balanced;
    struct np_partition_request r = plan_request(2 + _i % 3);
    r.micro_batches = 1 << _i / 3;
    r.cut = NP_CUT_STATIC;
    ck_assert_int_eq(plan_partition(&fixed, &r, NULL), NP_OK);
    r.cut = NP_CUT_CHOOSE;
    ck_assert_int_eq(plan_partition(&free, &r, NULL), NP_OK);
    r.cut = NP_CUT_BALANCED;
    ck_assert_int_eq(plan_partition(&balanced, &r, NULL), NP_OK);
    ck_assert_int_eq(fixed.reach, 0);
    ck_assert_int_ge(balanced.reach, balanced.unit);
    ck_assert_int_eq(free.reach > 0, balanced.step_ns < 0.98 * fixed.step_ns);
    ck_assert(free.step_ns <= fixed.step_ns);
    plan_assert_memory_filled(&balanced);
    assert_reads_back(&fixed);
    assert_reads_back(&balanced);
    np_plan_clear(&fixed);
    np_plan_clear(&free);
    np_plan_clear(&balanced);
}
END_TEST

static uint64_t largest_stage(const struct np_plan *plan)
{
    uint64_t most = 0;
    for (int k = 0; k < plan->stages; k++)
        most = plan->stage_bytes[k] > most ? plan->stage_bytes[k] : most;
    return most;
}

/* Cuts that nobody asked to be balanced are where all that they may move to fits. */
START_TEST(balances_where_it_fits)
{
    struct np_plan roomy, tight;
    struct np_partition_request r = plan_request(3);
    r.micro_batches = 8;
    r.unit = 1;
    r.cut = NP_CUT_CHOOSE;
    ck_assert_int_eq(plan_partition(&roomy, &r, NULL), NP_OK);
    ck_assert_int_gt(roomy.reach, 0);
    r.memory_bytes = largest_stage(&roomy) - 1;
    ck_assert_int_eq(plan_partition(&tight, &r, NULL), NP_OK);
    ck_assert_uint_le(largest_stage(&tight), r.memory_bytes);
    np_plan_clear(&roomy);
    np_plan_clear(&tight);
}
END_TEST

/* Values of length 16 and width 32 cross, 2 samples of them: 4096 bytes. A slow link makes steps
 * longer, and those of finer tasks more so. */
START_TEST(knows_the_link)
{
    struct np_plan near, far, fine;
    struct np_partition_request r = plan_request(2);
    r.micro_batches = 4;
    ck_assert_int_eq(plan_partition(&near, &r, NULL), NP_OK);
    ck_assert(np_plan_task_ns(&near) == NP_PLAN_TASK_NS);
    ck_assert(np_plan_transfer_ns(&near, &plan_net) == NP_PLAN_TRANSFER_NS);
    r.link = (struct np_link_pace){50000, 20000, 1000000000};
    ck_assert_int_eq(plan_partition(&far, &r, NULL), NP_OK);
    ck_assert(np_plan_task_ns(&far) == 50000);
    ck_assert(np_plan_transfer_ns(&far, &plan_net) == 20000 + 4096);
    ck_assert(far.step_ns > near.step_ns);
    assert_reads_back(&far);
    r.unit = 1;
    ck_assert_int_eq(plan_partition(&fine, &r, NULL), NP_OK);
    ck_assert_int_gt(far.unit, 1);
    ck_assert(fine.step_ns > 1.2 * far.step_ns);
    np_plan_clear(&fine);
    np_plan_clear(&near);
    np_plan_clear(&far);
}
END_TEST

/* Replicas that have memories of their own: where devices and layers are, and what they fetch. */
START_TEST(replicas_apart)
{
    const struct np_link_pace pace = {50000, 20000, 1000000000};
    struct np_partition_request r = plan_request(2);
    struct np_plan joined, apart;
    struct np_error err;
    r.micro_batches = 4;
    r.replicas = 2;
    r.memories = 4;
    r.joined = true;
    r.link = pace;
    ck_assert_int_eq(plan_partition(&joined, &r, NULL), NP_OK);
    ck_assert(!np_plan_apart(&joined) && np_plan_replica_memories(&joined) == 1);
    ck_assert_int_eq(np_plan_home(&joined, 1), 1);
    r.joined = false;
    ck_assert_int_eq(plan_partition(&apart, &r, NULL), NP_OK);
    ck_assert(np_plan_apart(&apart) && np_plan_replica_memories(&apart) == 2);
    ck_assert_int_eq(apart.reach, 0);
    for (int device = 0; device < 4; device++)
        ck_assert_int_eq(np_plan_memory(&apart, device), device);
    ck_assert_int_eq(np_plan_home(&apart, 1), 3);
    for (int k = 0; k < plan_net.kind_count; k++) {
        struct np_layer_cost near = np_plan_cost(&joined, &plan_net, 1, k);
        struct np_layer_cost far = np_plan_cost(&apart, &plan_net, 1, k);
        float bytes = 4 * (float)plan_net.kinds[k].floats; /* a nanosecond each */
        float fetch = bytes > 0 ? (20000 + bytes) / 2 : 0; /* for two micro-batches of a replica */
        ck_assert_float_eq_tol(far.f, near.f + fetch, 1);
        ck_assert_float_eq_tol(far.w, near.w + fetch, 1);
        ck_assert_float_eq(far.b, near.b);
    }
    ck_assert(apart.step_ns > joined.step_ns);
    np_plan_clear(&apart);
    np_plan_clear(&joined);
    r.memories = 3;
    ck_assert_int_eq(plan_partition(&apart, &r, &err), NP_EINPUT);
    ck_assert_str_eq(err.msg, "3 ranks or GPUs cannot be dealt evenly to 2 replicas");
    r.memories = 4;
    r.cut = NP_CUT_BALANCED;
    ck_assert_int_eq(plan_partition(&apart, &r, &err), NP_EINPUT);
    ck_assert_str_eq(err.msg, "balanced cuts hand layers over: between ranks, or GPUs that reach "
                              "no other's memory, that is for one replica, not 2");
}
END_TEST

/* Stages take more for them; what is said to be the least that does, does. */
START_TEST(balanced_cuts_say_their_least)
{
    struct np_plan plan;
    struct np_alternatives tried;
    struct np_partition_request r = plan_request(3);
    uint64_t least[2], wanted;
    r.micro_batches = 2;
    r.recompute = _i ? NP_RECOMPUTE_ALWAYS : NP_RECOMPUTE_NEVER;
    for (int balanced = 0; balanced < 2; balanced++) {
        r.cut = balanced ? NP_CUT_BALANCED : NP_CUT_STATIC;
        r.memory_bytes = 4096;
        ck_assert_int_eq(np_partition(&plan, &tried, &plan_net, &r, NULL), NP_ENO);
        r.memory_bytes = least[balanced] = tried.list[0].least_bytes;
        np_alternatives_clear(&tried);
        ck_assert_int_eq(plan_partition(&plan, &r, NULL), NP_OK);
        ck_assert_int_eq(plan.reach > 0, balanced);
        ck_assert_int_eq(np_memory_least(&wanted, &plan, &plan_net, NULL), NP_OK);
        ck_assert_uint_le(wanted, r.memory_bytes);
        np_plan_clear(&plan);
        r.memory_bytes--;
        ck_assert_int_eq(plan_partition(&plan, &r, NULL), NP_ENO);
    }
    ck_assert_uint_gt(least[1], least[0]);
}
END_TEST

/* The least of all alternatives is what would do, and one byte less would not. */
START_TEST(says_the_least_of_all_alternatives)
{
    struct np_plan plan;
    struct np_alternatives tried;
    struct np_error err = {.msg = ""};
    struct np_partition_request r = plan_request(0);
    uint64_t least = UINT64_MAX;
    char expected[64];
    r.memory_bytes = 4096;
    ck_assert_int_eq(np_partition(&plan, &tried, &plan_net, &r, &err), NP_ENO);
    for (size_t i = 0; i < tried.count; i++) {
        ck_assert(!tried.list[i].fits);
        least = tried.list[i].least_bytes < least ? tried.list[i].least_bytes : least;
    }
    snprintf(expected, sizeof expected, " needs at least %llu bytes", (unsigned long long)least);
    ck_assert_ptr_nonnull(strstr(err.msg, expected));
    np_alternatives_clear(&tried);
    r.memory_bytes = least;
    ck_assert_msg(plan_partition(&plan, &r, &err) == NP_OK, "%s", err.msg);
    np_plan_clear(&plan);
    r.memory_bytes = least - 1;
    ck_assert_int_eq(plan_partition(&plan, &r, &err), NP_ENO);
}
END_TEST

/* The least that does for a request, and the plan that it then gets. */
static uint64_t least_plan(struct np_plan *plan, const struct np_partition_request *request)
{
    struct np_alternatives tried;
    struct np_partition_request r = *request;
    uint64_t least = UINT64_MAX;
    r.memory_bytes = 4096;
    ck_assert_int_eq(np_partition(plan, &tried, &plan_net, &r, NULL), NP_ENO);
    for (size_t i = 0; i < tried.count; i++)
        least = tried.list[i].least_bytes < least ? tried.list[i].least_bytes : least;
    np_alternatives_clear(&tried);
    r.memory_bytes = least;
    ck_assert_int_eq(plan_partition(plan, &r, NULL), NP_OK);
    return least;
}

/* Where there is room all is kept; where there is none, nothing but what is asked for is. What is
 * done again is part of what B costs, but not at the head. */
START_TEST(computes_again_where_memory_is_short)
{
    struct np_plan roomy, tight, kept;
    struct np_partition_request r = plan_request(1 + _i);
    uint64_t least;
    struct np_sched_config config;
    int head = plan_net.positions - 1, more = 0, part = 0;
    double load, alone, last;
    r.memory_bytes = (uint64_t)1 << 40;
    ck_assert_int_eq(plan_partition(&roomy, &r, NULL), NP_OK);
    ck_assert_ptr_null(roomy.recompute);
    least = least_plan(&tight, &r);
    ck_assert_ptr_nonnull(tight.recompute);
    assert_reads_back(&tight);
    r.recompute = NP_RECOMPUTE_NEVER;
    ck_assert_uint_gt(least_plan(&kept, &r), least);
    ck_assert_ptr_null(kept.recompute);
    for (int p = 0; p <= head; p++)
        for (int k = 0; k < plan_net.kind_count; k++) {
            struct np_layer_cost a = np_plan_cost(&tight, &plan_net, p, k), b = tight.kind_cost[k];
            ck_assert(a.f == b.f && a.w == b.w && a.b >= b.b && a.b <= b.b + b.f);
            ck_assert(p < head || a.b == b.b);
            more += a.b > b.b;
            part += a.b > b.b && a.b < b.b + 0.9f * b.f;
        }
    ck_assert_int_gt(more, 0);
    ck_assert_int_gt(part, 0); /* what only makes an output is not done again */
    ck_assert_int_eq(np_plan_sched_config(&config, &tight, &plan_net, NULL), NP_OK);
    for (uint32_t l = plan_net.layer_first[1]; l < plan_net.layer_first[2]; l++)
        ck_assert(config.cost[l].b == np_plan_cost(&tight, &plan_net, 1, plan_net.layer_kind[l]).b);
    np_plan_sched_clear(&config);
    load = np_plan_load(&tight, &plan_net, 1);
    np_plan_set_recompute(&tight, &plan_net, false, NULL);
    alone = np_plan_load(&tight, &plan_net, 1);
    ck_assert(load > alone);
    last = np_plan_load(&tight, &plan_net, head - 1);
    /* of two positions in the last unit none is done again */
    tight.unit = 2;
    tight.stage_first[tight.stages - 1] = head - 1;
    np_plan_set_recompute(&tight, &plan_net, true, NULL);
    ck_assert(np_plan_load(&tight, &plan_net, head - 1) == last);
    np_plan_clear(&roomy);
    np_plan_clear(&tight);
    np_plan_clear(&kept);
}
END_TEST

/* Between what the best plan takes and what any needs, fewer flights make it fit. */
START_TEST(memory_cap_holds_or_is_refused)
{
    struct np_plan plan;
    struct np_partition_request r = plan_request(2);
    struct np_error err;
    uint64_t most, least;
    int flights;
    r.window = 4;
    r.micro_batches = 2;
    ck_assert_int_eq(plan_partition(&plan, &r, NULL), NP_OK);
    flights = plan.in_flight[0];
    ck_assert_int_gt(flights, 1);
    most = largest_stage(&plan);
    plan.in_flight[0] = plan.in_flight[1] = 1;
    ck_assert_int_eq(np_memory_fill(&plan, &plan_net, NULL), NP_OK);
    least = largest_stage(&plan);
    np_plan_clear(&plan);
    r.memory_bytes = (most + least) / 2;
    ck_assert_int_eq(plan_partition(&plan, &r, NULL), NP_OK);
    ck_assert_int_lt(plan.in_flight[0], flights);
    ck_assert_uint_le(largest_stage(&plan), r.memory_bytes);
    np_plan_clear(&plan);
    r.memory_bytes = 4096;
    ck_assert_int_eq(plan_partition(&plan, &r, &err), NP_ENO);
    ck_assert_ptr_nonnull(strstr(err.msg, "more than 4 KiB"));
}
END_TEST

/* In one memory: all stages, and what further replicas have of their own; a cap limits what is not
 * in a file. */
START_TEST(what_all_stages_take)
{
    struct np_plan plan;
    struct np_partition_request r = plan_request(2);
    struct np_stage_memory memory[2];
    uint64_t total, sum, own;
    r.micro_batches = 2;
    ck_assert_int_eq(plan_partition(&plan, &r, NULL), NP_OK);
    ck_assert_int_eq(np_memory_total(&total, &plan, true, &plan_net, NULL), NP_OK);
    sum = plan.stage_bytes[0] + plan.stage_bytes[1];
    ck_assert_uint_eq(total, sum);
    plan.device_bytes = plan.stage_bytes[0] - 4096;
    ck_assert_int_eq(np_memory_total(&total, &plan, false, &plan_net, NULL), NP_OK);
    ck_assert_uint_eq(total, sum);
    ck_assert_int_eq(np_memory_total(&total, &plan, true, &plan_net, NULL), NP_OK);
    own = plan.stage_bytes[1] < plan.device_bytes ? plan.stage_bytes[1] : plan.device_bytes;
    ck_assert_uint_eq(total, plan.device_bytes + own);
    np_plan_clear(&plan);
    r.replicas = 2;
    ck_assert_int_eq(plan_partition(&plan, &r, NULL), NP_OK);
    ck_assert_int_eq(np_memory_stages(memory, &plan, &plan_net, NULL), NP_OK);
    ck_assert_int_eq(np_memory_total(&total, &plan, false, &plan_net, NULL), NP_OK);
    sum = plan.stage_bytes[0] + plan.stage_bytes[1] + memory[0].replica + memory[1].replica;
    ck_assert_uint_eq(total, sum);
    np_plan_clear(&plan);
}
END_TEST

/* What a flight of a stage waits for lies in later stages: each holds one fewer, one at least, and
 * none more than the window lets begin. */
START_TEST(later_stages_hold_fewer_flights)
{
    static const int expected[][4] = {{1, 1, 1, 1}, {3, 2, 1, 1}, {4, 4, 3, 2}, {4, 4, 4, 4}};
    static const int most[] = {1, 3, 5, 7};
    struct np_plan plan;
    ck_assert_int_eq(np_plan_init(&plan, &plan_net, 4, NULL), NP_OK);
    plan.micro_batches = 2;
    plan.window = 2;
    for (int i = 0; i < 4; i++) {
        np_fit_flights(&plan, &plan_net, most[i]);
        for (int k = 0; k < 4; k++)
            ck_assert_int_eq(plan.in_flight[k], expected[i][k]);
        ck_assert_int_eq(np_fit_most_flights(&plan, &plan_net), most[i]);
    }
    np_plan_clear(&plan);
}
END_TEST

START_TEST(refuses_impossible_requests)
{
    struct np_plan plan;
    struct np_error err;
    struct np_partition_request r = plan_request(9);
    ck_assert_int_eq(plan_partition(&plan, &r, &err), NP_EINPUT);
    ck_assert_str_eq(err.msg, "9 stages are too many: 'recipe.yaml' has 8 positions");
    r = plan_request(2);
    r.reach = 9;
    ck_assert_int_eq(plan_partition(&plan, &r, &err), NP_EINPUT);
    ck_assert_str_eq(err.msg, "a reach of 9 is too far: 'recipe.yaml' has 8 positions");
    r = plan_request(2);
    r.replicas = 3;
    ck_assert_int_eq(plan_partition(&plan, &r, &err), NP_EINPUT);
    ck_assert_str_eq(err.msg, "3 replicas cannot share 8 micro-batches evenly");
    r.replicas = 2;
    r.micro_batches = 1;
    ck_assert_int_eq(plan_partition(&plan, &r, &err), NP_EINPUT);
    ck_assert_str_eq(err.msg, "2 replicas cannot share 1 micro-batch evenly");
    r.micro_batches = 0;
    r.memory_bytes = 1 << 30;
    r.cut = NP_CUT_BALANCED;
    ck_assert_int_eq(plan_partition(&plan, &r, &err), NP_EINPUT);
    ck_assert_str_eq(err.msg, "balanced cuts hand layers over: with a device memory that is for "
                              "one replica, not 2");
    r = plan_request(2);
    r.micro_batches = 3;
    ck_assert_int_eq(plan_partition(&plan, &r, &err), NP_EINPUT);
    ck_assert_str_eq(err.msg, "micro-batches must divide 8, the grains of a mini-batch (batch 8, "
                              "grain 1), and 3 does not");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plan");
    TCase *tests = suite_case(suite, "plan");
    tcase_add_checked_fixture(tests, plan_setup, plan_teardown);
    tcase_add_test(tests, keeps_what_is_asked);
    tcase_add_loop_test(tests, tries_the_pipelines_that_fill_the_devices, 0, 2);
    tcase_add_loop_test(tests, splits_what_is_left_open, 0, (int)(sizeof splits / sizeof *splits));
    tcase_add_loop_test(tests, takes_the_fastest_alternative, 0, 9);
    tcase_add_loop_test(tests, balances_where_it_pays, 0, 9);
    tcase_add_test(tests, balances_where_it_fits);
    tcase_add_test(tests, knows_the_link);
    tcase_add_test(tests, replicas_apart);
    tcase_add_loop_test(tests, balanced_cuts_say_their_least, 0, 2);
    tcase_add_test(tests, says_the_least_of_all_alternatives);
    tcase_add_loop_test(tests, computes_again_where_memory_is_short, 0, 3);
    tcase_add_test(tests, memory_cap_holds_or_is_refused);
    tcase_add_test(tests, what_all_stages_take);
    tcase_add_test(tests, later_stages_hold_fewer_flights);
    tcase_add_test(tests, refuses_impossible_requests);
    return suite_run_in(suite, (char[]){"/tmp/np-plan-XXXXXX"});
}

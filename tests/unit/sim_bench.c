#include "sim_bench.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "num/philox.h"

uint32_t bench_draw(uint64_t step, int member, int position, uint32_t below)
{
    struct np_draw_key key = np_draw_key(1, NP_DRAW_SUBNET, (uint32_t)member, 0, 0);
    return (uint32_t)np_philox_below(np_draw(key, step, (uint64_t)position), below);
}

static void draw_fair(const struct bench *b, uint16_t *choices, int position)
{
    const struct np_sched_config *c = &b->config.sched;
    for (int i = 0; i < c->members; i++) {
        int j = (int)bench_draw(b->at, i, position, (uint32_t)i + 1);
        choices[i * c->positions + position] = choices[j * c->positions + position];
        choices[j * c->positions + position] = (uint16_t)i;
    }
}

static bool next_step(void *context, uint16_t *choices)
{
    struct bench *b = context;
    const struct np_sched_config *c = &b->config.sched;
    if (b->at == b->steps)
        return false;
    if (b->stream && b->at == 0 && fscanf(b->stream, "#%*[^\n]") == EOF)
        return false;
    for (int p = 0; p < c->positions; p++) {
        uint32_t candidates = b->layer_first[p + 1] - b->layer_first[p];
        if (b->stream && fscanf(b->stream, "%hu", &choices[p]) != 1)
            return false;
        if (b->fair)
            draw_fair(b, choices, p);
        else if (!b->stream)
            for (int i = 0; i < c->members; i++)
                choices[i * c->positions + p] = (uint16_t)bench_draw(b->at, i, p, candidates);
    }
    b->at++;
    return true;
}

void bench_open(struct bench *b, int blocks, int candidates, int stages, int micro_batches)
{
    memset(b, 0, sizeof *b);
    for (int p = 0; p <= blocks; p++)
        b->layer_first[p] = (uint32_t)(p * candidates);
    for (int layer = 0; layer < blocks * candidates; layer++)
        b->cost[layer] = (struct np_layer_cost){1, 1, 1};
    for (int k = 0; k <= stages; k++)
        b->stage_first[k] = blocks * k / stages;
    b->steps = 400;
    b->config =
        (struct np_sim_config){.sched = {.positions = blocks,
                                         .layer_first = b->layer_first,
                                         .kind = b->kind,
                                         .delay = 1,
                                         .cost = b->cost,
                                         .weightless = b->weightless,
                                         .stages = stages,
                                         .stage_first = b->stage_first,
                                         .unit = 1,
                                         .members = 1,
                                         .micro_batches = micro_batches,
                                         .window = np_sched_default_window(stages, micro_batches)},
                               .next_step = next_step,
                               .context = b};
}

struct np_sim_report bench_run(struct bench *b, enum np_sim_schedule schedule)
{
    struct np_sim_report report;
    struct np_error err;
    enum np_status status;
    b->config.schedule = schedule;
    b->at = 0;
    if (b->stream)
        rewind(b->stream);
    status = np_sim_run(&report, &b->config, &err);
    ck_assert_msg(status == NP_OK, "%s", err.msg);
    return report;
}

void bench_near(double value, double expected)
{
    ck_assert_double_le(value, expected + 1e-9 * expected);
    ck_assert_double_ge(value, expected - 1e-9 * expected);
}

void bench_note_order(void *bench, const struct np_span *span)
{
    struct bench *b = bench;
    ck_assert_msg(span->start >= b->last_end[span->task.device], "two tasks of a device overlap");
    b->last_end[span->task.device] = span->end;
}

FILE *bench_published(void)
{
    const char *folder = getenv("NP_TEST_DATA");
    char path[4096];
    FILE *file;
    snprintf(path, sizeof path, "%s/published-112x24.subnets", folder ? folder : "../shared/data");
    file = fopen(path, "r");
    if (!file)
        fprintf(stderr, "SKIPPED: no published-112x24.subnets in $NP_TEST_DATA\n");
    return file;
}

#include "plan/profile_link.h"

#include <stdlib.h>

#include "base/clock.h"

enum { TASKS = 200, AHEAD = 2, ROUNDS = 15 };

#define FEW ((uint64_t)4 << 10)
#define MANY ((uint64_t)1 << 20)

/* Two devices, with memory on each and a crew on the second. */
struct pair {
    struct np_link *link;
    const struct np_device *devices;
    int first;
    void *from, *to;
    struct np_crew *crew;
    struct np_stamp *through;
};

static void pair_clear(struct pair *p)
{
    if (p->crew)
        np_stamp_free(p->through, p->crew);
    np_crew_free(p->crew);
    np_device_release(&p->devices[p->first], p->from);
    np_device_release(&p->devices[p->first + 1], p->to);
}

static enum np_status pair_init(struct pair *p, struct np_error *err)
{
    const struct np_crew_config alone = {.size = 1};
    enum np_status status;
    NP_TRY(np_device_alloc(&p->devices[p->first], &p->from, MANY, err));
    NP_TRY(np_device_alloc(&p->devices[p->first + 1], &p->to, MANY, err));
    NP_TRY(np_crew_new(&p->crew, &p->devices[p->first + 1], &alone, err));
    NP_TRY(np_stamp_new(&p->through, p->crew, err));
out:
    return status;
}

static enum np_status time_tasks(const struct pair *p, double *each, struct np_error *err)
{
    uint64_t marks[AHEAD];
    enum np_status status = NP_OK;
    double start = np_now_ns();
    for (int i = 0; i < TASKS; i++) {
        if (i >= AHEAD)
            NP_TRY(np_link_await(p->link, p->crew, marks[i % AHEAD], err));
        marks[i % AHEAD] = np_crew_mark(p->crew, NULL);
    }
    NP_TRY(np_link_await(p->link, p->crew, marks[(TASKS - 1) % AHEAD], err));
    *each = (np_now_ns() - start) / TASKS;
out:
    return status;
}

static int ascending(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* The median of the rounds. */
static enum np_status time_carry(const struct pair *p, uint64_t bytes, double *each,
                                 struct np_error *err)
{
    const struct np_link_part part = {p->to, p->from, bytes};
    double times[ROUNDS];
    enum np_status status = NP_OK;
    for (int i = 0; i < ROUNDS; i++) {
        double start = np_now_ns();
        NP_TRY(np_link_carry(p->link, p->crew, p->first, p->first + 1, &part, 1, err));
        np_crew_stamp(p->crew, p->through);
        NP_TRY(np_stamp_await(p->crew, p->through, err));
        times[i] = np_now_ns() - start;
    }
    NP_TRY(np_crew_finish(p->crew, err));
    qsort(times, ROUNDS, sizeof *times, ascending);
    *each = times[ROUNDS / 2];
out:
    return status;
}

static enum np_status measure(struct np_link_pace *pace, struct pair *p, struct np_error *err)
{
    double task, few, many, bandwidth;
    enum np_status status;
    NP_TRY(pair_init(p, err));
    NP_TRY(time_tasks(p, &task, err));
    NP_TRY(time_carry(p, FEW, &few, err));
    NP_TRY(time_carry(p, MANY, &many, err));
    many = many > few ? many - few : 1;
    bandwidth = (double)(MANY - FEW) * 1e9 / many;
    if (task > (double)pace->task_ns)
        pace->task_ns = (uint64_t)task;
    if (few > (double)pace->latency_ns)
        pace->latency_ns = (uint64_t)few;
    if (!pace->bandwidth || bandwidth < (double)pace->bandwidth)
        pace->bandwidth = (uint64_t)bandwidth;
out:
    pair_clear(p);
    return status;
}

enum np_status np_profile_link(struct np_link_pace *pace, struct np_link *link,
                               const struct np_device *devices, int count, struct np_error *err)
{
    enum np_status status = NP_OK;
    *pace = (struct np_link_pace){0};
    for (int i = 0; i + 1 < count; i++) {
        struct pair pair = {.link = link, .devices = devices, .first = i};
        NP_TRY(measure(pace, &pair, err));
    }
out:
    return status;
}

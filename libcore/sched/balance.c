/* Dynamic programming over boundaries, twice: for the smallest largest load, then, with no stage
 * above that, for the fewest positions off home. O(stages x reach^2). */
#include "sched/balance.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

/* The tables of a search: `places` of a boundary, from its lowest on. */
struct search {
    const struct np_balance *balance;
    size_t places;
    double *sum;           /* [positions + 1]: loads of the positions before */
    double *before, *best; /* [places]: up to the boundary before, and up to this one */
    uint16_t *from;        /* [stages][places]: where the stage begins that ends there */
    double cap;            /* of a stage's load; negative: none, it is what is minimised */
};

static size_t places_of(const struct np_balance *b)
{
    return 2 * (size_t)b->reach + 1;
}

size_t np_balance_scratch(const struct np_balance *b)
{
    size_t doubles = (size_t)b->positions + 1 + 2 * places_of(b);
    return doubles * sizeof(double) + (size_t)b->stages * places_of(b) * sizeof(uint16_t);
}

/* True of a position between the homes of the stages before and after boundary `stage`. */
static bool begins_unit(const struct np_balance *b, int stage, int position)
{
    const int *home = &b->stage_first[stage];
    if (position == home[0] || (stage < b->stages && position == home[1]))
        return true;
    return (position - (position < home[0] ? home[-1] : home[0])) % b->unit == 0;
}

/* Boundary `stage` lies in *low .. *high. */
static void limits(const struct np_balance *b, int stage, int *low, int *high)
{
    const int *home = &b->stage_first[stage];
    *low = *high = *home;
    if (*home == 0 || *home == b->positions) /* the first or the last position would move */
        return;
    for (int p = *home; p > 0 && p >= home[-1] && p >= *home - b->reach; p--)
        if (begins_unit(b, stage, p))
            *low = p;
    for (int p = *home; p < b->positions && p <= home[1] && p <= *home + b->reach; p++)
        if (begins_unit(b, stage, p))
            *high = p;
}

void np_balance_range(const struct np_balance *b, int stage, int *first, int *end)
{
    int high, low;
    limits(b, stage, first, &high);
    limits(b, stage + 1, &low, end);
}

/* What it comes to if stage `stage` begins and ends there. */
static double value(const struct search *s, int stage, int begin, int end, double before)
{
    double load = s->sum[end] - s->sum[begin];
    if (s->cap < 0)
        return load > before ? load : before;
    return load <= s->cap ? before + abs(end - s->balance->stage_first[stage + 1]) : INFINITY;
}

static void extend(struct search *s, int stage)
{
    const struct np_balance *b = s->balance;
    int low, high, first, last;
    double *row = s->before;
    limits(b, stage, &low, &high);
    limits(b, stage + 1, &first, &last);
    for (int end = first; end <= last; end++) {
        double *best = &s->best[end - first];
        *best = INFINITY;
        if (!begins_unit(b, stage + 1, end))
            continue;
        for (int begin = low; begin <= high && begin <= end; begin++) {
            double v = value(s, stage, begin, end, s->before[begin - low]);
            if (v < *best) {
                *best = v;
                s->from[(size_t)stage * s->places + (size_t)(end - first)] = (uint16_t)begin;
            }
        }
    }
    s->before = s->best;
    s->best = row;
}

static double run(struct search *s)
{
    s->before[0] = 0;
    for (int k = 0; k < s->balance->stages; k++)
        extend(s, k);
    return s->before[0];
}

void np_balance_cut(const struct np_balance *b, uint16_t *begins, const float *load, void *scratch)
{
    struct search s = {.balance = b, .places = places_of(b), .sum = scratch, .cap = -1};
    int low, high;
    s.before = s.sum + b->positions + 1;
    s.best = s.before + s.places;
    s.from = (uint16_t *)(s.best + s.places);
    s.sum[0] = 0;
    for (int p = 0; p < b->positions; p++)
        s.sum[p + 1] = s.sum[p] + (double)load[p];
    s.cap = run(&s);
    run(&s);
    begins[b->stages] = (uint16_t)b->positions;
    for (int k = b->stages; k-- > 0;) {
        limits(b, k + 1, &low, &high);
        begins[k] = s.from[(size_t)k * s.places + (size_t)(begins[k + 1] - low)];
    }
    assert(begins[0] == 0);
}

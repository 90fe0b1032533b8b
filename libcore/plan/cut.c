#include "plan/cut.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "base/memory.h"

struct table {
    const struct np_cut *cut;
    double *load;    /* [positions + 1] sums of the positions before */
    uint64_t *bytes; /* likewise, on the last stage */
    double *before;  /* [positions + 1] best with one stage fewer */
    double *best;
    int *from; /* [stages][positions + 1]: where the last stage begins */
};

static void table_clear(struct table *t)
{
    free(t->load);
    free(t->bytes);
    free(t->before);
    free(t->best);
    free(t->from);
}

static enum np_status table_init(struct table *t, const struct np_cut *cut, struct np_error *err)
{
    enum np_status status;
    size_t n = (size_t)cut->positions + 1, cells;
    *t = (struct table){.cut = cut};
    if (!np_mul_size(&cells, n, (size_t)cut->stages))
        return np_fail(err, NP_EMEM, "a cut of %d positions into %d stages is too large",
                       cut->positions, cut->stages);
    NP_TRY(np_zalloc(&t->load, n, sizeof *t->load, err));
    NP_TRY(np_zalloc(&t->bytes, n, sizeof *t->bytes, err));
    NP_TRY(np_zalloc(&t->before, n, sizeof *t->before, err));
    NP_TRY(np_zalloc(&t->best, n, sizeof *t->best, err));
    NP_TRY(np_zalloc(&t->from, cells, sizeof *t->from, err));
    for (int p = 0; p < cut->positions; p++)
        t->load[p + 1] = t->load[p] + cut->load[p];
out:
    return status;
}

static void begin_stage(struct table *t, int stage)
{
    const struct np_cut *cut = t->cut;
    size_t row = (size_t)stage * (size_t)cut->positions;
    for (int p = 0; cut->bytes && p < cut->positions; p++)
        t->bytes[p + 1] = t->bytes[p] + cut->bytes[row + (size_t)p];
}

static bool within(const struct table *t, int from, int to)
{
    return !t->cut->bytes || t->bytes[to] - t->bytes[from] <= t->cut->cap_bytes;
}

static double stage_load(const struct table *t, int from, int to)
{
    return t->load[to] - t->load[from];
}

static double value(const struct table *t, int from, int to)
{
    double last = stage_load(t, from, to);
    if (!within(t, from, to))
        return INFINITY;
    return t->before[from] > last ? t->before[from] : last;
}

/* The best beginning of the last stage in low .. to-1: where rising before[] meets the falling load
 * (a stage over the cap counts as an infinite load, which falls too). */
static int crossing(const struct table *t, int low, int to)
{
    int high = to - 1, begin = low;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (within(t, middle, to) && t->before[middle] >= stage_load(t, middle, to))
            high = middle;
        else
            low = middle + 1;
    }
    return low > begin && value(t, low - 1, to) <= value(t, low, to) ? low - 1 : low;
}

static void swap_rows(struct table *t)
{
    double *row = t->before;
    t->before = t->best;
    t->best = row;
}

enum np_status np_cut_find(int *first, bool *fits, const struct np_cut *cut, struct np_error *err)
{
    enum np_status status;
    struct table t;
    int n = cut->positions;
    size_t row = (size_t)n + 1;
    assert(cut->stages >= 1 && cut->stages <= n);
    NP_TRY(table_init(&t, cut, err));
    begin_stage(&t, 0);
    for (int j = 1; j <= n; j++)
        t.best[j] = value(&t, 0, j);
    for (int k = 1; k < cut->stages; k++) {
        swap_rows(&t);
        begin_stage(&t, k);
        for (int j = k + 1; j <= n; j++) {
            int from = crossing(&t, k, j);
            t.from[(size_t)k * row + (size_t)j] = from;
            t.best[j] = value(&t, from, j);
        }
    }
    *fits = isfinite(t.best[n]);
    if (!*fits)
        goto out;
    first[cut->stages] = n;
    for (int k = cut->stages - 1; k >= 0; k--)
        first[k] = k ? t.from[(size_t)k * row + (size_t)first[k + 1]] : 0;
out:
    table_clear(&t);
    return status;
}

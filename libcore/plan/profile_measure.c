/* Which layers are measured together, and with how many samples, so that no supernet is too large
 * to measure. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "ops/op.h"
#include "plan/profile_bench.h"

#define BUDGET_NS 200e6
#define GROUP_FLOATS ((size_t)1 << 26) /* of one team's slab, unless one layer needs more */
/* By the model, which is some times slower than a fast core: of one pass over all kinds, and of a
 * kind, for shorter work is not worth cutting. */
#define PASS_NS 8e9
#define KIND_NS 20e6

/* Dropout takes the same time at every rate. */
static bool same_cost(const struct np_kind *a, const struct np_kind *b)
{
    struct np_layer_spec x = a->spec, y = b->spec;
    if ((x.dropout > 0) != (y.dropout > 0) || (x.drop_path > 0) != (y.drop_path > 0))
        return false;
    x.dropout = y.dropout = x.drop_path = y.drop_path = 0;
    return memcmp(&x, &y, sizeof x) == 0 && np_shape_equal(a->in, b->in) &&
           np_shape_equal(a->out, b->out) && np_shape_equal(a->memory, b->memory) &&
           a->summed == b->summed && a->part_of == b->part_of && a->reads == b->reads &&
           a->makes == b->makes;
}

static size_t value_floats(const struct np_kind *kind, size_t samples)
{
    struct np_op_sizes sizes = np_op_sizes(kind, samples);
    size_t values = 2 * np_shape_floats(kind->in) + 2 * np_shape_floats(kind->memory) +
                    3 * np_shape_floats(kind->out);
    return sizes.saved + sizes.delta + sizes.work + samples * values;
}

/* A layer's time is proportional to its samples, so what would take long, or much memory, is timed
 * with fewer. */
static size_t timed_samples(const struct np_kind *kind, struct np_layer_cost model, double limit_ns,
                            size_t samples)
{
    double ns = (double)model.f + (double)model.b + (double)model.w;
    double floats = (double)value_floats(kind, samples), share = 1;
    if (ns > limit_ns)
        share = limit_ns / ns;
    if (floats * share > (double)GROUP_FLOATS)
        share = (double)GROUP_FLOATS / floats;
    return (size_t)fmax(1, (double)samples * share);
}

static enum np_status choose_samples(size_t *samples, const struct np_supernet *distinct,
                                     const struct np_profile_config *config, struct np_error *err)
{
    struct np_layer_cost *model;
    enum np_status status = np_zalloc(&model, (size_t)distinct->kind_count, sizeof *model, err);
    if (status != NP_OK)
        return status;
    np_profile_model(model, distinct, config->samples, config->micro_batches, config->threads);
    for (int k = 0; k < distinct->kind_count; k++)
        samples[k] = timed_samples(&distinct->kinds[k], model[k],
                                   fmax(KIND_NS, PASS_NS / distinct->kind_count), config->samples);
    free(model);
    return NP_OK;
}

static size_t layer_floats(const struct np_supernet *net, const struct np_kind *kind,
                           size_t samples)
{
    return np_kind_whole(kind)->floats * (size_t)(2 + net->moments) + value_floats(kind, samples);
}

/* Measures `distinct` group by group: as many kinds at once as fit in a slab of GROUP_FLOATS. */
static enum np_status measure_groups(struct np_layer_cost *cost, const struct np_supernet *distinct,
                                     const struct np_profile_config *config, const size_t *samples,
                                     struct np_error *err)
{
    enum np_status status = NP_OK;
    for (int first = 0, next; first < distinct->kind_count; first = next) {
        struct np_supernet group = *distinct;
        size_t floats = 0;
        for (next = first; next < distinct->kind_count; next++) {
            floats += layer_floats(distinct, &distinct->kinds[next], samples[next]);
            if (next > first && floats > GROUP_FLOATS)
                break;
        }
        group.kinds = distinct->kinds + first;
        group.kind_count = next - first;
        double budget_ns = BUDGET_NS * group.kind_count / distinct->kind_count;
        NP_TRY((config->device ? np_profile_bench_device : np_profile_bench)(
            cost + first, &group, config, samples + first, budget_ns, err));
    }
out:
    return status;
}

/* How many layers of each distinct kind are measured: a subnet's layers in all, about, so that they
 * take as much cache from each other as they do in training; fewer where those fill any cache. */
static int copies_of(const struct np_supernet *net, const struct np_supernet *distinct, int count)
{
    int copies = (net->positions + count / 2) / count, enough;
    size_t floats = 0;
    for (int k = 0; k < count; k++)
        floats += layer_floats(net, &distinct->kinds[k], 1);
    enough = 1 + (int)(GROUP_FLOATS / (floats + 1));
    copies = copies < enough ? copies : enough;
    return copies > 1 ? copies : 1;
}

/* distinct->kinds: the distinct kinds, then these again and again; which[kinds]: where one is. */
static enum np_status tell_apart(struct np_supernet *distinct, int *count, int *which,
                                 const struct np_supernet *net, struct np_error *err)
{
    int room = net->kind_count + net->positions;
    enum np_status status = np_zalloc(&distinct->kinds, (size_t)room, sizeof(struct np_kind), err);
    if (status != NP_OK)
        return status;
    *count = 0;
    for (int k = 0; k < net->kind_count; k++) {
        while (which[k] < *count && !same_cost(&distinct->kinds[which[k]], &net->kinds[k]))
            which[k]++;
        if (which[k] == *count)
            distinct->kinds[(*count)++] = net->kinds[k];
    }
    distinct->kind_count = *count * copies_of(net, distinct, *count);
    for (int i = *count; i < distinct->kind_count; i++)
        distinct->kinds[i] = distinct->kinds[i - *count];
    return NP_OK;
}

/* The mean over a kind's copies, measured[kind + i * count]. */
static struct np_layer_cost mean(const struct np_layer_cost *measured, int kind, int count,
                                 int copies)
{
    double f = 0, b = 0, w = 0;
    for (int i = kind; i < count * copies; i += count) {
        f += (double)measured[i].f;
        b += (double)measured[i].b;
        w += (double)measured[i].w;
    }
    return (struct np_layer_cost){(float)round(f / copies), (float)round(b / copies),
                                  (float)round(w / copies)};
}

enum np_status np_profile_measure(struct np_layer_cost *cost, const struct np_supernet *net,
                                  const struct np_profile_config *config, struct np_error *err)
{
    enum np_status status;
    struct np_supernet distinct = *net;
    struct np_layer_cost *measured = NULL;
    size_t *samples = NULL;
    int *which = NULL, count;
    distinct.kinds = NULL;
    NP_TRY(np_float_check(err));
    NP_TRY(np_zalloc(&which, (size_t)net->kind_count, sizeof *which, err));
    NP_TRY(tell_apart(&distinct, &count, which, net, err));
    NP_TRY(np_zalloc(&measured, (size_t)distinct.kind_count, sizeof *measured, err));
    NP_TRY(np_zalloc(&samples, (size_t)distinct.kind_count, sizeof *samples, err));
    NP_TRY(choose_samples(samples, &distinct, config, err));
    NP_TRY(measure_groups(measured, &distinct, config, samples, err));
    for (int k = 0; k < net->kind_count; k++)
        cost[k] = mean(measured, which[k], count, distinct.kind_count / count);
out:
    free(distinct.kinds);
    free(measured);
    free(samples);
    free(which);
    return status;
}

/* Which layers are measured together, so that no supernet is too large to measure. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "ops/op.h"
#include "plan/profile_bench.h"

#define BUDGET_NS 400e6
#define GROUP_FLOATS ((size_t)1 << 26) /* of one team's slab, unless one layer needs more */

/* Dropout takes the same time at every rate. */
static bool same_cost(const struct np_kind *a, const struct np_kind *b)
{
    struct np_layer_spec x = a->spec, y = b->spec;
    if ((x.dropout > 0) != (y.dropout > 0))
        return false;
    x.dropout = y.dropout = 0;
    return memcmp(&x, &y, sizeof x) == 0;
}

static size_t layer_floats(const struct np_supernet *net, const struct np_kind *kind,
                           size_t samples)
{
    struct np_op_sizes sizes = np_op_sizes(kind, samples);
    return kind->floats * (size_t)(2 + net->moments) + sizes.saved + sizes.delta + sizes.work;
}

/* Measures `distinct` group by group: as many kinds at once as fit in a slab of GROUP_FLOATS. */
static enum np_status measure_groups(struct np_layer_cost *cost, const struct np_supernet *distinct,
                                     const struct np_profile_config *config, struct np_error *err)
{
    enum np_status status = NP_OK;
    for (int first = 0, next; first < distinct->kind_count; first = next) {
        struct np_supernet group = *distinct;
        size_t floats = 0;
        for (next = first; next < distinct->kind_count; next++) {
            floats += layer_floats(distinct, &distinct->kinds[next], config->samples);
            if (next > first && floats > GROUP_FLOATS)
                break;
        }
        group.kinds = distinct->kinds + first;
        group.kind_count = next - first;
        NP_TRY(np_profile_bench(cost + first, &group, config,
                                BUDGET_NS * group.kind_count / distinct->kind_count, err));
    }
out:
    return status;
}

enum np_status np_profile_measure(struct np_layer_cost *cost, const struct np_supernet *net,
                                  const struct np_profile_config *config, struct np_error *err)
{
    enum np_status status;
    struct np_supernet distinct = *net;
    struct np_layer_cost *measured = NULL;
    size_t kinds = (size_t)net->kind_count;
    int *which = NULL, count = 0;
    distinct.kinds = NULL;
    NP_TRY(np_float_check(err));
    NP_TRY(np_zalloc(&distinct.kinds, kinds, sizeof *distinct.kinds, err));
    NP_TRY(np_zalloc(&measured, kinds, sizeof *measured, err));
    NP_TRY(np_zalloc(&which, kinds, sizeof *which, err));
    for (int k = 0; k < net->kind_count; k++) {
        while (which[k] < count && !same_cost(&distinct.kinds[which[k]], &net->kinds[k]))
            which[k]++;
        if (which[k] == count)
            distinct.kinds[count++] = net->kinds[k];
    }
    distinct.kind_count = count;
    NP_TRY(measure_groups(measured, &distinct, config, err));
    for (int k = 0; k < net->kind_count; k++)
        cost[k] = measured[which[k]];
out:
    free(distinct.kinds);
    free(measured);
    free(which);
    return status;
}

/* Alternatives are pipelines that fill the devices; each is searched by itself (plan/search.h), and
 * the fastest wins. */
#include "plan/partition.h"

#include <stdlib.h>

#include "base/memory.h"
#include "base/text.h"
#include "num/team.h"
#include "plan/search.h"

#define STAGES_WORTH 0.97 /* more stages must save this much time: simulation flatters them */
#define MEMORY_WORTH 0.99 /* other micro-batches that take more memory, this much */
#define MICRO_BATCHES 16  /* tried, or as many as fill a pipeline of so many stages */
#define FILL 4

/* What the request leaves open, within what the supernet and this machine allow. */
struct choice {
    const struct np_supernet *net;
    const struct np_partition_request *request;
    int devices, most_stages, most_threads;
    struct np_alternatives *tried;
};

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

static enum np_status choice_init(struct choice *c, struct np_alternatives *tried,
                                  const struct np_supernet *net,
                                  const struct np_partition_request *request, struct np_error *err)
{
    int processors = request->processors > 0 ? request->processors : 1;
    *tried = (struct np_alternatives){NULL};
    *c = (struct choice){.net = net, .request = request, .tried = tried};
    c->devices = request->devices ? request->devices : processors;
    if (request->stages > net->positions || request->stages > NP_MAX_STAGES)
        return np_fail(err, NP_EINPUT, "%d stages are too many: '%s' has %d positions",
                       request->stages, np_text_safe(net->recipe->path).s, net->positions);
    c->most_stages = smaller(net->positions, NP_MAX_STAGES);
    c->most_threads = request->model ? NP_MAX_TEAM : smaller(processors, NP_MAX_TEAM);
    if (request->micro_batches)
        return np_plan_check_cuts(request->micro_batches, net, err);
    return NP_OK;
}

/* The most threads for so many stages that the devices have. */
static int threads_for(const struct choice *c, int stages)
{
    int threads = c->devices / stages;
    if (c->request->threads)
        return c->request->threads;
    return threads < 1 ? 1 : smaller(threads, c->most_threads);
}

/* What was asked for; else up to where a pipeline of so many stages is full. */
static bool worth_trying(const struct choice *c, int stages, int micro_batches)
{
    int asked = c->request->micro_batches, most = FILL * stages;
    if (c->net->whole_batch)
        return micro_batches == 1;
    return asked ? micro_batches == asked
                 : micro_batches <= (most > MICRO_BATCHES ? most : MICRO_BATCHES);
}

static enum np_status add(struct choice *c, int stages, int threads, struct np_error *err)
{
    struct np_alternatives *tried = c->tried;
    enum np_status status = NP_OK;
    int grains = c->net->recipe->batch / c->net->recipe->grain;
    for (int m = 1; m <= grains; m++) {
        if (grains % m != 0 || !worth_trying(c, stages, m))
            continue;
        NP_TRY(np_grow(&tried->list, &tried->capacity, tried->count, sizeof *tried->list, err));
        tried->list[tried->count++] = (struct np_alternative){
            .pipeline = {.stages = stages, .threads = threads, .micro_batches = m}};
    }
out:
    return status;
}

/* The pipelines that fill the devices, of those with as many threads the one with most stages; and
 * the smallest, for layers that are too small to be shared out. */
static enum np_status list(struct choice *c, struct np_error *err)
{
    enum np_status status = NP_OK;
    const struct np_partition_request *request = c->request;
    int first = request->stages ? request->stages : 1, last = request->stages;
    int least_threads = request->threads ? request->threads : 1;
    if (!request->stages) {
        last = smaller(c->devices / least_threads, c->most_stages);
        last = last < 1 ? 1 : last;
    }
    if (threads_for(c, first) != least_threads || first != last)
        NP_TRY(add(c, first, least_threads, err));
    for (int s = first; s <= last; s++)
        if (s == last || threads_for(c, s + 1) != threads_for(c, s))
            NP_TRY(add(c, s, threads_for(c, s), err));
out:
    return status;
}

static void note(struct np_alternative *tried, const struct np_plan *plan, uint64_t least_bytes)
{
    tried->least_bytes = least_bytes;
    tried->fits = plan->stages > 0;
    if (!tried->fits)
        return;
    tried->window = plan->window;
    tried->unit = plan->unit;
    tried->step_ns = plan->step_ns;
    tried->bubble = plan->bubble;
    for (int k = 0; k < plan->stages; k++)
        if (plan->stage_bytes[k] > tried->largest_bytes)
            tried->largest_bytes = plan->stage_bytes[k];
    tried->resident = plan->device_bytes == 0 || tried->largest_bytes <= plan->device_bytes;
}

/* The fastest, NULL if nothing fits. The list is in order of stages. */
static struct np_alternative *choose(const struct np_alternatives *tried)
{
    struct np_alternative *best = NULL, *end = tried->list + tried->count;
    for (struct np_alternative *a = tried->list; a < end; a++) {
        double worth = best && a->pipeline.stages > best->pipeline.stages ? STAGES_WORTH : 1;
        if (a->fits && (!best || a->step_ns < best->step_ns * worth))
            best = a;
    }
    struct np_alternative *fastest = best;
    for (struct np_alternative *a = tried->list; a < end; a++)
        if (a->fits && a->pipeline.stages == fastest->pipeline.stages &&
            a->pipeline.threads == fastest->pipeline.threads &&
            a->largest_bytes < best->largest_bytes && a->step_ns * MEMORY_WORTH <= fastest->step_ns)
            best = a;
    return best;
}

static enum np_status refuse(const struct choice *c, struct np_error *err)
{
    const struct np_alternative *least = &c->tried->list[0];
    for (size_t i = 1; i < c->tried->count; i++)
        if (c->tried->list[i].least_bytes < least->least_bytes)
            least = &c->tried->list[i];
    return np_fail(
        err, NP_ENO,
        "nothing fits: the largest of %d stage%s needs at least %llu bytes (%s), more than %s",
        least->pipeline.stages, least->pipeline.stages == 1 ? "" : "s",
        (unsigned long long)least->least_bytes, np_text_size(least->least_bytes).s,
        np_text_size(c->request->memory_bytes).s);
}

void np_alternatives_clear(struct np_alternatives *tried)
{
    free(tried->list);
    *tried = (struct np_alternatives){NULL};
}

enum np_status np_partition(struct np_plan *plan, struct np_alternatives *tried,
                            const struct np_supernet *net,
                            const struct np_partition_request *request, struct np_error *err)
{
    enum np_status status;
    struct choice c;
    struct np_plan *plans = NULL;
    struct np_alternative *best;
    uint64_t least;
    *plan = (struct np_plan){0};
    NP_TRY(choice_init(&c, tried, net, request, err));
    NP_TRY(list(&c, err));
    NP_TRY(np_zalloc(&plans, tried->count, sizeof *plans, err));
    for (size_t i = 0; i < tried->count; i++) {
        struct np_alternative *now = &tried->list[i];
        if (request->progress)
            request->progress(request->context, tried, i);
        NP_TRY(np_search_pipeline(&plans[i], &least, &now->pipeline, net, request, err));
        note(now, &plans[i], least);
    }
    best = choose(tried);
    if (!best) {
        status = refuse(&c, err);
        goto out;
    }
    best->chosen = true;
    *plan = plans[best - tried->list];
    plans[best - tried->list] = (struct np_plan){0};
out:
    for (size_t i = 0; plans && i < tried->count; i++)
        np_plan_clear(&plans[i]);
    free(plans);
    return status;
}

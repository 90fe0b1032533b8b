/* Alternatives are pipelines that fill the devices; each is searched by itself (plan/search.h), and
 * the fastest wins. */
#include "plan/partition.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/limits.h"
#include "base/memory.h"
#include "base/text.h"
#include "plan/profile_cache.h"
#include "plan/search.h"

/* More micro-batches must save this much time: smaller tasks find less of what they read in the
 * caches than is simulated (8 took 2 to 9 % longer than predicted, 1 or 2 took 0 to 4 %). */
#define CUTS_WORTH 0.97
#define MOST_HELPERS 255 /* threads that search, beside the caller's */

/* A pipeline with each choice about what is saved. */
static enum np_status list_pipeline(struct np_alternatives *tried, struct np_pipeline pipeline,
                                    const struct np_partition_request *request,
                                    struct np_error *err)
{
    enum np_status status = NP_OK;
    for (int recompute = 0; recompute < 2; recompute++) {
        if (!np_pipeline_may(&pipeline, recompute, request))
            continue;
        NP_TRY(np_grow(&tried->list, &tried->capacity, tried->count, sizeof *tried->list, err));
        pipeline.recompute = recompute;
        tried->list[tried->count++] = (struct np_alternative){.pipeline = pipeline};
    }
out:
    return status;
}

/* Every pipeline with every number of micro-batches that is legal and worth it. */
static enum np_status list(struct np_alternatives *tried, const struct np_supernet *net,
                           const struct np_partition_request *request, struct np_error *err)
{
    enum np_status status;
    struct np_pipelines pipelines = {NULL};
    int grains = net->recipe->batch / net->recipe->grain;
    NP_TRY(np_pipelines_list(&pipelines, net, request, err));
    for (size_t i = 0; i < pipelines.count; i++) {
        struct np_pipeline p = pipelines.list[i];
        for (int m = 1; m <= grains; m++) {
            if (grains % m != 0 || !np_pipeline_cuts(&p, m, net, request))
                continue;
            p.micro_batches = m;
            NP_TRY(list_pipeline(tried, p, request, err));
        }
    }
out:
    np_pipelines_clear(&pipelines);
    return status;
}

static void note(struct np_alternative *tried, const struct np_plan *plan, uint64_t least_bytes)
{
    tried->least_bytes = least_bytes;
    tried->fits = least_bytes == 0;
    if (!tried->fits)
        return;
    tried->window = plan->window;
    tried->unit = plan->unit;
    tried->reach = plan->reach;
    tried->step_ns = plan->step_ns;
    tried->bubble = plan->bubble;
    for (int k = 0; k < plan->stages; k++)
        if (plan->stage_bytes[k] > tried->largest_bytes)
            tried->largest_bytes = plan->stage_bytes[k];
    tried->resident = plan->device_bytes == 0 || tried->largest_bytes <= plan->device_bytes;
}

/* So must more stages, which hand values over and find less of them in the caches (2 took 1 to 33 %
 * longer than predicted, 2 threads 3 to 9 %), and replicas, which hold activations each and wait
 * for each other more than is simulated (2 took 2 to 9 % longer). */
#define STAGES_WORTH 0.97
#define REPLICAS_WORTH 0.97

/* Micro-batches of a member on a replica. */
static int micros_of(const struct np_pipeline *p)
{
    return p->micro_batches / np_sched_beside(p->replicas, p->micro_batches);
}

/* What share of `than`'s time a plan like `a` may take to be worth it. */
static double worth(const struct np_pipeline *a, const struct np_pipeline *than)
{
    double worth = 1;
    if (micros_of(a) > micros_of(than))
        worth *= CUTS_WORTH;
    if (a->stages > than->stages)
        worth *= STAGES_WORTH;
    if (a->replicas > than->replicas)
        worth *= REPLICAS_WORTH;
    return worth;
}

/* The fastest, NULL if nothing fits; fewer replicas, of a pipeline's fewer stages, and of these
 * fewer micro-batches, come first. */
static struct np_alternative *choose(const struct np_alternatives *tried)
{
    struct np_alternative *best = NULL;
    for (size_t i = 0; i < tried->count; i++) {
        struct np_alternative *a = &tried->list[i];
        if (a->fits && (!best || a->step_ns < best->step_ns * worth(&a->pipeline, &best->pipeline)))
            best = a;
    }
    return best;
}

static enum np_status refuse(const struct np_alternatives *tried, uint64_t given_bytes,
                             struct np_error *err)
{
    const struct np_alternative *least = &tried->list[0];
    for (size_t i = 1; i < tried->count; i++)
        if (tried->list[i].least_bytes < least->least_bytes)
            least = &tried->list[i];
    return np_fail(
        err, NP_ENO,
        "nothing fits: the largest of %d stage%s needs at least %llu bytes (%s), more than %s",
        least->pipeline.stages, least->pipeline.stages == 1 ? "" : "s",
        (unsigned long long)least->least_bytes, np_text_size(least->least_bytes).s,
        np_text_size(given_bytes).s);
}

/* The search of all alternatives, each by one thread, who takes the next when it has ended. */
struct hunt {
    struct np_plan *plans;
    struct np_alternatives *tried;
    const struct np_supernet *net;
    const struct np_partition_request *request;
    pthread_mutex_t lock;
    size_t next;
    size_t failed; /* the first that did; else their count */
    enum np_status status;
    struct np_error err;
};

/* False when there is nothing left to do. */
static bool take(struct hunt *hunt, size_t *which)
{
    size_t count = hunt->tried->count;
    bool any;
    pthread_mutex_lock(&hunt->lock);
    any = hunt->next < count && hunt->status == NP_OK;
    if (any) {
        *which = hunt->next++;
        if (hunt->request->searching)
            hunt->request->searching(hunt->request->context, *which, count);
    }
    pthread_mutex_unlock(&hunt->lock);
    return any;
}

static void fail(struct hunt *hunt, size_t which, enum np_status status, const struct np_error *err)
{
    pthread_mutex_lock(&hunt->lock);
    if (which < hunt->failed) {
        hunt->failed = which;
        hunt->status = status;
        hunt->err = *err;
    }
    pthread_mutex_unlock(&hunt->lock);
}

static void *hunter_main(void *argument)
{
    struct hunt *hunt = argument;
    size_t i;
    while (take(hunt, &i)) {
        uint64_t least;
        struct np_error err;
        enum np_status status =
            np_search_plan(&hunt->plans[i], &least, hunt->net, hunt->request, &err);
        if (status == NP_OK)
            note(&hunt->tried->list[i], &hunt->plans[i], least);
        else
            fail(hunt, i, status, &err);
    }
    return NULL;
}

/* What is found does not depend on how many search, so threads that cannot start are not missed. */
static enum np_status search(struct np_plan *plans, struct np_alternatives *tried,
                             const struct np_supernet *net,
                             const struct np_partition_request *request, struct np_error *err)
{
    struct hunt hunt = {plans, tried, net, request, .failed = tried->count, .status = NP_OK};
    const struct np_processors bound = np_processors_bound();
    size_t wanted = (size_t)np_processors_usable(&bound), helpers = 0;
    pthread_t helper[MOST_HELPERS];
    wanted = wanted < tried->count ? wanted : tried->count;
    pthread_mutex_init(&hunt.lock, NULL);
    while (helpers + 1 < wanted && helpers < MOST_HELPERS &&
           pthread_create(&helper[helpers], NULL, hunter_main, &hunt) == 0)
        helpers++;
    hunter_main(&hunt);
    while (helpers > 0)
        pthread_join(helper[--helpers], NULL);
    pthread_mutex_destroy(&hunt.lock);
    return hunt.status == NP_OK ? NP_OK : np_fail(err, hunt.status, "%s", hunt.err.msg);
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
    struct np_plan *plans = NULL;
    struct np_alternative *best;
    *plan = (struct np_plan){0};
    *tried = (struct np_alternatives){NULL};
    if (request->micro_batches)
        NP_TRY(np_plan_check_cuts(request->micro_batches, net, err));
    NP_TRY(list(tried, net, request, err));
    NP_TRY(np_zalloc(&plans, tried->count, sizeof *plans, err));
    for (size_t i = 0; i < tried->count; i++)
        NP_TRY(np_search_begin(&plans[i], &tried->list[i].pipeline, net, request, err));
    NP_TRY(np_profile_plans(plans, tried->count, net, request, err));
    NP_TRY(search(plans, tried, net, request, err));
    best = choose(tried);
    if (!best) {
        status = refuse(tried, request->memory_bytes, err);
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

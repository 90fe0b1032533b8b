#include "plan/pipelines.h"

#include <stdlib.h>

#include "base/memory.h"
#include "base/text.h"
#include "num/team.h"
#include "plan/plan.h"

#define MICRO_BATCHES 16 /* worth a look in any pipeline */
#define FILL 4           /* a stage; with them a pipeline is full */

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

static int processors(const struct np_partition_request *request)
{
    return request->processors > 0 ? request->processors : 1;
}

/* The most threads for so many stages and replicas that the devices have. */
static int threads_for(const struct np_partition_request *request, int replicas, int stages)
{
    int most = request->model ? NP_MAX_TEAM : smaller(processors(request), NP_MAX_TEAM);
    int threads = np_request_devices(request) / replicas / stages;
    if (request->threads)
        return request->threads;
    return threads < 1 ? 1 : smaller(threads, most);
}

static enum np_status add(struct np_pipelines *pipelines, int replicas, int stages, int threads,
                          struct np_error *err)
{
    enum np_status status = np_grow(&pipelines->list, &pipelines->capacity, pipelines->count,
                                    sizeof *pipelines->list, err);
    if (status == NP_OK)
        pipelines->list[pipelines->count++] =
            (struct np_pipeline){.replicas = replicas, .stages = stages, .threads = threads};
    return status;
}

static int grains(const struct np_supernet *net)
{
    return net->whole_batch ? 1 : net->recipe->batch / net->recipe->grain;
}

/* Whether so many replicas can share a step. */
static bool may_share(int replicas, int micro_batches, const struct np_supernet *net)
{
    bool apart = net->recipe->distill > 0 && micro_batches % replicas != 0;
    return !apart && np_sched_may_share(replicas, net->recipe->members, micro_batches);
}

static enum np_status check(const struct np_supernet *net,
                            const struct np_partition_request *request, struct np_error *err)
{
    const struct np_plan asked = {.stages = request->stages ? request->stages : 1,
                                  .replicas = request->replicas,
                                  .micro_batches =
                                      request->micro_batches ? request->micro_batches : grains(net),
                                  .reach = request->cut == NP_CUT_BALANCED,
                                  .memories = np_request_memories(request, request->replicas),
                                  .device_bytes = request->memory_bytes};
    enum np_status status = np_plan_check_memories(&asked, err);
    if (status != NP_OK)
        return status;
    if (request->stages > smaller(net->positions, NP_MAX_STAGES))
        return np_fail(err, NP_EINPUT, "%d stages are too many: '%s' has %d positions",
                       request->stages, np_text_safe(net->recipe->path).s, net->positions);
    if (request->reach > net->positions)
        return np_fail(err, NP_EINPUT, "a reach of %d is too far: '%s' has %d positions",
                       request->reach, np_text_safe(net->recipe->path).s, net->positions);
    return np_plan_check_replicas(&asked, net, err);
}

/* Those of so many replicas. */
static enum np_status list(struct np_pipelines *pipelines, int replicas,
                           const struct np_supernet *net,
                           const struct np_partition_request *request, struct np_error *err)
{
    enum np_status status = NP_OK;
    int first = request->stages ? request->stages : 1, last = request->stages;
    int fewest = request->threads ? request->threads : 1;
    if (!request->stages) {
        last = smaller(np_request_devices(request) / replicas / fewest,
                       smaller(net->positions, NP_MAX_STAGES));
        last = last < 1 ? 1 : last;
    }
    if (replicas == 1 && (threads_for(request, 1, first) != fewest || first != last))
        NP_TRY(add(pipelines, 1, first, fewest, err));
    for (int s = first; s <= last; s++)
        if (s == last || threads_for(request, replicas, s + 1) != threads_for(request, replicas, s))
            NP_TRY(add(pipelines, replicas, s, threads_for(request, replicas, s), err));
out:
    return status;
}

enum np_status np_pipelines_list(struct np_pipelines *pipelines, const struct np_supernet *net,
                                 const struct np_partition_request *request, struct np_error *err)
{
    enum np_status status = NP_OK;
    int stages = request->stages ? request->stages : 1;
    int threads = request->threads ? request->threads : 1,
        most = np_request_devices(request) / stages / threads;
    *pipelines = (struct np_pipelines){NULL};
    NP_TRY(check(net, request, err));
    if (request->replicas)
        return list(pipelines, request->replicas, net, request, err);
    NP_TRY(list(pipelines, 1, net, request, err));
    if (request->memory_bytes && (request->cut == NP_CUT_BALANCED || request->disk.read))
        return NP_OK;
    for (int r = 2; r <= smaller(most, NP_MAX_STAGES / stages); r++)
        if (may_share(r, grains(net), net))
            NP_TRY(list(pipelines, r, net, request, err));
out:
    return status;
}

void np_pipelines_clear(struct np_pipelines *pipelines)
{
    free(pipelines->list);
    *pipelines = (struct np_pipelines){NULL};
}

bool np_pipeline_may(const struct np_pipeline *pipeline, bool recompute,
                     const struct np_partition_request *request)
{
    bool asked = request->recompute == NP_RECOMPUTE_ALWAYS;
    if (!recompute)
        return !asked;
    if (pipeline->replicas > 1)
        return asked && request->replicas > 1;
    return asked || (request->recompute == NP_RECOMPUTE_CHOOSE && request->memory_bytes > 0);
}

bool np_pipeline_cuts(const struct np_pipeline *pipeline, int micro_batches,
                      const struct np_supernet *net, const struct np_partition_request *request)
{
    int most = FILL * pipeline->stages * pipeline->replicas;
    if (!may_share(pipeline->replicas, micro_batches, net))
        return false;
    if (net->whole_batch)
        return micro_batches == 1;
    if (request->micro_batches)
        return micro_batches == request->micro_batches;
    if (pipeline->stages * pipeline->replicas == 1 && !request->memory_bytes)
        return micro_batches == 1;
    return micro_batches <= (most > MICRO_BATCHES ? most : MICRO_BATCHES);
}

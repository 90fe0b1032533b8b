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

static int devices(const struct np_partition_request *request)
{
    return request->devices ? request->devices : processors(request);
}

/* The most threads for so many stages that the devices have. */
static int threads_for(const struct np_partition_request *request, int stages)
{
    int most = request->model ? NP_MAX_TEAM : smaller(processors(request), NP_MAX_TEAM);
    int threads = devices(request) / stages;
    if (request->threads)
        return request->threads;
    return threads < 1 ? 1 : smaller(threads, most);
}

static enum np_status add(struct np_pipelines *pipelines, int stages, int threads,
                          struct np_error *err)
{
    enum np_status status = np_grow(&pipelines->list, &pipelines->capacity, pipelines->count,
                                    sizeof *pipelines->list, err);
    if (status == NP_OK)
        pipelines->list[pipelines->count++] =
            (struct np_pipeline){.stages = stages, .threads = threads};
    return status;
}

enum np_status np_pipelines_list(struct np_pipelines *pipelines, const struct np_supernet *net,
                                 const struct np_partition_request *request, struct np_error *err)
{
    enum np_status status = NP_OK;
    int most = smaller(net->positions, NP_MAX_STAGES);
    int first = request->stages ? request->stages : 1, last = request->stages;
    int fewest = request->threads ? request->threads : 1;
    *pipelines = (struct np_pipelines){NULL};
    if (request->stages > most)
        return np_fail(err, NP_EINPUT, "%d stages are too many: '%s' has %d positions",
                       request->stages, np_text_safe(net->recipe->path).s, net->positions);
    if (request->reach > net->positions)
        return np_fail(err, NP_EINPUT, "a reach of %d is too far: '%s' has %d positions",
                       request->reach, np_text_safe(net->recipe->path).s, net->positions);
    if (!request->stages) {
        last = smaller(devices(request) / fewest, most);
        last = last < 1 ? 1 : last;
    }
    if (threads_for(request, first) != fewest || first != last)
        NP_TRY(add(pipelines, first, fewest, err));
    for (int s = first; s <= last; s++)
        if (s == last || threads_for(request, s + 1) != threads_for(request, s))
            NP_TRY(add(pipelines, s, threads_for(request, s), err));
out:
    return status;
}

void np_pipelines_clear(struct np_pipelines *pipelines)
{
    free(pipelines->list);
    *pipelines = (struct np_pipelines){NULL};
}

bool np_pipeline_cuts(const struct np_pipeline *pipeline, int micro_batches,
                      const struct np_supernet *net, const struct np_partition_request *request)
{
    int most = FILL * pipeline->stages;
    if (net->whole_batch)
        return micro_batches == 1;
    if (request->micro_batches)
        return micro_batches == request->micro_batches;
    return micro_batches <= (most > MICRO_BATCHES ? most : MICRO_BATCHES);
}

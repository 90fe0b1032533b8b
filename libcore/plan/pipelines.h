/* What may be asked of a plan, and the pipelines that it leaves to choose from.
 *
 * Replicas  (sched/sched.h) share all layers, so where memory is bounded it must hold them, cuts
 *           are static, and where the stash is a file there is one; and as the micro-batches fall
 *           on grain boundaries there are no more than grains.
 * Errors    NP_EINPUT: more stages, or a larger reach, than positions; replicas that no number of
 *           micro-batches can be shared among, or with balanced cuts in bounded memory; NP_EMEM.
 */
#ifndef NP_PLAN_PIPELINES_H
#define NP_PLAN_PIPELINES_H

#include "num/kernels.h"
#include "num/link.h"
#include "sched/disk.h"
#include "space/supernet.h"

/* Who computes, and on what share of a mini-batch; and whether what operators save is kept, or
 * computed again. */
struct np_pipeline {
    int replicas, stages, threads, micro_batches;
    bool recompute;
};

struct np_plan;
struct np_device;

enum np_cut_choice {
    NP_CUT_CHOOSE, /* balanced where that is worth it */
    NP_CUT_STATIC,
    NP_CUT_BALANCED
};

enum np_recompute_choice {
    NP_RECOMPUTE_CHOOSE, /* of one replica, where memory is bounded and that is faster, or fits */
    NP_RECOMPUTE_NEVER,
    NP_RECOMPUTE_ALWAYS
};

struct np_partition_request {
    int replicas, stages, micro_batches, window, unit, threads; /* 0: choose */
    enum np_cut_choice cut;
    enum np_recompute_choice recompute;
    int reach;   /* of balanced cuts; 0: choose */
    int devices; /* threads of all stages and replicas together, if chosen; 0: the processors */
    bool model;  /* costs from FLOPs instead of measuring */
    uint64_t memory_bytes;          /* cap per stage; 0: none */
    size_t scratch;                 /* the plan's */
    struct np_disk_bandwidth disk;  /* of the stash, if it is a file */
    struct np_disk_bandwidth spare; /* the same where stages leave a processor to copies */
    int memories;                   /* that all stages share (np_plan_memory); 0: one */
    bool joined;                    /* but several replicas have them as one */
    struct np_link_pace link;       /* between stages of several processes */
    const char *cache;              /* directory of the profile cache; NULL: none */
    const struct np_kernels *kernels;
    int processors; /* that this process may use: no more threads are measured */
    /* Costs are measured there: a GPU, and its name and driver; NULL: on the processors, which then
     * are counted in GPUs. */
    const struct np_device *device;
    const char *device_name;
    /* Called before a plan's costs are measured, the next of `count` times; then before an
     * alternative is searched, the next of `count`, by any thread, one at a time. Either may be
     * NULL. */
    void (*measuring)(void *context, const struct np_plan *plan, size_t next, size_t count);
    void (*searching)(void *context, size_t next, size_t count);
    void *context;
};

struct np_pipelines {
    struct np_pipeline *list;
    size_t count, capacity;
};

/* Threads, or GPUs, that all stages may have together. */
static inline int np_request_devices(const struct np_partition_request *request)
{
    int processors = request->processors > 0 ? request->processors : 1;
    return request->devices ? request->devices : processors;
}

/* The memories that the devices of a plan have (np_plan_memory). */
static inline int np_request_memories(const struct np_partition_request *request, int replicas)
{
    return replicas > 1 && request->joined ? 0 : request->memories;
}

/* The pipelines that fill the devices, in order of replicas and stages, of those with as many
 * threads a stage the one with most stages; and before them the smallest, for layers too small to
 * be shared out.
 * Their micro-batches are left open. The list is the caller's to clear, also after an error. */
enum np_status np_pipelines_list(struct np_pipelines *pipelines, const struct np_supernet *net,
                                 const struct np_partition_request *request, struct np_error *err);
void np_pipelines_clear(struct np_pipelines *pipelines);

/* Whether a pipeline may keep what operators save (recompute false), or compute it again (true).
 * Of several replicas that is for those who ask for both: contributions to a layer wait for each
 * other's, and what they need has often to be computed once more by then, which is not foreseen. */
bool np_pipeline_may(const struct np_pipeline *pipeline, bool recompute,
                     const struct np_partition_request *request);

/* True for so many micro-batches as were asked for; else up to where the pipeline is full, of one
 * stage only to need less memory: nothing follows that they could fill, and less is left to share
 * out. */
bool np_pipeline_cuts(const struct np_pipeline *pipeline, int micro_batches,
                      const struct np_supernet *net, const struct np_partition_request *request);

#endif

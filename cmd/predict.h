/* np-predict-trace inside: what to simulate, the simulation, and its reports. */
#ifndef NP_CMD_PREDICT_H
#define NP_CMD_PREDICT_H

#include "base/buf.h"
#include "cli.h"
#include "plan/steps.h"
#include "plan_options.h"
#include "prefetch_options.h"
#include "sched/sim.h"
#include "sched/timeline.h"
#include "space_options.h"
#include "sweep_list.h"

enum { PREDICT_SUMMARY, PREDICT_TSV, PREDICT_CHROME, PREDICT_SVG };

enum { PREDICT_DEFAULT_COSTS, PREDICT_PLAN_COSTS, PREDICT_UNIT_COSTS, PREDICT_DRAWN_COSTS };

#define PREDICT_SCHEDULES 5
#define PREDICT_ALL PREDICT_SCHEDULES /* every schedule */
/* Names in the order of enum np_sim_schedule, then "all". */
extern const char *const predict_schedules[PREDICT_SCHEDULES + 1];

struct predict_options {
    struct space_options space; /* path NULL: a bare supernet of blocks x candidates */
    struct plan_options plan;
    struct prefetch_options prefetch;
    const char *plan_path, *subnets, *output, *against;
    int blocks, candidates;
    int capacity; /* of a bare supernet's stage, in subnets; 0: everything */
    bool has_fetch_time;
    double fetch_time;
    bool seeded;
    uint64_t seed, steps, first, show; /* steps 0: as many as there are, or a default */
    int schedule, costs, format;
    struct sweep sweep; /* no combinations: one simulation */
    bool quiet;         /* no progress */
};

/* The supernet as the scheduler sees it: from a plan, or bare. */
struct predict_model {
    struct np_sched_config sched;
    bool nanoseconds;
    double overhead, transfer; /* of a task, and between stages */
    int blocks;
    /* owned */
    struct np_stream_block *each; /* [blocks] */
    uint32_t *layer_first, *whole;
    enum np_shared_kind *kind;
    struct np_layer_cost *cost;
    bool *weightless;
    int *stage_first;
    /* Where layers come and go; bytes of a bare supernet are layers. */
    bool has_memory;
    uint64_t device_bytes; /* 0: bare */
    struct np_disk_bandwidth disk;
    struct np_sim_memory memory;
    uint64_t *bytes, *room; /* what it points to */
};

/* A zeroed model is empty; predict_model_clear takes any. */
enum np_status predict_model_bare(struct predict_model *model, const struct predict_options *given,
                                  struct np_error *err);
/* Of a plan that was made here the cut becomes the one that other costs have. */
enum np_status predict_model_of_plan(struct predict_model *model,
                                     const struct predict_options *given,
                                     const struct np_supernet *net, struct np_plan *plan,
                                     struct np_error *err);
/* The model's memory: of --capacity, or of the plan's stages. */
enum np_status predict_memory_bare(struct predict_model *model, const struct predict_options *given,
                                   struct np_error *err);
enum np_status predict_memory_of_plan(struct predict_model *model,
                                      const struct predict_options *given,
                                      const struct np_supernet *net, const struct np_plan *plan,
                                      struct np_error *err);
/* Of the cuts asked for: the plan's reach, 0, or what is asked, by default two units. */
int predict_reach(const struct np_partition_request *asked, int reach, int unit, int positions);
void predict_model_clear(struct predict_model *model);

/* One simulated run. */
struct predict_run {
    const struct predict_model *model;
    struct np_sim_report report;
    struct np_sim_stage *stages; /* [stages] */
    struct np_steps steps;
    uint64_t *last_use; /* [layers] step + 1 of the last step that used it; 0: none */
    uint64_t step, conflicts;
    bool keep; /* the trace */
    struct np_trace trace;
    struct cli_progress progress;
    uint64_t wanted; /* steps, or UINT64_MAX: as many as the stream has */
};

/* Simulates options' stream from step `first`. */
enum np_status predict_run(struct predict_run *run, const struct predict_model *model,
                           const struct predict_options *given, const struct np_supernet *net,
                           int schedule, uint64_t first, uint64_t steps, bool keep,
                           struct np_error *err);
/* The sums of all stages; the bytes held at most by one. */
struct np_sim_stage predict_sum(const struct predict_run *run);
uint64_t predict_peak(const struct predict_run *run, int stage);
/* What a trace says of the stages' memory. */
enum np_status predict_trace_stages(struct predict_run *run, struct np_error *err);
void predict_run_clear(struct predict_run *run);

/* What one call of the tool works on. */
struct predict_job {
    const struct predict_options *options;
    struct space space;
    struct np_trace measured; /* of --against */
    struct np_plan plan;
    struct predict_model model;
};

/* Reads or makes what the options ask for; predict_close takes any job. */
enum np_status predict_open(struct predict_job *job, struct np_error *err);
void predict_close(struct predict_job *job);
/* --against: reads what a run measured; the plan then has the memory, look-ahead and disk that the
 * run had, but for what the options say. NP_EINPUT: they cannot be compared. */
enum np_status predict_follow(struct predict_job *job, struct np_error *err);
/* Compares the model with it. */
enum np_status predict_against(struct np_buf *out, const struct predict_job *job,
                               struct np_error *err);
/* Simulates and writes the answer: summary, table of schedules, timeline or comparison. */
enum np_status predict_report(struct np_buf *out, const struct predict_job *job,
                              struct np_error *err);
/* The table of --sweep. */
enum np_status predict_sweep(struct np_buf *out, struct predict_options *options,
                             struct np_error *err);

#endif

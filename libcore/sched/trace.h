/* A trace: what every device did when, and what its memory came to.
 *
 * One form for both sources: the simulator's virtual clock and what an engine records.
 *
 * Units     as span.h has them.
 * Order     spans and copies in any order.
 * Errors    NP_EMEM; reading: NP_EINPUT with the file's name; NP_EIO.
 * Ownership np_trace_clear releases; a zeroed trace is empty.
 */
#ifndef NP_SCHED_TRACE_H
#define NP_SCHED_TRACE_H

#include <stddef.h>

#include "sched/disk.h"
#include "sched/span.h"

/* What decides the copies of stages whose memory does not hold all layers, beside the plan. */
struct np_trace_copying {
    enum np_context_policy policy;
    int lookahead; /* steps known beyond the window; 0: not said */
    bool in_file;  /* the stash */
    struct np_disk_bandwidth disk;
};

/* Of a stage whose memory does not hold all layers. */
struct np_trace_stage {
    uint64_t device_bytes; /* there are */
    uint64_t fixed_bytes;  /* are always in use */
    uint64_t held_bytes;   /* of layers that come and go, when the trace begins */
    struct np_context_sums sums;
};

struct np_trace {
    struct np_span *spans;
    size_t count, capacity;
    struct np_copy_span *copies;
    size_t copy_count, copy_capacity;
    struct np_trace_stage *stage;    /* [stages]; NULL: all layers are there */
    int stages;                      /* of `stage` */
    struct np_trace_copying copying; /* with `stage` */
    bool spans_lost, copies_lost;    /* no memory was left for one: none is added any more */
};

void np_trace_clear(struct np_trace *trace);
/* Spans may be added by one thread while another adds copies. */
enum np_status np_trace_add(struct np_trace *trace, const struct np_span *span,
                            struct np_error *err);
enum np_status np_trace_add_copy(struct np_trace *trace, const struct np_copy_span *span,
                                 struct np_error *err);
/* Whether all that was to be added is there, for who could not look at every addition. */
enum np_status np_trace_is_whole(const struct np_trace *trace, struct np_error *err);
/* stage[stages], zeroed, unless it is there. */
enum np_status np_trace_make_stages(struct np_trace *trace, int stages, struct np_error *err);

/* What a trace of so many devices amounts to; the first warm-up or last drain is not left out. */
struct np_trace_sums {
    double start, end; /* of the first and last span */
    double busy;       /* over all devices, without stalls */
    double stall;
    double bubble; /* idle share of devices x (end - start), stalls included */
    uint64_t first_step, steps;
};
struct np_trace_sums np_trace_sum(const struct np_trace *trace, int devices);

/* From `time` on, the stage's memory holds so many bytes. */
struct np_memory_change {
    double time;
    int stage;
    uint64_t bytes;
};
/* All changes, copy_count of them, by time; the caller frees them. Needs trace->stage. */
enum np_status np_trace_memory(struct np_memory_change **changes, const struct np_trace *trace,
                               struct np_error *err);

/* Keeps, in place, what ran between the ends of step first - 1 and of step first + steps - 1, of
 * whatever step, and the copies meanwhile: a piece of a full pipeline looks full. */
void np_trace_crop(struct np_trace *trace, uint64_t first, uint64_t steps);

/* Reads what np_timeline_chrome wrote into an empty trace: in nanoseconds, spans by start. */
enum np_status np_trace_read(struct np_trace *trace, const char *path, struct np_error *err);

#endif

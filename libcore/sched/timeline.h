/* Timelines: pictures of a trace. For people (SVG), for Perfetto and chrome://tracing (trace-event
 * JSON) and for programs (TSV).
 *
 * Units     of the trace: nanoseconds, or costs of one block (`nanoseconds` false: simulations with
 *           unit costs); bytes, or layers (`layers`: simulations without a recipe).
 * Errors    NP_EMEM.
 * Source    Chrome's Trace Event Format: complete events ("ph": "X"), ts and dur in microseconds;
 *           counters ("ph": "C").
 */
#ifndef NP_SCHED_TIMELINE_H
#define NP_SCHED_TIMELINE_H

#include "sched/trace.h"

struct np_buf;

struct np_timeline {
    const struct np_trace *trace;
    int stages, replicas; /* replicas 0: one */
    bool nanoseconds, layers;
    const char *title; /* plain text, one line */
    const char *note;  /* a second line, or NULL */
};

static inline int np_timeline_devices(const struct np_timeline *timeline)
{
    return (timeline->replicas > 1 ? timeline->replicas : 1) * timeline->stages;
}

/* 'F', 'B' or 'W'. */
char np_timeline_letter(enum np_task_kind kind);

/* stage kind step member micro first count start end device, tab-separated, after a header line; in
 * the trace's order. */
enum np_status np_timeline_tsv(struct np_buf *out, const struct np_timeline *timeline,
                               struct np_error *err);
/* {"traceEvents": [...]}: one thread a device; name "F 12.3" (step, micro-batch), args hold the
 * task. One block's cost is written as one microsecond. Where layers come and go: a thread for each
 * copier, name "fetch 17" (layer), a counter a stage for its memory, and the stages' sums in
 * "otherData". */
enum np_status np_timeline_chrome(struct np_buf *out, const struct np_timeline *timeline,
                                  struct np_error *err);
/* A self-contained drawing: a lane per device, hue by step, shade by kind, axis, legend. Where
 * layers come and go, each with a lane for copies and one for the memory in use. */
enum np_status np_timeline_svg(struct np_buf *out, const struct np_timeline *timeline,
                               struct np_error *err);

#endif

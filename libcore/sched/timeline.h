/* Timelines: what every stage did when, and the pictures of it.
 *
 * One form for both sources: the simulator's virtual clock and the spans an engine records. Writers
 * for people (SVG), for Perfetto and chrome://tracing (trace-event JSON) and for programs (TSV).
 *
 * Units     start and end count from any common origin, in nanoseconds, or in costs of one block
 *           (`nanoseconds` false: simulations with unit costs).
 * Order     spans in any order; the writers keep it, except that the SVG draws by stage.
 * Errors    NP_EMEM; reading: NP_EINPUT with the file's name.
 * Source    Chrome's Trace Event Format: complete events ("ph": "X"), ts and dur in microseconds.
 */
#ifndef NP_SCHED_TIMELINE_H
#define NP_SCHED_TIMELINE_H

#include <stddef.h>

#include "sched/span.h"

struct np_buf;

struct np_timeline {
    const struct np_span *spans;
    size_t count;
    int stages;
    int members;       /* of a step; more than one are told apart in names */
    bool nanoseconds;  /* false: unit costs */
    const char *title; /* plain text, one line */
    const char *note;  /* a second line, or NULL */
};

/* What a timeline amounts to; the first warm-up or last drain is not left out. */
struct np_timeline_sums {
    double start, end; /* of the first and last span */
    double busy;       /* over all stages */
    double bubble;     /* idle share of stages x (end - start) */
    uint64_t first_step, steps;
};
struct np_timeline_sums np_timeline_sum(const struct np_timeline *timeline);

/* 'F', 'B' or 'W'. */
char np_timeline_letter(enum np_task_kind kind);

/* stage kind step member micro first count start end, tab-separated, after a header line. */
enum np_status np_timeline_tsv(struct np_buf *out, const struct np_timeline *timeline,
                               struct np_error *err);
/* {"traceEvents": [...]}: one thread a stage; name "F 12.3" (step, micro-batch), args hold the
 * task. One block's cost is written as one microsecond. */
enum np_status np_timeline_chrome(struct np_buf *out, const struct np_timeline *timeline,
                                  struct np_error *err);
/* A self-contained drawing: a lane per stage, hue by step, shade by kind, axis, legend. */
enum np_status np_timeline_svg(struct np_buf *out, const struct np_timeline *timeline,
                               struct np_error *err);

/* Reads what np_timeline_chrome wrote: *spans (caller frees) in nanoseconds, by start. */
enum np_status np_timeline_read(struct np_span **spans, size_t *count, const char *path,
                                struct np_error *err);

/* Keeps, in place, what ran between the ends of step first - 1 and of step first + steps - 1, of
 * whatever step: a piece of a full pipeline looks full. Returns how many are left. */
size_t np_timeline_crop(struct np_span *spans, size_t count, uint64_t first, uint64_t steps);

#endif

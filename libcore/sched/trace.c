#include "sched/trace.h"

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"

void np_trace_clear(struct np_trace *trace)
{
    free(trace->spans);
    free(trace->copies);
    free(trace->stage);
    *trace = (struct np_trace){.count = 0};
}

enum np_status np_trace_add(struct np_trace *trace, const struct np_span *span,
                            struct np_error *err)
{
    enum np_status status;
    if (trace->spans_lost)
        return np_trace_is_whole(trace, err);
    status = np_grow(&trace->spans, &trace->capacity, trace->count, sizeof *trace->spans, err);
    if (status == NP_OK)
        trace->spans[trace->count++] = *span;
    trace->spans_lost = status != NP_OK;
    return status;
}

enum np_status np_trace_add_copy(struct np_trace *trace, const struct np_copy_span *span,
                                 struct np_error *err)
{
    enum np_status status;
    if (trace->copies_lost)
        return np_trace_is_whole(trace, err);
    status = np_grow(&trace->copies, &trace->copy_capacity, trace->copy_count,
                     sizeof *trace->copies, err);
    if (status == NP_OK)
        trace->copies[trace->copy_count++] = *span;
    trace->copies_lost = status != NP_OK;
    return status;
}

enum np_status np_trace_is_whole(const struct np_trace *trace, struct np_error *err)
{
    if (trace->spans_lost)
        return np_fail(err, NP_EMEM, "cannot keep more than %zu spans of the timeline",
                       trace->count);
    if (trace->copies_lost)
        return np_fail(err, NP_EMEM, "cannot keep more than %zu copies of the timeline",
                       trace->copy_count);
    return NP_OK;
}

enum np_status np_trace_make_stages(struct np_trace *trace, int stages, struct np_error *err)
{
    enum np_status status = NP_OK;
    if (trace->stage)
        return NP_OK;
    status = np_zalloc(&trace->stage, (size_t)stages, sizeof *trace->stage, err);
    trace->stages = status == NP_OK ? stages : 0;
    return status;
}

struct np_trace_sums np_trace_sum(const struct np_trace *trace, int devices)
{
    struct np_trace_sums sums = {0};
    uint64_t last = 0;
    for (size_t i = 0; i < trace->count; i++) {
        const struct np_span *span = &trace->spans[i];
        if (i == 0 || span->start < sums.start)
            sums.start = span->start;
        if (i == 0 || span->end > sums.end)
            sums.end = span->end;
        if (i == 0 || span->task.step < sums.first_step)
            sums.first_step = span->task.step;
        if (i == 0 || span->task.step > last)
            last = span->task.step;
        sums.busy += span->end - span->start - span->stall;
        sums.stall += span->stall;
    }
    if (trace->count)
        sums.steps = last - sums.first_step + 1;
    if (sums.end > sums.start)
        sums.bubble = 1 - sums.busy / (devices * (sums.end - sums.start));
    return sums;
}

static bool brings(const struct np_copy_span *span)
{
    return span->copy.kind == NP_COPY_MAKE || span->copy.kind == NP_COPY_FETCH;
}

/* By time, what makes room first: bytes are signed, and not yet those of the whole. */
static int by_time(const void *a, const void *b)
{
    const struct np_memory_change *x = a, *y = b;
    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    return ((int64_t)x->bytes > (int64_t)y->bytes) - ((int64_t)x->bytes < (int64_t)y->bytes);
}

enum np_status np_trace_memory(struct np_memory_change **changes, const struct np_trace *trace,
                               struct np_error *err)
{
    struct np_memory_change *change = NULL;
    uint64_t *held = NULL;
    enum np_status status;
    NP_TRY(np_alloc(&change, trace->copy_count, sizeof *change, err));
    NP_TRY(np_alloc(&held, (size_t)trace->stages, sizeof *held, err));
    for (int k = 0; k < trace->stages; k++)
        held[k] = trace->stage[k].fixed_bytes + trace->stage[k].held_bytes;
    for (size_t i = 0; i < trace->copy_count; i++) {
        const struct np_copy_span *span = &trace->copies[i];
        change[i] = brings(span)
                        ? (struct np_memory_change){span->start, span->stage, span->bytes}
                        : (struct np_memory_change){span->end, span->stage, 0 - span->bytes};
    }
    qsort(change, trace->copy_count, sizeof *change, by_time);
    for (size_t i = 0; i < trace->copy_count; i++)
        change[i].bytes = held[change[i].stage] += change[i].bytes;
    *changes = change;
    change = NULL;
out:
    free(change);
    free(held);
    return status;
}

/* When all steps below `step` were complete; 0 for the first. */
static double completed(const struct np_trace *trace, uint64_t step)
{
    double end = 0;
    for (size_t i = 0; i < trace->count; i++)
        if (trace->spans[i].task.step < step && trace->spans[i].end > end)
            end = trace->spans[i].end;
    return end;
}

/* What copies brought and took before `from` is held from the beginning. */
static void crop_copies(struct np_trace *trace, double from, double to)
{
    size_t kept = 0;
    for (size_t i = 0; i < trace->copy_count; i++) {
        struct np_copy_span *span = &trace->copies[i];
        if (span->end <= from && trace->stage)
            trace->stage[span->stage].held_bytes += brings(span) ? span->bytes : 0 - span->bytes;
        if (span->end > from && span->start < to)
            trace->copies[kept++] = *span;
    }
    trace->copy_count = kept;
}

void np_trace_crop(struct np_trace *trace, uint64_t first, uint64_t steps)
{
    uint64_t next = first + steps < first ? UINT64_MAX : first + steps;
    struct np_trace_sums sums = np_trace_sum(trace, 1);
    /* At both ends of a whole trace may be tasks that take no time. */
    double from = first > sums.first_step ? completed(trace, first) : -INFINITY;
    double to = next < sums.first_step + sums.steps ? completed(trace, next) : INFINITY;
    size_t kept = 0;
    for (size_t i = 0; i < trace->count; i++)
        if (trace->spans[i].end > from && trace->spans[i].start < to)
            trace->spans[kept++] = trace->spans[i];
    trace->count = kept;
    sums = np_trace_sum(trace, 1);
    crop_copies(trace, sums.start, sums.end);
}

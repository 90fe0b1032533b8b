#include "sched/timeline.h"

#include <inttypes.h>

#include "base/buf.h"

struct np_timeline_sums np_timeline_sum(const struct np_timeline *timeline)
{
    struct np_timeline_sums sums = {0};
    uint64_t last = 0;
    for (size_t i = 0; i < timeline->count; i++) {
        const struct np_span *span = &timeline->spans[i];
        if (i == 0 || span->start < sums.start)
            sums.start = span->start;
        if (i == 0 || span->end > sums.end)
            sums.end = span->end;
        if (i == 0 || span->task.step < sums.first_step)
            sums.first_step = span->task.step;
        if (i == 0 || span->task.step > last)
            last = span->task.step;
        sums.busy += span->end - span->start;
    }
    if (timeline->count)
        sums.steps = last - sums.first_step + 1;
    if (sums.end > sums.start)
        sums.bubble = 1 - sums.busy / (timeline->stages * (sums.end - sums.start));
    return sums;
}

char np_timeline_letter(enum np_task_kind kind)
{
    return "FBW"[kind];
}

enum np_status np_timeline_tsv(struct np_buf *out, const struct np_timeline *timeline,
                               struct np_error *err)
{
    enum np_status status;
    int decimals = timeline->nanoseconds ? 0 : 3;
    NP_TRY(np_buf_printf(out, err, "stage\tkind\tstep\tmember\tmicro\tfirst\tcount\tstart\tend\n"));
    for (size_t i = 0; i < timeline->count; i++) {
        const struct np_span *span = &timeline->spans[i];
        const struct np_task *task = &span->task;
        NP_TRY(np_buf_printf(out, err, "%d\t%c\t%" PRIu64 "\t%d\t%d\t%d\t%d\t", task->stage,
                             np_timeline_letter(task->kind), task->step, task->member, task->micro,
                             task->first, task->count));
        NP_TRY(np_buf_printf(out, err, "%.*f\t%.*f\n", decimals, span->start, decimals, span->end));
    }
out:
    return status;
}

static enum np_status chrome_event(struct np_buf *out, const struct np_span *span, double scale,
                                   struct np_error *err)
{
    const struct np_task *task = &span->task;
    char kind = np_timeline_letter(task->kind);
    return np_buf_printf(
        out, err,
        "{\"name\":\"%c %" PRIu64 ".%d\",\"cat\":\"%c\",\"ph\":\"X\",\"pid\":0,\"tid\":%d,"
        "\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"stage\":%d,\"step\":%" PRIu64 ",\"member\":%d,"
        "\"micro\":%d,\"first\":%d,\"count\":%d,\"opens\":%s,\"updates\":%s}},\n",
        kind, task->step, task->micro, kind, task->stage, span->start * scale,
        (span->end - span->start) * scale, task->stage, task->step, task->member, task->micro,
        task->first, task->count, task->opens ? "true" : "false", task->updates ? "true" : "false");
}

enum np_status np_timeline_chrome(struct np_buf *out, const struct np_timeline *timeline,
                                  struct np_error *err)
{
    enum np_status status;
    double scale = timeline->nanoseconds ? 1e-3 : 1;
    NP_TRY(np_buf_printf(out, err, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"));
    for (size_t i = 0; i < timeline->count; i++)
        NP_TRY(chrome_event(out, &timeline->spans[i], scale, err));
    for (int stage = 0; stage < timeline->stages; stage++)
        NP_TRY(np_buf_printf(out, err,
                             "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":0,\"tid\":%d,"
                             "\"args\":{\"name\":\"stage %d\"}},\n",
                             stage, stage));
    NP_TRY(np_buf_printf(out, err,
                         "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":0,\"tid\":0,"
                         "\"args\":{\"name\":\"naspipe\"}}\n]}\n"));
out:
    return status;
}

/* When all steps below `step` were complete; 0 for the first. */
static double completed(const struct np_span *spans, size_t count, uint64_t step)
{
    double end = 0;
    for (size_t i = 0; i < count; i++)
        if (spans[i].task.step < step && spans[i].end > end)
            end = spans[i].end;
    return end;
}

size_t np_timeline_crop(struct np_span *spans, size_t count, uint64_t first, uint64_t steps)
{
    uint64_t next = first + steps < first ? UINT64_MAX : first + steps;
    double from = completed(spans, count, first), to = completed(spans, count, next);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (spans[i].end > from && spans[i].start < to)
            spans[kept++] = spans[i];
    return kept;
}

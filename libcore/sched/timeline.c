#include "sched/timeline.h"

#include <inttypes.h>

#include "base/buf.h"

char np_timeline_letter(enum np_task_kind kind)
{
    return "FBW"[kind];
}

enum np_status np_timeline_tsv(struct np_buf *out, const struct np_timeline *timeline,
                               struct np_error *err)
{
    enum np_status status;
    int decimals = timeline->nanoseconds ? 0 : 3;
    NP_TRY(np_buf_printf(out, err,
                         "stage\tkind\tstep\tmember\tmicro\tfirst\tcount\tstart\tend\tdevice\n"));
    for (size_t i = 0; i < timeline->trace->count; i++) {
        const struct np_span *span = &timeline->trace->spans[i];
        const struct np_task *task = &span->task;
        NP_TRY(np_buf_printf(out, err, "%d\t%c\t%" PRIu64 "\t%d\t%d\t%d\t%d\t", task->stage,
                             np_timeline_letter(task->kind), task->step, task->member, task->micro,
                             task->first, task->count));
        NP_TRY(np_buf_printf(out, err, "%.*f\t%.*f\t%d\n", decimals, span->start, decimals,
                             span->end, task->device));
    }
out:
    return status;
}

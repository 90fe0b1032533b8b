/* Trace-event JSON. Devices are threads 0 .. D-1, the copiers of all stages follow. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "sched/timeline.h"

struct writer {
    struct np_buf *out;
    const struct np_timeline *timeline;
    double scale; /* to microseconds */
    struct np_error *err;
};

static enum np_status task_event(const struct writer *w, const struct np_span *span)
{
    const struct np_task *task = &span->task;
    char kind = np_timeline_letter(task->kind);
    enum np_status status;
    NP_TRY(np_buf_printf(
        w->out, w->err,
        "{\"name\":\"%c %" PRIu64 ".%d\",\"cat\":\"%c\",\"ph\":\"X\",\"pid\":0,\"tid\":%d,"
        "\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"device\":%d,\"stage\":%d,\"step\":%" PRIu64
        ",\"member\":%d,\"micro\":%d,\"first\":%d,\"count\":%d,\"opens\":%s,\"updates\":%s",
        kind, task->step, task->micro, kind, task->device, span->start * w->scale,
        (span->end - span->start) * w->scale, task->device, task->stage, task->step, task->member,
        task->micro, task->first, task->count, task->opens ? "true" : "false",
        task->updates ? "true" : "false"));
    if (w->timeline->trace->stage)
        NP_TRY(np_buf_printf(w->out, w->err, ",\"stall\":%.3f", span->stall * w->scale));
    NP_TRY(np_buf_printf(w->out, w->err, "}},\n"));
out:
    return status;
}

static int copier_thread(const struct np_timeline *timeline, int stage, int copier)
{
    return np_timeline_devices(timeline) + stage * NP_COPIERS + copier;
}

static enum np_status copy_event(const struct writer *w, const struct np_copy_span *span)
{
    static const char *const names[] = {"make", "fetch", "write", "drop"};
    return np_buf_printf(
        w->out, w->err,
        "{\"name\":\"%s %" PRIu32 "\",\"cat\":\"copy\",\"ph\":\"X\",\"pid\":0,\"tid\":%d,"
        "\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"stage\":%d,\"copier\":%d,\"layer\":%" PRIu32
        ",\"bytes\":%" PRIu64 "}},\n",
        names[span->copy.kind], span->copy.layer,
        copier_thread(w->timeline, span->stage, span->copier), span->start * w->scale,
        (span->end - span->start) * w->scale, span->stage, span->copier, span->copy.layer,
        span->bytes);
}

static enum np_status memory_event(const struct writer *w, int stage, double time, uint64_t bytes)
{
    return np_buf_printf(w->out, w->err,
                         "{\"name\":\"memory of stage %d\",\"ph\":\"C\",\"pid\":0,\"ts\":%.3f,"
                         "\"args\":{\"bytes\":%" PRIu64 "}},\n",
                         stage, time * w->scale, bytes);
}

static enum np_status memory_events(const struct writer *w)
{
    const struct np_trace *trace = w->timeline->trace;
    double start = np_trace_sum(trace, 1).start;
    struct np_memory_change *changes = NULL;
    enum np_status status;
    NP_TRY(np_trace_memory(&changes, trace, w->err));
    for (int k = 0; k < trace->stages; k++)
        NP_TRY(memory_event(w, k, start, trace->stage[k].fixed_bytes + trace->stage[k].held_bytes));
    for (size_t i = 0; i < trace->copy_count; i++)
        NP_TRY(memory_event(w, changes[i].stage, changes[i].time, changes[i].bytes));
out:
    free(changes);
    return status;
}

/* A thread's name, and its place among the others: copiers below their stage. */
static enum np_status thread(const struct writer *w, int number, int place, const char *name)
{
    return np_buf_printf(w->out, w->err,
                         "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":0,\"tid\":%d,"
                         "\"args\":{\"name\":\"%s\"}},\n"
                         "{\"name\":\"thread_sort_index\",\"ph\":\"M\",\"pid\":0,\"tid\":%d,"
                         "\"args\":{\"sort_index\":%d}},\n",
                         number, name, number, place);
}

static enum np_status threads(const struct writer *w)
{
    const struct np_timeline *t = w->timeline;
    char name[64];
    enum np_status status = NP_OK;
    for (int k = 0; k < np_timeline_devices(t); k++) {
        int place = k * (1 + NP_COPIERS);
        if (t->replicas > 1)
            snprintf(name, sizeof name, "replica %d, stage %d", k / t->stages, k % t->stages);
        else
            snprintf(name, sizeof name, "stage %d", k);
        NP_TRY(thread(w, k, place, name));
        for (int i = 0; t->trace->stage && i < NP_COPIERS; i++) {
            snprintf(name, sizeof name, "stage %d, copier %d", k, i);
            NP_TRY(thread(w, copier_thread(t, k, i), place + 1 + i, name));
        }
    }
out:
    return status;
}

/* What decided the copies, and what they came to. */
static enum np_status stage_sums(const struct writer *w)
{
    const struct np_trace *trace = w->timeline->trace;
    const struct np_trace_copying *c = &trace->copying;
    enum np_status status;
    NP_TRY(np_buf_printf(
        w->out, w->err,
        "\"otherData\":{\"prefetch\":\"%s\",\"lookahead\":%d,\"stash\":\"%s\","
        "\"disk_read\":%" PRIu64 ",\"disk_write\":%" PRIu64 ",\"disk_both\":%" PRIu64
        ",\"disk_processor\":%" PRIu64 ",\n\"stages\":[\n",
        np_context_policy_name(c->policy), c->lookahead, c->in_file ? "file" : "memory",
        c->disk.read, c->disk.write, c->disk.both, c->disk.processor));
    for (int k = 0; k < trace->stages; k++) {
        const struct np_trace_stage *s = &trace->stage[k];
        NP_TRY(np_buf_printf(w->out, w->err,
                             "{\"device_bytes\":%" PRIu64 ",\"fixed_bytes\":%" PRIu64
                             ",\"held_bytes\":%" PRIu64 ",\"peak_bytes\":%" PRIu64
                             ",\"hits\":%" PRIu64 ",\"late\":%" PRIu64 ",\"misses\":%" PRIu64,
                             s->device_bytes, s->fixed_bytes, s->held_bytes, s->sums.peak_bytes,
                             s->sums.hits, s->sums.late, s->sums.misses));
        NP_TRY(np_buf_printf(
            w->out, w->err,
            ",\"bytes_in\":%" PRIu64 ",\"bytes_out\":%" PRIu64 ",\"made\":%" PRIu64 "}%s\n",
            s->sums.bytes_in, s->sums.bytes_out, s->sums.made, k + 1 < trace->stages ? "," : ""));
    }
    NP_TRY(np_buf_printf(w->out, w->err, "]},\n"));
out:
    return status;
}

enum np_status np_timeline_chrome(struct np_buf *out, const struct np_timeline *timeline,
                                  struct np_error *err)
{
    const struct np_trace *trace = timeline->trace;
    const struct writer w = {out, timeline, timeline->nanoseconds ? 1e-3 : 1, err};
    enum np_status status;
    NP_TRY(np_buf_printf(out, err, "{\"displayTimeUnit\":\"ms\","));
    if (trace->stage)
        NP_TRY(stage_sums(&w));
    NP_TRY(np_buf_printf(out, err, "\"traceEvents\":[\n"));
    for (size_t i = 0; i < trace->count; i++)
        NP_TRY(task_event(&w, &trace->spans[i]));
    for (size_t i = 0; i < trace->copy_count; i++)
        NP_TRY(copy_event(&w, &trace->copies[i]));
    if (trace->stage)
        NP_TRY(memory_events(&w));
    NP_TRY(threads(&w));
    NP_TRY(np_buf_printf(out, err,
                         "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":0,\"tid\":0,"
                         "\"args\":{\"name\":\"naspipe\"}}\n]}\n"));
out:
    return status;
}

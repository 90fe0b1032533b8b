/* Reads trace-event JSON back: complete events ("ph": "X") whose args hold a task or a copy, and
 * the sums of the stages in "otherData". */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "io/file.h"
#include "sched/sched.h"
#include "sched/trace.h"

#define WHOLE_MAX 1e15
#define MOST_STAGES 65536
#define ROUNDED_NS 2 /* times are written to a nanosecond */

/* A whole number from 0 in args; false if it is not there or is something else. */
static bool whole(const json_t *args, const char *key, double max, double *out)
{
    const json_t *value = json_object_get(args, key);
    if (!json_is_integer(value) || json_integer_value(value) < 0 ||
        (double)json_integer_value(value) > max)
        return false;
    *out = (double)json_integer_value(value);
    return true;
}

static bool parse_kind(const char *name, enum np_task_kind *kind)
{
    const char *letter = *name ? strchr("FBW", *name) : NULL;
    if (!letter)
        return false;
    *kind = (enum np_task_kind)(letter - strchr("FBW", 'F'));
    return true;
}

/* A complete event's name, beginning and end; NULL if it is something else. */
static const char *parse_complete(const json_t *event, double *start, double *end)
{
    const char *phase = json_string_value(json_object_get(event, "ph"));
    const json_t *ts = json_object_get(event, "ts"), *dur = json_object_get(event, "dur");
    if (!phase || strcmp(phase, "X") != 0 || !json_is_number(ts) || !json_is_number(dur))
        return NULL;
    *start = json_number_value(ts) * 1e3;
    *end = *start + json_number_value(dur) * 1e3;
    if (!(fabs(*start) <= WHOLE_MAX) || !(*end <= WHOLE_MAX) || *end < *start)
        return NULL;
    return json_string_value(json_object_get(event, "name"));
}

/* False for events that are not tasks: copies, names of threads, counters, other people's. */
static bool parse_task(const json_t *event, struct np_span *span)
{
    const json_t *args = json_object_get(event, "args"), *stall = json_object_get(args, "stall");
    double device, stage, step, member, micro, first, count;
    const char *name = parse_complete(event, &span->start, &span->end);
    if (!name || !parse_kind(name, &span->task.kind) || !whole(args, "stage", INT32_MAX, &stage) ||
        !whole(args, "step", WHOLE_MAX, &step) || !whole(args, "member", INT32_MAX, &member) ||
        !whole(args, "micro", INT32_MAX, &micro) || !whole(args, "first", INT32_MAX, &first) ||
        !whole(args, "count", INT32_MAX, &count))
        return false;
    span->task.stage = (int)stage;
    span->task.device = whole(args, "device", INT32_MAX, &device) ? (int)device : (int)stage;
    span->task.step = (uint64_t)step;
    span->task.member = (int)member;
    span->task.micro = (int)micro;
    span->task.first = (int)first;
    span->task.count = (int)count;
    span->task.opens = json_is_true(json_object_get(args, "opens"));
    span->task.updates = json_is_true(json_object_get(args, "updates"));
    span->stall = json_is_number(stall) ? json_number_value(stall) * 1e3 : 0;
    return span->stall >= 0 && span->stall <= span->end - span->start + ROUNDED_NS;
}

static bool parse_copy(const json_t *event, struct np_copy_span *span)
{
    static const char *const names[] = {"make ", "fetch ", "write ", "drop "};
    const json_t *args = json_object_get(event, "args");
    const char *name = parse_complete(event, &span->start, &span->end);
    double stage, copier, layer, bytes;
    int kind = 0;
    while (name && kind < 4 && strncmp(name, names[kind], strlen(names[kind])) != 0)
        kind++;
    if (!name || kind == 4 || !whole(args, "stage", INT32_MAX, &stage) ||
        !whole(args, "copier", INT32_MAX, &copier) || !whole(args, "layer", UINT32_MAX, &layer) ||
        !whole(args, "bytes", WHOLE_MAX, &bytes))
        return false;
    span->copy = (struct np_copy){(enum np_copy_kind)kind, (uint32_t)layer};
    span->stage = (int)stage;
    span->copier = (int)copier;
    span->bytes = (uint64_t)bytes;
    return true;
}

/* The sums of the stages, if all of them are there. */
static enum np_status parse_stages(struct np_trace *trace, const json_t *list, struct np_error *err)
{
    static const char *const keys[] = {"device_bytes", "fixed_bytes", "held_bytes", "peak_bytes",
                                       "hits",         "late",        "misses",     "bytes_in",
                                       "bytes_out",    "made"};
    enum { KEYS = sizeof keys / sizeof *keys };
    size_t count = json_array_size(list), k;
    json_t *entry;
    double v[KEYS];
    enum np_status status = NP_OK;
    if (count == 0 || count > MOST_STAGES)
        return NP_OK;
    NP_TRY(np_trace_make_stages(trace, (int)count, err));
    json_array_foreach(list, k, entry)
    {
        for (size_t i = 0; i < KEYS; i++)
            if (!whole(entry, keys[i], WHOLE_MAX, &v[i]))
                v[i] = 0;
        trace->stage[k] = (struct np_trace_stage){.device_bytes = (uint64_t)v[0],
                                                  .fixed_bytes = (uint64_t)v[1],
                                                  .held_bytes = (uint64_t)v[2],
                                                  .sums = {.peak_bytes = (uint64_t)v[3],
                                                           .hits = (uint64_t)v[4],
                                                           .late = (uint64_t)v[5],
                                                           .misses = (uint64_t)v[6],
                                                           .bytes_in = (uint64_t)v[7],
                                                           .bytes_out = (uint64_t)v[8],
                                                           .made = (uint64_t)v[9]}};
    }
out:
    return status;
}

/* What decided the copies; what is not said stays 0. */
static void parse_copying(struct np_trace_copying *copying, const json_t *other)
{
    const char *prefetch = json_string_value(json_object_get(other, "prefetch"));
    const char *stash = json_string_value(json_object_get(other, "stash"));
    double lookahead = 0, read = 0, write = 0, both = 0, processor = 0;
    for (int p = NP_CONTEXT_AHEAD; prefetch && p <= NP_CONTEXT_LRU; p++)
        if (strcmp(prefetch, np_context_policy_name((enum np_context_policy)p)) == 0)
            copying->policy = (enum np_context_policy)p;
    copying->in_file = stash && strcmp(stash, "file") == 0;
    if (whole(other, "lookahead", NP_SCHED_MOST_AHEAD, &lookahead))
        copying->lookahead = (int)lookahead;
    if (whole(other, "disk_read", WHOLE_MAX, &read) &&
        whole(other, "disk_write", WHOLE_MAX, &write) &&
        whole(other, "disk_both", WHOLE_MAX, &both) &&
        whole(other, "disk_processor", WHOLE_MAX, &processor) && read > 0 && write > 0 && both > 0)
        copying->disk = (struct np_disk_bandwidth){(uint64_t)read, (uint64_t)write, (uint64_t)both,
                                                   (uint64_t)processor};
}

/* Whether it says that it is a task or a copy, and so must be sound. */
static bool is_ours(const json_t *event)
{
    const char *category = json_string_value(json_object_get(event, "cat"));
    enum np_task_kind kind;
    return category && (strcmp(category, "copy") == 0 ||
                        (strlen(category) == 1 && parse_kind(category, &kind)));
}

/* *known: it is a task, or a copy, which without the sums of its stage says too little. */
static enum np_status take_event(struct np_trace *trace, const json_t *event, bool *known,
                                 struct np_error *err)
{
    struct np_span span = {.stall = 0};
    struct np_copy_span copy;
    *known = true;
    if (parse_task(event, &span))
        return np_trace_add(trace, &span, err);
    if (parse_copy(event, &copy) && trace->stages == 0)
        return NP_OK;
    if (parse_copy(event, &copy) && copy.stage < trace->stages)
        return np_trace_add_copy(trace, &copy, err);
    *known = false;
    return NP_OK;
}

static enum np_status parse_events(struct np_trace *trace, const json_t *events, const char *path,
                                   struct np_error *err)
{
    enum np_status status = NP_OK;
    size_t index;
    json_t *event;
    bool known;
    json_array_foreach(events, index, event)
    {
        NP_TRY(take_event(trace, event, &known, err));
        if (!known && is_ours(event))
            NP_TRY(np_fail(err, NP_EINPUT,
                           "%s: event %zu: its time, stage, step or another number "
                           "is missing or out of range",
                           np_text_safe(path).s, index));
    }
out:
    return status;
}

static int by_start(const void *a, const void *b)
{
    double x = ((const struct np_span *)a)->start, y = ((const struct np_span *)b)->start;
    return (x > y) - (x < y);
}

/* Where jansson finds no memory it may say anything. */
static enum np_status load(json_t **root, const char *path, struct np_error *err)
{
    json_error_t why;
    char *text = NULL;
    size_t bytes;
    enum np_status status;
    NP_TRY(np_file_read(&text, &bytes, path, SIZE_MAX - 1, err));
    errno = 0;
    *root = json_loadb(text, bytes, 0, &why);
    if (!*root && errno == ENOMEM)
        status = np_fail(err, NP_EMEM, "cannot hold the trace '%s'", np_text_safe(path).s);
    else if (!*root)
        status = np_fail(err, NP_EINPUT, "%s:%d:%d: %s", np_text_safe(path).s, why.line, why.column,
                         np_text_safe(why.text).s);
out:
    free(text);
    return status;
}

enum np_status np_trace_read(struct np_trace *trace, const char *path, struct np_error *err)
{
    const json_t *other;
    json_t *root = NULL;
    enum np_status status;
    NP_TRY(load(&root, path, err));
    other = json_object_get(root, "otherData");
    NP_TRY(parse_stages(trace, json_object_get(other, "stages"), err));
    parse_copying(&trace->copying, other);
    NP_TRY(parse_events(trace, json_is_array(root) ? root : json_object_get(root, "traceEvents"),
                        path, err));
    if (trace->count == 0)
        status = np_fail(err, NP_EINPUT, "%s: no tasks in this trace", np_text_safe(path).s);
    else
        qsort(trace->spans, trace->count, sizeof *trace->spans, by_start);
out:
    json_decref(root);
    if (status != NP_OK)
        np_trace_clear(trace);
    return status;
}

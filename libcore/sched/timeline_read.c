/* Reads trace-event JSON back: complete events ("ph": "X") whose args hold a task. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "sched/timeline.h"

#define WHOLE_MAX 1e15

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

static bool parse_kind(const json_t *event, enum np_task_kind *kind)
{
    const char *name = json_string_value(json_object_get(event, "name"));
    const char *letter = name && *name ? strchr("FBW", *name) : NULL;
    if (!letter)
        return false;
    *kind = (enum np_task_kind)(letter - strchr("FBW", 'F'));
    return true;
}

/* False for events that are not tasks: names of threads, counters, other people's. */
static bool parse_event(const json_t *event, struct np_span *span)
{
    const json_t *args = json_object_get(event, "args");
    const char *phase = json_string_value(json_object_get(event, "ph"));
    const json_t *ts = json_object_get(event, "ts"), *dur = json_object_get(event, "dur");
    double stage, step, member, micro, first, count;
    *span = (struct np_span){0};
    if (!phase || strcmp(phase, "X") != 0 || !parse_kind(event, &span->task.kind) ||
        !json_is_number(ts) || !json_is_number(dur))
        return false;
    if (!whole(args, "stage", INT32_MAX, &stage) || !whole(args, "step", WHOLE_MAX, &step) ||
        !whole(args, "member", INT32_MAX, &member) || !whole(args, "micro", INT32_MAX, &micro) ||
        !whole(args, "first", INT32_MAX, &first) || !whole(args, "count", INT32_MAX, &count))
        return false;
    span->task.stage = (int)stage;
    span->task.step = (uint64_t)step;
    span->task.member = (int)member;
    span->task.micro = (int)micro;
    span->task.first = (int)first;
    span->task.count = (int)count;
    span->task.opens = json_is_true(json_object_get(args, "opens"));
    span->task.updates = json_is_true(json_object_get(args, "updates"));
    span->start = json_number_value(ts) * 1e3;
    span->end = span->start + json_number_value(dur) * 1e3;
    return isfinite(span->start) && isfinite(span->end) && span->end >= span->start;
}

static int by_start(const void *a, const void *b)
{
    double x = ((const struct np_span *)a)->start, y = ((const struct np_span *)b)->start;
    return (x > y) - (x < y);
}

enum np_status np_timeline_read(struct np_span **spans, size_t *count, const char *path,
                                struct np_error *err)
{
    enum np_status status = NP_OK;
    json_error_t why;
    size_t capacity = 0, index;
    json_t *root = json_load_file(path, 0, &why), *event;
    *spans = NULL;
    *count = 0;
    if (!root && why.line < 0)
        return np_fail(err, NP_EIO, "cannot read '%s': %s", np_text_safe(path).s,
                       np_text_safe(why.text).s);
    if (!root)
        return np_fail(err, NP_EINPUT, "%s:%d:%d: %s", np_text_safe(path).s, why.line, why.column,
                       np_text_safe(why.text).s);
    const json_t *events = json_is_array(root) ? root : json_object_get(root, "traceEvents");
    json_array_foreach(events, index, event)
    {
        NP_TRY(np_grow(spans, &capacity, *count, sizeof **spans, err));
        *count += parse_event(event, &(*spans)[*count]);
    }
    if (*count == 0)
        status = np_fail(err, NP_EINPUT, "%s: no tasks in this trace", np_text_safe(path).s);
    else
        qsort(*spans, *count, sizeof **spans, by_start);
out:
    json_decref(root);
    if (status != NP_OK) {
        free(*spans);
        *spans = NULL;
        *count = 0;
    }
    return status;
}

#include "sweep_list.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "plan/pipelines.h"
#include "plan/plan.h"

#define MOST_COMBINATIONS 100000

static const char *const names[SWEEP_KEYS] = {"replicas", "stages",        "micro-batches",
                                              "window",   "lookahead",     "cut",
                                              "reach",    "device-memory", "capacity"};
static const uint64_t most[SWEEP_KEYS] = {NP_MAX_GRAINS, NP_MAX_STAGES, NP_MAX_GRAINS, 4096, 4096,
                                          UINT64_MAX,    NP_MAX_BLOCKS, UINT64_MAX,    4096};

static enum np_status add(struct sweep_axis *axis, uint64_t value, struct np_error *err)
{
    enum np_status status =
        np_grow(&axis->values, &axis->capacity, axis->count, sizeof *axis->values, err);
    if (status == NP_OK)
        axis->values[axis->count++] = value;
    return status;
}

static enum np_status parse_cut(struct sweep_axis *axis, const char *word, struct np_error *err)
{
    if (strcmp(word, "static") == 0)
        return add(axis, NP_CUT_STATIC, err);
    if (strcmp(word, "balanced") == 0)
        return add(axis, NP_CUT_BALANCED, err);
    return np_fail(err, NP_EINPUT, "cut is static or balanced, not '%s'", np_text_safe(word).s);
}

/* A number or A..B; of device-memory a size, of cut a word. */
static enum np_status parse_values(struct sweep_axis *axis, const char *word, struct np_error *err)
{
    char text[64];
    char *dots;
    uint64_t from = 0, to = 0;
    bool good = strlen(word) < sizeof text;
    enum np_status status = NP_OK;
    if (axis->key == SWEEP_CUT)
        return parse_cut(axis, word, err);
    snprintf(text, sizeof text, "%s", word);
    dots = strstr(text, "..");
    if (axis->key == SWEEP_DEVICE_MEMORY) {
        if (!np_text_parse_size(&from, word, 1, UINT64_MAX))
            return np_fail(err, NP_EINPUT, "'%s' is not a size such as 512MiB or 2GiB",
                           np_text_safe(word).s);
        return add(axis, from, err);
    }
    if (dots)
        *dots = '\0';
    good = good && np_text_parse_uint64(&from, text, 1, most[axis->key]);
    to = from;
    if (dots)
        good = good && np_text_parse_uint64(&to, dots + 2, from, most[axis->key]);
    if (!good)
        return np_fail(err, NP_EINPUT,
                       "%s must be whole numbers from 1 to %" PRIu64
                       " or ranges of them such as 1..8, not '%s'",
                       names[axis->key], most[axis->key], np_text_safe(word).s);
    for (uint64_t value = from; value <= to; value++)
        NP_TRY(add(axis, value, err));
out:
    return status;
}

static enum np_status begin_axis(struct sweep *sweep, const char *name, struct np_error *err)
{
    const char *near = np_text_suggest(name, names, SWEEP_KEYS);
    int key = 0;
    while (key < SWEEP_KEYS && strcmp(names[key], name) != 0)
        key++;
    if (key == SWEEP_KEYS && near)
        return np_fail(err, NP_EINPUT, "unknown key '%s' (did you mean '%s'?)",
                       np_text_safe(name).s, near);
    if (key == SWEEP_KEYS)
        return np_fail(err, NP_EINPUT, "unknown key '%s'", np_text_safe(name).s);
    for (int i = 0; i < sweep->count; i++)
        if (sweep->axes[i].key == (enum sweep_key)key)
            return np_fail(err, NP_EINPUT, "'%s' is there twice", name);
    sweep->axes[sweep->count++].key = (enum sweep_key)key;
    return NP_OK;
}

static enum np_status count_combinations(struct sweep *sweep, struct np_error *err)
{
    sweep->combinations = 1;
    for (int i = 0; i < sweep->count; i++) {
        sweep->combinations *= sweep->axes[i].count;
        if (sweep->combinations > MOST_COMBINATIONS)
            return np_fail(err, NP_EINPUT, "more than %d combinations", MOST_COMBINATIONS);
    }
    return NP_OK;
}

enum np_status sweep_parse(struct sweep *sweep, const char *text, struct np_error *err)
{
    char *copy = NULL, *word, *rest, *value;
    enum np_status status;
    NP_TRY(np_strdup(&copy, text, err));
    for (rest = copy; (word = strsep(&rest, ","));) {
        value = strchr(word, '=');
        if (value) {
            *value++ = '\0';
            NP_TRY(begin_axis(sweep, word, err));
        } else if (sweep->count == 0) {
            status = np_fail(err, NP_EINPUT, "'%s' is not KEY=VALUES, such as stages=1..8",
                             np_text_safe(word).s);
            goto out;
        }
        NP_TRY(parse_values(&sweep->axes[sweep->count - 1], value ? value : word, err));
    }
    NP_TRY(count_combinations(sweep, err));
out:
    free(copy);
    return status;
}

void sweep_clear(struct sweep *sweep)
{
    for (int i = 0; i < sweep->count; i++)
        free(sweep->axes[i].values);
    *sweep = (struct sweep){.count = 0};
}

const char *sweep_name(enum sweep_key key)
{
    return names[key];
}

uint64_t sweep_value(const struct sweep *sweep, enum sweep_key key)
{
    for (int i = 0; i < sweep->count; i++)
        if (sweep->axes[i].key == key)
            return sweep->axes[i].values[sweep->axes[i].at];
    return 0;
}

bool sweep_next(struct sweep *sweep)
{
    for (int i = sweep->count; i-- > 0;) {
        struct sweep_axis *axis = &sweep->axes[i];
        if (++axis->at < axis->count)
            return true;
        axis->at = 0;
    }
    return false;
}

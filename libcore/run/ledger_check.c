#include "run/ledger_check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/text.h"
#include "io/file.h"

struct lines {
    struct np_buf path;
    FILE *in; /* NULL: there is no file */
    char *line;
    size_t capacity;
    uint64_t number; /* of the line, from 1 */
    long at, next;   /* where it and the one after it begin */
    bool ended;      /* no line follows, or what is longer than any */
    int error;       /* an errno: it could not be read on */
};

/* A line of layers.tsv that waits for its step. */
struct layers {
    struct lines lines;
    const struct np_supernet *net;
    bool sound;
    uint64_t step, fingerprint;
    uint64_t next; /* step after the last sound line's */
};

static enum np_status lines_open(struct lines *lines, const char *run, const char *name,
                                 bool needed, struct np_error *err)
{
    bool there;
    enum np_status status;
    NP_TRY(np_buf_printf(&lines->path, err, "%s/%s", run, name));
    NP_TRY(np_file_exists(&there, lines->path.text, err));
    if (there || needed)
        NP_TRY(np_file_open(&lines->in, lines->path.text, false, err));
out:
    return status;
}

static void lines_close(struct lines *lines)
{
    if (lines->in)
        fclose(lines->in);
    free(lines->line);
    np_buf_clear(&lines->path);
}

static enum np_status lines_check(const struct lines *lines, struct np_error *err)
{
    errno = lines->error;
    return errno ? np_fail_errno(err, "cannot read '%s'", np_text_safe(lines->path.text).s) : NP_OK;
}

/* The next line without its end, or NULL: there is none, it is cut off or no text, or an error. */
static char *lines_next(struct lines *lines)
{
    ssize_t length = lines->in ? np_file_line(&lines->line, &lines->capacity, lines->in) : -1;
    lines->error = length < -1 ? errno : lines->error;
    lines->at = lines->next;
    lines->number++;
    lines->next += length > 0 ? (long)length : 0;
    lines->ended = length <= 0 || lines->line[length - 1] != '\n';
    if (lines->ended)
        return NULL;
    lines->line[length - 1] = '\0';
    return strlen(lines->line) == (size_t)length - 1 ? lines->line : NULL;
}

/* The field that *rest begins with, as hexadecimal float in its one form; moves *rest behind it. */
static bool take_hex(double *value, char **rest)
{
    const char *field = strsep(rest, "\t");
    return field && np_text_parse_double(value, field) && !strcmp(np_text_hex(*value).s, field);
}

static bool take_loss(char **rest)
{
    double value;
    const char *field;
    return take_hex(&value, rest) && value == (double)(float)value &&
           (field = strsep(rest, "\t")) && !strcmp(np_text_float((float)value).s, field);
}

static bool take_fingerprint(uint64_t *value, char **rest)
{
    const char *field = strsep(rest, "\t");
    if (!field || strlen(field) != 16 || strspn(field, "0123456789abcdef") != 16)
        return false;
    *value = strtoull(field, NULL, 16);
    return true;
}

static bool take_step(uint64_t *step, char **rest)
{
    const char *field = strsep(rest, "\t");
    return *rest && np_text_parse_count(step, field, 0, UINT64_MAX);
}

/* What follows the step in a line of ledger.tsv. */
static bool step_is_sound(char *rest, uint64_t step, uint64_t *fingerprint,
                          const struct np_recipe *recipe)
{
    double lr;
    if (!take_hex(&lr, &rest) || lr != (double)np_recipe_lr(recipe, step) ||
        !take_fingerprint(fingerprint, &rest))
        return false;
    for (int i = 0; i < recipe->members; i++)
        if (!take_loss(&rest))
            return false;
    return !rest;
}

/* Takes a line of layers.tsv; a later one is of no earlier step. */
static bool layers_take(struct layers *layers)
{
    char *rest = lines_next(&layers->lines);
    uint64_t before = layers->step;
    uint32_t layer;
    const char *name;
    layers->sound = rest && take_step(&layers->step, &rest) && layers->step >= before &&
                    (name = strsep(&rest, "\t")) && np_supernet_find(layers->net, name, &layer) &&
                    take_fingerprint(&layers->fingerprint, &rest) && !rest;
    if (layers->sound)
        layers->next = layers->step + 1;
    return layers->sound;
}

static enum np_status layers_add_up(struct layers *layers, uint64_t step, uint64_t fingerprint,
                                    struct np_error *err)
{
    uint64_t number = layers->lines.number, sum = 0;
    if (!layers->sound || layers->step != step)
        return NP_OK;
    do
        sum += layers->fingerprint;
    while (layers_take(layers) && layers->step == step);
    if (sum == fingerprint || layers->lines.error) /* the caller looks at that */
        return NP_OK;
    return np_fail(err, NP_EDATA,
                   "%s:%llu: damaged ledger: the layers of step %llu do not add up to the step",
                   layers->lines.path.text, (unsigned long long)number, (unsigned long long)step);
}

/* What a crash may leave stands behind the lines of all steps before the checkpoint; where the last
 * ones have none, since they were not asked for, it is a line that does not end. And nothing of a
 * step before the checkpoint follows it. */
static enum np_status layers_end(struct layers *layers, uint64_t step, struct np_error *err)
{
    uint64_t number = layers->lines.number;
    bool damaged = layers->next < step && !layers->lines.ended;
    layers->step = 0;
    while (!damaged && !layers->lines.ended)
        damaged = layers_take(layers) && layers->step < step;
    if (damaged)
        return np_fail(err, NP_EDATA, "%s:%llu: damaged ledger: not a layer's line",
                       layers->lines.path.text, (unsigned long long)number);
    return NP_OK;
}

static enum np_status check_step(struct lines *steps, uint64_t *fingerprint, uint64_t step,
                                 const struct np_supernet *net, struct np_error *err)
{
    char *rest = lines_next(steps);
    uint64_t found;
    enum np_status status = lines_check(steps, err);
    if (status != NP_OK)
        return status;
    if (!rest || !take_step(&found, &rest) || found != step)
        return np_fail(err, NP_EDATA, "%s:%llu: damaged ledger: step %llu expected",
                       steps->path.text, (unsigned long long)steps->number,
                       (unsigned long long)step);
    if (net && !step_is_sound(rest, step, fingerprint, net->recipe))
        return np_fail(err, NP_EDATA, "%s:%llu: damaged ledger: not a line of step %llu",
                       steps->path.text, (unsigned long long)steps->number,
                       (unsigned long long)step);
    return NP_OK;
}

enum np_status np_ledger_check(struct np_ledger_ends *ends, const char *run,
                               const struct np_supernet *net, uint64_t step, struct np_error *err)
{
    struct lines steps = {.in = NULL};
    struct layers layers = {.net = net};
    uint64_t fingerprint = 0;
    enum np_status status;
    NP_TRY(lines_open(&steps, run, "ledger.tsv", step > 0, err));
    NP_TRY(lines_open(&layers.lines, run, "layers.tsv", false, err));
    if (net)
        layers_take(&layers);
    for (uint64_t s = 0; s < step; s++) {
        NP_TRY(check_step(&steps, &fingerprint, s, net, err));
        NP_TRY(layers_add_up(&layers, s, fingerprint, err));
        NP_TRY(lines_check(&layers.lines, err));
    }
    *ends = (struct np_ledger_ends){steps.next, layers.lines.at};
    if (layers.lines.in && net && !layers.sound)
        NP_TRY(layers_end(&layers, step, err));
    NP_TRY(lines_check(&layers.lines, err));
out:
    lines_close(&steps);
    lines_close(&layers.lines);
    return status;
}

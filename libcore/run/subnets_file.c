#include "run/subnets_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "io/file.h"

/* The lines of a step. Where a member's candidates begin: `apart` from one to the next, the first
 * after `before`. */
static void print_step(FILE *out, const uint16_t *choices, const struct np_stream_shape *shape,
                       int before, int apart)
{
    for (int i = 0; i < shape->members; i++)
        for (int b = 0; b < shape->blocks; b++)
            fprintf(out, "%u%c", choices[i * apart + before + b],
                    b + 1 < shape->blocks ? ' ' : '\n');
}

/* The file of a run; *in is NULL where there is none. *path is to be freed. */
static enum np_status open_record(FILE **in, char **path, const char *run, struct np_error *err)
{
    bool there;
    enum np_status status;
    *in = NULL;
    NP_TRY(np_file_join(path, run, NP_SUBNETS_FILE, err));
    NP_TRY(np_file_exists(&there, *path, err));
    if (there)
        NP_TRY(np_file_open(in, *path, false, err));
out:
    return status;
}

static enum np_status damaged(const char *path, uint64_t step, struct np_error *err)
{
    return np_fail(err, NP_EDATA, "%s: damaged: it has not the subnets of step %llu",
                   np_text_safe(path).s, (unsigned long long)step);
}

static enum np_status unread(const char *path, struct np_error *err)
{
    return np_fail_errno(err, "cannot read '%s'", np_text_safe(path).s);
}

/* The next lines of the record must be these. */
static enum np_status compare(FILE *record, const char *path, const char *lines, size_t bytes,
                              uint64_t step, struct np_error *err)
{
    char found[4096];
    for (size_t n, k; bytes > 0; bytes -= n, lines += n) {
        n = bytes < sizeof found ? bytes : sizeof found;
        k = fread(found, 1, n, record);
        if (memcmp(found, lines, k) != 0)
            return np_fail(err, NP_EINPUT,
                           "step %llu was trained with other subnets than the stream has: '%s' has "
                           "them",
                           (unsigned long long)step, np_text_safe(path).s);
        if (k < n)
            return ferror(record) ? unread(path, err) : damaged(path, step, err);
    }
    return NP_OK;
}

/* Passes over the steps that were trained, which must be those of the record. */
static enum np_status follow(struct np_stream *stream, FILE *record, const char *path,
                             const struct np_stream_shape *shape, uint64_t steps,
                             struct np_error *err)
{
    char *lines = NULL;
    size_t bytes;
    FILE *printed = open_memstream(&lines, &bytes);
    uint16_t *given = NULL;
    bool more = true;
    enum np_status status;
    if (!printed)
        return np_fail_errno(err, "cannot compare the stream");
    NP_TRY(np_alloc(&given, (size_t)shape->members, (size_t)shape->blocks * sizeof *given, err));
    for (uint64_t step = 0; step < steps; step++) {
        NP_TRY(np_stream_next(stream, given, &more, err));
        if (!more) {
            status = np_fail(err, NP_EINPUT, "the stream ends after %llu steps, before step %llu",
                             (unsigned long long)step, (unsigned long long)steps);
            goto out;
        }
        rewind(printed);
        print_step(printed, given, shape, 0, shape->blocks);
        long end = ftell(printed); /* of a shorter step the rest is an earlier one's */
        if (fflush(printed) != 0 || end < 0)
            NP_TRY(np_fail_errno(err, "cannot compare the stream"));
        NP_TRY(compare(record, path, lines, (size_t)end, step, err));
    }
out:
    fclose(printed);
    free(lines);
    free(given);
    return status;
}

static enum np_status draw(struct np_stream **out, const struct np_stream_shape *shape,
                           const struct np_recipe *recipe, uint64_t first, struct np_error *err)
{
    return np_stream_draw(out, shape, recipe->sampler, recipe->spread, recipe->seed, first, err);
}

enum np_status np_subnets_stream(struct np_stream **out, const struct np_stream_shape *shape,
                                 const struct np_recipe *recipe, const char *run,
                                 const char *subnets, uint64_t step, bool (*give_up)(void *),
                                 void *context, struct np_error *err)
{
    struct np_stream *stream = NULL;
    FILE *record = NULL;
    char *path = NULL;
    enum np_status status = NP_OK;
    if (run)
        NP_TRY(open_record(&record, &path, run, err));
    if (subnets) {
        NP_TRY(np_stream_open(&stream, shape, subnets, record ? 0 : step, give_up, context, err));
        if (record)
            NP_TRY(follow(stream, record, path, shape, step, err));
    } else if (record) {
        status = np_fail(err, NP_EINPUT,
                         "the run was trained with --subnets: give the stream again, which begins "
                         "as '%s' does",
                         np_text_safe(path).s);
        goto out;
    } else {
        NP_TRY(draw(&stream, shape, recipe, step, err));
    }
    *out = stream;
    stream = NULL;
out:
    np_stream_close(stream);
    if (record)
        fclose(record);
    free(path);
    return status;
}

/* What the sampler had the run train before: all of it, or there is no file. */
static enum np_status write_drawn(long *end, const char *path, const struct np_stream_shape *shape,
                                  const struct np_recipe *recipe, uint64_t steps,
                                  struct np_error *err)
{
    char *lines = NULL;
    size_t bytes = 0;
    FILE *printed = open_memstream(&lines, &bytes);
    struct np_stream *stream = NULL;
    uint16_t *choices = NULL;
    bool more;
    enum np_status status;
    if (!printed)
        return np_fail_errno(err, "cannot write '%s'", np_text_safe(path).s);
    NP_TRY(
        np_alloc(&choices, (size_t)shape->members, (size_t)shape->blocks * sizeof *choices, err));
    NP_TRY(draw(&stream, shape, recipe, 0, err));
    for (uint64_t step = 0; step < steps; step++) {
        NP_TRY(np_stream_next(stream, choices, &more, err));
        print_step(printed, choices, shape, 0, shape->blocks);
    }
    if (fflush(printed) != 0)
        NP_TRY(np_fail_errno(err, "cannot write '%s'", np_text_safe(path).s));
    NP_TRY(np_file_write(path, lines, bytes, err));
    *end = (long)bytes;
out:
    fclose(printed);
    free(lines);
    np_stream_close(stream);
    free(choices);
    return status;
}

/* Whether a line has a candidate for each block. */
static bool is_sound(char *line, const struct np_stream_shape *shape)
{
    for (int b = 0; b < shape->blocks; b++) {
        const char *word = strsep(&line, " ");
        uint64_t candidate;
        if (!word ||
            !np_text_parse_uint64(&candidate, word, 0, (uint64_t)shape->each[b].candidates - 1))
            return false;
    }
    return !line;
}

/* The bytes of the first steps' lines. */
static enum np_status measure(long *bytes, FILE *record, const char *path,
                              const struct np_stream_shape *shape, uint64_t steps,
                              struct np_error *err)
{
    char *line = NULL;
    size_t capacity = 0;
    enum np_status status = NP_OK;
    *bytes = 0;
    for (uint64_t i = 0; i < steps * (uint64_t)shape->members; i++) {
        ssize_t length = np_file_line(&line, &capacity, record);
        if (length > 0)
            *bytes += length;
        if (length > 0 && line[length - 1] == '\n') {
            line[length - 1] = '\0';
            if (is_sound(line, shape))
                continue;
        }
        status = length < -1 ? unread(path, err) : damaged(path, i / (uint64_t)shape->members, err);
        break;
    }
    free(line);
    return status;
}

enum np_status np_subnets_open(struct np_log *file, const struct np_stream_shape *shape,
                               const struct np_recipe *recipe, const char *run, uint64_t step,
                               struct np_error *err)
{
    FILE *record = NULL;
    char *path = NULL;
    long end = 0;
    enum np_status status;
    NP_TRY(open_record(&record, &path, run, err));
    if (record)
        NP_TRY(measure(&end, record, path, shape, step, err));
    else if (step > 0)
        NP_TRY(write_drawn(&end, path, shape, recipe, step, err));
    NP_TRY(np_log_open(file, run, NP_SUBNETS_FILE, end, true, err));
out:
    if (record)
        fclose(record);
    free(path);
    return status;
}

enum np_status np_subnets_write(struct np_log *file, const struct np_stream_shape *shape,
                                const struct np_step_record *record, struct np_error *err)
{
    print_step(file->stream, record->choices, shape, 1, shape->blocks + 2);
    return np_log_check(file, err);
}

enum np_status np_subnets_check(const struct np_recipe *recipe, const char *run, uint64_t steps,
                                struct np_error *err)
{
    struct np_stream_shape shape;
    struct np_stream_block *each = NULL;
    FILE *record = NULL;
    char *path = NULL;
    long bytes;
    enum np_status status;
    NP_TRY(np_stream_shape_init(&shape, &each, recipe, err));
    NP_TRY(open_record(&record, &path, run, err));
    if (record)
        NP_TRY(measure(&bytes, record, path, &shape, steps, err));
out:
    if (record)
        fclose(record);
    free(each);
    free(path);
    return status;
}

#include "run/metrics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/memory.h"
#include "io/file.h"

struct np_metrics {
    char *path;
    FILE *stream;
    struct np_buf line; /* that is written */
    double begun_s;     /* of np_now_s */
    double flushed_s;   /* of np_now_s: lines reach the file within about a second */
    bool norms;         /* steps have them */
};

/* Cuts a last line that a killed run left unfinished. */
static enum np_status cut_line(struct np_metrics *m, struct np_error *err)
{
    long size = 0, end;
    bool found = fseek(m->stream, 0, SEEK_END) == 0 && (size = ftell(m->stream)) >= 0;
    for (end = size; found && end > 0; end--) {
        found = fseek(m->stream, end - 1, SEEK_SET) == 0;
        if (found && getc(m->stream) == '\n')
            break;
    }
    if (!found || (end < size && ftruncate(fileno(m->stream), end) != 0) ||
        fseek(m->stream, 0, SEEK_END) != 0)
        return np_fail_errno(err, "cannot cut '%s'", m->path);
    return NP_OK;
}

enum np_status np_metrics_open(struct np_metrics **out, const char *run, bool norms,
                               struct np_error *err)
{
    struct np_metrics *m = NULL;
    struct np_buf path = {NULL, 0, 0};
    enum np_status status;
    NP_TRY(np_zalloc(&m, 1, sizeof *m, err));
    NP_TRY(np_buf_printf(&path, err, "%s/metrics.jsonl", run));
    m->path = path.text;
    m->norms = norms;
    NP_TRY(np_file_own(m->path, err));
    m->stream = fopen(m->path, "a+");
    if (!m->stream) {
        status = np_fail_errno(err, "cannot open '%s'", m->path);
        goto out;
    }
    NP_TRY(cut_line(m, err));
    m->begun_s = m->flushed_s = np_now_s();
    *out = m;
    return NP_OK;
out:
    np_metrics_close(m);
    return status;
}

static double seconds(const struct np_metrics *m)
{
    return np_now_s() - m->begun_s;
}

/* A line ends, and reaches the file within about a second. */
static enum np_status put_line(struct np_metrics *m, struct np_error *err)
{
    double now_s = np_now_s();
    enum np_status status;
    NP_TRY(np_buf_append(&m->line, "}\n", 2, err));
    fwrite(m->line.text, 1, m->line.used, m->stream);
    if (now_s - m->flushed_s >= 1) {
        fflush(m->stream);
        m->flushed_s = now_s;
    }
    if (ferror(m->stream))
        status = np_fail_errno(err, "cannot write '%s'", m->path);
out:
    return status;
}

/* Of all gradients of a step together, before they are clipped. */
static double gradient_norm(const struct np_step_record *record)
{
    double square = 0;
    for (size_t i = 0; i < record->layer_count; i++)
        square += (double)record->layers[i].square;
    return sqrt(square);
}

enum np_status np_metrics_step(struct np_metrics *m, const struct np_step_record *record,
                               struct np_error *err)
{
    double mean = 0;
    enum np_status status;
    m->line.used = 0;
    for (int i = 0; i < record->members; i++)
        mean += (double)record->losses[i] / record->members;
    NP_TRY(np_buf_printf(&m->line, err, "{\"step\":%llu,\"time\":%.6f,\"loss\":%.6g,\"lr\":%.6g",
                         (unsigned long long)record->step, seconds(m), mean, (double)record->lr));
    if (m->norms)
        NP_TRY(np_buf_printf(&m->line, err, ",\"grad_norm\":%.6g", gradient_norm(record)));
    NP_TRY(put_line(m, err));
out:
    return status;
}

/* JSON has no numbers that are not finite. */
static enum np_status put_number(struct np_metrics *m, const char *before, double x,
                                 struct np_error *err)
{
    return isfinite(x) ? np_buf_printf(&m->line, err, "%s%.6g", before, x)
                       : np_buf_printf(&m->line, err, "%snull", before);
}

enum np_status np_metrics_eval(struct np_metrics *m, uint64_t step, struct np_score mean,
                               const struct np_score *scores, size_t count, struct np_error *err)
{
    enum np_status status;
    m->line.used = 0;
    NP_TRY(np_buf_printf(&m->line, err, "{\"step\":%llu,\"time\":%.3f", (unsigned long long)step,
                         seconds(m)));
    NP_TRY(put_number(m, ",\"valid_loss\":", mean.loss, err));
    NP_TRY(put_number(m, ",\"valid_accuracy\":", mean.accuracy, err));
    for (size_t i = 0; i < count; i++)
        NP_TRY(put_number(m, i ? "," : ",\"subnets\":[", scores[i].loss, err));
    for (size_t i = 0; i < count; i++)
        NP_TRY(put_number(m, i ? "," : "],\"accuracies\":[", scores[i].accuracy, err));
    NP_TRY(np_buf_append(&m->line, "]", 1, err));
    NP_TRY(put_line(m, err));
    NP_TRY(np_metrics_flush(m, err));
out:
    return status;
}

bool np_metrics_has_eval(struct np_metrics *m, uint64_t step)
{
    char begin[48], *line = NULL;
    size_t capacity = 0;
    bool has = false;
    snprintf(begin, sizeof begin, "{\"step\":%llu,\"time\":", (unsigned long long)step);
    rewind(m->stream);
    while (!has && np_file_line(&line, &capacity, m->stream) > 0)
        has = strncmp(line, begin, strlen(begin)) == 0 && strstr(line, ",\"valid_loss\":");
    free(line);
    fseek(m->stream, 0, SEEK_END);
    return has;
}

enum np_status np_metrics_residence(struct np_metrics *m, uint64_t step,
                                    const struct np_residence_sums *stages, int count,
                                    struct np_error *err)
{
    enum np_status status;
    m->line.used = 0;
    NP_TRY(np_buf_printf(&m->line, err, "{\"step\":%llu,\"time\":%.3f,\"stages\":[",
                         (unsigned long long)step, seconds(m)));
    for (int k = 0; k < count; k++) {
        const struct np_context_sums *c = &stages[k].context;
        NP_TRY(np_buf_printf(&m->line, err,
                             "%s{\"hits\":%llu,\"late\":%llu,\"misses\":%llu,\"bytes_in\":%llu,"
                             "\"bytes_out\":%llu,\"made\":%llu,\"copy_s\":%.6g,\"stall_s\":%.6g}",
                             k ? "," : "", (unsigned long long)c->hits, (unsigned long long)c->late,
                             (unsigned long long)c->misses, (unsigned long long)c->bytes_in,
                             (unsigned long long)c->bytes_out, (unsigned long long)c->made,
                             stages[k].copy_s, stages[k].stall_s));
    }
    NP_TRY(np_buf_append(&m->line, "]", 1, err));
    NP_TRY(put_line(m, err));
out:
    return status;
}

enum np_status np_metrics_flush(struct np_metrics *m, struct np_error *err)
{
    return fflush(m->stream) == 0 ? NP_OK : np_fail_errno(err, "cannot write '%s'", m->path);
}

void np_metrics_close(struct np_metrics *m)
{
    if (!m)
        return;
    if (m->stream)
        fclose(m->stream);
    np_buf_clear(&m->line);
    free(m->path);
    free(m);
}

#include "run/ledger.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/memory.h"
#include "base/text.h"
#include "io/file.h"

struct file {
    char *path;
    FILE *stream;
};

struct np_ledger {
    const struct np_supernet *net;
    struct file steps, layers;
};

/* Finds where the line of `step` begins; lines before it must exist when `whole`. */
static enum np_status find_end(struct file *f, uint64_t step, bool whole, long *end,
                               struct np_error *err)
{
    char *line = NULL;
    size_t capacity = 0;
    uint64_t next = 0;
    ssize_t length;
    *end = 0;
    while ((length = np_file_line(&line, &capacity, f->stream)) > 0 && line[length - 1] == '\n') {
        char *tab = strchr(line, '\t');
        uint64_t number;
        if (tab)
            *tab = '\0';
        if (!tab || !np_text_parse_uint64(&number, line, 0, UINT64_MAX) || number >= step ||
            (whole && number != next))
            break;
        next = number + 1;
        *end += (long)length;
    }
    free(line);
    if (ferror(f->stream))
        return np_fail_errno(err, "cannot read '%s'", f->path);
    if (whole && next != step)
        return np_fail(err, NP_EDATA, "%s:%llu: damaged ledger: step %llu expected", f->path,
                       (unsigned long long)next + 1, (unsigned long long)next);
    return NP_OK;
}

static enum np_status open_file(struct file *f, const char *run, const char *name, uint64_t step,
                                bool whole, struct np_error *err)
{
    struct np_buf path = {NULL, 0, 0};
    bool there;
    long end;
    enum np_status status;
    NP_TRY(np_buf_printf(&path, err, "%s/%s", run, name));
    f->path = path.text;
    NP_TRY(np_file_exists(&there, f->path, err));
    if (there || (step && whole)) { /* else new, or asked for from here on */
        NP_TRY(np_file_open(&f->stream, f->path, true, err));
    } else if (!(f->stream = fopen(f->path, "w+x"))) {
        status = np_fail_errno(err, "cannot create '%s'", f->path);
        goto out;
    }
    NP_TRY(find_end(f, step, whole, &end, err));
    if (fseek(f->stream, end, SEEK_SET) != 0 || ftruncate(fileno(f->stream), end) != 0)
        status = np_fail_errno(err, "cannot cut '%s'", f->path);
out:
    return status;
}

enum np_status np_ledger_open(struct np_ledger **out, const char *run, uint64_t step, bool layers,
                              const struct np_supernet *net, struct np_error *err)
{
    struct np_ledger *ledger = NULL;
    enum np_status status;
    NP_TRY(np_zalloc(&ledger, 1, sizeof *ledger, err));
    ledger->net = net;
    NP_TRY(open_file(&ledger->steps, run, "ledger.tsv", step, true, err));
    if (layers)
        NP_TRY(open_file(&ledger->layers, run, "layers.tsv", step, false, err));
    *out = ledger;
    return NP_OK;
out:
    np_ledger_close(ledger);
    return status;
}

static enum np_status check(const struct file *f, struct np_error *err)
{
    return ferror(f->stream) ? np_fail_errno(err, "cannot write '%s'", f->path) : NP_OK;
}

enum np_status np_ledger_write(struct np_ledger *ledger, const struct np_step_record *record,
                               struct np_error *err)
{
    FILE *out = ledger->steps.stream;
    enum np_status status;
    fprintf(out, "%llu\t%s\t%016llx", (unsigned long long)record->step,
            np_text_hex((double)record->lr).s, (unsigned long long)record->fingerprint);
    for (int i = 0; i < record->members; i++)
        fprintf(out, "\t%s\t%s", np_text_hex((double)record->losses[i]).s,
                np_text_float(record->losses[i]).s);
    fputc('\n', out);
    NP_TRY(check(&ledger->steps, err));
    for (size_t i = 0; ledger->layers.stream && i < record->layer_count; i++) {
        char name[NP_LAYER_NAME];
        np_supernet_layer_name(ledger->net, record->layers[i].layer, name);
        fprintf(ledger->layers.stream, "%llu\t%s\t%016llx\n", (unsigned long long)record->step,
                name, (unsigned long long)record->layers[i].fingerprint);
    }
    if (ledger->layers.stream)
        NP_TRY(check(&ledger->layers, err));
out:
    return status;
}

static enum np_status sync_file(const struct file *f, struct np_error *err)
{
    if (!f->stream)
        return NP_OK;
    if (fflush(f->stream) != 0 || fsync(fileno(f->stream)) != 0)
        return np_fail_errno(err, "cannot write '%s'", f->path);
    return NP_OK;
}

enum np_status np_ledger_sync(struct np_ledger *ledger, struct np_error *err)
{
    enum np_status status;
    NP_TRY(sync_file(&ledger->steps, err));
    NP_TRY(sync_file(&ledger->layers, err));
out:
    return status;
}

static void close_file(struct file *f)
{
    if (f->stream)
        fclose(f->stream);
    free(f->path);
}

void np_ledger_close(struct np_ledger *ledger)
{
    if (!ledger)
        return;
    close_file(&ledger->steps);
    close_file(&ledger->layers);
    free(ledger);
}

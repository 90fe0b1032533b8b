#include "run/ledger.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/memory.h"
#include "base/text.h"
#include "io/file.h"
#include "run/ledger_check.h"

struct file {
    char *path;
    FILE *stream;
};

struct np_ledger {
    const struct np_supernet *net;
    struct file steps, layers;
    bool with_layers; /* else layers.tsv, where it is, is only cut */
};

/* Opens a file of the run without what follows its end; makes it if `make` and it is not there. */
static enum np_status open_file(struct file *f, const char *run, const char *name, long end,
                                bool make, struct np_error *err)
{
    struct np_buf path = {NULL, 0, 0};
    bool there;
    enum np_status status;
    NP_TRY(np_buf_printf(&path, err, "%s/%s", run, name));
    f->path = path.text;
    NP_TRY(np_file_exists(&there, f->path, err));
    if (!there && !make)
        return NP_OK;
    if (there) {
        NP_TRY(np_file_own(f->path, err));
        NP_TRY(np_file_open(&f->stream, f->path, true, err));
    } else if (!(f->stream = fopen(f->path, "w+x"))) {
        status = np_fail_errno(err, "cannot create '%s'", f->path);
        goto out;
    } else {
        NP_TRY(np_file_sync_dir(run, err));
    }
    if (fseek(f->stream, end, SEEK_SET) != 0 || ftruncate(fileno(f->stream), end) != 0)
        status = np_fail_errno(err, "cannot cut '%s'", f->path);
out:
    return status;
}

enum np_status np_ledger_open(struct np_ledger **out, const char *run, uint64_t step, bool layers,
                              const struct np_supernet *net, struct np_error *err)
{
    struct np_ledger *ledger = NULL;
    struct np_ledger_ends ends;
    enum np_status status;
    NP_TRY(np_ledger_check(&ends, run, net, step, err));
    NP_TRY(np_zalloc(&ledger, 1, sizeof *ledger, err));
    ledger->net = net;
    NP_TRY(open_file(&ledger->steps, run, "ledger.tsv", ends.steps, true, err));
    NP_TRY(open_file(&ledger->layers, run, "layers.tsv", ends.layers, layers, err));
    ledger->with_layers = layers;
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
    for (size_t i = 0; ledger->with_layers && i < record->layer_count; i++) {
        char name[NP_LAYER_NAME];
        np_supernet_layer_name(ledger->net, record->layers[i].layer, name);
        fprintf(ledger->layers.stream, "%llu\t%s\t%016llx\n", (unsigned long long)record->step,
                name, (unsigned long long)record->layers[i].fingerprint);
    }
    if (ledger->with_layers)
        NP_TRY(check(&ledger->layers, err));
out:
    return status;
}

static enum np_status sync_file(const struct file *f, struct np_error *err)
{
    if (!f->stream)
        return NP_OK;
    if (fflush(f->stream) != 0 || np_file_sync(fileno(f->stream)) != 0)
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

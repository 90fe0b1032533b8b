#include "run/ledger.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/text.h"
#include "run/ledger_check.h"
#include "run/log_file.h"

struct np_ledger {
    const struct np_supernet *net;
    struct np_log steps, layers;
    bool with_layers; /* else layers.tsv, where it is, is only cut */
};

enum np_status np_ledger_open(struct np_ledger **out, const char *run, uint64_t step, bool layers,
                              const struct np_supernet *net, struct np_error *err)
{
    struct np_ledger *ledger = NULL;
    struct np_ledger_ends ends;
    enum np_status status;
    NP_TRY(np_ledger_check(&ends, run, net, step, err));
    NP_TRY(np_zalloc(&ledger, 1, sizeof *ledger, err));
    ledger->net = net;
    NP_TRY(np_log_open(&ledger->steps, run, "ledger.tsv", ends.steps, true, err));
    NP_TRY(np_log_open(&ledger->layers, run, "layers.tsv", ends.layers, layers, err));
    ledger->with_layers = layers;
    *out = ledger;
    return NP_OK;
out:
    np_ledger_close(ledger);
    return status;
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
    NP_TRY(np_log_check(&ledger->steps, err));
    for (size_t i = 0; ledger->with_layers && i < record->layer_count; i++) {
        char name[NP_LAYER_NAME];
        np_supernet_layer_name(ledger->net, record->layers[i].layer, name);
        fprintf(ledger->layers.stream, "%llu\t%s\t%016llx\n", (unsigned long long)record->step,
                name, (unsigned long long)record->layers[i].fingerprint);
    }
    if (ledger->with_layers)
        NP_TRY(np_log_check(&ledger->layers, err));
out:
    return status;
}

enum np_status np_ledger_sync(struct np_ledger *ledger, struct np_error *err)
{
    enum np_status status;
    NP_TRY(np_log_sync(&ledger->steps, err));
    NP_TRY(np_log_sync(&ledger->layers, err));
out:
    return status;
}

void np_ledger_close(struct np_ledger *ledger)
{
    if (!ledger)
        return;
    np_log_close(&ledger->steps);
    np_log_close(&ledger->layers);
    free(ledger);
}

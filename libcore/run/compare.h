/* Comparing two runs bit for bit, and finding where they part.
 *
 * The ledgers tell the first step that differs (layers.tsv, where both have one, also the layer);
 * the latest checkpoint that both have tells the first layer in forward order, tensor and element:
 * of a layer what is latest, then the older versions that are kept of it, "stem@-1".
 *
 * Errors    NP_EINPUT: no checkpoint is there; different recipes, data or arithmetic (of fast
 *           numerics: another model of GPU, or version of the library) cannot be compared;
 *           NP_EDATA: a manifest, object or ledger is damaged; NP_EIO, also of what
 *           is no directory of a run; NP_EMEM.
 * Ownership values; np_compare_runs keeps nothing open.
 */
#ifndef NP_RUN_COMPARE_H
#define NP_RUN_COMPARE_H

#include <stdbool.h>
#include <stdint.h>

#include "io/digest.h"
#include "run/manifest.h"

struct np_run_head {
    struct np_digest digest; /* of the latest checkpoint's manifest */
    uint64_t step;
};

struct np_comparison {
    bool same;
    struct np_run_head a, b;
    bool step_differs; /* in the ledger, at `step`; or one ledger ends before it */
    uint64_t step;
    bool ended_a, ended_b;          /* a's (b's) ledger ends before `step` */
    char step_layer[NP_ENTRY_NAME]; /* first layer of that step that differs; "" if not known */
    bool checkpoint;                /* both have a checkpoint after `checkpoint_step` steps */
    uint64_t checkpoint_step;
    bool layer_differs; /* there: */
    char layer[NP_ENTRY_NAME];
    uint64_t updates_a, updates_b; /* 0: the layer was never updated there */
    bool element_differs;
    const char *part; /* "weights", "first moments" ("momentum"), "second moments" */
    char tensor[32];
    size_t element; /* row-major index in the tensor */
    float value_a, value_b;
};

enum np_status np_compare_runs(struct np_comparison *result, const char *a, const char *b,
                               struct np_error *err);

/* The latest checkpoint of a run. */
enum np_status np_compare_head(struct np_run_head *head, const char *run, struct np_error *err);

#endif

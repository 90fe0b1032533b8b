/* What np-train says while it trains, and the provenance it leaves in run.json. */
#ifndef NP_CMD_TRAIN_REPORT_H
#define NP_CMD_TRAIN_REPORT_H

#include "cli.h"
#include "run/session.h"
#include "train_options.h"

struct train_report {
    const struct train_options *options;
    const struct np_recipe *recipe;
    struct cli_progress progress;
    FILE *losses; /* NULL: not asked for */
    uint64_t first, end;
    bool has_first;
    struct np_score valid; /* the latest, if has_valid */
    bool has_valid;
};

enum np_status train_report_begin(struct train_report *report, const struct train_options *options,
                                  const struct np_recipe *recipe, struct np_error *err);
/* The hooks of a session that feed the report. */
struct np_session_hooks train_report_hooks(struct train_report *report);
/* Erases the progress line; with -v says what the session came to. began: it found a run, and may
 * have had nothing left to train. */
enum np_status train_report_end(struct train_report *report, const struct np_session_result *result,
                                bool began, struct np_error *err);

/* The text of run.json; the caller frees it. */
enum np_status train_provenance(char **out, const struct np_supernet *net,
                                const struct np_plan *plan, const struct train_options *options,
                                int argc, char **argv, struct np_error *err);

#endif

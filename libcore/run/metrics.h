/* metrics.jsonl: what a person wants to plot; never digested or compared.
 *
 * One JSON object a line: {"step":12,"time":3.25,"loss":5.61,"lr":0.001} for a step (the mean over
 * members; with norms also "grad_norm", of all its gradients together, before they are clipped),
 * {"step":500,"time":80.1,"valid_loss":2.1,"valid_accuracy":0.4,"subnets":[...],
 * "accuracies":[...]} for an evaluation, with the losses and the accuracies of its subnets; null
 * stands for what is not finite; time in seconds since the session began. Sessions append.
 *
 * Errors    NP_EIO; NP_EMEM.
 */
#ifndef NP_RUN_METRICS_H
#define NP_RUN_METRICS_H

#include "exec/residence.h"
#include "exec/train.h"

struct np_metrics;

/* norms: the recipe clips layers, so that the steps' records have their gradients' norms. */
enum np_status np_metrics_open(struct np_metrics **out, const char *run, bool norms,
                               struct np_error *err);
enum np_status np_metrics_step(struct np_metrics *metrics, const struct np_step_record *record,
                               struct np_error *err);
enum np_status np_metrics_eval(struct np_metrics *metrics, uint64_t step, struct np_score mean,
                               const struct np_score *scores, size_t count, struct np_error *err);
/* Whether that of this step is there, of any session. */
bool np_metrics_has_eval(struct np_metrics *metrics, uint64_t step);
/* What the context managers of the stages did so far, after `step` steps. */
enum np_status np_metrics_residence(struct np_metrics *metrics, uint64_t step,
                                    const struct np_residence_sums *stages, int count,
                                    struct np_error *err);
/* What was written so far reaches the file. */
enum np_status np_metrics_flush(struct np_metrics *metrics, struct np_error *err);
void np_metrics_close(struct np_metrics *metrics);

#endif

/* The version rule, checked: a witness that follows every task and says what was wrong first.
 *
 * It shares nothing with the scheduler but the contract: plain counters, one per layer and one per
 * task, and plain loops; slow on purpose.
 *
 * Errors: NP_ENO with the task and the rule it breaks.
 */
#ifndef NP_SCHED_RULE_H
#define NP_SCHED_RULE_H

#include "sched/sched.h"

struct np_rule;

/* Copies what the config points to. Steps must be complete before window + lookahead newer ones are
 * pushed, as np_sched_wants has it. */
enum np_status np_rule_new(struct np_rule **out, const struct np_sched_config *config,
                           struct np_error *err);
void np_rule_free(struct np_rule *rule);

/* stages[positions]: where the step runs them, as np_sched_stages has it. */
enum np_status np_rule_push(struct np_rule *rule, const uint16_t *choices, const uint16_t *stages,
                            struct np_error *err);
void np_rule_stop_after(struct np_rule *rule, uint64_t last);
/* The input that this F or B waits for arrived from another stage. */
enum np_status np_rule_arrived(struct np_rule *rule, const struct np_task *task,
                               struct np_error *err);
enum np_status np_rule_start(struct np_rule *rule, const struct np_task *task,
                             struct np_error *err);
enum np_status np_rule_end(struct np_rule *rule, const struct np_task *task, struct np_error *err);
/* NP_OK if every task of the steps below `steps` ran, and nothing is running. */
enum np_status np_rule_finish(const struct np_rule *rule, uint64_t steps, struct np_error *err);

#endif

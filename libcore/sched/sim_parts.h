/* What the simulations of the schedules share; for sim*.c only. */
#ifndef NP_SCHED_SIM_PARTS_H
#define NP_SCHED_SIM_PARTS_H

#include "sched/sim.h"

/* Costs of one step per (member, stage), per micro-batch. */
struct np_stage_cost {
    double f, b; /* b: backward-input and backward-weight */
};

bool np_sim_learns(const struct np_sched_config *config, int position, uint32_t layer);
/* cost[member * stages + stage] */
void np_sim_stage_costs(const struct np_sched_config *config, const uint16_t *choices,
                        struct np_stage_cost *cost);
/* Counts a task in the report and tells on_task. */
void np_sim_note(const struct np_sim_config *config, struct np_sim_report *report,
                 const struct np_span *span);

enum np_status np_sim_run_csp(struct np_sim_report *report, const struct np_sim_config *config,
                              struct np_error *err);
enum np_status np_sim_run_flush(struct np_sim_report *report, const struct np_sim_config *config,
                                struct np_error *err);
enum np_status np_sim_run_naspipe(struct np_sim_report *report, const struct np_sim_config *config,
                                  struct np_error *err);

#endif

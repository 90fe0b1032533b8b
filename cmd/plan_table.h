/* Plans and what they were chosen from, as tables for people on stderr. */
#ifndef NP_CMD_PLAN_TABLE_H
#define NP_CMD_PLAN_TABLE_H

#include "plan/partition.h"

/* A line a stage, and one for the plan. */
void plan_show(const struct np_plan *plan, const struct np_supernet *net);

/* A line an alternative, with a star before the chosen one. */
void plan_show_alternatives(const struct np_alternatives *tried);

#endif

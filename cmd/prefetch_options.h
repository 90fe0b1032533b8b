/* How layers come to a device whose memory does not hold them all: options of np-train and of
 * np-predict-trace. */
#ifndef NP_CMD_PREFETCH_OPTIONS_H
#define NP_CMD_PREFETCH_OPTIONS_H

#include <argp.h>
#include <stdbool.h>

#include "sched/context.h"

enum prefetch_how { /* not given: ahead */
                    PREFETCH_NOT_GIVEN,
                    PREFETCH_AHEAD,
                    PREFETCH_NEXT,
                    PREFETCH_DEMAND,
                    PREFETCH_LRU
};

struct prefetch_options {
    enum prefetch_how how;
    int lookahead; /* 0: not given */
};

/* A child for a tool's argp. */
extern const struct argp prefetch_options_argp;

enum np_context_policy prefetch_policy(const struct prefetch_options *options);
/* Steps known beyond the window: as asked for, else `planned`, or more where layers come and go. */
int prefetch_lookahead(const struct prefetch_options *options, int planned, bool moves);

#endif

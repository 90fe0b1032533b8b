#include "prefetch_options.h"

#include "cli.h"
#include "plan/plan.h"

enum { OPTION_PREFETCH = 0x4000, OPTION_LOOKAHEAD };

static const struct argp_option options[] = {
    {"prefetch", OPTION_PREFETCH, "HOW", 0, "ahead of their use (default), next, demand or lru", 0},
    {"lookahead", OPTION_LOOKAHEAD, "N", 0, "steps beyond the window that are known", 0},
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    static const char *const ways[] = {"ahead", "next", "demand", "lru"};
    struct prefetch_options *prefetch = state->input;
    switch (key) {
    case OPTION_PREFETCH:
        prefetch->how =
            (enum prefetch_how)(PREFETCH_AHEAD + cli_word(state, "prefetch", arg, ways, 4));
        return 0;
    case OPTION_LOOKAHEAD:
        prefetch->lookahead = (int)cli_int(state, "lookahead", arg, 1, 4096);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp prefetch_options_argp = {options, parse, NULL, NULL, NULL, NULL, NULL};

enum np_context_policy prefetch_policy(const struct prefetch_options *prefetch)
{
    switch (prefetch->how) {
    case PREFETCH_DEMAND:
        return NP_CONTEXT_DEMAND;
    case PREFETCH_LRU:
        return NP_CONTEXT_LRU;
    default:
        return NP_CONTEXT_AHEAD;
    }
}

int prefetch_lookahead(const struct prefetch_options *prefetch, int planned, bool moves)
{
    if (prefetch->how == PREFETCH_NEXT)
        return 1;
    if (prefetch->lookahead)
        return prefetch->lookahead;
    return moves && planned < NP_PLAN_AHEAD ? NP_PLAN_AHEAD : planned;
}

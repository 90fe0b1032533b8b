#include "plan_options.h"

#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/memory.h"
#include "base/text.h"
#include "cli.h"
#include "io/file.h"
#include "plan_table.h"

enum {
    OPTION_THREADS = 0x2000,
    OPTION_DEVICES,
    OPTION_REPLICAS,
    OPTION_UNIT,
    OPTION_CUT,
    OPTION_REACH,
    OPTION_RECOMPUTE,
    OPTION_MEMORY,
    OPTION_BANDWIDTH,
    OPTION_PROFILE,
    OPTION_ISA
};

static const struct argp_option options[] = {
    {"devices", OPTION_DEVICES, "N", 0,
     "threads of all stages and replicas (default: the processors)", 1},
    {"replicas", OPTION_REPLICAS, "N", 0, "copies of the pipeline, each with a share of a step", 1},
    {"stages", 'n', "N", 0, "stages of the pipeline", 1},
    {"micro-batches", 'M', "N", 0, "slices of a mini-batch, at grain boundaries", 1},
    {"window", 'W', "N", 0, "steps in flight", 1},
    {"unit", OPTION_UNIT, "N", 0, "positions that one task covers", 1},
    {"cut", OPTION_CUT, "auto|static|balanced", 0, "cut all steps alike, or each as it costs", 1},
    {"reach", OPTION_REACH, "N", 0, "positions that balanced cuts may lie off home", 1},
    {"recompute", OPTION_RECOMPUTE, "auto|never|always", 0,
     "compute again for the backward pass what the forward pass saved, instead of keeping it", 1},
    {"threads", OPTION_THREADS, "N", 0, "threads of each stage", 1},
    {"device-memory", OPTION_MEMORY, "SIZE", 0, "memory of each stage, such as 512MiB", 1},
    {"stash-bandwidth", OPTION_BANDWIDTH, "SIZE", 0,
     "bytes a second to and from the stash (default: memory's)", 1},
    {"profile-from", OPTION_PROFILE, "measure|model", 0,
     "take costs from this machine's clock or from FLOPs", 1},
    {"isa", OPTION_ISA, "NAME", 0,
     "instruction set: auto (the best here), scalar, avx2, avx512, neon", 1},
    {0}};

const struct np_kernels *plan_isa(struct argp_state *state, char *arg)
{
    const struct np_kernels *kernels;
    const char *names[NP_ISA_COUNT + 1];
    for (int i = 0; i < NP_ISA_COUNT; i++)
        names[i] = np_isa_name((enum np_isa)i);
    names[NP_ISA_COUNT] = "auto";
    int isa = cli_word(state, "isa", arg, names, NP_ISA_COUNT + 1);
    kernels = isa == NP_ISA_COUNT ? np_kernels_best() : np_kernels_get((enum np_isa)isa);
    if (!kernels)
        argp_error(state, "this machine lacks the instruction set '%s'", arg);
    return kernels;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    static const char *const sources[] = {"measure", "model"};
    static const char *const cuts[] = {"auto", "static", "balanced"};
    static const char *const recomputes[] = {"auto", "never", "always"};
    struct plan_options *plan = state->input;
    struct np_partition_request *request = &plan->request;
    uint64_t bandwidth;
    switch (key) {
    case OPTION_DEVICES:
        plan->devices = arg;
        return 0;
    case OPTION_REPLICAS:
        request->replicas = (int)cli_int(state, "replicas", arg, 1, NP_MAX_GRAINS);
        return 0;
    case 'n':
        request->stages = (int)cli_int(state, "stages", arg, 1, NP_MAX_STAGES);
        return 0;
    case 'M':
        request->micro_batches = (int)cli_int(state, "micro-batches", arg, 1, NP_MAX_GRAINS);
        return 0;
    case 'W':
        request->window = (int)cli_int(state, "window", arg, 1, 4096);
        return 0;
    case OPTION_UNIT:
        request->unit = (int)cli_int(state, "unit", arg, 1, NP_MAX_BLOCKS);
        return 0;
    case OPTION_CUT:
        request->cut = (enum np_cut_choice)cli_word(state, "cut", arg, cuts, 3);
        return 0;
    case OPTION_REACH:
        request->reach = (int)cli_int(state, "reach", arg, 1, NP_MAX_BLOCKS);
        return 0;
    case OPTION_RECOMPUTE:
        request->recompute =
            (enum np_recompute_choice)cli_word(state, "recompute", arg, recomputes, 3);
        return 0;
    case ARGP_KEY_END:
        if (request->reach && request->cut == NP_CUT_STATIC)
            argp_error(state, "--reach is for balanced cuts");
        if (plan->devices && !plan->gpus)
            request->devices =
                (int)cli_int(state, "devices", plan->devices, 1, NP_MAX_STAGES * NP_MAX_TEAM);
        return 0;
    case OPTION_THREADS:
        request->threads = (int)cli_int(state, "threads", arg, 1, NP_MAX_TEAM);
        return 0;
    case OPTION_MEMORY:
        request->memory_bytes = cli_bytes(state, "device-memory", arg);
        return 0;
    case OPTION_BANDWIDTH:
        bandwidth = cli_bytes(state, "stash-bandwidth", arg);
        request->disk = request->spare =
            (struct np_disk_bandwidth){bandwidth, bandwidth, bandwidth, 0};
        return 0;
    case OPTION_PROFILE:
        request->model = cli_word(state, "profile-from", arg, sources, 2) == 1;
        return 0;
    case OPTION_ISA:
        request->kernels = plan_isa(state, arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp plan_options_argp = {options, parse, NULL, NULL, NULL, NULL, NULL};

/* $XDG_CACHE_HOME/naspipe or $HOME/.cache/naspipe, made if need be; NULL where neither can be. */
static char *cache_directory(void)
{
    const char *home = getenv("HOME"), *base = getenv("XDG_CACHE_HOME");
    char *parent = NULL, *directory = NULL;
    if (base && *base == '/') {
        if (np_strdup(&parent, base, NULL) != NP_OK)
            return NULL;
    } else if (!home || *home != '/' || np_file_join(&parent, home, ".cache", NULL) != NP_OK) {
        return NULL;
    }
    if (np_file_ensure_dir(parent, NULL) != NP_OK ||
        np_file_join(&directory, parent, "naspipe", NULL) != NP_OK ||
        np_file_ensure_dir(directory, NULL) != NP_OK) {
        free(directory);
        directory = NULL;
    }
    free(parent);
    return directory;
}

void plan_options_complete(struct plan_options *plan)
{
    const struct np_processors bound = np_processors_bound();
    plan->request.processors = np_processors_usable(&bound);
    if (!plan->request.kernels)
        plan->request.kernels = np_kernels_best();
    if (!plan->request.model)
        plan->cache = cache_directory();
    plan->request.cache = plan->cache;
}

void plan_options_clear(struct plan_options *plan)
{
    free(plan->cache);
    plan->cache = NULL;
}

void plan_show_measuring(void *context, const struct np_plan *plan, size_t next, size_t count)
{
    struct cli_progress *progress = context;
    progress->shown_s = 0; /* each is worth a line */
    cli_progress_show(progress, "measuring %d x %d threads, %d micro-batches (%zu/%zu)",
                      np_plan_devices(plan), plan->threads, plan->micro_batches, next + 1, count);
}

static void show_searching(void *context, size_t next, size_t count)
{
    cli_progress_show(context, "searching the best plan (%zu/%zu)", next + 1, count);
}

enum np_status plan_make(struct np_plan *plan, const struct np_supernet *net,
                         const struct plan_options *given, enum plan_talk talk,
                         struct np_error *err)
{
    struct np_partition_request request = given->request;
    struct np_alternatives tried;
    struct cli_progress progress;
    enum np_status status;
    request.measuring = plan_show_measuring;
    request.searching = show_searching;
    request.context = &progress;
    cli_progress_begin(&progress, talk == PLAN_QUIET);
    status = np_partition(plan, &tried, net, &request, err);
    cli_progress_end(&progress);
    if (talk == PLAN_VERBOSE && (status == NP_OK || status == NP_ENO))
        plan_show_alternatives(&tried);
    np_alternatives_clear(&tried);
    return status;
}

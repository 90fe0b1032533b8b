/* What np-train computes on: this machine's processors, or GPUs. */
#ifndef NP_CMD_BACKEND_CHOICE_H
#define NP_CMD_BACKEND_CHOICE_H

#include <argp.h>

#include "cuda/cuda_device.h"
#include "plan/plan.h"

enum backend_choice { BACKEND_CPU, BACKEND_CUDA, BACKEND_AUTO };
enum transport_choice { TRANSPORT_AUTO, TRANSPORT_PEER, TRANSPORT_NCCL };

#define BACKEND_DEADLINE 60 /* seconds of a transfer between GPUs */

struct backend {
    enum backend_choice choice;
    int numbers[NP_CUDA_MOST], count; /* of the GPUs; none: the first */
    struct np_device devices[NP_CUDA_MOST];
    bool opened;                     /* the GPUs are used */
    enum transport_choice transport; /* of several; no longer AUTO once they are opened */
    int deadline_s;                  /* 0: BACKEND_DEADLINE */
    struct np_link *link;            /* between their memories, where there are several */
};

/* The GPUs that --devices LIST names, as in "0,2"; a usage error exits with 2. */
void backend_list(struct backend *backend, const char *list, struct argp_state *state);
/* Opens the GPUs. BACKEND_AUTO: or, where that cannot be done, stays with the processors. */
enum np_status backend_open(struct backend *backend, struct np_error *err);
/* How the stages of the plan come to each other's memory, on several GPUs. */
enum np_status backend_link(struct backend *backend, struct np_plan *plan, struct np_error *err);
void backend_close(struct backend *backend);

#endif

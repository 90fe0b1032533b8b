#include "backend_choice.h"

#include <stdlib.h>

#include "base/text.h"

void backend_list(struct backend *backend, const char *list, struct argp_state *state)
{
    const char *at = list;
    for (;;) {
        char *end;
        long number = strtol(at, &end, 10);
        if (end == at || *at < '0' || *at > '9' || number > 9999 || (*end && *end != ','))
            argp_error(state, "--devices '%s' is not a list of GPUs' numbers, such as 0,1",
                       np_text_safe(list).s);
        for (int i = 0; i < backend->count; i++)
            if (backend->numbers[i] == number)
                argp_error(state, "--devices '%s' names a GPU twice", np_text_safe(list).s);
        if (backend->count == NP_CUDA_MOST)
            argp_error(state, "--devices names more than %d GPUs", NP_CUDA_MOST);
        backend->numbers[backend->count++] = (int)number;
        if (!*end)
            return;
        at = end + 1;
    }
}

enum np_status backend_open(struct backend *backend, struct np_error *err)
{
    enum np_status status;
    if (backend->choice == BACKEND_CPU)
        return NP_OK;
    if (backend->count == 0)
        backend->numbers[backend->count++] = 0;
    status = np_cuda_open(backend->devices, backend->numbers, backend->count, err);
    backend->opened = status == NP_OK;
    if (backend->opened && backend->transport == TRANSPORT_AUTO)
        backend->transport =
            np_cuda_reach(backend->devices, backend->count) ? TRANSPORT_PEER : TRANSPORT_NCCL;
    return backend->choice == BACKEND_AUTO ? NP_OK : status;
}

/* Replicas read and update layers in one memory; what crosses between stages alone is carried. */
enum np_status backend_link(struct backend *backend, struct np_plan *plan, struct np_error *err)
{
    const struct np_device *devices = backend->devices;
    int deadline_s = backend->deadline_s ? backend->deadline_s : BACKEND_DEADLINE;
    if (!backend->opened || backend->count == 1)
        return NP_OK;
    if (np_plan_replicas(plan) > 1 && backend->transport == TRANSPORT_NCCL)
        return np_fail(err, NP_EINPUT,
                       "replicas on several GPUs share one memory: they need --transport peer, and "
                       "GPUs that can reach each other's memory");
    if (np_plan_replicas(plan) > 1)
        return np_cuda_join(devices, backend->count, err);
    plan->memories = backend->count;
    if (backend->transport == TRANSPORT_NCCL)
        return np_cuda_nccl(&backend->link, devices, backend->count, deadline_s, err);
    return np_cuda_peers(&backend->link, devices, backend->count, err);
}

void backend_close(struct backend *backend)
{
    np_link_free(backend->link);
}

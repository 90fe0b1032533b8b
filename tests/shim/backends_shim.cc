/* CUDA's kernels as tests call those of instruction sets: rank 0 of a team does the work, on a
 * stream and scratch of its own, and returns what the verdict says. */
#include <stdlib.h>
#include <string.h>

#include "cuda_runtime.h"

extern "C" {
#include "backends.h"
#include "cuda/cuda_team.h"
}

#include "cuda/entries.cuh"

#define SCRATCH ((size_t)1 << 20)

/* At every second call little, so that sums are also not cut. */
static size_t scratch_bytes(void)
{
    static bool little;
    little = !little;
    return little ? np_cuda_scratch_bytes(4096, 4096) : SCRATCH;
}

static bool with_verdict(bool result, uint32_t verdict)
{
    return result && verdict == 0;
}

template <class Other> static Other with_verdict(Other result, uint32_t)
{
    return result;
}

template <class Type> struct entry;
template <class Result, class... Arguments>
struct entry<Result (*)(struct np_team *, Arguments...)> {
    template <Result (*np_kernels::*member)(struct np_team *, Arguments...)>
    static Result call(struct np_team *team, Arguments... arguments)
    {
        static char scratch[SCRATCH] __attribute__((aligned(256)));
        uint32_t verdict = 0;
        struct np_cuda_team mine = {{0, 1, nullptr, scratch, scratch_bytes()}, nullptr, &verdict};
        if (team->rank == 0)
            memset(scratch, 0xff, mine.team.scratch_bytes);
        if constexpr (__is_same(Result, void)) {
            if (team->rank == 0)
                (np_kernels_cuda.*member)(&mine.team, arguments...);
        } else {
            if (team->rank > 0)
                return Result(__is_same(Result, bool));
            Result result = (np_kernels_cuda.*member)(&mine.team, arguments...);
            return with_verdict(result, verdict);
        }
    }
};

#define ENTRY(name) .name = entry<decltype(np_kernels::name)>::call<&np_kernels::name>,
static const struct np_kernels kernels = {.name = "cuda", NP_CUDA_ENTRIES(ENTRY)};

const struct np_kernels *backend_get(int index)
{
    return index == 0 ? np_kernels_get(NP_ISA_SCALAR) : index == 1 ? &kernels : nullptr;
}

bool team_is_tried(int size, int backend)
{
    return size == 1 && backend > 0;
}

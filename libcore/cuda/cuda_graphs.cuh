/* Launches that a team makes again and again, made by one call.
 *
 * A launch costs the host microseconds, most of them the driver's, and a step on small images has
 * thousands. But what a layer's pass does is seldom new: the same kernels, one after the other, on
 * the same buffers. So launches are noted (kernel, sizes, arguments) and made when they are played.
 * If the same ones, to the last byte of the last argument, were played before, they become a CUDA
 * graph, and from then on one call launches them all. Which way they go changes no bit: they begin
 * in the order they were noted, each when the one before it is done.
 *
 * Errors    NP_EMEM. Launches' stay with the runtime, as always (cuda/cuda_team.h). Without room
 *           for a graph, launches are made one by one.
 * Ownership a stream is borrowed until np_cuda_graphs_free; arguments are copied.
 * Threads   one at a time, which has chosen the stream's device.
 *
 * Private to cuda/.
 */
#ifndef NP_CUDA_CUDA_GRAPHS_CUH
#define NP_CUDA_CUDA_GRAPHS_CUH

#include <cuda_runtime.h>

#include <string.h>

extern "C" {
#include "base/error.h"
#include "cuda/cuda_team.h"
}

struct np_cuda_graphs;

/* A launch: its arguments stand apart. No byte of it is padding. */
struct np_cuda_call {
    const void *kernel;
    const unsigned *at; /* where each argument begins, and where they end; there for good */
    dim3 grid, block;
    unsigned shared, count; /* bytes beside; arguments */
};
#define NP_CUDA_ARGUMENTS 8 /* at most */

/* In all graphs of a team at most; tests have fewer. */
#ifndef NP_CUDA_GRAPH_LAUNCHES
#define NP_CUDA_GRAPH_LAUNCHES 16384
#endif

enum np_status np_cuda_graphs_new(struct np_cuda_graphs **out, cudaStream_t stream,
                                  struct np_error *err);
void np_cuda_graphs_free(struct np_cuda_graphs *graphs);
/* What is noted first may be made, to have room. */
void np_cuda_graphs_note(struct np_cuda_graphs *graphs, const struct np_cuda_call *call,
                         const unsigned char *arguments);
void np_cuda_graphs_play(struct np_cuda_graphs *graphs);
/* Without graphs. */
void np_cuda_call_make(const struct np_cuda_call *call, const unsigned char *arguments,
                       cudaStream_t stream);

/* Where arguments of these types lie, one after the other; the end is a multiple of 8. */
template <class... Parameters> struct cuda_places {
    unsigned at[sizeof...(Parameters) + 1];
    constexpr cuda_places() : at{}
    {
        unsigned end = 0, i = 0;
        ((end = ((unsigned)alignof(Parameters) - 1 + end) / (unsigned)alignof(Parameters) *
                (unsigned)alignof(Parameters),
          at[i++] = end, end += (unsigned)sizeof(Parameters)),
         ...);
        at[i] = (end + 7) / 8 * 8;
    }
};
template <class... Parameters> inline constexpr cuda_places<Parameters...> cuda_places_of;

/* Padding goes along: where that differs a graph is not found, and nothing is lost but its speed
 * (__builtin_clear_padding would even it out, but GCC 12's clears members as well). */
template <class Parameter> static inline void cuda_put(unsigned char *at, Parameter value)
{
    static_assert(alignof(Parameter) <= 8, "as all are placed");
    memcpy(at, static_cast<const void *>(&value), sizeof value);
}

/* What NP_LAUNCH does; `function` is what the runtime knows the kernel by. */
template <class... Parameters, class... Arguments>
static inline void cuda_launch(const struct np_cuda_team *team, const void *function,
                               void (*)(Parameters...), dim3 grid, dim3 block, size_t shared,
                               const Arguments &...arguments)
{
    static_assert(sizeof...(Parameters) == sizeof...(Arguments) &&
                  sizeof...(Parameters) <= NP_CUDA_ARGUMENTS);
    constexpr const cuda_places<Parameters...> &places = cuda_places_of<Parameters...>;
    constexpr unsigned count = sizeof...(Parameters);
    alignas(16) unsigned char bytes[places.at[count]] = {};
    struct np_cuda_call call = {function, places.at, grid, block, (unsigned)shared, count};
    unsigned i = 0;
    (cuda_put<Parameters>(bytes + places.at[i++], arguments), ...);
    if (team->graphs)
        np_cuda_graphs_note(team->graphs, &call, bytes);
    else
        np_cuda_call_make(&call, bytes, team->stream);
}

#endif

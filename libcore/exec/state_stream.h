/* A layer's values as a stream, in pieces, wherever they are: for checkpoints, which need no buffer
 * of a layer's size.
 *
 * The values come in canonical order: the kind's floats of w, then of m, then of v, packed. A layer
 * that is in the stash passes through a window; one on the device needs none.
 *
 * Errors    those of the stash.
 * Ownership borrows state and window.
 * Threads   one, while nobody moves or updates the layer.
 */
#ifndef NP_EXEC_STATE_STREAM_H
#define NP_EXEC_STATE_STREAM_H

#include "exec/state.h"

struct np_state_stream {
    struct np_state *state;
    uint32_t layer;
    float *window; /* of whole pages, as io/stash.h wants a buffer */
    size_t window_bytes;
    size_t at;     /* floats that have passed */
    uint64_t held; /* the window holds the slab's bytes from here on: a multiple of its size */
    bool holds;    /* it holds any */
};

/* A stream that begins: every other field is 0. */
struct np_state_stream np_state_stream(struct np_state *state, uint32_t layer, float *window,
                                       size_t window_bytes);
/* Floats of the whole stream. */
size_t np_state_stream_floats(const struct np_state *state, uint32_t layer);

/* The next floats of a layer that was updated, or given. */
enum np_status np_state_read(struct np_state_stream *s, float *out, size_t count,
                             struct np_error *err);
/* The next floats for a layer of a fresh state; after the last of them the layer is what it is
 * after `updates` updates. Memory is taken, for old versions too. */
enum np_status np_state_write(struct np_state_stream *s, const float *values, size_t count,
                              uint64_t updates, struct np_error *err);

#endif

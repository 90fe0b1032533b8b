/* The supernet's state: weights, moments and update counts of every layer.
 *
 * A layer that no step has used yet has no memory, unless it was given values: its version 0 is a
 * pure function of its address and is made at its first use. A shared layer read with delay D keeps
 * the D - 1 versions before the latest as well. Candidates may be kept in a stash (exec/residence.h
 * moves them): then slab is NULL while a layer is not on the device, and its memory is not the
 * state's; nor is it where layers stay in stages' arenas.
 *
 * Shapes    slab: [w | m | v], each of kind->floats rounded up to a cache line (np_state_stride);
 *           m and v as the optimizer has them.
 * Errors    NP_EMEM.
 * Ownership np_state_free releases all slabs but those of arenas, which np_state_leave_arenas
 *           forgets before they go.
 * Threads   a layer is made and updated by one team, which is then alone with it; one that is made
 *           is read by any number of teams. Different layers freely.
 */
#ifndef NP_EXEC_STATE_H
#define NP_EXEC_STATE_H

#include "base/arena.h"
#include "io/stash.h"
#include "num/device.h"
#include "ops/weights.h"
#include "space/supernet.h"

struct np_layer_state {
    float *slab;      /* NULL: never used, or not on the device */
    bool made;        /* slab holds values */
    bool given;       /* its values were written to it (exec/state_stream.h) */
    uint64_t updates; /* = the version that slab's weights are */
    float *old;       /* [D - 1][stride], version v in slot v % (D - 1); NULL when D is 1 */
};

/* Whether its values must be kept: they are not, or may not be, those of its address. */
static inline bool np_layer_is_own(const struct np_layer_state *layer)
{
    return layer->updates > 0 || layer->given;
}

struct np_residence;
struct np_state {
    const struct np_supernet *net;
    struct np_layer_state *layers;
    const struct np_device **homes; /* [positions]: of their layers' memory; NULL: the host */
    struct np_arena **arenas;       /* [positions]: on these, under a cap; NULL: there is none */
    struct np_stash *stash;         /* of candidates, by layer number; NULL: they stay; borrowed */
    struct np_residence *residence; /* moves them; NULL if there is none; borrowed */
};

enum np_status np_state_new(struct np_state **out, const struct np_supernet *net,
                            struct np_error *err);
void np_state_free(struct np_state *state);

/* Floats from w to m, m to v, and between old versions. */
size_t np_state_stride(const struct np_kind *kind);

/* Bytes of a slab, w and moments. */
uint64_t np_state_slab_bytes(const struct np_state *state, uint32_t layer);
/* A candidate with weights: where there is a stash, that is its home. */
bool np_state_may_leave(const struct np_state *state, uint32_t layer);

/* Where a layer's memory is. */
const struct np_device *np_state_home(const struct np_state *state, uint32_t layer);

/* Layers' memory is the arenas' from here on: arenas[position], borrowed, and copied. No layer has
 * any yet. */
enum np_status np_state_use_arenas(struct np_state *state, struct np_arena *const *arenas,
                                   struct np_error *err);
/* No layer has any memory any more; without arenas, nothing happens. */
void np_state_leave_arenas(struct np_state *state);

/* Takes the layer's memory, if it has none and needs some, without filling it in. */
enum np_status np_state_take(struct np_state *state, uint32_t layer, struct np_error *err);
/* Makes sure that the layer, whose memory is taken, has weights: called by all members of a team,
 * returns after a wait if it made them. */
void np_state_ready(struct np_state *state, const struct np_kernels *kernels, struct np_team *team,
                    uint32_t layer);

/* The weights of a version: the latest, or one of the old ones kept. */
const float *np_state_weights(const struct np_state *state, uint32_t layer, uint64_t version);

/* What an update finds, in the device's memory: zeros before it. */
struct np_update_report {
    float square;                 /* the gradient's squared norm, where the recipe clips layers */
    uint64_t prints[NP_MAX_TEAM]; /* each member's share of the fingerprint */
};
#define NP_UPDATE_REPORT_BYTES(members)                                                            \
    (offsetof(struct np_update_report, prints) + (size_t)(members) * sizeof(uint64_t))

/* One update of a layer from gradient slab g, by all members of a team; returns after a wait.
 * False, nothing written, if a gradient is not finite. */
bool np_state_update(struct np_state *state, const struct np_kernels *kernels, struct np_team *team,
                     uint32_t layer, const float *g, float lr, float *agreed,
                     struct np_update_report *report);

#endif

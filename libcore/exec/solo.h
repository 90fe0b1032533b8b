/* A stage of its own, outside of the engine: crew and storage for one subnet at a time on a whole
 * mini-batch. Private to exec/.
 *
 * Errors    NP_EMEM, NP_EIO as np_crew_new.
 * Ownership np_solo_clear releases, also what np_solo_init left half done.
 */
#ifndef NP_EXEC_SOLO_H
#define NP_EXEC_SOLO_H

#include "exec/sweep.h"

struct np_solo {
    struct np_arena *arena;
    struct np_flight_layout layout;
    struct np_flights flights;
    struct np_crew *crew;
    struct np_cell *cells; /* [positions] */
    uint16_t *stages;      /* [positions]: all 0 */
};

/* On the first of the config's devices. evaluates: forward passes alone. */
enum np_status np_solo_init(struct np_solo *solo, const struct np_train_config *config,
                            bool evaluates, struct np_error *err);
void np_solo_clear(struct np_solo *solo);

/* A sweep over its positions; step, member, choices, grain_loss and what else is wanted are the
 * caller's to fill in. */
struct np_sweep np_solo_sweep(const struct np_solo *solo, const struct np_train_config *config,
                              struct np_state *state);

#endif

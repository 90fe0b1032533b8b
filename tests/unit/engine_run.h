/* Trainings of tiny recipes, by an engine or the sequential reference, and what they leave. */
#ifndef NP_TEST_ENGINE_RUN_H
#define NP_TEST_ENGINE_RUN_H

#include "exec/train.h"
#include "tiny.h"

/* Makes the plan, which the caller clears; steps go to the outcome. */
struct np_train_config engine_config(struct tiny *f, struct tiny_outcome *o, struct np_plan *plan,
                                     const struct tiny_shape *shape);

/* The stages took what the model says, to the byte. */
void engine_took_its_memory(struct tiny *f, const struct np_plan *plan,
                            const struct np_engine *engine);

/* Trains steps o->steps .. end-1 on o's state, or a new one, with a fresh engine, which must take
 * its memory; shape->stages 0: with the reference. */
void engine_train(struct tiny *f, struct tiny_outcome *o, const struct tiny_shape *shape,
                  uint64_t end);

/* All steps by the reference: by scalar code; in a short run by the best there is. */
void engine_reference(struct tiny *f, struct tiny_outcome *o);

/* The same fingerprints, losses, weights and moments. */
void engine_same(const struct tiny *f, const struct tiny_outcome *a, const struct tiny_outcome *b,
                 const char *what);

#endif

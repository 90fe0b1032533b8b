/* Numbers that are as good as any others, the same ones in every run. */
#ifndef NP_TEST_NUMBERS_H
#define NP_TEST_NUMBERS_H

#include <stddef.h>
#include <stdint.h>

/* The next of the sequence that a state is a place in: below 2^31, or from first to last. */
uint64_t number_next(uint64_t *state);
int number_draw(uint64_t *state, int first, int last);

/* count + 1 of them from -1 to 1, for fenced_free(). Those that have a tensor begin with the first
 * (0) begin at their fence, and are aligned; of those that have it begin with the second (1) half
 * do, and half end at their fence. */
float *numbers(size_t count, size_t first, uint64_t *state);

#endif

/* Numbers that are as good as any others, the same ones in every run. */
#ifndef NP_TEST_NUMBERS_H
#define NP_TEST_NUMBERS_H

#include <stddef.h>
#include <stdint.h>

/* The next of the sequence that a state is a place in: below 2^31, or from first to last. */
uint64_t number_next(uint64_t *state);
int number_draw(uint64_t *state, int first, int last);

/* count + 1 of them from -1 to 1, the caller's to free: a tensor that begins one float after an
 * aligned address, and ends where a sanitizer sees a read past its end. */
float *numbers(size_t count, uint64_t *state);

#endif

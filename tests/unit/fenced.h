/* Floats beside memory that nobody may touch: what reads or writes past them there is a fault, also
 * where a sanitizer sees nothing (masked loads, shuffled vectors). */
#ifndef NP_TEST_FENCED_H
#define NP_TEST_FENCED_H

#include <stdbool.h>
#include <stddef.h>

/* count floats up to the fence, or from the fence on and aligned to a page; fenced_free() frees
 * them. */
float *fenced(size_t count, bool behind);
void fenced_free(float *x);

/* All that may be touched around them. */
float *fenced_pages(float *x, size_t *count);

#endif

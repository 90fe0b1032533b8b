/* Memory: checked size arithmetic and aligned allocation.
 *
 * Units:     sizes in bytes unless named otherwise.
 * Errors:    NP_EMEM with what was asked for; sizes are checked before memory is taken.
 * Ownership: what these return belongs to the caller, who releases it with free().
 */
#ifndef NP_BASE_MEMORY_H
#define NP_BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define NP_ALIGN 64 /* bytes: a cache line and the widest vector register */

/* Bytes of a page of which the system clears and enters many at a time. */
#define NP_HUGE_PAGE ((size_t)2 << 20)

/* *out = a * b (a + b); false, *out untouched, when it overflows. */
static inline bool np_mul_size(size_t *out, size_t a, size_t b)
{
    size_t r;
    if (__builtin_mul_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

static inline bool np_add_size(size_t *out, size_t a, size_t b)
{
    size_t r;
    if (__builtin_add_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

/* The first multiple of unit that is not below count. */
static inline size_t np_round_up(size_t count, size_t unit)
{
    return (count + unit - 1) / unit * unit;
}

/* Floats of a part, so that what follows it starts on a cache line. */
static inline size_t np_lines(size_t floats)
{
    return np_round_up(floats, NP_ALIGN / sizeof(float));
}

/* count objects of size bytes; 0 of them gives a unique pointer. np_alloc aligns to NP_ALIGN;
 * np_zalloc to what malloc gives, fills with zeros, and large blocks take no memory until they are
 * written. Both are released with free(). */
enum np_status np_alloc(void *out_pointer, size_t count, size_t size, struct np_error *err);
enum np_status np_zalloc(void *out_pointer, size_t count, size_t size, struct np_error *err);

/* Fewer misses in the table of pages, where a block holds whole huge ones; where the system refuses
 * nothing else changes. np_alloc does it. */
void np_want_huge_pages(void *block, size_t bytes);

/* Makes room for one more element in a growing array: *array holds *capacity elements of size
 * bytes, used of them taken. Doubles; the array stays as it was on failure. */
enum np_status np_grow(void *array, size_t *capacity, size_t used, size_t size,
                       struct np_error *err);

/* A copy of a string. */
enum np_status np_strdup(char **out, const char *text, struct np_error *err);

#endif

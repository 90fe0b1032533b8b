/* One test over the kernel table: every entry of every instruction set gives the bits of the scalar
 * reference, for awkward shapes, special values, unaligned pointers and every team. The kernels
 * work in regions beside fences that are compared as a whole, so a write out of place is seen.
 */
#ifndef KERNEL_CASE_H
#define KERNEL_CASE_H

#include "num/kernels.h"

#define REGIONS 8
#define REGION 40960 /* floats: whole pages */
#define VOCABULARY 5

struct shape {
    size_t samples, length, cols, taps, grain;
};

/* What a kernel is called with: regions 0 to 3 hold any numbers, 4 positive ones, 5 to 7 are for
 * outputs (and hold numbers too, for kernels that accumulate). */
struct call {
    const struct np_kernels *kernels;
    struct shape shape;
    size_t rows, cols, count, grain;
    bool accumulate;
    float *r[REGIONS];
    const int32_t *tokens, *targets; /* some targets are none */
    const int32_t *lengths;          /* [samples], 1 to length, and to 100 */
};

/* Calls the kernel once or a few times; its result is part of what is compared. */
struct kernel_case {
    const char *name;
    uint64_t (*run)(struct np_team *team, const struct call *c);
    bool any;        /* the team's result is whether any member's is not 0, not their sum */
    unsigned beyond; /* bits of the regions of which it uses more than rows x cols floats */
};

/* Draws the numbers; before the tests, which may each have a process of its own. */
void kernel_case_begin(void);

/* Fails where an instruction set or a team differs from the reference. In a short run every other
 * pair of a shape and a variant is tried. */
void kernel_case_check(const struct kernel_case *one);

#endif

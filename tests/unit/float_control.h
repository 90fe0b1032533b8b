/* What may be changed in a processor's control of floats, of the thread that asks and of those that
 * it begins: results to zero, operands to zero, both, as -Ofast links it in; other roundings. */
#ifndef NP_TEST_FLOAT_CONTROL_H
#define NP_TEST_FLOAT_CONTROL_H

#include <stdint.h>

#ifdef __x86_64__
#include <xmmintrin.h>
static const uint32_t float_changes[] = {0x8000, 0x0040, 0x8040, 0x2000, 0x4000, 0x6000};
#elif defined __aarch64__
static const uint32_t float_changes[] = {1u << 24, 1u << 22, 2u << 22, 3u << 22};
#else
static const uint32_t float_changes[] = {0}; /* not known here */
#endif
#define FLOAT_CHANGES ((int)(sizeof float_changes / sizeof *float_changes))

/* Once more undoes it. */
static inline void float_control(uint32_t change)
{
#ifdef __x86_64__
    _mm_setcsr(_mm_getcsr() ^ change);
#elif defined __aarch64__
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    __asm__ volatile("msr fpcr, %0" : : "r"(control ^ change));
#else
    (void)change;
#endif
}

#endif

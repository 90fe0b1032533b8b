#include "numbers.h"

#include <check.h>

#include "base/memory.h"

uint64_t number_next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

int number_draw(uint64_t *state, int first, int last)
{
    return first + (int)(number_next(state) % (uint64_t)(last - first + 1));
}

float *numbers(size_t count, uint64_t *state)
{
    float *x;
    ck_assert_int_eq(np_alloc(&x, count + 1, sizeof(float), NULL), NP_OK);
    for (size_t i = 0; i < count + 1; i++)
        x[i] = (float)number_next(state) * 0x1p-30F - 1;
    return x;
}

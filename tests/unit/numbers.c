#include "numbers.h"

#include "fenced.h"

uint64_t number_next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

int number_draw(uint64_t *state, int first, int last)
{
    return first + (int)(number_next(state) % (uint64_t)(last - first + 1));
}

float *numbers(size_t count, size_t first, uint64_t *state)
{
    float *x = fenced(count + 1, first > 0 && number_next(state) >> 16 & 1);
    for (size_t i = 0; i < count + 1; i++)
        x[i] = (float)number_next(state) * 0x1p-30F - 1;
    return x;
}

/* Kernels of num/kernels.h: dropout and normal deviates, drawn by address. */
#ifndef NP_NUM_RANDOM_LOOPS_H
#define NP_NUM_RANDOM_LOOPS_H

#include <math.h>
#include <string.h>

#include "num/elementary.h"
#include "num/loops.h"

#define DRAW_BLOCKS 64 /* Philox blocks drawn at a time, in a loop that vectorises */
#define DRAW_WORDS (4 * DRAW_BLOCKS)

static void draw_words(uint32_t words[DRAW_WORDS], struct np_draw_key key, uint64_t step,
                       uint64_t block)
{
    for (size_t i = 0; i < DRAW_BLOCKS; i++) {
        struct np_philox drawn = np_draw(key, step, block + i);
        words[4 * i] = drawn.w[0];
        words[4 * i + 1] = drawn.w[1];
        words[4 * i + 2] = drawn.w[2];
        words[4 * i + 3] = drawn.w[3];
    }
}

static void dropout(struct np_team *team, float *y, const float *x, size_t count,
                    struct np_draw_key key, uint64_t step, uint64_t first, uint32_t threshold,
                    float keep_scale)
{
    struct np_share share = np_team_share(team, count, NP_SHARE_UNIT);
    uint32_t words[DRAW_WORDS];
    size_t n;
    for (size_t i = share.begin; i < share.end; i += n) {
        size_t skip = (first + i) % 4;
        const float *in = x + i;
        float *out = y + i;
        n = DRAW_WORDS - skip < share.end - i ? DRAW_WORDS - skip : share.end - i;
        draw_words(words, key, step, (first + i) / 4);
        NP_INDEPENDENT
        for (size_t j = 0; j < n; j++) {
            float scaled = in[j] * keep_scale;
            out[j] = words[skip + j] >= threshold ? scaled : 0.0f;
        }
    }
}

/* Box and Muller's transform of the pairs of words, in place of the words' order. */
static void normal_pairs(float deviates[DRAW_WORDS], const uint32_t words[DRAW_WORDS], float std)
{
    for (size_t i = 0; i < DRAW_WORDS / 2; i++) {
        float u0 = np_philox_unit(words[2 * i]), u1 = np_philox_unit(words[2 * i + 1]);
        float r = sqrtf(-2.0f * np_logf(1.0f - u0));
        deviates[2 * i] = std * (r * np_cos2pif(u1));
        deviates[2 * i + 1] = std * (r * np_sin2pif(u1));
    }
}

static void normal(struct np_team *team, float *w, size_t count, struct np_draw_key key, float std)
{
    struct np_share share = np_team_share(team, count, DRAW_WORDS);
    uint32_t words[DRAW_WORDS];
    float deviates[DRAW_WORDS];
    for (size_t i = share.begin; i < share.end; i += DRAW_WORDS) {
        size_t n = share.end - i < DRAW_WORDS ? share.end - i : DRAW_WORDS;
        draw_words(words, key, 0, i / 4);
        normal_pairs(deviates, words, std);
        memcpy(w + i, deviates, n * sizeof *w);
    }
}

#endif

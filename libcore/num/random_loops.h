/* Kernels of num/kernels.h: dropout, of elements and of samples, and normal deviates, drawn by
 * address. draw_simd.h draws for them where it is included before, else draw_scalar.h. */
#ifndef NP_NUM_RANDOM_LOOPS_H
#define NP_NUM_RANDOM_LOOPS_H

#include <math.h>
#include <string.h>

#include "num/elementary.h"
#include "num/loops.h"

#ifndef DRAW_BLOCKS
#include "num/draw_scalar.h"
#endif

#define DRAW_WORDS (4 * DRAW_BLOCKS)

static void dropout(struct np_team *team, float *y, const float *x, size_t count,
                    struct np_draw_key key, uint64_t step, uint64_t first, uint32_t threshold,
                    float keep_scale)
{
    struct np_share share = np_team_share(team, count, NP_SHARE_UNIT);
    uint32_t words[DRAW_WORDS];
    float scaled[DRAW_WORDS];
    size_t n;
    for (size_t i = share.begin; i < share.end; i += n) {
        size_t skip = (first + i) % 4;
        const float *in = x + i;
        float *out = y + i;
        n = DRAW_WORDS - skip < share.end - i ? DRAW_WORDS - skip : share.end - i;
        draw_words(words, key, step, (first + i) / 4);
        NP_INDEPENDENT
        for (size_t j = 0; j < n; j++)
            scaled[j] = in[j] * keep_scale;
        NP_INDEPENDENT
        for (size_t j = 0; j < n; j++)
            out[j] = words[skip + j] >= threshold ? scaled[j] : 0.0f;
    }
}

static void drop_path(struct np_team *team, float *y, const float *x, size_t samples, size_t each,
                      struct np_draw_key key, uint64_t step, uint64_t first, uint32_t threshold,
                      float keep_scale)
{
    struct np_share share = np_team_share(team, samples * each, NP_SHARE_UNIT);
    for (size_t i = share.begin, end; i < share.end; i = end) {
        uint64_t sample = first + i / each;
        bool kept = np_draw(key, step, sample / 4).w[sample % 4] >= threshold;
        end = np_min(i - i % each + each, share.end);
        if (!kept) {
            memset(y + i, 0, (end - i) * sizeof *y);
            continue;
        }
        NP_INDEPENDENT
        for (size_t j = i; j < end; j++)
            y[j] = x[j] * keep_scale;
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

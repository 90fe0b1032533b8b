/* Kernels of num/kernels.h: rotary positions. Angles are computed for some pairs of a position at a
 * time, and serve all of its rows and heads. */
#ifndef NP_NUM_ROTARY_LOOPS_H
#define NP_NUM_ROTARY_LOOPS_H

#include <string.h>

#include "num/elementary.h"
#include "num/loops.h"
#include "num/rotary.h"

#define ROTARY_PAIRS 32

struct rotary_angles {
    uint64_t step[ROTARY_PAIRS];
    float cosine[ROTARY_PAIRS], sine[ROTARY_PAIRS];
};

static void rotary_angles(struct rotary_angles *a, size_t position, size_t count, bool back)
{
    for (size_t i = 0; i < count; i++) {
        float turn = np_rotary_turn(a->step[i], position), sine = np_sin2pif(turn);
        a->cosine[i] = np_cos2pif(turn);
        a->sine[i] = back ? -sine : sine;
    }
}

/* Pairs that begin at x and at x + half; y may be x. */
static void rotary_pairs(float *y, const float *x, const struct rotary_angles *a, size_t count,
                         size_t half)
{
    NP_INDEPENDENT
    for (size_t i = 0; i < count; i++) {
        float u = x[i], v = x[i + half], c = a->cosine[i], s = a->sine[i];
        y[i] = np_fmaf(u, c, -(v * s));
        y[i + half] = np_fmaf(v, c, u * s);
    }
}

static void rotate(struct np_team *team, float *y, const float *x, const struct np_rotation *r)
{
    struct np_share share = np_team_share(team, r->length, 1);
    const size_t half = r->width / 2, turned = r->heads * r->width;
    const double octaves = np_rotary_octaves(r->base);
    struct rotary_angles angles;
    for (size_t first = 0, count; first < half; first += count) {
        count = half - first < ROTARY_PAIRS ? half - first : ROTARY_PAIRS;
        for (size_t i = 0; i < count; i++)
            angles.step[i] = np_rotary_step(first + i, r->width, octaves);
        for (size_t t = share.begin; t < share.end; t++) {
            rotary_angles(&angles, t, count, r->back);
            for (size_t b = 0; b < r->samples; b++)
                for (size_t h = 0; h < r->heads; h++) {
                    size_t at = (b * r->length + t) * r->cols + h * r->width + first;
                    rotary_pairs(y + at, x + at, &angles, count, half);
                }
        }
    }
    for (size_t b = 0; b < r->samples && y != x; b++)
        for (size_t t = share.begin; t < share.end; t++) {
            size_t at = (b * r->length + t) * r->cols + turned;
            memcpy(y + at, x + at, (r->cols - turned) * sizeof *y);
        }
}

#endif

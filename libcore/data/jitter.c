#include "data/jitter.h"

#include <assert.h>

static float cut(float v)
{
    v = v > 0.0f ? v : 0.0f;
    return v < 1.0f ? v : 1.0f;
}

static float gray(const float *v, int channels)
{
    return channels == 1 ? v[0] : 0.299f * v[0] + 0.587f * v[1] + 0.114f * v[2];
}

static void change_brightness(float *x, size_t positions, int channels, float by)
{
    for (size_t i = 0; i < positions * (size_t)channels; i++)
        x[i] = cut(by * x[i]);
}

static void change_contrast(float *x, size_t positions, int channels, float by)
{
    double sum = 0.0;
    float mean;
    for (size_t i = 0; i < positions; i++)
        sum += (double)gray(x + i * (size_t)channels, channels);
    mean = (float)(sum / (double)positions);
    for (size_t i = 0; i < positions * (size_t)channels; i++)
        x[i] = cut(mean + by * (x[i] - mean));
}

static void change_saturation(float *x, size_t positions, int channels, float by)
{
    assert(channels == 3);
    for (size_t i = 0; i < positions; i++, x += 3) {
        float none = gray(x, channels);
        for (int c = 0; c < 3; c++)
            x[c] = cut(none + by * (x[c] - none));
    }
}

static float wrapped(float hue)
{
    return hue >= 6.0f ? hue - 6.0f : hue;
}

/* How many spreads a channel, 5 (red), 3 (green) or 1 (blue), is below the largest one. */
static float below(float hue, float channel)
{
    float at = wrapped(channel + hue);
    return cut(at < 4.0f - at ? at : 4.0f - at);
}

/* Hues in sixths of a turn, from red over green and blue. Without branches, as it can be any. */
static void change_hue(float *x, size_t positions, int channels, float turn)
{
    assert(channels == 3);
    for (size_t i = 0; i < positions; i++, x += 3) {
        float r = x[0], g = x[1], b = x[2];
        float upper = r > g ? r : g, lower = r < g ? r : g;
        float most = upper > b ? upper : b, spread = most - (lower < b ? lower : b);
        float others = most == r ? g - b : most == g ? b - r : r - g;
        float hue = most == r ? 0.0f : most == g ? 2.0f : 4.0f;
        hue += others / (spread > 0.0f ? spread : 1.0f) + turn;
        hue = wrapped(hue < 0.0f ? hue + 6.0f : hue);
        x[0] = cut(most - spread * below(hue, 5.0f));
        x[1] = cut(most - spread * below(hue, 3.0f));
        x[2] = cut(most - spread * below(hue, 1.0f));
    }
}

void np_jitter(float *x, size_t positions, int channels, const double amount[NP_JITTERS],
               struct np_philox by, struct np_philox order)
{
    static void (*const change[NP_JITTERS])(float *, size_t, int,
                                            float) = {[NP_BRIGHTNESS] = change_brightness,
                                                      [NP_CONTRAST] = change_contrast,
                                                      [NP_SATURATION] = change_saturation,
                                                      [NP_HUE] = change_hue};
    int next[NP_JITTERS];
    assert(channels == 1 || channels == 3);
    for (int k = 0; k < NP_JITTERS; k++) {
        int at = k;
        for (; at > 0 && order.w[next[at - 1]] > order.w[k]; at--)
            next[at] = next[at - 1];
        next[at] = k;
    }
    for (int i = 0; i < NP_JITTERS; i++) {
        int k = next[i];
        double u = by.w[k] / 4294967296.0;
        double drawn = k == NP_HUE ? (2.0 * u - 1.0) * (6.0 * amount[k])
                                   : 1.0 - amount[k] + u * (2.0 * amount[k]);
        if (amount[k] > 0.0)
            change[k](x, positions, channels, (float)drawn);
    }
}

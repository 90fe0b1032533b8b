#include <check.h>
#include <math.h>
#include <string.h>

#include "data/jitter.h"
#include "suite.h"

enum { POSITIONS = 37, VALUES = 3 * POSITIONS };

static const struct np_philox ascending = {{1, 2, 3, 4}};

static struct np_philox drawn(uint64_t number)
{
    return np_draw(np_draw_key(5, NP_DRAW_AUGMENT, 0, 0, 7), 1, number);
}

/* Values of bytes; among them grays, pure colours, and positions whose two last channels agree. */
static void fill(float x[VALUES], int channels)
{
    for (uint32_t i = 0; i < POSITIONS; i++) {
        struct np_philox words = drawn(i);
        for (int c = 0; c < channels; c++) {
            uint32_t same = i % 4 == 1 ? 0 : i % 4 == 2 && c > 0 ? 1 : (uint32_t)c;
            uint32_t byte = i % 8 == 7 ? 255 * (words.w[c] % 2) : words.w[same] % 256;
            x[(int)i * channels + c] = (float)(byte / 255.0);
        }
    }
}

/* The header's words for one position; the compiler may not join a product and a sum. */
static float cut(float v)
{
    return fminf(fmaxf(v, 0), 1);
}

static float gray(const float *v, int channels)
{
    volatile float r = 0.299f * v[0], g, b;
    if (channels == 1)
        return v[0];
    g = 0.587f * v[1];
    b = 0.114f * v[2];
    r = r + g;
    return r + b;
}

static float toward(float from, float to, float by)
{
    volatile float more = by * (to - from);
    return cut(from + more);
}

static void turn_hue(float *v, float turn)
{
    static const float channel[] = {5, 3, 1};
    float a = fmaxf(fmaxf(v[0], v[1]), v[2]), d = a - fminf(fminf(v[0], v[1]), v[2]);
    int first = a == v[0] ? 0 : a == v[1] ? 1 : 2;
    float h =
        2.0f * (float)first + ((v[(first + 1) % 3] - v[(first + 2) % 3]) / (d > 0 ? d : 1) + turn);
    if (h < 0)
        h += 6;
    if (h >= 6)
        h -= 6;
    for (int c = 0; c < 3; c++) {
        float t = channel[c] + h;
        if (t >= 6)
            t -= 6;
        v[c] = toward(a, a - d, cut(fminf(t, 4 - t)));
    }
}

static void expected(float *x, int channels, int k, double amount, uint32_t word)
{
    double u = word / 4294967296.0, sum = 0;
    float f = (float)(1 - amount + u * (2 * amount)), m;
    for (int i = 0; i < POSITIONS; i++)
        sum += (double)gray(x + i * channels, channels);
    m = (float)(sum / POSITIONS);
    for (int i = 0; i < POSITIONS; i++) {
        float *v = x + i * channels, own = gray(v, channels);
        if (k == NP_HUE)
            turn_hue(v, (float)((2 * u - 1) * (6 * amount)));
        for (int c = 0; c < channels && k != NP_HUE; c++)
            v[c] = k == NP_BRIGHTNESS ? cut(f * v[c]) : toward(k == NP_CONTRAST ? m : own, v[c], f);
    }
}

/* Any amounts, in the order that the words say: of those that are not 0, the least word first. */
START_TEST(test_as_the_header_says)
{
    static const double amounts[][NP_JITTERS] = {
        {0.4, 0, 0, 0}, {0, 0.4, 0, 0},   {0, 0, 0.4, 0},        {0, 0, 0, 0.1},
        {1, 1, 1, 0.5}, {0.4, 0, 0, 0.5}, {0.125, 0.4, 0.5, 0.1}};
    for (size_t a = 0; a < sizeof amounts / sizeof *amounts; a++) {
        int channels = amounts[a][NP_SATURATION] > 0 || amounts[a][NP_HUE] > 0 || a % 2 ? 3 : 1;
        for (uint64_t n = 0; n < 60; n++) {
            struct np_philox by = drawn(100 + n), order = drawn(200 + n);
            float x[VALUES], want[VALUES];
            bool done[NP_JITTERS] = {false};
            fill(x, channels);
            memcpy(want, x, sizeof x);
            np_jitter(x, POSITIONS, channels, amounts[a], by, order);
            for (int i = 0; i < NP_JITTERS; i++) {
                int next = -1;
                for (int k = 0; k < NP_JITTERS; k++)
                    if (!done[k] && (next < 0 || order.w[k] < order.w[next]))
                        next = k;
                done[next] = true;
                if (amounts[a][next] > 0)
                    expected(want, channels, next, amounts[a][next], by.w[next]);
            }
            for (int i = 0; i < POSITIONS * channels; i++)
                ck_assert_msg(memcmp(&x[i], &want[i], sizeof *x) == 0, "case %zu, %d: %a, not %a",
                              a, i, (double)x[i], (double)want[i]);
        }
    }
}
END_TEST

/* One change alone, of a word: 0 draws the least factor, 2^31 none, 2^32 - 1 nearly the largest. */
static void check_alone(int k, double amount, uint32_t word, const float from[3], const float to[3])
{
    double amounts[NP_JITTERS] = {0};
    struct np_philox by = {{0}};
    float x[6] = {from[0], from[1], from[2], 0, 0, 0};
    amounts[k] = amount;
    by.w[k] = word;
    np_jitter(x, 2, 3, amounts, by, ascending);
    for (int c = 0; c < 3; c++)
        ck_assert_msg(fabsf(x[c] - to[c]) < 1e-6f, "%d of %u: %d: %g, not %g", k, word, c,
                      (double)x[c], (double)to[c]);
}

START_TEST(test_known_colours)
{
    const float orange[] = {1, 0.5f, 0.25f}, red[] = {1, 0, 0}, gray[] = {0.3f, 0.3f, 0.3f};
    const uint32_t none = 1u << 31, least = 0, most = UINT32_MAX;
    const float own = 0.299f + 0.587f * 0.5f + 0.114f * 0.25f;
    for (int k = 0; k < NP_JITTERS; k++)
        check_alone(k, 0.5, none, orange, orange);
    check_alone(NP_BRIGHTNESS, 1, least, orange, (float[]){0, 0, 0});
    check_alone(NP_BRIGHTNESS, 0.5, most, orange, (float[]){1, 0.75f, 0.375f});
    check_alone(NP_CONTRAST, 1, least, orange, (float[]){own / 2, own / 2, own / 2});
    check_alone(NP_SATURATION, 1, least, orange, (float[]){own, own, own});
    check_alone(NP_SATURATION, 0.4, most, gray, gray);
    check_alone(NP_HUE, 0.5, least, gray, gray);
    check_alone(NP_HUE, 0.5, least, red, (float[]){0, 1, 1});
    check_alone(NP_HUE, 0.5, most, red, (float[]){0, 1, 1});
    check_alone(NP_HUE, 1 / 3.0, least, red, (float[]){0, 0, 1});
    check_alone(NP_HUE, 1 / 3.0, most, red, (float[]){0, 1, 0});
    check_alone(NP_HUE, 1 / 6.0, most, orange, (float[]){0.75f, 1, 0.25f});
    check_alone(NP_HUE, 0.25, least, orange, (float[]){0.875f, 0.25f, 1});
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("jitter");
    TCase *tests = suite_case(suite, "all");
    tcase_add_test(tests, test_as_the_header_says);
    tcase_add_test(tests, test_known_colours);
    return suite_run(suite);
}

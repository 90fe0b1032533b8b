#include "roofs.h"

static float sink; /* so that what is read is wanted */

static void roof_read(float *const *a, size_t floats)
{
    float sum[64] = {0};
    const float *x = a[0];
    for (size_t i = 0; i + 64 <= floats; i += 64)
        for (size_t j = 0; j < 64; j++)
            sum[j] += x[i + j];
    for (size_t j = 0; j < 64; j++)
        sink += sum[j];
}

static void roof_read_2(float *const *a, size_t floats)
{
    float sum[64] = {0};
    const float *x0 = a[0], *x1 = a[1];
    for (size_t i = 0; i + 64 <= floats; i += 64)
        for (size_t j = 0; j < 64; j++)
            sum[j] += x0[i + j] * x1[i + j];
    for (size_t j = 0; j < 64; j++)
        sink += sum[j];
}

static void roof_write(float *const *a, size_t floats)
{
    float *y = a[1];
    for (size_t i = 0; i < floats; i++)
        y[i] = 0.5f;
}

static void roof_read_1_write_1(float *const *a, size_t floats)
{
    float *restrict y = a[1];
    const float *restrict x = a[0];
    for (size_t i = 0; i < floats; i++)
        y[i] = 0.5f * x[i];
}

static void roof_read_2_write_1(float *const *a, size_t floats)
{
    float *restrict y = a[2];
    const float *restrict x0 = a[0], *restrict x1 = a[1];
    for (size_t i = 0; i < floats; i++)
        y[i] = x0[i] + 0.5f * x1[i];
}

static void roof_read_3_write_1(float *const *a, size_t floats)
{
    float *restrict y = a[3];
    const float *restrict x0 = a[0], *restrict x1 = a[1], *restrict x2 = a[2];
    for (size_t i = 0; i < floats; i++)
        y[i] = x0[i] + 0.5f * x1[i] + x2[i];
}

static void roof_read_3_write_2(float *const *a, size_t floats)
{
    float *restrict y0 = a[3], *restrict y1 = a[4];
    const float *restrict x0 = a[0], *restrict x1 = a[1], *restrict x2 = a[2];
    for (size_t i = 0; i < floats; i++) {
        y0[i] = x0[i] + 0.5f * x1[i];
        y1[i] = x0[i] - 0.5f * x2[i];
    }
}

static void roof_read_2_write_2(float *const *a, size_t floats)
{
    float *restrict y0 = a[2], *restrict y1 = a[3];
    const float *restrict x0 = a[0], *restrict x1 = a[1];
    for (size_t i = 0; i < floats; i++) {
        y0[i] = x0[i] + 0.5f * x1[i];
        y1[i] = x0[i] - 0.5f * x1[i];
    }
}

static void roof_read_1_write_2(float *const *a, size_t floats)
{
    float *restrict y0 = a[1], *restrict y1 = a[2];
    const float *restrict x = a[0];
    for (size_t i = 0; i < floats; i++) {
        y0[i] = 0.5f * x[i];
        y1[i] = 0.25f * x[i];
    }
}

static void roof_update_1(float *const *a, size_t floats)
{
    float *restrict y = a[0];
    const float *restrict x = a[3];
    for (size_t i = 0; i < floats; i++)
        y[i] = y[i] + 0.5f * x[i];
}

static void roof_update_2(float *const *a, size_t floats)
{
    float *restrict y0 = a[0], *restrict y1 = a[1];
    const float *restrict x = a[3];
    for (size_t i = 0; i < floats; i++) {
        y0[i] = y0[i] + 0.5f * x[i];
        y1[i] = y1[i] - 0.5f * x[i];
    }
}

static void roof_update_2_write_1(float *const *a, size_t floats)
{
    float *restrict y0 = a[0], *restrict y1 = a[1], *restrict z = a[2];
    for (size_t i = 0; i < floats; i++) {
        y0[i] = y0[i] + 0.5f;
        y1[i] = y1[i] - 0.5f;
        z[i] = y0[i] + y1[i];
    }
}

static void roof_update_3(float *const *a, size_t floats)
{
    float *restrict y0 = a[0], *restrict y1 = a[1], *restrict y2 = a[2];
    const float *restrict x = a[3];
    for (size_t i = 0; i < floats; i++) {
        y0[i] = y0[i] + 0.5f * x[i];
        y1[i] = y1[i] - 0.5f * x[i];
        y2[i] = y2[i] + 0.25f * x[i];
    }
}

const struct bench_roof bench_read = {roof_read, 1};
const struct bench_roof bench_read_2 = {roof_read_2, 2};
const struct bench_roof bench_write = {roof_write, 1};
const struct bench_roof bench_read_1_write_1 = {roof_read_1_write_1, 2};
const struct bench_roof bench_read_1_write_2 = {roof_read_1_write_2, 3};
const struct bench_roof bench_read_2_write_1 = {roof_read_2_write_1, 3};
const struct bench_roof bench_read_3_write_1 = {roof_read_3_write_1, 4};
const struct bench_roof bench_read_3_write_2 = {roof_read_3_write_2, 5};
const struct bench_roof bench_read_2_write_2 = {roof_read_2_write_2, 4};
const struct bench_roof bench_update_1 = {roof_update_1, 3};
const struct bench_roof bench_update_2 = {roof_update_2, 5};
const struct bench_roof bench_update_2_write_1 = {roof_update_2_write_1, 5};
const struct bench_roof bench_update_3 = {roof_update_3, 7};

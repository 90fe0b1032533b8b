#include "roofs.h"

static float sink; /* so that what is read is wanted */

static void roof_read(struct bench_data *d)
{
    float sum[64] = {0};
    for (size_t i = 0; i < d->rows * BENCH_COLS; i += 64)
        for (size_t j = 0; j < 64; j++)
            sum[j] += d->a[0][i + j];
    for (size_t j = 0; j < 64; j++)
        sink += sum[j];
}

static void roof_write(struct bench_data *d)
{
    float *y = d->a[1];
    for (size_t i = 0; i < d->rows * BENCH_COLS; i++)
        y[i] = 0.5f;
}

static void roof_read_1_write_1(struct bench_data *d)
{
    float *restrict y = d->a[1];
    const float *restrict x = d->a[0];
    for (size_t i = 0; i < d->rows * BENCH_COLS; i++)
        y[i] = 0.5f * x[i];
}

static void roof_read_2_write_1(struct bench_data *d)
{
    float *restrict y = d->a[2];
    const float *restrict x0 = d->a[0], *restrict x1 = d->a[1];
    for (size_t i = 0; i < d->rows * BENCH_COLS; i++)
        y[i] = x0[i] + 0.5f * x1[i];
}

static void roof_read_3_write_1(struct bench_data *d)
{
    float *restrict y = d->a[3];
    const float *restrict x0 = d->a[0], *restrict x1 = d->a[1], *restrict x2 = d->a[2];
    for (size_t i = 0; i < d->rows * BENCH_COLS; i++)
        y[i] = x0[i] + 0.5f * x1[i] + x2[i];
}

static void roof_read_2_write_2(struct bench_data *d)
{
    float *restrict y0 = d->a[2], *restrict y1 = d->a[3];
    const float *restrict x0 = d->a[0], *restrict x1 = d->a[1];
    for (size_t i = 0; i < d->rows * BENCH_COLS; i++) {
        y0[i] = x0[i] + 0.5f * x1[i];
        y1[i] = x0[i] - 0.5f * x1[i];
    }
}

static void roof_update_1(struct bench_data *d)
{
    float *restrict y = d->a[0];
    const float *restrict x = d->a[3];
    for (size_t i = 0; i < d->rows * BENCH_COLS; i++)
        y[i] = y[i] + 0.5f * x[i];
}

static void roof_update_2(struct bench_data *d)
{
    float *restrict y0 = d->a[0], *restrict y1 = d->a[1];
    const float *restrict x = d->a[3];
    for (size_t i = 0; i < d->rows * BENCH_COLS; i++) {
        y0[i] = y0[i] + 0.5f * x[i];
        y1[i] = y1[i] - 0.5f * x[i];
    }
}

static void roof_update_3(struct bench_data *d)
{
    float *restrict y0 = d->a[0], *restrict y1 = d->a[1], *restrict y2 = d->a[2];
    const float *restrict x = d->a[3];
    for (size_t i = 0; i < d->rows * BENCH_COLS; i++) {
        y0[i] = y0[i] + 0.5f * x[i];
        y1[i] = y1[i] - 0.5f * x[i];
        y2[i] = y2[i] + 0.25f * x[i];
    }
}

const struct bench_roof bench_read = {roof_read, 1};
const struct bench_roof bench_write = {roof_write, 1};
const struct bench_roof bench_read_1_write_1 = {roof_read_1_write_1, 2};
const struct bench_roof bench_read_2_write_1 = {roof_read_2_write_1, 3};
const struct bench_roof bench_read_3_write_1 = {roof_read_3_write_1, 4};
const struct bench_roof bench_read_2_write_2 = {roof_read_2_write_2, 4};
const struct bench_roof bench_update_1 = {roof_update_1, 3};
const struct bench_roof bench_update_2 = {roof_update_2, 5};
const struct bench_roof bench_update_3 = {roof_update_3, 7};

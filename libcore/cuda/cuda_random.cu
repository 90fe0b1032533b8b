/* Drawn by address: dropout of elements and of samples, normal deviates. */
#include "cuda/launch.cuh"

/* A key in functions with lambdas: nvcc cannot name a type beside a function of its name. */
struct held_key {
    struct np_draw_key key;
};

/* A thread a block of four words. */
static void drop_each(struct np_team *team, float *y, const float *x, size_t count, held_key held,
                      uint64_t step, uint64_t first, uint32_t threshold, float keep_scale)
{
    struct np_cuda_team t = cuda_at_once(team);
    size_t skip = first % 4, blocks = cuda_parts(skip + count, 4);
    cuda_each(&t.team, count == 0 ? 0 : blocks, [=] __device__(size_t b) {
        struct np_philox drawn = np_draw(held.key, step, first / 4 + b);
        for (size_t j = 0; j < 4; j++) {
            size_t i = 4 * b + j - skip; /* wraps around before the first */
            if (i < count)
                y[i] = drawn.w[j] >= threshold ? x[i] * keep_scale : 0.0f;
        }
        return 0u;
    });
}

void np_cuda_dropout(struct np_team *team, float *y, const float *x, size_t count,
                     struct np_draw_key key, uint64_t step, uint64_t first, uint32_t threshold,
                     float keep_scale)
{
    drop_each(team, y, x, count, {key}, step, first, threshold, keep_scale);
}

static void drop_samples(struct np_team *team, float *y, const float *x, size_t samples,
                         size_t each, held_key held, uint64_t step, uint64_t first,
                         uint32_t threshold, float keep_scale)
{
    struct np_cuda_team t = cuda_at_once(team);
    cuda_cells(&t.team, samples, each, [=] __device__(size_t s, uint32_t j) {
        uint64_t sample = first + s;
        uint32_t word = np_draw(held.key, step, sample / 4).w[sample % 4];
        y[s * each + j] = word >= threshold ? x[s * each + j] * keep_scale : 0.0f;
        return 0u;
    });
}

void np_cuda_drop_path(struct np_team *team, float *y, const float *x, size_t samples, size_t each,
                       struct np_draw_key key, uint64_t step, uint64_t first, uint32_t threshold,
                       float keep_scale)
{
    drop_samples(team, y, x, samples, each, {key}, step, first, threshold, keep_scale);
}

/* A thread a pair of deviates. */
static void draw_pairs(struct np_team *team, float *w, size_t count, held_key held, float std)
{
    cuda_each(team, cuda_parts(count, 2), [=] __device__(size_t pair) {
        struct np_philox drawn = np_draw(held.key, 0, pair / 2);
        bool odd = pair % 2 != 0;
        float u0 = np_philox_unit(odd ? drawn.w[2] : drawn.w[0]);
        float u1 = np_philox_unit(odd ? drawn.w[3] : drawn.w[1]);
        float r = sqrtf(-2.0f * np_logf(1.0f - u0));
        w[2 * pair] = std * (r * np_cos2pif(u1));
        if (2 * pair + 1 < count)
            w[2 * pair + 1] = std * (r * np_sin2pif(u1));
        return 0u;
    });
}

void np_cuda_normal(struct np_team *team, float *w, size_t count, struct np_draw_key key, float std)
{
    draw_pairs(team, w, count, {key}, std);
}

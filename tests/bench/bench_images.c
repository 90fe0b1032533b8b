/* What reading a training image takes: `bench_images RECIPE [KEY=VALUE ...]`, milliseconds on one
 * thread, the best of several batches of 32. tests/bench/images has recipes, and a peer.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "data/data.h"
#include "timing.h"

enum { SAMPLES = 32, BATCHES = 12 };

static enum np_status time_batches(const struct np_data *data, const struct np_recipe *recipe,
                                   double *best, struct np_error *err)
{
    const unsigned reads = NP_READS_INPUTS | NP_READS_TARGETS;
    struct np_batch batch;
    float *slab = NULL;
    enum np_status status;
    NP_TRY(np_zalloc(&slab, np_batch_lay(&batch, recipe, SAMPLES, reads, NULL), sizeof *slab, err));
    np_batch_lay(&batch, recipe, SAMPLES, reads, slab);
    for (uint64_t step = 0; step < BATCHES; step++) {
        double begin = bench_seconds(1), ms;
        np_data_batch(data, &batch, recipe->seed, step, 0, 0, SAMPLES);
        ms = 1e3 * (bench_seconds(1) - begin) / SAMPLES;
        *best = step == 0 || ms < *best ? ms : *best;
    }
out:
    free(slab);
    return status;
}

int main(int argc, char **argv)
{
    struct np_recipe recipe = {0};
    struct np_data *data = NULL;
    struct np_error err = {.msg = "usage: bench_images RECIPE [KEY=VALUE ...]"};
    double best = 0;
    enum np_status status = NP_EINPUT;
    if (argc > 1)
        status =
            np_recipe_read(&recipe, argv[1], (const char *const *)argv + 2, (size_t)argc - 2, &err);
    if (status == NP_OK)
        status = np_data_open(&data, &recipe, &recipe.train_data, NULL, &err);
    if (status == NP_OK)
        status = time_batches(data, &recipe, &best, &err);
    if (status == NP_OK)
        printf("%.4f\n", best);
    else
        fprintf(stderr, "bench_images: error: %s\n", err.msg);
    np_data_close(data);
    np_recipe_clear(&recipe);
    return status == NP_OK ? 0 : 2;
}

/* The kinds of layers of a recipe, forward, backward-input and backward-weight, on one thread with
 * the best instruction set:
 *
 *   bench_ops RECIPE [SAMPLES [WORD]]    kinds whose name holds the word; by default as many
 *                                        samples as the recipe's batch has
 *
 * The best of several runs: milliseconds; GFLOP/s of useful operations (space/flops.c), their share
 * of what multiply-adds alone reach, and GB/s, as if every node read and wrote each of its values
 * and weights once. stdout is a table.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "ops/op.h"
#include "ops/weights.h"
#include "timing.h"

enum { RUNS = 7 };

struct bench {
    const struct np_kind *kind;
    struct np_op_call call;
    struct np_op_forward in;
    struct np_op_backward io;
    float *w, *g, *x, *memory, *sum, *images, *y, *dx, *dmemory, *dy;
    int32_t *tokens;
};

static void *must(size_t count, size_t size)
{
    void *x;
    if (np_alloc(&x, count + 1, size, NULL) != NP_OK)
        abort();
    return x;
}

static float *floats(size_t count)
{
    float *x = must(count, sizeof *x);
    for (size_t i = 0; i < count; i++)
        x[i] = (float)(i * 2654435761u % 1021) / 1021.0f - 0.5f;
    return x;
}

static float *of_shape(struct np_shape shape, size_t samples)
{
    return shape.channels ? floats(samples * np_shape_floats(shape)) : NULL;
}

static void bench_init(struct bench *b, const struct np_supernet *net, int k, size_t samples,
                       struct np_team *team)
{
    const struct np_kind *kind = &net->kinds[k];
    struct np_op_sizes sizes = np_op_sizes(kind, samples);
    size_t grain = (size_t)net->recipe->grain, rows = samples * np_shape_rows(kind->out);
    size_t tokens = rows > samples * kind->length ? rows : samples * kind->length;
    b->kind = kind;
    b->w = floats(kind->floats);
    b->g = floats(kind->floats);
    b->x = of_shape(kind->in, samples);
    b->memory = of_shape(kind->memory, samples);
    b->sum = kind->summed ? of_shape(kind->out, samples) : NULL;
    b->images = of_shape(kind->image, samples);
    b->y = of_shape(kind->out, samples);
    b->dx = np_op_gives(kind, NP_VALUE_X) ? of_shape(kind->in, samples) : NULL;
    b->dmemory = np_op_gives(kind, NP_VALUE_MEMORY) ? of_shape(kind->memory, samples) : NULL;
    b->dy = of_shape(kind->out, samples);
    b->tokens = must(tokens, sizeof *b->tokens);
    for (size_t i = 0; i < tokens; i++)
        b->tokens[i] = (int32_t)(i * 7 % kind->vocab);
    b->call = (struct np_op_call){.kernels = np_kernels_best(),
                                  .team = team,
                                  .kind = kind,
                                  .w = b->w,
                                  .samples = samples,
                                  .grain = grain < samples ? grain : samples,
                                  .train = true,
                                  .images = b->images,
                                  .tokens = b->tokens,
                                  .source = b->tokens,
                                  .targets = b->tokens,
                                  .loss = floats(samples * kind->length),
                                  .scale = 1.0f / (float)(samples * kind->length),
                                  .saved = floats(sizes.saved),
                                  .delta = floats(sizes.delta),
                                  .work = floats(sizes.work)};
    b->in = (struct np_op_forward){b->x, b->memory, b->sum, b->y};
    b->io = (struct np_op_backward){.x = b->x,
                                    .memory = b->memory,
                                    .dy = kind->program.output < 0 ? NULL : b->dy,
                                    .dx = b->dx,
                                    .dmemory = b->dmemory};
    np_weights_init(b->call.kernels, team, b->w, kind, 1, 1);
}

static void bench_clear(struct bench *b)
{
    float *all[] = {b->w,         b->g,          b->x,          b->memory,   b->sum,
                    b->images,    b->y,          b->dx,         b->dmemory,  b->dy,
                    b->call.loss, b->call.saved, b->call.delta, b->call.work};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    free(b->tokens);
}

static void run(struct bench *b, double best[3])
{
    double at[4];
    bool sound;
    at[0] = bench_seconds(1);
    sound = np_op_forward(&b->call, &b->in);
    at[1] = bench_seconds(1);
    sound = np_op_backward(&b->call, &b->io) && sound;
    at[2] = bench_seconds(1);
    sound = np_op_weight(&b->call, b->g, &b->io, false) && sound;
    at[3] = bench_seconds(1);
    if (!sound)
        abort();
    for (int i = 0; i < 3; i++)
        if (best[i] == 0.0 || at[i + 1] - at[i] < best[i])
            best[i] = at[i + 1] - at[i];
}

/* Bytes of the values that nodes read and write; B reads and writes as much again. */
static double bytes(const struct np_kind *kind, size_t samples)
{
    const struct np_program *program = &kind->program;
    double sum = 0.0;
    for (int i = 0; i < program->node_count; i++) {
        const struct np_node *node = &program->nodes[i];
        int values[] = {node->in[0], node->in[1] == node->in[0] ? -1 : node->in[1], node->out};
        for (int k = 0; k < 3; k++)
            if (values[k] >= 0 && node->op != NP_NODE_SLICE && node->op != NP_NODE_IMAGE)
                sum += (double)np_shape_floats(program->values[values[k]]);
    }
    return 4.0 * (sum * (double)samples + (double)kind->floats);
}

static void print(const struct bench *b, const double best[3], double peak)
{
    struct np_flops flops = np_kind_flops(b->kind);
    double each[] = {flops.forward, flops.backward, flops.weight}, n = (double)b->call.samples;
    char name[NP_KIND_NAME];
    np_kind_name(b->kind, name);
    printf("%-60.60s", name);
    for (int i = 0; i < 3; i++)
        printf(" | %8.3f %6.1f %3.0f%% %5.1f", best[i] * 1e3, each[i] * n / best[i] * 1e-9,
               each[i] * n / best[i] * 1e-9 / peak * 100.0,
               bytes(b->kind, b->call.samples) / best[i] * 1e-9);
    printf("\n");
    fflush(stdout);
}

static void bench_all(const struct np_supernet *net, size_t samples, const char *word)
{
    double peak = bench_peak(bench_isa(NULL));
    struct np_team team = {.size = 1, .scratch_bytes = np_ops_scratch_bytes(net)};
    team.scratch = must(team.scratch_bytes, 1);
    printf("%s, %zu samples, at most %.0f GFLOP/s\n%-60s", np_kernels_best()->name, samples, peak,
           "");
    for (int i = 0; i < 3; i++)
        printf(" | %c %6s GFLOP/s  max  GB/s", "FBW"[i], "ms");
    printf("\n");
    for (int k = 0; k < net->kind_count; k++) {
        double best[3] = {0.0, 0.0, 0.0};
        struct bench b;
        char name[NP_KIND_NAME];
        np_kind_name(&net->kinds[k], name);
        if (word && !strstr(name, word))
            continue;
        bench_init(&b, net, k, samples, &team);
        for (int i = 0; i < RUNS; i++)
            run(&b, best);
        print(&b, best, peak);
        bench_clear(&b);
    }
    free(team.scratch);
}

int main(int argc, char **argv)
{
    struct np_recipe recipe;
    struct np_supernet net;
    struct np_error err;
    long samples = argc > 2 ? strtol(argv[2], NULL, 10) : 0;
    if (argc < 2 || samples < 0) {
        fprintf(stderr, "usage: bench_ops RECIPE [SAMPLES [WORD]]\n");
        return 2;
    }
    if (np_recipe_read(&recipe, argv[1], NULL, 0, &err) != NP_OK ||
        np_supernet_init(&net, &recipe, &err) != NP_OK) {
        fprintf(stderr, "bench_ops: error: %s\n", err.msg);
        return 2;
    }
    bench_all(&net, samples > 0 ? (size_t)samples : (size_t)recipe.batch,
              argc > 3 ? argv[3] : NULL);
    np_supernet_clear(&net);
    np_recipe_clear(&recipe);
    return 0;
}

#include "plan/profile_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/memory.h"
#include "base/text.h"
#include "io/file.h"

#define CACHE_MAX_BYTES (8u << 20)
#define KEY_MAX 448
#define ROUNDS 3 /* a digit */

struct cache {
    const char *directory; /* NULL: nothing is kept */
    char *path;
    char *text;        /* NULL: nothing cached */
    bool unread;       /* there may be something that could not be read: it stays */
    char key[KEY_MAX]; /* without the kind */
    char (*kind)[NP_KIND_NAME];
    int kinds;
};

/* The processor's name, for the key; "unknown" where the system does not say. */
static void cpu_model(char *out, size_t size)
{
    char *text = NULL;
    size_t bytes;
    snprintf(out, size, "unknown");
    if (np_file_read(&text, &bytes, "/proc/cpuinfo", CACHE_MAX_BYTES, NULL) != NP_OK)
        return;
    const char *name = strstr(text, "model name");
    name = name ? strchr(name, ':') : NULL;
    if (name)
        snprintf(out, size, "%.*s", (int)strcspn(name + 1, "\n\t"), name + 1);
    free(text);
}

static void make_key(struct cache *cache, const struct np_supernet *net,
                     const struct np_profile_config *config)
{
    char cpu[160];
    const struct np_recipe *r = net->recipe;
    if (config->device)
        snprintf(cpu, sizeof cpu, "%s", config->device_name);
    else
        cpu_model(cpu, sizeof cpu);
    snprintf(cache->key, sizeof cache->key,
             "%s|%s|%s|moments=%d,clip=%d,sums=%d|width=%d,length=%d,vocab=%d,image=%dx%dx%d|"
             "samples=%zu,grain=%d,"
             "micro_batches=%d|threads=%d|teams=%d",
             NP_SOURCES "-" NP_COMPILED, cpu, config->kernels->name, net->moments,
             r->clip == NP_CLIP_LAYER, r->members * config->micro_batches > 1, r->width, r->length,
             r->vocab, r->height, r->image_width, r->channels, config->samples, r->grain,
             config->micro_batches, config->threads, config->concurrent);
}

/* What is there now. */
static void cache_read(struct cache *cache)
{
    bool there = false;
    size_t bytes;
    free(cache->text);
    cache->text = NULL;
    cache->unread = np_file_exists(&there, cache->path, NULL) != NP_OK;
    if (there) {
        enum np_status found =
            np_file_read_regular(&cache->text, &bytes, cache->path, CACHE_MAX_BYTES, NULL);
        cache->unread = found == NP_EIO || found == NP_EMEM;
    }
}

static enum np_status cache_open(struct cache *cache, const char *directory,
                                 const struct np_supernet *net,
                                 const struct np_profile_config *config, struct np_error *err)
{
    enum np_status status;
    *cache = (struct cache){.directory = directory};
    make_key(cache, net, config);
    NP_TRY(np_alloc(&cache->kind, (size_t)net->kind_count, sizeof *cache->kind, err));
    for (; cache->kinds < net->kind_count; cache->kinds++)
        np_kind_name(&net->kinds[cache->kinds], cache->kind[cache->kinds]);
    if (!directory)
        goto out;
    NP_TRY(np_file_join(&cache->path, directory, "profile.tsv", err));
    cache_read(cache);
out:
    return status;
}

static void cache_close(struct cache *cache)
{
    free(cache->path);
    free(cache->text);
    free(cache->kind);
}

/* Behind a line's key and kind, if it is theirs; else NULL. */
static const char *behind(const char *line, const char *key, const char *kind)
{
    size_t key_bytes = strlen(key), kind_bytes = strlen(kind);
    if (strncmp(line, key, key_bytes) != 0 || line[key_bytes] != '\t')
        return NULL;
    line += key_bytes + 1;
    return strncmp(line, kind, kind_bytes) == 0 && line[kind_bytes] == '\t' ? line + kind_bytes
                                                                            : NULL;
}

static const char *next_line(const char *line)
{
    const char *end = strchr(line, '\n');
    return end ? end + 1 : line + strlen(line);
}

/* "<key>\t<kind>\t<f>\t<b>\t<w>\t<rounds>\n" at line: the rounds of which these are the least
 * costs, if it is the line of this key and kind; else 0. */
static int parse_line(const char *line, const char *key, const char *kind,
                      struct np_layer_cost *cost)
{
    float costs[3];
    line = behind(line, key, kind);
    for (int i = 0; line && i < 3; i++) {
        char *end;
        if (line[0] != '\t' || line[1] < '0' || line[1] > '9')
            return 0;
        costs[i] = strtof(line + 1, &end);
        line = end;
    }
    if (!line || line[0] != '\t' || line[1] < '1' || line[1] > '0' + ROUNDS || line[2] != '\n' ||
        !(costs[0] + costs[1] + costs[2] <= NP_PLAN_COST_MAX_NS))
        return 0;
    *cost = (struct np_layer_cost){costs[0], costs[1], costs[2]};
    return line[1] - '0';
}

static int cache_find(const struct cache *cache, const char *kind, struct np_layer_cost *cost)
{
    int rounds = 0;
    for (const char *line = cache->text; line && *line && rounds == 0; line = next_line(line))
        rounds = parse_line(line, cache->key, kind, cost);
    return rounds;
}

/* The rounds that all kinds have; 0: one has none. */
static int cache_rounds(const struct cache *cache, struct np_layer_cost *cost)
{
    int rounds = ROUNDS;
    for (int k = 0; k < cache->kinds && rounds > 0; k++) {
        int has = cache_find(cache, cache->kind[k], &cost[k]);
        rounds = has < rounds ? has : rounds;
    }
    return rounds;
}

static bool is_replaced(const char *line, const struct cache *cache)
{
    size_t key = strlen(cache->key);
    bool is = false;
    if (strncmp(line, cache->key, key) != 0 || line[key] != '\t')
        return false;
    for (int k = 0; k < cache->kinds && !is; k++)
        is = behind(line, cache->key, cache->kind[k]) != NULL;
    return is;
}

/* Lines of the measurement, or of one of more rounds that is there now; behind them, if there is
 * room, what is there of others, who may have stored it meanwhile. */
static enum np_status cache_text(struct np_buf *out, const struct cache *cache,
                                 const struct np_layer_cost *cost, int rounds)
{
    size_t old = cache->text ? strlen(cache->text) : 0;
    enum np_status status;
    for (int k = 0; k < cache->kinds; k++) {
        struct np_layer_cost there;
        int has = cache_find(cache, cache->kind[k], &there);
        struct np_layer_cost least = has > rounds ? there : cost[k];
        NP_TRY(np_buf_printf(out, NULL, "%s\t%s\t%.0f\t%.0f\t%.0f\t%d\n", cache->key,
                             cache->kind[k], (double)least.f, (double)least.b, (double)least.w,
                             has > rounds ? has : rounds));
    }
    if (out->used + old >= CACHE_MAX_BYTES)
        goto out;
    for (const char *line = cache->text, *next; line && *line; line = next) {
        next = next_line(line);
        if (!is_replaced(line, cache))
            NP_TRY(np_buf_append(out, line, (size_t)(next - line), NULL));
    }
out:
    return status;
}

/* One process after the other, where the file system knows locks. False where one does not come to
 * an end. */
static bool await_lock(int fd)
{
    const struct timespec pause = {0, 20 * 1000 * 1000};
    for (int tries = 0; flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK; tries++) {
        if (tries == 50)
            return false;
        nanosleep(&pause, NULL);
    }
    return true;
}

static void cache_store(struct cache *cache, const struct np_layer_cost *cost, int rounds)
{
    struct np_buf out = {0};
    int lock;
    if (!cache->path)
        return;
    lock = open(cache->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock >= 0 && !await_lock(lock)) {
        close(lock);
        return;
    }
    np_file_sweep(cache->directory);
    cache_read(cache);
    if (cache_text(&out, cache, cost, rounds) == NP_OK && !cache->unread)
        np_file_write(cache->path, out.text, out.used, NULL);
    np_buf_clear(&out);
    if (lock >= 0)
        close(lock);
}

/* No more teams than the processors have threads for are measured at once: they would time the
 * system's own scheduler. */
static struct np_profile_config config_of(const struct np_plan *plan, const struct np_supernet *net,
                                          const struct np_partition_request *request)
{
    int teams = (request->processors > 0 ? request->processors : 1) / plan->threads;
    teams = teams < np_plan_devices(plan) ? teams : np_plan_devices(plan);
    return (struct np_profile_config){.kernels = request->kernels,
                                      .samples = (size_t)(net->recipe->batch / plan->micro_batches),
                                      .micro_batches = plan->micro_batches,
                                      .threads = plan->threads,
                                      .concurrent = teams > 1 && !request->device ? teams : 1,
                                      .device = request->device,
                                      .device_name = request->device_name,
                                      .scratch = request->scratch};
}

/* Whatever else the machine does only adds to a time. */
static void keep_least(struct np_layer_cost *cost, const struct np_layer_cost *other, int kinds)
{
    for (int k = 0; k < kinds; k++) {
        cost[k].f = fminf(cost[k].f, other[k].f);
        cost[k].b = fminf(cost[k].b, other[k].b);
        cost[k].w = fminf(cost[k].w, other[k].w);
    }
}

/* What a round finds goes to the cache at once: who is interrupted goes on from there. Costs of the
 * first *done rounds come from it. */
static enum np_status measure(struct np_plan *plan, int *done, int round,
                              const struct np_supernet *net,
                              const struct np_partition_request *request, struct np_error *err)
{
    enum np_status status;
    struct np_profile_config config = config_of(plan, net, request);
    struct np_layer_cost *cost = NULL;
    struct cache cache;
    NP_TRY(cache_open(&cache, request->cache, net, &config, err));
    NP_TRY(np_zalloc(&cost, (size_t)net->kind_count, sizeof *cost, err));
    if (round == 0)
        *done = cache_rounds(&cache, plan->kind_cost);
    if (*done > round)
        goto out;
    NP_TRY(np_profile_measure(cost, net, &config, err));
    if (round == 0)
        memcpy(plan->kind_cost, cost, (size_t)net->kind_count * sizeof *cost);
    else
        keep_least(plan->kind_cost, cost, net->kind_count);
    *done = round + 1;
    cache_store(&cache, plan->kind_cost, *done);
out:
    cache_close(&cache);
    free(cost);
    return status;
}

/* More stages than devices share them evenly: tasks take longer. */
static void stretch(struct np_plan *plan, const struct np_supernet *net,
                    const struct np_partition_request *request)
{
    int measured = config_of(plan, net, request).concurrent * plan->threads;
    float shared =
        (float)(measured > np_request_devices(request) ? measured : np_request_devices(request));
    float factor = (float)(np_plan_devices(plan) * plan->threads) / shared;
    for (int k = 0; k < net->kind_count && factor > 1; k++) {
        plan->kind_cost[k].f = roundf(plan->kind_cost[k].f * factor);
        plan->kind_cost[k].b = roundf(plan->kind_cost[k].b * factor);
        plan->kind_cost[k].w = roundf(plan->kind_cost[k].w * factor);
    }
}

/* The first of the plans whose layers are measured as plan i's are. */
static size_t first_alike(const struct np_plan *plans, size_t i, const struct np_supernet *net,
                          const struct np_partition_request *request)
{
    struct np_profile_config mine = config_of(&plans[i], net, request);
    for (size_t first = 0; first < i; first++) {
        struct np_profile_config config = config_of(&plans[first], net, request);
        if (config.micro_batches == mine.micro_batches && config.threads == mine.threads &&
            config.concurrent == mine.concurrent)
            return first;
    }
    return i;
}

static enum np_status measure_all(struct np_plan *plans, size_t count,
                                  const struct np_supernet *net,
                                  const struct np_partition_request *request, struct np_error *err)
{
    enum np_status status;
    int *done = NULL;
    NP_TRY(np_zalloc(&done, count, sizeof *done, err));
    for (size_t i = 0; i < ROUNDS * count; i++) {
        struct np_plan *plan = &plans[i % count];
        if (first_alike(plans, i % count, net, request) < i % count)
            continue;
        if (request->measuring)
            request->measuring(request->context, plan, i, ROUNDS * count);
        NP_TRY(measure(plan, &done[i % count], (int)(i / count), net, request, err));
    }
    for (size_t i = 0; i < count; i++) {
        size_t first = first_alike(plans, i, net, request);
        if (first < i)
            memcpy(plans[i].kind_cost, plans[first].kind_cost,
                   (size_t)net->kind_count * sizeof *plans[i].kind_cost);
    }
    for (size_t i = 0; i < count; i++)
        stretch(&plans[i], net, request);
out:
    free(done);
    return status;
}

enum np_status np_profile_plans(struct np_plan *plans, size_t count, const struct np_supernet *net,
                                const struct np_partition_request *request, struct np_error *err)
{
    if (!request->model)
        return measure_all(plans, count, net, request, err);
    for (size_t i = 0; i < count; i++) {
        struct np_profile_config config = config_of(&plans[i], net, request);
        np_profile_model(plans[i].kind_cost, net, config.samples, config.micro_batches,
                         config.threads);
    }
    return NP_OK;
}

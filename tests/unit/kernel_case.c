#include "kernel_case.h"

#include <check.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "backends.h"
#include "fenced.h"
#include "team_run.h"

#define MAX_TEAM 4

/* Primes, below and above vector widths, more columns than a tile holds, more rows than a chunk. */
static const struct shape shapes[] = {
    {1, 1, 1, 1, 1},    {1, 2, 3, 3, 1},       {1, 7, 31, 5, 2},     {5, 1, 32, 2, 3},
    {3, 1, 33, 4, 1},   {1, 17, 64, 7, 5},     {2, 13, 97, 3, 13},   {2, 2, 1031, 9, 2},
    {1, 2, 2053, 1, 1}, {3, 100, 17, 31, 100}, {1, 523, 29, 8, 300}, {4, 65, 45, 6, 130},
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

struct member {
    struct np_team team;
    const struct kernel_case *one;
    const struct call *call;
    uint64_t result;
    pthread_t thread;
};

static void *run_member(void *pointer)
{
    struct member *m = pointer;
    m->result = m->one->run(&m->team, m->call);
    return NULL;
}

/* Runs a kernel on a team, in threads or one member after the other (no kernel waits). */
static uint64_t run_team(const struct kernel_case *one, const struct call *c, int size,
                         bool threads)
{
    static _Alignas(64) char scratch[MAX_TEAM][1 << 22];
    struct member members[MAX_TEAM];
    uint64_t sum = 0;
    ck_assert_uint_le(np_kernels_scratch_bytes(100, 11), sizeof scratch[0]);
    for (int i = 0; i < size; i++) {
        members[i] = (struct member){.one = one, .call = c};
        members[i].team = (struct np_team){
            .rank = i, .size = size, .scratch = scratch[i], .scratch_bytes = sizeof scratch[i]};
        if (threads)
            ck_assert_int_eq(pthread_create(&members[i].thread, NULL, run_member, &members[i]), 0);
        else
            run_member(&members[i]);
    }
    for (int i = 0; i < size; i++) {
        if (threads)
            ck_assert_int_eq(pthread_join(members[i].thread, NULL), 0);
        sum += members[i].result;
    }
    return one->any ? sum != 0 : sum;
}

/* What the kernels find, without special numbers and with them, and what the reference leaves. */
static float all_given[2][REGIONS][REGION], expected[REGIONS][REGION];
static float (*given)[REGION];
static int32_t tokens[REGION], targets[REGION], lengths[REGION];

/* What they work in. */
static float *region[REGIONS];

static float number(struct np_philox drawn, bool special)
{
    static const float list[] = {0.0f,   -0.0f,     0x1p-149f, -0x1p-140f, 0x1p-126f, -0x1p-99f,
                                 1e-33f, 0x1p-101f, 1e4f,      -1e4f,      87.0f,     -88.0f};
    if (special && drawn.w[3] % 4 == 0)
        return list[drawn.w[2] % COUNT(list)];
    return 6.0f * np_philox_unit(drawn.w[0]) - 3.0f;
}

void kernel_case_begin(void)
{
    for (unsigned special = 0; special < 2; special++) {
        struct np_draw_key key = np_draw_key(special, NP_DRAW_INIT, 0, 0, 0);
        for (size_t r = 0; r < REGIONS; r++)
            for (size_t i = 0; i < REGION; i++) {
                float x = number(np_draw(key, 0, r * REGION + i), special);
                all_given[special][r][i] = r == 4 ? fabsf(x) : x;
            }
        for (size_t i = 0; i < REGION; i++)
            tokens[i] = (int32_t)(np_draw(key, 1, i).w[0] % VOCABULARY);
    }
}

static void give(void)
{
    for (size_t r = 0; r < REGIONS; r++)
        memcpy(region[r], given[r], sizeof *given);
}

static bool as_expected(void)
{
    bool same = true;
    for (size_t r = 0; r < REGIONS; r++)
        same = same && memcmp(region[r], expected[r], sizeof expected[r]) == 0;
    return same;
}

static void compare(const struct kernel_case *one, const struct call *c, uint64_t reference)
{
    for (int isa = 0; isa < BACKENDS; isa++) {
        struct call mine = *c;
        mine.kernels = backend_get(isa);
        if (!mine.kernels)
            continue;
        for (int run = 0; run < MAX_TEAM + 2; run++) {
            bool threads = run >= MAX_TEAM;
            int size = threads ? run - MAX_TEAM + 3 : run + 1;
            uint64_t sum;
            if (!team_is_tried(size, isa))
                continue;
            give();
            sum = run_team(one, &mine, size, threads);
            ck_assert_msg(as_expected() && sum == reference,
                          "%s of %s differs from the reference: %zu samples, length %zu, %zu "
                          "columns, grain %zu, accumulate %d, team of %d%s",
                          one->name, mine.kernels->name, c->shape.samples, c->shape.length, c->cols,
                          c->grain, c->accumulate, size, threads ? " threads" : "");
        }
    }
}

/* Variants: whole sums or grains with special numbers; beginning, from the fence on and aligned, or
 * accumulating, up to the fence. */
static struct call call_of(const struct kernel_case *one, const struct shape *shape,
                           unsigned variant)
{
    struct call c = {.kernels = np_kernels_get(NP_ISA_SCALAR), .shape = *shape};
    c.rows = c.shape.samples * c.shape.length;
    c.cols = c.shape.cols;
    c.count = c.rows * c.cols;
    c.grain = variant & 2 ? c.shape.grain : 0;
    c.accumulate = variant & 1;
    for (size_t i = 0; i < REGIONS; i++)
        c.r[i] = region[i] + (!(variant & 1)         ? 0
                              : one->beyond >> i & 1 ? 17 + i % 3
                                                     : REGION - c.count);
    for (size_t i = 0; i < c.rows; i++)
        targets[i] = i % 5 == 3 ? -1 : (int32_t)(i * 7919 % c.cols);
    for (size_t i = 0; i < c.shape.samples; i++)
        lengths[i] = 1 + (int32_t)((i * 7 + c.shape.length - 1) % c.shape.length % 100);
    c.tokens = tokens;
    c.targets = targets;
    c.lengths = lengths;
    return c;
}

void kernel_case_check(const struct kernel_case *one)
{
    for (size_t r = 0; r < REGIONS; r++)
        region[r] = fenced(REGION, true);
    for (unsigned variant = 0; variant < 4; variant++) {
        given = all_given[variant / 2];
        for (size_t s = 0; s < COUNT(shapes); s++) {
            if (!tests_are_full() && (s + variant) % 2 != 0)
                continue;
            struct call c = call_of(one, &shapes[s], variant);
            uint64_t reference;
            give();
            reference = run_team(one, &c, 1, false);
            for (size_t r = 0; r < REGIONS; r++)
                memcpy(expected[r], region[r], sizeof expected[r]);
            compare(one, &c, reference);
        }
    }
    for (size_t r = 0; r < REGIONS; r++)
        fenced_free(region[r]);
}

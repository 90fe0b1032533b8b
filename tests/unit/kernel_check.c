#include "kernel_check.h"

#include <check.h>
#include <pthread.h>
#include <string.h>

#include "backends.h"

#define FLOATS (9u << 18)
#define GUARD 64
#define MAX_TEAM 4
#define SCRATCH (1u << 21)

static _Alignas(64) float arena[FLOATS];
static float given[FLOATS], expected[FLOATS];
static _Alignas(64) char scratch[MAX_TEAM][SCRATCH];
static size_t taken;
static uint32_t arena_seed;
static bool arena_special;

void arena_begin(uint32_t seed, bool special)
{
    taken = 0;
    arena_seed = seed;
    arena_special = special;
}

static float number(uint32_t word, bool special)
{
    static const float list[] = {0.0f,     -0.0f,     0x1p-149f, -0x1p-140f, 0x1p-126f, -0x1p-75f,
                                 0x1p-70f, -0x1p-64f, 1e4f,      -1e4f,      20.0f,     -20.0f};
    if (special && word % 8 == 0)
        return list[word / 8 % (sizeof list / sizeof *list)];
    return 6.0f * np_philox_unit(word) - 3.0f;
}

float *arena_take(size_t count)
{
    struct np_draw_key key = np_draw_key(arena_seed, NP_DRAW_INIT, 0, 0, 0);
    float *p = arena + taken + GUARD + 1;
    ck_assert_uint_le(taken + count + 3 * GUARD, FLOATS);
    for (size_t i = 0; i < count; i += 4) {
        struct np_philox drawn = np_draw(key, 0, taken + i);
        for (size_t j = i; j < i + 4 && j < count; j++)
            p[j] = number(drawn.w[j - i], arena_special);
    }
    taken += (count + GUARD) / 2 * 2 + GUARD;
    return p;
}

size_t check_draw(uint32_t seed, uint32_t index, size_t n)
{
    return np_draw(np_draw_key(seed, NP_DRAW_DROPOUT, 0, 0, 0), 0, index).w[0] % n;
}

struct member {
    struct np_team team;
    const struct np_kernels *kernels;
    kernel_run *run;
    void *arg;
    bool result;
    pthread_t thread;
};

static void *run_member(void *pointer)
{
    struct member *m = pointer;
    m->result = m->run(&m->team, m->kernels, m->arg);
    return NULL;
}

static bool run_team(const struct np_kernels *kernels, kernel_run *run, void *arg, int size)
{
    struct member members[MAX_TEAM] = {{.run = NULL}};
    struct np_barrier *barrier = NULL;
    bool result = true;
    if (size > 1)
        ck_assert_int_eq(np_barrier_new(&barrier, size, NULL), NP_OK);
    for (int i = 0; i < size; i++) {
        struct member *m = &members[i];
        *m = (struct member){.kernels = kernels, .run = run, .arg = arg};
        m->team = (struct np_team){i, size, barrier, scratch[i], SCRATCH, 0};
        if (i > 0)
            ck_assert_int_eq(pthread_create(&m->thread, NULL, run_member, m), 0);
    }
    run_member(&members[0]);
    for (int i = 0; i < size; i++) {
        if (i > 0)
            ck_assert_int_eq(pthread_join(members[i].thread, NULL), 0);
        result = result && members[i].result;
    }
    np_barrier_free(barrier);
    return result;
}

void arena_check(kernel_run *run, void *arg, const char *what)
{
    size_t bytes = (taken + GUARD) * sizeof *arena;
    bool reference;
    memcpy(given, arena, bytes);
    reference = run_team(np_kernels_get(NP_ISA_SCALAR), run, arg, 1);
    memcpy(expected, arena, bytes);
    for (int isa = 0; isa < BACKENDS; isa++) {
        const struct np_kernels *kernels = backend_get(isa);
        for (int size = isa == NP_ISA_SCALAR ? 2 : 1; kernels && size <= MAX_TEAM; size++) {
            size_t at = 0;
            bool result;
            if (!team_is_tried(size, isa))
                continue;
            memcpy(arena, given, bytes);
            result = run_team(kernels, run, arg, size);
            while (at < taken + GUARD && memcmp(&arena[at], &expected[at], sizeof *arena) == 0)
                at++;
            ck_assert_msg(at == taken + GUARD, "%s, team of %d, %s: %.9g at %zu, not %.9g",
                          kernels->name, size, what, (double)arena[at], at, (double)expected[at]);
            ck_assert_msg(result == reference, "%s, team of %d, %s: finite %d, not %d",
                          kernels->name, size, what, result, reference);
        }
    }
}

#include "kernel_check.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "backends.h"
#include "fenced.h"

#define ARRAYS 64
#define MAX_TEAM 4
#define SCRATCH (1u << 21)

/* What was taken: what may be touched there, and what that held before and after the reference. */
struct taken {
    float *array, *pages, *given, *expected;
    size_t floats;
};

static struct taken arena[ARRAYS];
static size_t taken;
static _Alignas(64) char scratch[MAX_TEAM][SCRATCH];
static uint32_t arena_seed;
static bool arena_special;

void arena_begin(uint32_t seed, bool special)
{
    while (taken > 0) {
        struct taken *t = &arena[--taken];
        fenced_free(t->array);
        free(t->given);
        free(t->expected);
    }
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

/* At a fence, behind it by one float, or before it. */
float *arena_take(size_t count)
{
    const struct np_draw_key key = np_draw_key(arena_seed, NP_DRAW_INIT, 0, 0, (uint32_t)taken);
    const uint32_t place = np_draw(key, 1, 0).w[0] % 3;
    struct taken *t = &arena[taken];
    float *p;
    ck_assert_uint_lt(taken, ARRAYS);
    t->array = fenced(count + place % 2, place == 2);
    t->pages = fenced_pages(t->array, &t->floats);
    t->given = malloc(t->floats * sizeof(float));
    t->expected = malloc(t->floats * sizeof(float));
    ck_assert(t->given && t->expected);
    taken++;
    p = t->array + place % 2;
    for (size_t i = 0; i < count; i += 4) {
        struct np_philox drawn = np_draw(key, 0, i);
        for (size_t j = i; j < i + 4 && j < count; j++)
            p[j] = number(drawn.w[j - i], arena_special);
    }
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
        m->team = (struct np_team){.rank = i,
                                   .size = size,
                                   .barrier = barrier,
                                   .scratch = scratch[i],
                                   .scratch_bytes = SCRATCH};
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

/* Where the first difference from what the reference left is: in which array, and at which float of
 * its pages. */
static bool differs(size_t *array, size_t *at)
{
    for (size_t a = 0; a < taken; a++)
        if (memcmp(arena[a].pages, arena[a].expected, arena[a].floats * sizeof(float)) != 0) {
            *array = a;
            *at = 0;
            while (memcmp(&arena[a].pages[*at], &arena[a].expected[*at], sizeof(float)) == 0)
                ++*at;
            return true;
        }
    return false;
}

void arena_check(kernel_run *run, void *arg, const char *what)
{
    bool reference;
    for (size_t a = 0; a < taken; a++)
        memcpy(arena[a].given, arena[a].pages, arena[a].floats * sizeof(float));
    reference = run_team(np_kernels_get(NP_ISA_SCALAR), run, arg, 1);
    for (size_t a = 0; a < taken; a++)
        memcpy(arena[a].expected, arena[a].pages, arena[a].floats * sizeof(float));
    for (int isa = 0; isa < BACKENDS; isa++) {
        const struct np_kernels *kernels = backend_get(isa);
        for (int size = isa == NP_ISA_SCALAR ? 2 : 1; kernels && size <= MAX_TEAM; size++) {
            size_t a, at;
            bool result;
            if (!team_is_tried(size, isa))
                continue;
            for (a = 0; a < taken; a++)
                memcpy(arena[a].pages, arena[a].given, arena[a].floats * sizeof(float));
            result = run_team(kernels, run, arg, size);
            if (differs(&a, &at))
                ck_abort_msg("%s, team of %d, %s: %.9g at %td of array %zu, not %.9g",
                             kernels->name, size, what, (double)arena[a].pages[at],
                             &arena[a].pages[at] - arena[a].array, a,
                             (double)arena[a].expected[at]);
            ck_assert_msg(result == reference, "%s, team of %d, %s: finite %d, not %d",
                          kernels->name, size, what, result, reference);
        }
    }
}

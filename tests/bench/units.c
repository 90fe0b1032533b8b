#include "units.h"

#include <math.h>

#include "timing.h"

#define STEPS 1000
#define RUNS 400
#define SHARED 1.25 /* times the slower one alone: noise is less */
#define PRODUCTS 12

typedef void loop(const float *p);

#if defined(__x86_64__)

/* An instruction of each class on registers of 256 bits, its result in register \r; on 512. */
#define MUL_8 "vmulps %%ymm15, %%ymm14, %%ymm\\r\n"
#define ADD_8 "vaddps %%ymm15, %%ymm14, %%ymm\\r\n"
#define SELECT_8 "vblendvps %%ymm15, %%ymm14, %%ymm15, %%ymm\\r\n"
#define LOGIC_8 "vpxor %%ymm15, %%ymm14, %%ymm\\r\n"
#define SHIFT_8 "vpslld $23, %%ymm14, %%ymm\\r\n"
#define IMUL_8 "vpmuludq %%ymm15, %%ymm14, %%ymm\\r\n"
#define DIV_8 "vdivps %%ymm15, %%ymm14, %%ymm\\r\n"
#define ROOT_8 "vsqrtps %%ymm14, %%ymm\\r\n"
#define LOAD_8 "vmovaps (%0), %%ymm\\r\n"
#define STORE_8 "vmovaps %%ymm15, 128(%0)\n"
#define BEGIN_8 "vmovaps (%0), %%ymm14\n vmovaps 64(%0), %%ymm15\n"
#define MUL_16 "vmulps %%zmm15, %%zmm14, %%zmm\\r\n"
#define ADD_16 "vaddps %%zmm15, %%zmm14, %%zmm\\r\n"
#define SELECT_16 "vblendmps %%zmm15, %%zmm14, %%zmm\\r %{%%k1%}\n"
#define LOGIC_16 "vpxord %%zmm15, %%zmm14, %%zmm\\r\n"
#define SHIFT_16 "vpslld $23, %%zmm14, %%zmm\\r\n"
#define IMUL_16 "vpmuludq %%zmm15, %%zmm14, %%zmm\\r\n"
#define DIV_16 "vdivps %%zmm15, %%zmm14, %%zmm\\r\n"
#define ROOT_16 "vsqrtps %%zmm14, %%zmm\\r\n"
#define LOAD_16 "vmovaps (%0), %%zmm\\r\n"
#define STORE_16 "vmovaps %%zmm15, 128(%0)\n"
#define BEGIN_16 "vmovaps (%0), %%zmm14\n vmovaps 64(%0), %%zmm15\n"

#define TARGETS 14 /* registers for results */

/* STEPS times what comes, for each of them. */
#define LOOP(name, begin, code)                                                                    \
    static void name(const float *p)                                                               \
    {                                                                                              \
        long steps = STEPS;                                                                        \
        __asm__ volatile(begin "1:\n"                                                              \
                               ".irp r, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13\n" code       \
                               ".endr\n dec %1\n jnz 1b\n vzeroupper\n"                            \
                         : "+r"(p), "+r"(steps)                                                    \
                         :                                                                         \
                         : "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", \
                           "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14",    \
                           "xmm15");                                                               \
    }

#define EACH(DO, w, a)                                                                             \
    DO(w, a, MUL)                                                                                  \
    DO(w, a, ADD)                                                                                  \
    DO(w, a, SELECT)                                                                               \
    DO(w, a, LOGIC)                                                                                \
    DO(w, a, SHIFT)                                                                                \
    DO(w, a, IMUL)                                                                                 \
    DO(w, a, DIV) DO(w, a, ROOT) DO(w, a, LOAD) DO(w, a, STORE)
#define PAIRS(DO, w)                                                                               \
    EACH(DO, w, MUL)                                                                               \
    EACH(DO, w, ADD)                                                                               \
    EACH(DO, w, SELECT)                                                                            \
    EACH(DO, w, LOGIC)                                                                             \
    EACH(DO, w, SHIFT)                                                                             \
    EACH(DO, w, IMUL)                                                                              \
    EACH(DO, w, DIV) EACH(DO, w, ROOT) EACH(DO, w, LOAD) EACH(DO, w, STORE)

#define MUL4(w) MUL_##w MUL_##w MUL_##w MUL_##w
#define PAIR(w, a, b) LOOP(a##_##b##_##w, BEGIN_##w, a##_##w b##_##w)
#define ENTRY(w, a, b) [a][b] = a##_##b##_##w,
#define LOOPS(w)                                                                                   \
    PAIRS(PAIR, w)                                                                                 \
    LOOP(DIV_turn_##w, BEGIN_##w, DIV_##w MUL4(w) MUL4(w) MUL4(w))                                 \
    LOOP(ROOT_turn_##w, BEGIN_##w, ROOT_##w MUL4(w) MUL4(w) MUL4(w))                               \
    static loop *const loops_##w[BENCH_CLASSES][BENCH_CLASSES] = {PAIRS(ENTRY, w)};                \
    static loop *const turns_##w[BENCH_CLASSES] = {[DIV] = DIV_turn_##w, [ROOT] = ROOT_turn_##w};

LOOPS(8)
LOOPS(16)
#endif

/* Seconds for a register's turn. */
static double loop_seconds(loop *run)
{
    static _Alignas(64) float p[48];
    double best = INFINITY;
    for (int i = 0; i < 48; i++)
        p[i] = 1.1f + 0.013f * (float)i; /* not quick to divide by or to take the root of */
    for (int i = 0; i < RUNS; i++) {
        double begin = bench_seconds(2);
        run(p);
        best = fmin(best, bench_seconds(2) - begin);
    }
    return best / (STEPS * TARGETS);
}

static void measure(struct bench_units *u, loop *const loops[BENCH_CLASSES][BENCH_CLASSES],
                    loop *const turns[BENCH_CLASSES])
{
    u->least = INFINITY;
    for (int a = 0; a < BENCH_CLASSES; a++)
        for (int b = a; b < BENCH_CLASSES; b++) {
            double both = loop_seconds(loops[a][b]);
            u->both[a][b] = a == b ? both / 2 : both;
            if (b < LOAD)
                u->least = fmin(u->least, both / 2);
        }
    for (int c = DIV; c <= ROOT; c++)
        u->turn[c] =
            fmax(0, loop_seconds(turns[c]) - fmax(PRODUCTS * u->both[MUL][MUL], u->both[c][c]));
}

struct bench_units bench_units(enum np_isa isa)
{
    struct bench_units u = {.floats = 1};
#if defined(__x86_64__)
    u.floats = isa == NP_ISA_AVX512 ? 16 : 8;
    if (isa == NP_ISA_AVX512)
        measure(&u, loops_16, turns_16);
    if (isa == NP_ISA_AVX2)
        measure(&u, loops_8, turns_8);
#endif
    (void)isa;
    return u;
}

/* Of two classes, if they share units. */
static double pair_seconds(const struct bench_units *u, const struct bench_work *w, int a, int b)
{
    double one = u->both[a][a], other = u->both[b][b], both = u->both[a][b];
    if (both < SHARED * fmax(one, other))
        return 0;
    return fmin(1, both / (one + other)) * (w->n[a] * one + w->n[b] * other);
}

double bench_work_seconds(const struct bench_units *u, const struct bench_work *w, double floats)
{
    double count = 0, least = w->n[MUL] * u->both[MUL][MUL];
    for (int c = DIV; c <= ROOT; c++)
        least += w->n[c] * u->turn[c];
    for (int a = 0; a < BENCH_CLASSES; a++) {
        least = fmax(least, w->n[a] * u->both[a][a]);
        count += a < LOAD ? w->n[a] : 0;
        for (int b = a + 1; b < LOAD; b++)
            least = fmax(least, pair_seconds(u, w, a, b));
    }
    return floats / u->floats * fmax(least, count * u->least);
}

/* One test over the kernel table: every entry of every instruction set gives the bits of the scalar
 * reference, for awkward shapes, special values, unaligned pointers and every team. The kernels
 * work in one arena that is compared as a whole, so a write out of place is seen as well.
 */
#include <check.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "num/kernels.h"

#define REGIONS 8
#define REGION 40000 /* floats */
#define VOCABULARY 5
#define MAX_TEAM 4

struct shape {
    size_t samples, length, cols, taps, grain;
};

/* Primes, below and above vector widths, more columns than a tile holds, more rows than a chunk. */
static const struct shape shapes[] = {
    {1, 1, 1, 1, 1},    {1, 2, 3, 3, 1},       {1, 7, 31, 5, 2},     {5, 1, 32, 2, 3},
    {3, 1, 33, 4, 1},   {1, 17, 64, 7, 5},     {2, 13, 97, 3, 13},   {2, 2, 1031, 9, 2},
    {1, 2, 2053, 1, 1}, {3, 100, 17, 31, 100}, {1, 523, 29, 8, 300}, {4, 65, 45, 6, 130},
};

/* What a kernel is called with: regions 0 to 3 hold any numbers, 4 positive ones, 5 to 7 are for
 * outputs (and hold numbers too, for kernels that accumulate). */
struct call {
    const struct np_kernels *kernels;
    struct shape shape;
    size_t rows, cols, count, grain;
    bool accumulate;
    float *r[REGIONS];
    const int32_t *tokens, *targets;
};

typedef uint64_t kernel_case(struct np_team *team, const struct call *c);

static uint64_t run_matmul(struct np_team *team, const struct call *c)
{
    for (unsigned trans = 0; trans < 4; trans++) {
        struct np_matmul p = {.m = c->shape.length, .n = c->cols, .k = c->rows};
        p.m = p.m > 40 ? 40 : p.m;
        p.n = p.n > 40 ? 40 : p.n;
        p.a = c->r[0];
        p.b = c->r[1];
        p.c = c->r[5] + trans * 1700;
        p.a_trans = trans & 1;
        p.b_trans = trans & 2;
        p.lda = p.a_trans ? p.m : p.k;
        p.ldb = p.b_trans ? p.k : p.n;
        p.ldc = p.n;
        p.grain = c->grain;
        p.accumulate = c->accumulate;
        c->kernels->matmul(team, &p);
    }
    return 0;
}

static uint64_t run_bias_add(struct np_team *team, const struct call *c)
{
    c->kernels->bias_add(team, c->r[5], c->r[0], c->r[1], c->rows, c->cols);
    c->kernels->bias_add(team, c->r[2], c->r[2], c->r[1], c->rows, c->cols);
    return 0;
}

static uint64_t run_bias_act(struct np_team *team, const struct call *c)
{
    c->kernels->bias_act(team, NP_ACT_RELU, c->r[5], c->r[0], c->r[4], c->rows, c->cols);
    c->kernels->bias_act(team, NP_ACT_GELU, c->r[6], c->r[1], c->r[4], c->rows, c->cols);
    c->kernels->bias_act(team, NP_ACT_SWISH, c->r[7], c->r[2], c->r[4], c->rows, c->cols);
    return 0;
}

static uint64_t run_act_grad(struct np_team *team, const struct call *c)
{
    c->kernels->act_grad(team, NP_ACT_RELU, c->r[5], c->r[0], c->r[1], c->count);
    c->kernels->act_grad(team, NP_ACT_GELU, c->r[6], c->r[0], c->r[1], c->count);
    c->kernels->act_grad(team, NP_ACT_SWISH, c->r[7], c->r[0], c->r[7], c->count);
    return 0;
}

static uint64_t run_bias_glu(struct np_team *team, const struct call *c)
{
    c->kernels->bias_glu(team, c->r[5], c->r[0], c->r[1], c->rows, c->cols);
    return 0;
}

static uint64_t run_glu_grad(struct np_team *team, const struct call *c)
{
    c->kernels->glu_grad(team, c->r[5], c->r[0], c->r[1], c->rows, c->cols);
    return 0;
}

static uint64_t run_add(struct np_team *team, const struct call *c)
{
    bool ok = c->kernels->add(team, c->r[5], c->r[0], c->r[1], c->count);
    ok &= c->kernels->add(team, c->r[2], c->r[2], c->r[3], c->count);
    return !ok;
}

static uint64_t run_finite(struct np_team *team, const struct call *c)
{
    return !c->kernels->finite(team, c->r[0], c->count);
}

static uint64_t run_zero(struct np_team *team, const struct call *c)
{
    c->kernels->zero(team, c->r[0], c->count);
    return 0;
}

static uint64_t run_transpose(struct np_team *team, const struct call *c)
{
    c->kernels->transpose(team, c->r[5], c->r[0], c->rows, c->cols);
    return 0;
}

static uint64_t run_dropout(struct np_team *team, const struct call *c)
{
    struct np_draw_key key = np_draw_key(7, NP_DRAW_DROPOUT, 1, 2, 3);
    uint64_t first = c->accumulate ? 0 : UINT64_C(0x3fffffffe);
    c->kernels->dropout(team, c->r[5], c->r[0], c->count, key, 9, first, 1u << 30, 4.0f / 3.0f);
    c->kernels->dropout(team, c->r[1], c->r[1], c->count, key, 10, first + 1, 1u << 31, 2.0f);
    return 0;
}

static uint64_t run_normal(struct np_team *team, const struct call *c)
{
    struct np_draw_key key = np_draw_key(8, NP_DRAW_INIT, 0, 2, 3);
    c->kernels->normal(team, c->r[5], c->count, key, 0.02f);
    return 0;
}

static uint64_t run_layernorm(struct np_team *team, const struct call *c)
{
    size_t period = c->accumulate ? c->shape.length : 0, skip = c->cols;
    c->kernels->layernorm(team, c->r[5], c->r[6], c->r[7], c->r[0], c->r[1], c->r[2], c->rows,
                          c->cols, 1e-5f, period, skip);
    return 0;
}

static uint64_t run_layernorm_grad(struct np_team *team, const struct call *c)
{
    float *dx = c->accumulate ? c->r[5] : c->r[6];
    bool ok = c->kernels->layernorm_grad(team, dx, c->r[6], c->r[0], c->r[1], c->r[2], c->r[4],
                                         c->r[3], c->rows, c->cols);
    return !ok;
}

static uint64_t run_layernorm_grad_weight(struct np_team *team, const struct call *c)
{
    c->kernels->layernorm_grad_weight(team, c->r[5], c->r[6], c->r[0], c->r[1], c->r[2], c->r[4],
                                      c->rows, c->cols, c->grain, c->accumulate);
    return 0;
}

static uint64_t run_colsum(struct np_team *team, const struct call *c)
{
    c->kernels->colsum(team, c->r[5], c->r[0], c->rows, c->cols, c->grain, c->accumulate);
    return 0;
}

static uint64_t run_rowsum(struct np_team *team, const struct call *c)
{
    c->kernels->rowsum(team, c->r[5], c->r[0], c->rows, c->cols);
    return 0;
}

static uint64_t run_sumsq(struct np_team *team, const struct call *c)
{
    float sum = c->kernels->sumsq(team, c->r[0], c->count);
    uint32_t bits;
    memcpy(&bits, &sum, sizeof bits);
    return bits;
}

static uint64_t run_softmax(struct np_team *team, const struct call *c)
{
    c->kernels->softmax(team, c->r[5], c->r[0], c->rows, c->cols);
    c->kernels->softmax(team, c->r[1], c->r[1], c->rows, c->cols);
    return 0;
}

static uint64_t run_softmax_grad(struct np_team *team, const struct call *c)
{
    c->kernels->softmax_grad(team, c->r[5], c->r[0], c->r[1], c->rows, c->cols);
    return 0;
}

/* Three heads of up to 11 channels; stats of an earlier forward pass serve the gradient. */
static struct np_attention attention_of(const struct call *c)
{
    size_t width = 3 * (c->cols / 9 > 11 ? 11 : c->cols / 9 + 1);
    struct np_attention p = {c->shape.samples, c->shape.length, width, 3, c->r[0]};
    if (p.length > 100)
        p.length = 100;
    return p;
}

static uint64_t run_attention(struct np_team *team, const struct call *c)
{
    struct np_attention p = attention_of(c);
    c->kernels->attention(team, c->r[5], c->r[6], &p);
    return 0;
}

static uint64_t run_attention_grad(struct np_team *team, const struct call *c)
{
    struct np_attention p = attention_of(c);
    c->kernels->attention_grad(team, c->r[5], c->r[1], c->r[4], &p);
    return 0;
}

static uint64_t run_dwconv(struct np_team *team, const struct call *c)
{
    c->kernels->dwconv(team, c->r[5], c->r[0], c->r[1], c->shape.samples, c->shape.length, c->cols,
                       c->shape.taps);
    return 0;
}

static uint64_t run_dwconv_grad(struct np_team *team, const struct call *c)
{
    c->kernels->dwconv_grad(team, c->r[5], c->r[0], c->r[1], c->shape.samples, c->shape.length,
                            c->cols, c->shape.taps);
    return 0;
}

static uint64_t run_dwconv_grad_weight(struct np_team *team, const struct call *c)
{
    c->kernels->dwconv_grad_weight(team, c->r[5], c->r[0], c->r[1], c->shape.samples,
                                   c->shape.length, c->cols, c->shape.taps, c->grain,
                                   c->accumulate);
    return 0;
}

static uint64_t run_embed(struct np_team *team, const struct call *c)
{
    c->kernels->embed(team, c->r[5], c->tokens, c->r[0], c->r[1], c->shape.samples, c->shape.length,
                      c->cols);
    return 0;
}

static uint64_t run_embed_grad(struct np_team *team, const struct call *c)
{
    c->kernels->embed_grad(team, c->r[5], c->r[6], c->tokens, c->r[0], c->shape.samples,
                           c->shape.length, c->cols);
    return 0;
}

static uint64_t run_xent(struct np_team *team, const struct call *c)
{
    c->kernels->xent(team, c->r[5], c->r[0], c->targets, c->rows, c->cols,
                     c->accumulate ? 0.1f : 0.0f);
    return 0;
}

static uint64_t run_xent_grad(struct np_team *team, const struct call *c)
{
    c->kernels->xent_grad(team, c->r[5], c->r[0], c->targets, c->rows, c->cols,
                          c->accumulate ? 0.1f : 0.0f, 0.125f);
    return 0;
}

static struct np_update update_of(const struct call *c)
{
    struct np_update u = {.w = c->r[5], .m = c->r[6], .v = c->r[4], .g = c->r[0]};
    u.count = c->count;
    u.address = np_fingerprint_address(3, 2);
    u.scale = c->accumulate ? 0.75f : 1.0f;
    u.limit = c->accumulate ? 0.5f : INFINITY;
    u.lr = 1e-3f;
    u.decay = 0.01f;
    u.beta1 = 0.9f;
    u.beta2 = 0.999f;
    u.eps = 1e-8f;
    u.c1 = 10.0f;
    u.c2 = 1000.0f;
    u.momentum = 0.9f;
    return u;
}

static uint64_t run_adamw(struct np_team *team, const struct call *c)
{
    struct np_update u = update_of(c);
    return c->kernels->adamw(team, &u);
}

static uint64_t run_sgd(struct np_team *team, const struct call *c)
{
    struct np_update u = update_of(c);
    u.m = c->accumulate ? NULL : u.m;
    return c->kernels->sgd(team, &u);
}

static uint64_t run_nesterov(struct np_team *team, const struct call *c)
{
    struct np_update u = update_of(c);
    u.nesterov = true;
    return c->kernels->sgd(team, &u);
}

static uint64_t run_fingerprint(struct np_team *team, const struct call *c)
{
    return c->kernels->fingerprint(team, c->r[0], c->count, np_fingerprint_address(1, 2) + 3);
}

static const struct {
    const char *name;
    kernel_case *run;
    bool any; /* the team's result is whether any member's is not 0, not their sum */
} cases[] = {
    {.name = "matmul", .run = run_matmul},
    {.name = "bias_add", .run = run_bias_add},
    {.name = "bias_act", .run = run_bias_act},
    {.name = "act_grad", .run = run_act_grad},
    {.name = "bias_glu", .run = run_bias_glu},
    {.name = "glu_grad", .run = run_glu_grad},
    {.name = "add", .run = run_add, .any = true},
    {.name = "finite", .run = run_finite, .any = true},
    {.name = "zero", .run = run_zero},
    {.name = "transpose", .run = run_transpose},
    {.name = "dropout", .run = run_dropout},
    {.name = "normal", .run = run_normal},
    {.name = "layernorm", .run = run_layernorm},
    {.name = "layernorm_grad", .run = run_layernorm_grad, .any = true},
    {.name = "layernorm_grad_weight", .run = run_layernorm_grad_weight},
    {.name = "colsum", .run = run_colsum},
    {.name = "rowsum", .run = run_rowsum},
    {.name = "sumsq", .run = run_sumsq},
    {.name = "softmax", .run = run_softmax},
    {.name = "softmax_grad", .run = run_softmax_grad},
    {.name = "attention", .run = run_attention},
    {.name = "attention_grad", .run = run_attention_grad},
    {.name = "dwconv", .run = run_dwconv},
    {.name = "dwconv_grad", .run = run_dwconv_grad},
    {.name = "dwconv_grad_weight", .run = run_dwconv_grad_weight},
    {.name = "embed", .run = run_embed},
    {.name = "embed_grad", .run = run_embed_grad},
    {.name = "xent", .run = run_xent},
    {.name = "xent_grad", .run = run_xent_grad},
    {.name = "adamw", .run = run_adamw},
    {.name = "sgd", .run = run_sgd},
    {.name = "sgd, nesterov", .run = run_nesterov},
    {.name = "fingerprint", .run = run_fingerprint},
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

struct member {
    struct np_team team;
    kernel_case *run;
    const struct call *call;
    uint64_t result;
    pthread_t thread;
};

static void *run_member(void *pointer)
{
    struct member *m = pointer;
    m->result = m->run(&m->team, m->call);
    return NULL;
}

/* Runs a kernel on a team, in threads or one member after the other (no kernel waits). */
static uint64_t run_team(size_t which, const struct call *c, int size, bool threads)
{
    static _Alignas(64) char scratch[MAX_TEAM][1 << 21];
    struct member members[MAX_TEAM];
    uint64_t sum = 0;
    ck_assert_uint_le(np_kernels_scratch_bytes(100, 11), sizeof scratch[0]);
    for (int i = 0; i < size; i++) {
        members[i] = (struct member){.run = cases[which].run, .call = c};
        members[i].team = (struct np_team){i, size, NULL, scratch[i], sizeof scratch[i]};
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
    return cases[which].any ? sum != 0 : sum;
}

/* What the kernels work in, what they find, what the reference leaves. */
static float arena[REGIONS * REGION], given[REGIONS * REGION], expected[REGIONS * REGION];
static int32_t tokens[REGION], targets[REGION];

static float number(struct np_philox drawn, bool special)
{
    static const float list[] = {0.0f,   -0.0f,     0x1p-149f, -0x1p-140f, 0x1p-126f, -0x1p-99f,
                                 1e-33f, 0x1p-101f, 1e4f,      -1e4f,      87.0f,     -88.0f};
    if (special && drawn.w[3] % 4 == 0)
        return list[drawn.w[2] % COUNT(list)];
    return 6.0f * np_philox_unit(drawn.w[0]) - 3.0f;
}

static void fill(bool special)
{
    struct np_draw_key key = np_draw_key(special, NP_DRAW_INIT, 0, 0, 0);
    for (size_t i = 0; i < REGIONS * REGION; i++) {
        float x = number(np_draw(key, 0, i), special);
        given[i] = i / REGION == 4 ? fabsf(x) : x;
    }
    for (size_t i = 0; i < REGION; i++)
        tokens[i] = (int32_t)(np_draw(key, 1, i).w[0] % VOCABULARY);
}

static void compare(size_t which, const struct call *c, uint64_t reference)
{
    for (int isa = 0; isa < NP_ISA_COUNT; isa++) {
        struct call mine = *c;
        mine.kernels = np_kernels_get((enum np_isa)isa);
        if (!mine.kernels)
            continue;
        for (int run = 0; run < MAX_TEAM + 2; run++) {
            bool threads = run >= MAX_TEAM;
            int size = threads ? run - MAX_TEAM + 3 : run + 1;
            uint64_t sum;
            memcpy(arena, given, sizeof arena);
            sum = run_team(which, &mine, size, threads);
            ck_assert_msg(memcmp(arena, expected, sizeof arena) == 0 && sum == reference,
                          "%s of %s differs from the reference: %zu samples, length %zu, %zu "
                          "columns, grain %zu, accumulate %d, team of %d%s",
                          cases[which].name, mine.kernels->name, c->shape.samples, c->shape.length,
                          c->cols, c->grain, c->accumulate, size, threads ? " threads" : "");
        }
    }
}

/* Variants: whole sums or grains with special numbers; beginning or accumulating, unaligned. */
static struct call call_of(const struct shape *shape, unsigned variant)
{
    struct call c = {.kernels = np_kernels_get(NP_ISA_SCALAR), .shape = *shape};
    c.rows = c.shape.samples * c.shape.length;
    c.cols = c.shape.cols;
    c.count = c.rows * c.cols;
    c.grain = variant & 2 ? c.shape.grain : 0;
    c.accumulate = variant & 1;
    for (size_t i = 0; i < REGIONS; i++)
        c.r[i] = arena + i * REGION + 16 + (variant & 1 ? 1 + i % 3 : 0);
    for (size_t i = 0; i < c.rows; i++)
        targets[i] = (int32_t)(i * 7919 % c.cols);
    c.tokens = tokens;
    c.targets = targets;
    return c;
}

START_TEST(every_kernel_gives_the_reference_bits)
{
    size_t which = (size_t)_i;
    for (unsigned variant = 0; variant < 4; variant++) {
        fill(variant & 2);
        for (size_t s = 0; s < COUNT(shapes); s++) {
            struct call c = call_of(&shapes[s], variant);
            uint64_t reference;
            memcpy(arena, given, sizeof arena);
            reference = run_team(which, &c, 1, false);
            memcpy(expected, arena, sizeof arena);
            compare(which, &c, reference);
        }
    }
}
END_TEST

START_TEST(non_finite_numbers_are_seen_anywhere)
{
    struct np_team team = {0, 1, NULL, NULL, 0};
    float x[131] = {0}, y[131], ones[131], statistics[1] = {1.0f};
    for (size_t i = 0; i < COUNT(ones); i++)
        ones[i] = 1.0f;
    for (int isa = 0; isa < NP_ISA_COUNT; isa++) {
        const struct np_kernels *k = np_kernels_get((enum np_isa)isa);
        for (size_t i = 0; k && i < COUNT(x); i++) {
            ck_assert(k->finite(&team, x, COUNT(x)) && k->add(&team, y, x, ones, COUNT(x)));
            x[i] = i % 2 ? INFINITY : NAN;
            ck_assert(!k->finite(&team, x, COUNT(x)));
            ck_assert(!k->add(&team, y, x, ones, COUNT(x)));
            ck_assert(!k->add(&team, y, ones, x, COUNT(x)));
            ck_assert(!k->layernorm_grad(&team, y, x, ones, ones, statistics, statistics, ones, 1,
                                         COUNT(x)));
            x[i] = 0.0f;
            ck_assert(k->finite(&team, x, i) && k->finite(&team, x + i, COUNT(x) - i));
        }
    }
}
END_TEST

START_TEST(instruction_sets_have_names)
{
    ck_assert_ptr_nonnull(np_kernels_get(NP_ISA_SCALAR));
    ck_assert_ptr_nonnull(np_kernels_best());
    for (int i = 0; i < NP_ISA_COUNT; i++) {
        const struct np_kernels *k = np_kernels_get((enum np_isa)i);
        ck_assert(!k || strcmp(k->name, np_isa_name((enum np_isa)i)) == 0);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kernels");
    TCase *tcase = tcase_create("table");
    SRunner *runner = srunner_create(suite);
    int failed;
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, every_kernel_gives_the_reference_bits, 0, (int)COUNT(cases));
    tcase_add_test(tcase, non_finite_numbers_are_seen_anywhere);
    tcase_add_test(tcase, instruction_sets_have_names);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* The kernels that are not matrix products or convolutions, against the scalar reference. */
#include <check.h>
#include <math.h>
#include <string.h>

#include "backends.h"
#include "kernel_case.h"
#include "suite.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static uint64_t run_bias_add(struct np_team *team, const struct call *c)
{
    c->kernels->bias_add(team, c->r[5], c->r[0], c->r[1], c->rows, c->cols);
    c->kernels->bias_add(team, c->r[2], c->r[2], c->r[1], c->rows, c->cols);
    return 0;
}

static uint64_t run_act(struct np_team *team, const struct call *c)
{
    uint64_t bad = 0;
    for (int act = NP_ACT_NONE; act <= NP_ACT_HSIGMOID; act++) {
        const float *x = c->r[act % 4];
        float *y = act % 3 == 2 ? c->r[act % 4] : c->r[5 + act % 3];
        bad |= !c->kernels->act(team, (enum np_act)act, y, x, c->count);
    }
    return bad;
}

/* Into a tensor of its own, over dy, over base. */
static uint64_t run_act_grad(struct np_team *team, const struct call *c)
{
    uint64_t bad = 0;
    for (int act = NP_ACT_NONE; act <= NP_ACT_HSIGMOID; act++) {
        enum np_act kind = (enum np_act)act;
        bad |= !c->kernels->act_grad(team, kind, c->r[5], NULL, c->r[0], c->r[1], c->count);
        bad |= !c->kernels->act_grad(team, kind, c->r[6], c->r[5], c->r[0], c->r[6], c->count);
        bad |= !c->kernels->act_grad(team, kind, c->r[7], c->r[7], c->r[0], c->r[1], c->count);
    }
    return bad;
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
    uint64_t bad = 0;
    for (int act = NP_ACT_NONE; act <= NP_ACT_HSIGMOID; act++) {
        enum np_act kind = (enum np_act)act;
        bad |= !c->kernels->add(team, kind, c->r[5], c->r[7], c->r[0], c->r[1], c->count);
        bad |= !c->kernels->add(team, kind, c->r[2], NULL, c->r[2], c->r[3], c->count);
        bad |= !c->kernels->add(team, kind, c->r[6], c->r[4], c->r[0], c->r[6], c->count);
    }
    return bad;
}

static uint64_t run_finite(struct np_team *team, const struct call *c)
{
    return !c->kernels->finite(team, c->r[0], c->count);
}

static uint64_t run_fill(struct np_team *team, const struct call *c)
{
    c->kernels->fill(team, c->r[0], c->count, 0.0f);
    c->kernels->fill(team, c->r[5], c->count, 0.7f);
    return 0;
}

static uint64_t run_copy(struct np_team *team, const struct call *c)
{
    c->kernels->copy(team, c->r[5], c->r[0], c->count);
    c->kernels->copy(team, c->r[1], c->r[1], c->count);
    return 0;
}

/* Every other row and three of four columns of a few images, and the end of a row. */
static uint64_t run_slice(struct np_team *team, const struct call *c)
{
    size_t width = (c->cols * 3 + 3) / 4, high = (c->rows + 5) / 6, images = c->rows / (2 * high);
    size_t image = 2 * high * c->cols, row = 2 * c->cols, end = c->count / 2;
    const struct np_slice inner = {{1, images, high, width}, {0, image, row}};
    const struct np_slice outer = {{images, high, 1, width}, {image, row, 0}};
    const struct np_slice one = {{1, 1, 1, end}, {0, 0, 0}};
    c->kernels->gather(team, c->r[5], c->r[0], &inner);
    c->kernels->scatter(team, c->r[6], c->r[1], &outer);
    c->kernels->gather(team, c->r[7], c->r[0] + c->count - end, &one);
    c->kernels->scatter(team, c->r[2] + c->count - end, c->r[1], &one);
    return 0;
}

static uint64_t run_divide(struct np_team *team, const struct call *c)
{
    uint64_t bad = !c->kernels->divide(team, c->r[5], c->r[0], NULL, c->count, 7.0f);
    bad |= !c->kernels->divide(team, c->r[6], c->r[0], c->r[1], c->count, 7.0f);
    return bad | !c->kernels->divide(team, c->r[2], c->r[2], c->r[1], c->count, 3.0f);
}

static uint64_t run_rstd(struct np_team *team, const struct call *c)
{
    return !c->kernels->rstd(team, c->r[5], c->r[4], c->count, 1e-5f);
}

static uint64_t run_spread(struct np_team *team, const struct call *c)
{
    c->kernels->spread(team, c->r[5], c->r[0], c->rows, c->cols);
    return 0;
}

static uint64_t run_hits(struct np_team *team, const struct call *c)
{
    c->kernels->hits(team, (int32_t *)c->r[5], c->r[0], c->targets, c->rows, c->cols);
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
    c->kernels->layernorm(team, c->r[5], c->r[6], c->r[7], c->r[0], c->r[1], c->r[2], c->rows,
                          c->cols, 1e-5f);
    return 0;
}

/* Beside a base, over it, without one. */
static uint64_t run_layernorm_grad(struct np_team *team, const struct call *c)
{
    bool (*run)(struct np_team *, float *, const float *, const float *, const float *,
                const float *, const float *, const float *, size_t, size_t) =
        c->kernels->layernorm_grad;
    uint64_t bad =
        !run(team, c->r[5], c->r[6], c->r[0], c->r[1], c->r[2], c->r[4], c->r[3], c->rows, c->cols);
    bad |=
        !run(team, c->r[6], c->r[6], c->r[0], c->r[1], c->r[2], c->r[4], c->r[3], c->rows, c->cols);
    bad |= !run(team, c->r[7], NULL, c->r[0], c->r[1], c->r[2], c->r[4], c->r[3], c->rows, c->cols);
    return bad;
}

static uint64_t run_layernorm_grad_weight(struct np_team *team, const struct call *c)
{
    c->kernels->layernorm_grad_weight(team, c->r[5], c->r[6], c->r[0], c->r[1], c->r[2], c->r[4],
                                      c->rows, c->cols, c->grain, c->accumulate);
    return 0;
}

static uint64_t run_rmsnorm(struct np_team *team, const struct call *c)
{
    c->kernels->layernorm(team, c->r[5], NULL, c->r[7], c->r[0], c->r[1], NULL, c->rows, c->cols,
                          1e-5f);
    return 0;
}

static uint64_t run_rmsnorm_grad(struct np_team *team, const struct call *c)
{
    uint64_t bad = !c->kernels->layernorm_grad(team, c->r[6], c->r[6], c->r[0], c->r[1], NULL,
                                               c->r[4], c->r[3], c->rows, c->cols);
    return bad | !c->kernels->layernorm_grad(team, c->r[7], NULL, c->r[0], c->r[1], NULL, c->r[4],
                                             c->r[3], c->rows, c->cols);
}

static uint64_t run_rmsnorm_grad_weight(struct np_team *team, const struct call *c)
{
    c->kernels->layernorm_grad_weight(team, c->r[5], NULL, c->r[0], c->r[1], NULL, c->r[4], c->rows,
                                      c->cols, c->grain, c->accumulate);
    return 0;
}

/* Heads of an even width, two or three of them; what is behind them; in place. */
static uint64_t run_rotate(struct np_team *team, const struct call *c)
{
    size_t length = c->rows / 2 ? c->rows / 2 : 1, width = c->cols / 3 / 2 * 2;
    struct np_rotation rotation = {.samples = c->rows / length,
                                   .length = length,
                                   .cols = c->cols,
                                   .heads = c->accumulate ? 3 : 2,
                                   .width = width,
                                   .base = c->accumulate ? 500000 : 10000};
    if (!width)
        return 0;
    c->kernels->rotate(team, c->r[5], c->r[0], &rotation);
    rotation.back = true;
    c->kernels->rotate(team, c->r[1], c->r[1], &rotation);
    return 0;
}

static uint64_t run_rowsum(struct np_team *team, const struct call *c)
{
    c->kernels->rowsum(team, c->r[5], c->r[0], c->rows, c->cols);
    return 0;
}

static uint64_t run_sumsq(struct np_team *team, const struct call *c)
{
    c->kernels->sumsq(team, c->r[5], c->r[0], c->count, false);
    c->kernels->sumsq(team, c->r[5], c->r[1], c->count, true);
    return 0;
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

/* Three heads of up to 11 channels, causal, over all keys, over another sequence's, with relative
 * positions, over some of all keys, these with relative positions; stats of an earlier forward pass
 * serve the gradient. Rows lie further apart than they are wide. */
enum { MASKS = 6 };

static struct np_attention attention_of(const struct call *c, int mask)
{
    size_t width = 3 * (c->cols / 9 > 11 ? 11 : c->cols / 9 + 1);
    size_t length = c->shape.length > 100 ? 100 : c->shape.length;
    struct np_attention p = {.samples = c->shape.samples, .queries = length, .keys = length};
    if (mask == 2)
        p.keys = length / 2 + 3;
    p.causal = mask == 0;
    p.width = width;
    p.heads = 3;
    p.q = c->r[0];
    p.k = c->r[1];
    p.v = c->r[2];
    p.ldq = width + (size_t)mask % 4;
    p.ldk = width + 1;
    if (mask == 3 || mask == 5) {
        p.relative = c->r[2];
        p.across = length;
    }
    if (mask > 3)
        p.lengths = c->lengths;
    return p;
}

static uint64_t run_attention(struct np_team *team, const struct call *c)
{
    for (int mask = 0; mask < MASKS; mask++) {
        struct np_attention p = attention_of(c, mask);
        float *out = c->r[5 + mask % 3] + mask / 3 * (REGION / 4);
        c->kernels->attention(team, out, out + REGION / 2, &p);
    }
    return 0;
}

static uint64_t run_attention_grad(struct np_team *team, const struct call *c)
{
    for (int mask = 0; mask < MASKS; mask++) {
        struct np_attention p = attention_of(c, mask);
        float *dq = c->r[5 + mask % 3] + mask / 3 * (REGION / 6);
        c->kernels->attention_grad(team, dq, dq + REGION / 3, dq + REGION / 3 * 2,
                                   p.relative ? c->r[mask / 5] + REGION / 2 : NULL, c->r[3],
                                   c->r[4], &p);
    }
    return 0;
}

static uint64_t run_embed(struct np_team *team, const struct call *c)
{
    c->kernels->embed(team, c->r[5], c->tokens, c->r[0], c->r[1], c->shape.samples, c->shape.length,
                      c->cols);
    c->kernels->embed(team, c->r[6], c->tokens, c->r[0], NULL, c->shape.samples, c->shape.length,
                      c->cols);
    return 0;
}

static uint64_t run_embed_grad(struct np_team *team, const struct call *c)
{
    c->kernels->embed_grad(team, c->r[5], c->r[6], c->tokens, c->r[0], c->shape.samples,
                           c->shape.length, c->cols);
    c->kernels->embed_grad(team, c->r[7], NULL, c->tokens, c->r[0], c->shape.samples,
                           c->shape.length, c->cols);
    return 0;
}

static uint64_t run_xent(struct np_team *team, const struct call *c)
{
    c->kernels->xent(team, c->r[5], c->r[0], c->targets, c->rows, c->cols,
                     c->accumulate ? 0.1f : 0.0f);
    return 0;
}

static uint64_t run_distill(struct np_team *team, const struct call *c)
{
    c->kernels->distill(team, c->r[5], c->r[0], c->r[1], c->targets, c->rows, c->cols, 0.3f);
    return 0;
}

static uint64_t run_xent_grad(struct np_team *team, const struct call *c)
{
    c->kernels->xent_grad(team, c->r[5], c->r[0], c->targets, c->rows, c->cols,
                          c->accumulate ? 0.1f : 0.0f, 0.125f);
    c->kernels->xent_grad(team, c->r[1], c->r[1], c->targets, c->rows, c->cols, 0.1f, 0.5f);
    return 0;
}

/* Without a clip, or with both at once. */
static struct np_update update_of(const struct call *c)
{
    struct np_update u = {.w = c->r[5], .m = c->r[6], .v = c->r[4], .g = c->r[0]};
    u.count = c->count;
    u.address = np_fingerprint_address(3, 2);
    u.limit = c->accumulate ? 0.5f : INFINITY;
    u.lr = 1e-3f;
    u.decay = 0.01f;
    u.beta1 = 0.9f;
    u.beta2 = 0.999f;
    u.eps = 1e-8f;
    u.c1 = 10.0f;
    u.c2 = 1000.0f;
    u.momentum = 0.9f;
    u.square = c->accumulate ? c->r[4] + c->count : NULL; /* positive, and nobody writes there */
    u.norm_limit = 0.1f;
    return u;
}

/* One tensor, or three of unequal sizes, of which one is empty; what lies between stays. */
static uint64_t run_update(struct np_team *team, const struct call *c, bool adamw,
                           const struct np_update *u)
{
    struct np_layer_update all = np_update_alone(u);
    uint64_t sum = 0;
    bool finite;
    if (c->count > 40) {
        all.of[0] = (struct np_update_tensor){0, 7, 0};
        all.of[1] = (struct np_update_tensor){16, c->count - 17, u->decay};
        all.of[2] = (struct np_update_tensor){8, 0, u->decay};
        all.count = 3;
    }
    finite = adamw ? c->kernels->adamw(team, &all, &sum) : c->kernels->sgd(team, &all, &sum);
    return finite ? sum : 0;
}

static uint64_t run_adamw(struct np_team *team, const struct call *c)
{
    struct np_update u = update_of(c);
    return run_update(team, c, true, &u);
}

static uint64_t run_sgd(struct np_team *team, const struct call *c)
{
    struct np_update u = update_of(c);
    u.m = c->accumulate ? NULL : u.m;
    return run_update(team, c, false, &u);
}

static uint64_t run_nesterov(struct np_team *team, const struct call *c)
{
    struct np_update u = update_of(c);
    u.nesterov = true;
    return run_update(team, c, false, &u);
}

static uint64_t run_fingerprint(struct np_team *team, const struct call *c)
{
    return c->kernels->fingerprint(team, c->r[0], c->count, np_fingerprint_address(1, 2) + 3);
}

static const struct kernel_case cases[] = {
    {.name = "bias_add", .run = run_bias_add},
    {.name = "act", .run = run_act, .any = true},
    {.name = "act_grad", .run = run_act_grad, .any = true},
    {.name = "bias_glu", .run = run_bias_glu, .beyond = 0x03},
    {.name = "glu_grad", .run = run_glu_grad, .beyond = 0x21},
    {.name = "add", .run = run_add, .any = true},
    {.name = "finite", .run = run_finite, .any = true},
    {.name = "fill", .run = run_fill},
    {.name = "copy", .run = run_copy},
    {.name = "slice", .run = run_slice},
    {.name = "divide", .run = run_divide, .any = true},
    {.name = "rstd", .run = run_rstd, .any = true},
    {.name = "spread", .run = run_spread},
    {.name = "hits", .run = run_hits},
    {.name = "transpose", .run = run_transpose},
    {.name = "dropout", .run = run_dropout},
    {.name = "normal", .run = run_normal},
    {.name = "layernorm", .run = run_layernorm},
    {.name = "layernorm_grad", .run = run_layernorm_grad, .any = true},
    {.name = "layernorm_grad_weight", .run = run_layernorm_grad_weight},
    {.name = "rmsnorm", .run = run_rmsnorm},
    {.name = "rmsnorm_grad", .run = run_rmsnorm_grad, .any = true},
    {.name = "rmsnorm_grad_weight", .run = run_rmsnorm_grad_weight},
    {.name = "rotate", .run = run_rotate},
    {.name = "rowsum", .run = run_rowsum},
    {.name = "sumsq", .run = run_sumsq},
    {.name = "softmax", .run = run_softmax},
    {.name = "softmax_grad", .run = run_softmax_grad},
    {.name = "attention", .run = run_attention, .beyond = 0xe7},
    {.name = "attention_grad", .run = run_attention_grad, .beyond = 0xff},
    {.name = "embed", .run = run_embed, .beyond = 0x01},
    {.name = "embed_grad", .run = run_embed_grad, .beyond = 0xa0},
    {.name = "xent", .run = run_xent},
    {.name = "xent_grad", .run = run_xent_grad},
    {.name = "distill", .run = run_distill},
    {.name = "adamw", .run = run_adamw, .beyond = 0x10},
    {.name = "sgd", .run = run_sgd, .beyond = 0x10},
    {.name = "sgd, nesterov", .run = run_nesterov, .beyond = 0x10},
    {.name = "fingerprint", .run = run_fingerprint},
};

START_TEST(every_kernel_gives_the_reference_bits)
{
    kernel_case_check(&cases[_i]);
}
END_TEST

enum { NUMBERS = 131 };

/* The verdict on a and b of every kernel that adds or passes them on; they agree. */
static bool verdict(const struct np_kernels *k, const float *a, const float *b)
{
    struct np_team team = {.size = 1};
    float y[NUMBERS], kept[NUMBERS];
    bool ok = k->add(&team, NP_ACT_NONE, y, NULL, a, b, NUMBERS);
    ck_assert(k->add(&team, NP_ACT_RELU, y, kept, a, b, NUMBERS) == ok);
    ck_assert(k->act_grad(&team, NP_ACT_NONE, y, a, b, b, NUMBERS) == ok);
    ck_assert((k->act(&team, NP_ACT_NONE, y, a, NUMBERS) &&
               k->act_grad(&team, NP_ACT_SIGMOID, y, NULL, a, b, NUMBERS)) == ok);
    return ok;
}

START_TEST(non_finite_numbers_are_seen_anywhere)
{
    struct np_team team = {.size = 1};
    float x[NUMBERS] = {0}, y[NUMBERS], ones[NUMBERS], zero = 0.0f, one = 1.0f;
    for (size_t i = 0; i < COUNT(ones); i++)
        ones[i] = 1.0f;
    for (int isa = 0; isa < BACKENDS; isa++) {
        const struct np_kernels *k = backend_get(isa);
        for (size_t i = 0; k && i < COUNT(x); i++) {
            ck_assert(k->finite(&team, x, COUNT(x)) && verdict(k, x, ones));
            ck_assert(k->layernorm_grad(&team, y, NULL, ones, x, &zero, &one, ones, 1, COUNT(x)));
            x[i] = i % 3 == 0 ? INFINITY : i % 3 == 1 ? -INFINITY : NAN;
            ck_assert(!k->finite(&team, x, COUNT(x)) && !verdict(k, x, ones));
            ck_assert(!verdict(k, ones, x));
            ck_assert(!k->layernorm_grad(&team, y, x, ones, ones, &zero, &one, ones, 1, COUNT(x)));
            ck_assert(!k->layernorm_grad(&team, y, NULL, ones, x, &zero, &one, ones, 1, COUNT(x)));
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
    TCase *tests = suite_case(suite, "table");
    kernel_case_begin();
    tcase_add_loop_test(tests, every_kernel_gives_the_reference_bits, 0, (int)COUNT(cases));
    tcase_add_test(tests, non_finite_numbers_are_seen_anywhere);
    tcase_add_test(tests, instruction_sets_have_names);
    return suite_run(suite);
}

/* The double reference against central finite differences of its own forward pass. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "layer_cases.h"
#include "reference.h"

enum { SAMPLES = 2, DIRECTIONS = 3 };

struct trial {
    struct np_kind kind;
    struct reference_call call;
    size_t rows, count; /* of activations; 0 for the stem's input */
    double *w, *x, *dy, *y, *dx, *g, *direction;
    int32_t *tokens, *targets;
};

static void trial_init(struct trial *t, const struct layer_case *c)
{
    ck_assert(np_kind_init(&t->kind, &c->spec, c->width, c->length, CASE_VOCAB));
    t->rows = SAMPLES * c->length;
    t->count = t->rows * c->width;
    t->w = reference_zeros(t->kind.floats);
    t->g = reference_zeros(t->kind.floats);
    t->x = reference_zeros(t->count);
    t->y = reference_zeros(t->count);
    t->dy = reference_zeros(t->count);
    t->dx = reference_zeros(t->count);
    t->direction = reference_zeros(t->count + t->kind.floats);
    t->tokens = calloc(t->rows, sizeof *t->tokens);
    t->targets = calloc(t->rows, sizeof *t->targets);
    for (int k = 0; k < t->kind.tensor_count; k++)
        for (size_t i = 0; i < t->kind.tensors[k].count; i++)
            t->w[t->kind.tensors[k].offset + i] =
                (double)case_weight(&t->kind.tensors[k], (uint32_t)k, i);
    for (size_t i = 0; i < t->count; i++) {
        t->x[i] = (double)case_value(20, i);
        t->dy[i] = (double)case_value(21, i);
    }
    for (size_t i = 0; i < t->rows; i++) {
        t->tokens[i] = (int32_t)(i * 7 % CASE_VOCAB);
        t->targets[i] = (int32_t)(i * 5 % CASE_VOCAB);
    }
    t->call = (struct reference_call){.kind = &t->kind,
                                      .w = t->w,
                                      .samples = SAMPLES,
                                      .first = 3,
                                      .seed = 7,
                                      .step = 5,
                                      .layer = 2,
                                      .train = true,
                                      .tokens = t->tokens,
                                      .targets = t->targets,
                                      .smoothing = 0.1,
                                      .scale = 0.5};
}

static void trial_clear(struct trial *t)
{
    free(t->w);
    free(t->g);
    free(t->x);
    free(t->y);
    free(t->dy);
    free(t->dx);
    free(t->direction);
    free(t->tokens);
    free(t->targets);
}

/* The scalar whose gradient backward computes. */
static double objective(struct trial *t)
{
    double sum = 0.0;
    bool head = t->kind.spec.op == NP_OP_LM;
    reference_forward(&t->call, t->y, t->x);
    for (size_t i = 0; i < (head ? t->rows : t->count); i++)
        sum += head ? t->call.scale * t->y[i] : t->dy[i] * t->y[i];
    return sum;
}

static void move(double *value, const double *direction, size_t count, double by)
{
    for (size_t i = 0; i < count; i++)
        value[i] += by * direction[i];
}

/* The slope along a random direction, from the gradient and by differences. The differences err by
 * h^2/6 times a third derivative and by rounding, 2^-53 sqrt(n) |f| / h; with h = 2^-17 both are
 * near 1e-10 of the terms' mass. Third derivatives of these layers reach some hundred times the
 * gradient; hence 1e-7. */
static void check_slope(struct trial *t, double *value, const double *gradient, size_t count,
                        uint32_t stream, const char *what)
{
    const double h = 0x1p-17;
    double exact = 0.0, mass = 0.0, differences;
    for (size_t i = 0; i < count; i++) {
        t->direction[i] = (double)case_value(stream, i);
        exact += gradient[i] * t->direction[i];
        mass += fabs(gradient[i] * t->direction[i]);
    }
    move(value, t->direction, count, h);
    differences = objective(t);
    move(value, t->direction, count, -2.0 * h);
    differences = (differences - objective(t)) / (2.0 * h);
    move(value, t->direction, count, h);
    ck_assert_msg(fabs(exact - differences) <= 1e-7 * (mass + 1.0),
                  "%s: %.12g, by differences %.12g", what, exact, differences);
}

START_TEST(gradients_match_finite_differences)
{
    struct trial t;
    char name[NP_KIND_NAME + 32];
    trial_init(&t, &layer_cases[_i]);
    reference_backward(&t.call, t.dx, t.g, t.x, t.dy);
    np_kind_name(&t.kind, name);
    for (uint32_t i = 0; i < DIRECTIONS; i++) {
        if (t.kind.spec.op != NP_OP_EMBEDDING)
            check_slope(&t, t.x, t.dx, t.count, 40 + i, name);
        for (int k = 0; k < t.kind.tensor_count; k++)
            check_slope(&t, t.w + t.kind.tensors[k].offset, t.g + t.kind.tensors[k].offset,
                        t.kind.tensors[k].count, 50 + 8 * (uint32_t)k + i, name);
    }
    trial_clear(&t);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("reference");
    TCase *tcase = tcase_create("reference");
    SRunner *runner;
    int failed;
    tcase_add_loop_test(tcase, gradients_match_finite_differences, 0, LAYER_CASES);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}

/* The double reference against central finite differences of its own forward pass. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "layer_cases.h"
#include "reference.h"
#include "space/kinds.h"
#include "suite.h"

enum { SAMPLES = 2, DIRECTIONS = 3, X = 40, MEMORY, SUM, DY, IMAGES, ALONG };

struct trial {
    struct np_kind kind;
    struct reference_call call;
    bool head;
    size_t outputs; /* of y, or losses */
    double *w, *x, *memory, *sum, *dy, *y, *dx, *dmemory, *g, *direction;
    float *images;
    int32_t *tokens, *targets, *lengths;
};

static size_t size_of(struct np_shape shape)
{
    return SAMPLES * np_shape_floats(shape);
}

static double *drawn(size_t count, uint32_t stream)
{
    double *x = reference_zeros(count);
    for (size_t i = 0; i < count; i++)
        x[i] = (double)case_value(stream, i);
    return x;
}

static int32_t *classes(size_t count, size_t step)
{
    int32_t *x = calloc(count + 1, sizeof *x);
    for (size_t i = 0; i < count; i++)
        x[i] = (int32_t)(i * step % CASE_VOCAB);
    return x;
}

static void draw_weights(struct trial *t)
{
    t->w = reference_zeros(t->kind.floats);
    t->g = reference_zeros(t->kind.floats);
    for (int k = 0; k < t->kind.tensor_count; k++)
        for (size_t i = 0; i < t->kind.tensors[k].count; i++)
            t->w[t->kind.tensors[k].offset + i] =
                (double)case_weight(&t->kind.tensors[k], (uint32_t)k, i);
}

static void trial_init(struct trial *t, int index)
{
    const struct np_kind *kind = &t->kind;
    size_t inputs;
    layer_case_init(&t->kind, index);
    t->head = kind->program.output < 0;
    t->outputs = t->head ? SAMPLES * kind->length : size_of(kind->out);
    inputs = size_of(kind->in) + size_of(kind->memory);
    draw_weights(t);
    t->x = drawn(size_of(kind->in), X);
    t->memory = drawn(size_of(kind->memory), MEMORY);
    t->sum = drawn(size_of(kind->out), SUM);
    t->dy = drawn(t->outputs, DY);
    t->y = reference_zeros(t->outputs);
    t->dx = reference_zeros(size_of(kind->in));
    t->dmemory = reference_zeros(size_of(kind->memory));
    t->direction = reference_zeros(inputs + kind->floats);
    t->images = calloc(size_of(kind->image) + 1, sizeof *t->images);
    for (size_t i = 0; i < size_of(kind->image); i++)
        t->images[i] = case_value(IMAGES, i);
    t->tokens = classes(t->outputs, 7);
    t->targets = case_targets(t->outputs);
    t->lengths = case_lengths(kind, SAMPLES);
    t->call = (struct reference_call){.kind = &t->kind,
                                      .w = t->w,
                                      .samples = SAMPLES,
                                      .first = 3,
                                      .seed = 7,
                                      .step = 5,
                                      .layer = 2,
                                      .train = true,
                                      .images = t->images,
                                      .tokens = t->tokens,
                                      .source = t->tokens,
                                      .targets = t->targets,
                                      .source_lengths = t->lengths,
                                      .target_lengths = t->lengths,
                                      .smoothing = 0.1,
                                      .scale = 0.5};
}

static void trial_clear(struct trial *t)
{
    double *all[] = {t->w, t->x,  t->memory,  t->sum, t->dy,
                     t->y, t->dx, t->dmemory, t->g,   t->direction};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    free(t->images);
    free(t->tokens);
    free(t->targets);
    free(t->lengths);
    np_kind_clear(&t->kind);
}

static struct reference_inputs inputs_of(const struct trial *t)
{
    return (struct reference_inputs){t->x, t->memory, t->kind.summed ? t->sum : NULL};
}

/* The scalar whose gradient backward computes. */
static double objective(struct trial *t)
{
    struct reference_inputs in = inputs_of(t);
    double sum = 0.0;
    reference_forward(&t->call, t->y, &in);
    for (size_t i = 0; i < t->outputs; i++)
        sum += t->head ? t->call.scale * t->y[i] : t->dy[i] * t->y[i];
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
    struct reference_inputs in;
    char name[NP_KIND_NAME];
    trial_init(&t, _i);
    in = inputs_of(&t);
    reference_backward(&t.call, t.dx, t.dmemory, t.g, &in, t.dy);
    np_kind_name(&t.kind, name);
    for (uint32_t i = 0; i < DIRECTIONS; i++) {
        check_slope(&t, t.x, t.dx, size_of(t.kind.in), ALONG + i, name);
        check_slope(&t, t.memory, t.dmemory, size_of(t.kind.memory), ALONG + i, name);
        for (int k = 0; k < t.kind.tensor_count; k++)
            check_slope(&t, t.w + t.kind.tensors[k].offset, t.g + t.kind.tensors[k].offset,
                        t.kind.tensors[k].count, ALONG + 10 + 8 * (uint32_t)k + i,
                        t.kind.tensors[k].name);
    }
    trial_clear(&t);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("reference");
    TCase *tests = suite_case(suite, "reference");
    tcase_add_loop_test(tests, gradients_match_finite_differences, 0, layer_cases);
    return suite_run(suite);
}

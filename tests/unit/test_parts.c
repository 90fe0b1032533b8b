/* Parts of layers: where they lie in their wholes, and that they compute what a layer of their own
 * with the same weights does, bit for bit. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "backends.h"
#include "layer_cases.h"
#include "ops/op.h"
#include "space/parts.h"
#include "suite.h"
#include "team_run.h"
#include "tiny.h"

enum { SAMPLES = 4, GRAIN = 2, X = 40, MEMORY, SUM, DY, SUMS };

/* What a kind makes of the same inputs; g: after a gradient that begins, and one that goes on. */
struct outcome {
    float *y, *dx, *dmemory, *g[2];
};

struct job {
    const struct np_kind *kind;
    const struct np_kernels *kernels;
    const float *w, *x, *memory, *sum, *dy;
    struct outcome out;
    float *saved, *delta, *work;
};

static size_t size_of(struct np_shape shape)
{
    return SAMPLES * np_shape_floats(shape);
}

static void run_member(struct np_team *team, void *arg)
{
    struct job *job = arg;
    const struct np_kind *kind = job->kind;
    struct np_op_call call = {.kernels = job->kernels,
                              .team = team,
                              .kind = kind,
                              .w = job->w,
                              .samples = SAMPLES,
                              .grain = GRAIN,
                              .seed = 3,
                              .step = 5,
                              .layer = 1,
                              .train = true,
                              .saved = job->saved,
                              .delta = job->delta,
                              .work = job->work};
    const struct np_op_forward forward = {job->x, kind->memory.channels ? job->memory : NULL,
                                          kind->summed ? job->sum : NULL, job->out.y};
    struct np_op_backward backward = {.x = forward.x,
                                      .memory = forward.memory,
                                      .dy = job->dy,
                                      .dx = job->out.dx,
                                      .dmemory = kind->memory.channels ? job->out.dmemory : NULL};
    bool finite = np_op_forward(&call, &forward);
    finite = np_op_backward(&call, &backward) && finite;
    finite = np_op_weight(&call, job->out.g[0], &backward, false) && finite;
    finite = np_op_weight(&call, job->out.g[1], &backward, true) && finite;
    ck_assert(finite);
}

/* The gradient that goes on begins with `sums`, which becomes the outcome's. */
static struct outcome run(const struct np_kind *kind, const struct np_kernels *kernels, int threads,
                          const float *w, float *sums)
{
    struct np_op_sizes sizes = np_op_sizes(kind, SAMPLES);
    struct job job = {.kind = kind,
                      .kernels = kernels,
                      .w = w,
                      .x = case_drawn(size_of(kind->in), X),
                      .memory = case_drawn(size_of(kind->memory), MEMORY),
                      .sum = case_drawn(size_of(kind->out), SUM),
                      .dy = case_drawn(size_of(kind->out), DY),
                      .out = {.y = case_floats(size_of(kind->out)),
                              .dx = case_floats(size_of(kind->in)),
                              .dmemory = case_floats(size_of(kind->memory)),
                              .g = {case_floats(np_kind_whole(kind)->floats), sums}},
                      .saved = case_floats(sizes.saved),
                      .delta = case_floats(sizes.delta),
                      .work = case_floats(sizes.work)};
    team_run(threads, np_kernels_scratch_bytes(64, 64), run_member, &job);
    free((float *)job.x);
    free((float *)job.memory);
    free((float *)job.sum);
    free((float *)job.dy);
    free(job.saved);
    free(job.delta);
    free(job.work);
    return job.out;
}

static void outcome_clear(struct outcome *o)
{
    free(o->y);
    free(o->dx);
    free(o->dmemory);
    free(o->g[0]);
    free(o->g[1]);
}

static float *cut(const struct np_kind *part, const float *slab)
{
    float *out = case_floats(part->part_floats);
    np_part_cut(out, part, slab);
    return out;
}

/* Pasted into another slab, a part is there, and the rest is as it was. */
static void paste_back(const struct np_kind *part, const bool *mask, const float *weights)
{
    size_t count = part->whole->floats;
    float *slab = case_floats(count), *again;
    for (size_t i = 0; i < count; i++)
        slab[i] = -7.0f;
    np_part_paste(slab, part, weights);
    for (size_t i = 0; i < count; i++)
        ck_assert(mask[i] || slab[i] == -7.0f);
    again = cut(part, slab);
    ck_assert_mem_eq(again, weights, part->part_floats * sizeof *again);
    free(slab);
    free(again);
}

/* Where a part's floats lie in the slab of its whole: below 2^24, which floats count exactly. */
static bool *mask_of(const struct np_kind *part)
{
    size_t count = part->whole->floats;
    float *numbers = case_floats(count), *there;
    bool *mask = calloc(count, sizeof *mask);
    ck_assert_uint_lt(count, 1u << 24);
    for (size_t i = 0; i < count; i++)
        numbers[i] = (float)i;
    there = cut(part, numbers);
    for (size_t i = 0; i < part->part_floats; i++) {
        ck_assert_msg(!mask[(size_t)there[i]], "two floats of a part are one of the whole");
        mask[(size_t)there[i]] = true;
    }
    free(numbers);
    free(there);
    return mask;
}

#define same(a, b, count) ck_assert_msg(memcmp(a, b, (count) * sizeof *(a)) == 0, "%s: " #a, name)

/* part: what the part gave with the slab; own: a layer of its own with the weights cut from it. */
static void compare(const struct np_kind *part, const struct outcome *a, const struct outcome *b,
                    const float *sums)
{
    char name[NP_KIND_NAME];
    bool *mask = mask_of(part);
    np_kind_name(part, name);
    same(a->y, b->y, size_of(part->out));
    same(a->dx, b->dx, size_of(part->in));
    if (part->memory.channels)
        same(a->dmemory, b->dmemory, size_of(part->memory));
    for (int k = 0; k < 2; k++) {
        float *g = cut(part, a->g[k]);
        same(g, b->g[k], part->part_floats);
        free(g);
    }
    for (size_t i = 0; i < part->whole->floats; i++) { /* beside the part */
        const float zero = 0.0f;
        ck_assert(mask[i] || memcmp(&a->g[0][i], &zero, sizeof zero) == 0);
        ck_assert(mask[i] || memcmp(&a->g[1][i], &sums[i], sizeof zero) == 0);
    }
    free(mask);
}

/* What is dropped does not tell kinds apart; operators, keys and tensors do. */
static void tell_apart(const struct np_kind *kind)
{
    struct np_kind other = *kind;
    struct np_tensor tensor = kind->tensors[0];
    memcpy(&other.spec, &kind->spec, sizeof other.spec); /* padding, too */
    other.spec.dropout = 0.25f;
    other.spec.drop_path = 0.75f;
    ck_assert(np_kind_same_weights(kind, &other));
    other.spec.heads++;
    ck_assert(!np_kind_same_weights(kind, &other));
    other.spec.heads--;
    other.tensor_count--;
    ck_assert(!np_kind_same_weights(kind, &other));
    tensor.abreast++;
    ck_assert(!np_tensor_same(&tensor, &kind->tensors[0]));
    tensor.abreast--;
    tensor.shape[tensor.rank - 1]++;
    ck_assert(!np_tensor_same(&tensor, &kind->tensors[0]));
    tensor.shape[tensor.rank - 1]--;
    tensor.offset++;
    ck_assert(np_tensor_same(&tensor, &kind->tensors[0]));
    tensor.name[0]++;
    ck_assert(!np_tensor_same(&tensor, &kind->tensors[0]));
}

static void check_part(const struct np_recipe *recipe, const struct np_kind *part)
{
    const struct np_setting setting = {.in = part->in,
                                       .memory = part->memory,
                                       .out = part->out,
                                       .stride = part->spec.stride,
                                       .summed = part->summed};
    float *slab = case_weights(part->whole), *sums = case_drawn(part->whole->floats, SUMS);
    float *weights = cut(part, slab);
    bool *mask = mask_of(part);
    struct np_kind own;
    struct np_error err;
    np_kind_set(&own, recipe, &part->spec, &setting);
    own.reads = part->reads;
    own.makes = part->makes;
    tiny_must(np_kind_build(&own, "", &err), &err);
    ck_assert_uint_eq(own.floats, part->part_floats);
    ck_assert(np_kind_same_weights(part, &own));
    tell_apart(&own);
    paste_back(part, mask, weights);
    free(mask);
    for (int backend = 0; backend < BACKENDS; backend++)
        for (int threads = 1; backend_get(backend) && threads <= 3; threads++) {
            if (!team_is_tried(threads, backend))
                continue;
            const struct np_kernels *kernels = backend_get(backend);
            struct outcome a =
                run(part, kernels, threads, slab, case_drawn(part->whole->floats, SUMS));
            struct outcome b = run(&own, kernels, threads, weights, cut(part, sums));
            compare(part, &a, &b, sums);
            outcome_clear(&a);
            outcome_clear(&b);
        }
    np_kind_clear(&own);
    free(slab);
    free(sums);
    free(weights);
}

static const enum tiny_kind kinds[] = {TINY_ENTANGLED, TINY_SLICES, TINY_WIDTHS,
                                       TINY_NARROW,    TINY_SIZES,  TINY_ROTARY};

START_TEST(parts_compute_what_layers_of_their_own_do)
{
    struct tiny t;
    int parts = 0;
    tiny_open(&t, kinds[_i], NULL, 0);
    for (int k = 0; k < t.net.kind_count; k++)
        if (t.net.kinds[k].pieces) {
            check_part(&t.recipe, &t.net.kinds[k]);
            parts++;
        }
    ck_assert_int_ge(parts, 7);
    tiny_close(&t);
}
END_TEST

/* Layers of a block: each candidate's weights are its own, or those of one that has its own. */
START_TEST(wholes_are_layers_of_the_same_block)
{
    struct tiny t;
    tiny_open(&t, kinds[_i], NULL, 0);
    for (uint32_t l = 0; l < t.net.layers; l++) {
        uint32_t whole = t.net.layer_whole[l];
        const struct np_kind *kind = np_supernet_kind(&t.net, l);
        ck_assert_uint_eq(t.net.layer_whole[whole], whole);
        ck_assert_int_eq(np_supernet_position(&t.net, l), np_supernet_position(&t.net, whole));
        ck_assert((kind->whole == NULL) == (whole == l));
        if (whole != l) {
            ck_assert_ptr_eq(kind->whole, np_supernet_kind(&t.net, whole));
            ck_assert_uint_eq(kind->floats, 0);
            ck_assert_uint_le(kind->part_floats, kind->whole->floats);
        }
    }
    tiny_close(&t);
}
END_TEST

/* The taps of 2 x 3 in 5 x 4, centred; the first two channels of three. */
START_TEST(taps_lie_around_the_same_position)
{
    static const struct np_layer_spec specs[] = {
        {.op = NP_OP_DWCONV2D, .kernel = {2, 3}, .dilation = 1},
        {.op = NP_OP_DWCONV2D, .kernel = {5, 4}, .dilation = 2}};
    const struct np_setting setting = {.in = {6, 6, 3}, .out = {6, 6, 3}, .stride = 1};
    struct np_recipe recipe = {.channels = 1, .height = 6, .image_width = 6, .path = (char *)"r"};
    struct np_block block = {.count = 2, .choices = specs, .entangled = true};
    struct np_family family;
    struct np_error err;
    const struct np_piece *piece;
    recipe.input = NP_INPUT_IMAGES;
    tiny_must(np_family_init(&family, &recipe, &block, &setting, &err), &err);
    ck_assert_int_eq(family.whole[0], 1);
    ck_assert_int_eq(family.whole[1], 1);
    ck_assert_ptr_null(np_part_misfit(&family.kinds[0], &family.kinds[1]));
    tiny_must(np_part_join(&family.kinds[0], &family.kinds[1], &err), &err);
    piece = &family.kinds[0].pieces[0]; /* of 5 rows, 0 is 2 above the middle; of 4, 0 is 1 */
    ck_assert_uint_eq(piece->offset, (2 * 4 + 0) * 3);
    ck_assert_uint_eq(piece->slice.count[1] * piece->slice.count[2], 2 * 3);
    ck_assert_uint_eq(piece->slice.stride[1], 4 * 3);
    ck_assert_uint_eq(piece->slice.stride[2], 3);
    np_family_clear(&family);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("parts");
    TCase *tests = suite_case(suite, "parts");
    const int count = (int)(sizeof kinds / sizeof *kinds);
    tcase_add_unchecked_fixture(tests, tiny_make_files, tiny_remove_files);
    tcase_add_loop_test(tests, parts_compute_what_layers_of_their_own_do, 0, count);
    tcase_add_loop_test(tests, wholes_are_layers_of_the_same_block, 0, count);
    tcase_add_test(tests, taps_lie_around_the_same_position);
    return suite_run(suite);
}

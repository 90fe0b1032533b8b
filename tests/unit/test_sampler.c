#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/digest.h"
#include "space/sampler.h"
#include "stream_shape.h"
#include "suite.h"

enum { BLOCKS = 6, EPOCH = 4096 };
static const int candidates[BLOCKS] = {4, 4, 4, 4, 4, 4};
static const int uneven[BLOCKS] = {1, 2, 3, 4, 100, 4096};

static struct np_stream *draw(const struct np_stream_shape *shape, enum np_sampler_kind kind,
                              int spread, uint64_t first)
{
    struct np_stream *stream = NULL;
    ck_assert_int_eq(np_stream_draw(&stream, shape, kind, spread, 7, first, NULL), NP_OK);
    return stream;
}

static void next(struct np_stream *stream, uint16_t *choices)
{
    bool more = false;
    ck_assert_int_eq(np_stream_next(stream, choices, &more, NULL), NP_OK);
    ck_assert(more);
}

/* Beginning at any step gives the same stream as from 0. */
START_TEST(test_any_start)
{
    struct np_stream_block each[BLOCKS];
    const struct np_stream_shape shape = stream_shape(each, BLOCKS, 4, candidates);
    const enum np_sampler_kind kinds[] = {NP_SAMPLER_UNIFORM, NP_SAMPLER_FAIR, NP_SAMPLER_SPREAD,
                                          NP_SAMPLER_SANDWICH};
    const uint64_t starts[] = {0, 1, 63, 64, 65, EPOCH - 1, EPOCH, EPOCH + 1, EPOCH + 100};
    for (size_t k = 0; k < 4; k++) {
        struct np_stream *from_zero = draw(&shape, kinds[k], 64, 0);
        uint64_t step = 0;
        uint16_t expected[4 * BLOCKS], choices[4 * BLOCKS];
        for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
            struct np_stream *later = draw(&shape, kinds[k], 64, starts[i]);
            for (; step <= starts[i]; step++)
                next(from_zero, expected);
            next(later, choices);
            ck_assert_mem_eq(choices, expected, sizeof choices);
            np_stream_close(later);
        }
        np_stream_close(from_zero);
    }
}
END_TEST

/* The two ends of every block, then what the uniform sampler gives those members. */
START_TEST(test_sandwich)
{
    struct np_stream_block each[BLOCKS];
    const struct np_stream_shape shape = stream_shape(each, BLOCKS, 4, uneven);
    struct np_stream *stream = draw(&shape, NP_SAMPLER_SANDWICH, 1, 3);
    struct np_stream *plain = draw(&shape, NP_SAMPLER_UNIFORM, 1, 3);
    uint16_t choices[4 * BLOCKS], others[4 * BLOCKS];
    each[4].largest = 0; /* the stream has a copy */
    for (int step = 0; step < 20; step++) {
        next(stream, choices);
        next(plain, others);
        for (int b = 0; b < BLOCKS; b++) {
            ck_assert_uint_eq(choices[b], uneven[b] - 1);
            ck_assert_uint_eq(choices[BLOCKS + b], 0);
        }
        ck_assert_mem_eq(choices + 2 * BLOCKS, others + 2 * BLOCKS, sizeof choices / 2);
    }
    np_stream_close(stream);
    np_stream_close(plain);
}
END_TEST

START_TEST(test_uniform_frequencies)
{
    struct np_stream_block each[BLOCKS];
    const struct np_stream_shape shape = stream_shape(each, BLOCKS, 2, candidates);
    struct np_stream *stream = draw(&shape, NP_SAMPLER_UNIFORM, 1, 0);
    int seen[2][BLOCKS][4] = {{{0}}}, pairs = 0;
    uint16_t choices[2 * BLOCKS];
    for (int step = 0; step < 4000; step++) {
        next(stream, choices);
        for (int m = 0; m < 2; m++)
            for (int b = 0; b < BLOCKS; b++)
                seen[m][b][choices[m * BLOCKS + b]]++;
        pairs += choices[0] == choices[BLOCKS] && choices[0] == choices[1];
    }
    for (int m = 0; m < 2; m++) /* 1000 +- 5 sigma */
        for (int b = 0; b < BLOCKS; b++)
            for (int c = 0; c < 4; c++)
                ck_assert(seen[m][b][c] > 863 && seen[m][b][c] < 1137);
    ck_assert(pairs > 170 && pairs < 330); /* members and blocks are independent: 250 */
    np_stream_close(stream);
}
END_TEST

START_TEST(test_ranges)
{
    struct np_stream_block each[BLOCKS];
    const struct np_stream_shape shape = stream_shape(each, BLOCKS, 1, uneven);
    const enum np_sampler_kind kinds[] = {NP_SAMPLER_UNIFORM, NP_SAMPLER_SPREAD};
    uint16_t choices[BLOCKS];
    for (int k = 0; k < 2; k++) {
        struct np_stream *stream = draw(&shape, kinds[k], 3, 0);
        for (int step = 0; step < 1000; step++) {
            next(stream, choices);
            for (int b = 0; b < BLOCKS; b++)
                ck_assert(choices[b] < uneven[b]);
        }
        np_stream_close(stream);
    }
    for (uint64_t i = 0; i < 1000; i++) {
        np_stream_eval_subnet(&shape, 7, i, choices);
        for (int b = 0; b < BLOCKS; b++)
            ck_assert(choices[b] < uneven[b]);
    }
}
END_TEST

START_TEST(test_fair_takes_each_once)
{
    struct np_stream_block each[BLOCKS];
    const struct np_stream_shape shape = stream_shape(each, BLOCKS, 4, candidates);
    struct np_stream *stream = draw(&shape, NP_SAMPLER_FAIR, 1, 0);
    uint16_t choices[4 * BLOCKS];
    int firsts[4] = {0};
    for (int step = 0; step < 4000; step++) {
        next(stream, choices);
        firsts[choices[0]]++;
        for (int b = 0; b < BLOCKS; b++) {
            unsigned seen = 0;
            for (int m = 0; m < 4; m++)
                seen |= 1u << choices[m * BLOCKS + b];
            ck_assert_uint_eq(seen, 15);
        }
    }
    for (int c = 0; c < 4; c++)
        ck_assert(firsts[c] > 863 && firsts[c] < 1137);
    np_stream_close(stream);
}
END_TEST

START_TEST(test_fair_needs_a_multiple)
{
    struct np_stream_block each[BLOCKS];
    const struct np_stream_shape shape = stream_shape(each, BLOCKS, 2, uneven);
    struct np_stream *stream = NULL;
    char message[80];
    struct np_error err;
    int block = 0;
    while (2 % uneven[block] == 0)
        block++;
    snprintf(message, sizeof message, "sampler fair: block %d has %d candidates, a step 2 members",
             block, uneven[block]);
    ck_assert_int_eq(np_stream_draw(&stream, &shape, NP_SAMPLER_FAIR, 1, 7, 0, &err), NP_EINPUT);
    ck_assert_str_eq(err.msg, message);
    ck_assert_ptr_null(stream);
}
END_TEST

/* A block without a choice is everybody's. */
START_TEST(test_fair_with_fixed_blocks)
{
    const int fixed[] = {3, 1, 3};
    struct np_stream_block each[3];
    const struct np_stream_shape shape = stream_shape(each, 3, 3, fixed);
    struct np_stream *stream = draw(&shape, NP_SAMPLER_FAIR, 1, 0);
    uint16_t choices[9];
    for (int step = 0; step < 100; step++) {
        unsigned seen[3] = {0, 0, 0};
        next(stream, choices);
        for (int i = 0; i < 9; i++)
            seen[i % 3] |= 1u << choices[i];
        ck_assert_uint_eq(seen[0], 7);
        ck_assert_uint_eq(seen[1], 1);
        ck_assert_uint_eq(seen[2], 7);
    }
    np_stream_close(stream);
}
END_TEST

static int compare_steps(const void *a, const void *b)
{
    return memcmp(a, b, BLOCKS * sizeof(uint16_t));
}

/* Inside an epoch the spread stream is the uniform one in another order: no draw is lost. */
START_TEST(test_spread_is_a_reordering)
{
    struct np_stream_block each[BLOCKS];
    const struct np_stream_shape shape = stream_shape(each, BLOCKS, 1, candidates);
    struct np_stream *stream = draw(&shape, NP_SAMPLER_SPREAD, 64, EPOCH);
    struct np_stream *plain = draw(&shape, NP_SAMPLER_UNIFORM, 1, EPOCH);
    static uint16_t spread[EPOCH][BLOCKS], uniform[EPOCH][BLOCKS];
    for (int i = 0; i < EPOCH; i++) {
        next(stream, spread[i]);
        next(plain, uniform[i]);
    }
    ck_assert_mem_ne(spread, uniform, sizeof spread);
    qsort(spread, EPOCH, sizeof spread[0], compare_steps);
    qsort(uniform, EPOCH, sizeof uniform[0], compare_steps);
    ck_assert_mem_eq(spread, uniform, sizeof spread);
    np_stream_close(stream);
    np_stream_close(plain);
}
END_TEST

START_TEST(test_spread_of_one_is_uniform)
{
    struct np_stream_block each[BLOCKS];
    const struct np_stream_shape shape = stream_shape(each, BLOCKS, 2, uneven);
    struct np_stream *stream = draw(&shape, NP_SAMPLER_SPREAD, 1, 0);
    struct np_stream *plain = draw(&shape, NP_SAMPLER_UNIFORM, 1, 0);
    uint16_t spread[2 * BLOCKS], uniform[2 * BLOCKS];
    for (int i = 0; i < 300; i++) {
        next(stream, spread);
        next(plain, uniform);
        ck_assert_mem_eq(spread, uniform, sizeof spread);
    }
    np_stream_close(stream);
    np_stream_close(plain);
}
END_TEST

/* The longest chain of waiting: ticks the stream needs if every task takes one and stages are
 * without limit (48 blocks; forward, backward down to the block, one update). */
static uint64_t critical_path(enum np_sampler_kind kind, int per_block, int steps)
{
    enum { DEEP = 48 };
    int counts[DEEP];
    struct np_stream_block each[DEEP];
    struct np_stream_shape shape;
    struct np_stream *stream;
    uint64_t *updated = calloc((size_t)(DEEP * per_block), sizeof *updated), end = 0;
    uint16_t choices[DEEP];
    for (int b = 0; b < DEEP; b++)
        counts[b] = per_block;
    shape = stream_shape(each, DEEP, 1, counts);
    stream = draw(&shape, kind, 64, 0);
    for (int step = 0; step < steps; step++) {
        uint64_t now = 0;
        next(stream, choices);
        for (int b = 0; b < DEEP; b++) {
            uint64_t ready = updated[b * per_block + choices[b]];
            now = (ready > now ? ready : now) + 1;
        }
        for (int b = 0; b < DEEP; b++)
            updated[b * per_block + choices[b]] = now + (uint64_t)(DEEP - b) + 1;
        end = now > end ? now : end;
    }
    np_stream_close(stream);
    free(updated);
    return end;
}

/* What it is for: at least 2.5 times the parallelism of the uniform order. */
START_TEST(test_spread_shortens_the_chain)
{
    const int per_block[] = {96, 24};
    for (int i = 0; i < 2; i++) {
        uint64_t uniform = critical_path(NP_SAMPLER_UNIFORM, per_block[i], 1000);
        uint64_t spread = critical_path(NP_SAMPLER_SPREAD, per_block[i], 1000);
        ck_assert_msg(5 * spread < 2 * uniform, "%d candidates: %llu, uniform %llu", per_block[i],
                      (unsigned long long)spread, (unsigned long long)uniform);
    }
}
END_TEST

/* The address of a draw is fixed for ever: these are the first steps of seed 7. */
START_TEST(test_pinned_draws)
{
    struct np_stream_block each[BLOCKS], others[BLOCKS];
    const struct np_stream_shape shape = stream_shape(each, BLOCKS, 4, candidates),
                                 one = stream_shape(others, BLOCKS, 1, uneven);
    const uint16_t uniform[] = {3, 0, 0, 2, 1, 3, 0, 0, 0, 3, 2, 0,
                                0, 1, 3, 1, 1, 1, 2, 1, 2, 0, 3, 2},
                   fair[] = {2, 1, 0, 3, 3, 0, 3, 2, 3, 0, 0, 2,
                             0, 0, 1, 2, 2, 1, 1, 3, 2, 1, 1, 3},
                   eval[] = {0, 1, 2, 1, 54, 1972};
    uint16_t choices[4 * BLOCKS];
    struct np_stream *stream = draw(&shape, NP_SAMPLER_UNIFORM, 1, 0);
    next(stream, choices);
    ck_assert_mem_eq(choices, uniform, sizeof uniform);
    np_stream_close(stream);
    stream = draw(&shape, NP_SAMPLER_FAIR, 1, 0);
    next(stream, choices);
    ck_assert_mem_eq(choices, fair, sizeof fair);
    np_stream_close(stream);
    np_stream_eval_subnet(&one, 7, 0, choices);
    ck_assert_mem_eq(choices, eval, sizeof eval);
}
END_TEST

/* So is the spread order: of steps of one member and of two, beyond an epoch's end. */
START_TEST(test_pinned_spread)
{
    enum { DEEP = 24, STEPS = EPOCH + 100 };
    static const char *const pinned[] = {
        "0f91fdff7834799a713cd884e7878f8612ed6a1977f55875853dbaef3857f18e",
        "a7155cd30ab014a5e0beeb62b97d52ec07aa8c8e4b9cfcbe2c786ebb75020bcc"};
    static uint16_t choices[STEPS * 2 * DEEP];
    int counts[DEEP];
    for (int b = 0; b < DEEP; b++)
        counts[b] = 12 + b;
    for (int members = 1; members <= 2; members++) {
        struct np_stream_block each[DEEP];
        const struct np_stream_shape shape = stream_shape(each, DEEP, members, counts);
        struct np_stream *stream = draw(&shape, NP_SAMPLER_SPREAD, 16, 0);
        size_t row = (size_t)(members * DEEP);
        struct np_digest digest;
        for (size_t step = 0; step < STEPS; step++)
            next(stream, choices + step * row);
        np_stream_close(stream);
        ck_assert_int_eq(np_digest_compute(&digest, choices, STEPS * row * sizeof *choices, NULL),
                         NP_OK);
        ck_assert_str_eq(np_digest_hex(&digest).s, pinned[members - 1]);
    }
}
END_TEST

/* Tied blocks draw alike, the others as they would without ties, whoever asks. */
START_TEST(test_ties)
{
    const int drawn[BLOCKS] = {0, 1, 0, 3, 1, 5};
    struct np_stream_block each[BLOCKS], alone[BLOCKS];
    const struct np_stream_shape tied = stream_shape(each, BLOCKS, 4, candidates),
                                 free_ones = stream_shape(alone, BLOCKS, 4, candidates);
    const enum np_sampler_kind kinds[] = {NP_SAMPLER_UNIFORM, NP_SAMPLER_FAIR, NP_SAMPLER_SPREAD};
    uint16_t choices[4 * BLOCKS], others[4 * BLOCKS];
    for (int b = 0; b < BLOCKS; b++)
        each[b].drawn = each[b].width_drawn = drawn[b];
    for (size_t k = 0; k < 3; k++) {
        struct np_stream *stream = draw(&tied, kinds[k], 8, 0);
        struct np_stream *plain = draw(&free_ones, kinds[k], 8, 0);
        for (int step = 0; step < 100; step++) {
            next(stream, choices);
            next(plain, others);
            for (int i = 0; i < 4 * BLOCKS; i++) {
                int own = i / BLOCKS * BLOCKS + drawn[i % BLOCKS];
                ck_assert_uint_eq(choices[i], choices[own]);
                if (kinds[k] != NP_SAMPLER_SPREAD) /* whose order is another */
                    ck_assert_uint_eq(choices[i], others[own]);
            }
        }
        np_stream_close(stream);
        np_stream_close(plain);
    }
    for (uint64_t i = 0; i < 100; i++) {
        np_stream_eval_subnet(&tied, 7, i, choices);
        np_stream_eval_subnet(&free_ones, 7, i, others);
        for (int b = 0; b < BLOCKS; b++)
            ck_assert_uint_eq(choices[b], others[drawn[b]]);
    }
}
END_TEST

/* Blocks 0, 2 and 4 take the width of one number, and a candidate each; 1 has widths of its own; 3
 * has none, and draws as it would without. */
static struct np_stream_shape shape_of_widths(struct np_stream_block *each, int members)
{
    static const int counts[BLOCKS] = {6, 6, 9, 2, 3, 1};
    struct np_stream_shape shape = stream_shape(each, BLOCKS, members, counts);
    each[0].widths = each[2].widths = each[4].widths = 3;
    each[1].widths = 2;
    each[2].width_drawn = each[4].width_drawn = 0;
    return shape;
}

static void assert_widths(const uint16_t *choices)
{
    ck_assert_uint_eq(choices[0] / 2, choices[2] / 3);
    ck_assert_uint_eq(choices[0] / 2, choices[4]);
}

START_TEST(test_widths)
{
    struct np_stream_block each[BLOCKS], alone[BLOCKS];
    const struct np_stream_shape shape = shape_of_widths(each, 2);
    const int counts[] = {1, 1, 1, 2, 1, 1};
    const struct np_stream_shape plain = stream_shape(alone, BLOCKS, 2, counts);
    struct np_stream *stream = draw(&shape, NP_SAMPLER_UNIFORM, 1, 0);
    struct np_stream *without = draw(&plain, NP_SAMPLER_UNIFORM, 1, 0);
    uint16_t choices[2 * BLOCKS], others[2 * BLOCKS];
    int seen[3][2][3][6] = {{{{0}}}};
    for (int step = 0; step < 10800; step++) {
        next(stream, choices);
        next(without, others);
        for (const uint16_t *c = choices; c < choices + 2 * BLOCKS; c += BLOCKS) {
            assert_widths(c);
            ck_assert_uint_lt(c[1], 6);
            seen[c[4]][c[0] % 2][c[2] % 3][c[1]]++;
        }
        ck_assert_uint_eq(choices[3], others[3]);
        ck_assert_uint_eq(choices[BLOCKS + 3], others[BLOCKS + 3]);
    }
    for (int i = 0; i < 3 * 2 * 3 * 6; i++) /* 200 each, within five deviations */
        ck_assert_msg(abs((&seen[0][0][0][0])[i] - 200) < 71, "%d: %d", i, (&seen[0][0][0][0])[i]);
    for (uint64_t i = 0; i < 1000; i++) {
        np_stream_eval_subnet(&shape, 7, i, choices);
        assert_widths(choices);
    }
    np_stream_close(stream);
    np_stream_close(without);
}
END_TEST

/* Each width, and each candidate, equally often; and each with each over the steps. */
START_TEST(test_fair_widths)
{
    struct np_stream_block each[BLOCKS];
    const struct np_stream_shape shape = shape_of_widths(each, 18);
    struct np_stream *stream = draw(&shape, NP_SAMPLER_FAIR, 1, 0);
    uint16_t choices[18 * BLOCKS];
    int pairs[6][9] = {{0}}, firsts[6] = {0};
    for (int step = 0; step < 3000; step++) {
        int seen[BLOCKS][9] = {{0}};
        next(stream, choices);
        firsts[choices[0]]++;
        for (int m = 0; m < 18; m++) {
            const uint16_t *c = choices + m * BLOCKS;
            assert_widths(c);
            for (int b = 0; b < BLOCKS; b++)
                seen[b][c[b]]++;
            pairs[c[0]][c[2]]++;
        }
        for (int b = 0; b < BLOCKS; b++)
            for (int c = 0; c < shape.each[b].candidates; c++)
                ck_assert_int_eq(seen[b][c], 18 / shape.each[b].candidates);
    }
    for (int a = 0; a < 6; a++) {
        ck_assert(abs(firsts[a] - 500) < 103);
        for (int b = 0; b < 9; b++)
            ck_assert(a / 2 == b / 3 ? abs(pairs[a][b] - 3000) < 250 : pairs[a][b] == 0);
    }
    np_stream_close(stream);
}
END_TEST

/* So are these addresses. */
START_TEST(test_pinned_widths)
{
    static const char *const pinned[] = {
        "dc6d674fe744ca0be821669bc3baa1643ec6659249afa04ed860861248fa0252",
        "7332453d1aa6789e5ad44a8e57087690647552c6ea2fba9cf5cb6a0cf9116d12"};
    const enum np_sampler_kind kinds[] = {NP_SAMPLER_UNIFORM, NP_SAMPLER_FAIR};
    static uint16_t choices[50 * 18 * BLOCKS];
    struct np_stream_block each[BLOCKS];
    const struct np_stream_shape shape = shape_of_widths(each, 18);
    for (size_t k = 0; k < 2; k++) {
        struct np_stream *stream = draw(&shape, kinds[k], 1, 0);
        struct np_digest digest;
        for (size_t step = 0; step < 50; step++)
            next(stream, choices + step * 18 * BLOCKS);
        np_stream_close(stream);
        ck_assert_int_eq(np_digest_compute(&digest, choices, sizeof choices, NULL), NP_OK);
        ck_assert_str_eq(np_digest_hex(&digest).s, pinned[k]);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sampler");
    TCase *tests = suite_case(suite, "all");
    tcase_add_test(tests, test_any_start);
    tcase_add_test(tests, test_sandwich);
    tcase_add_test(tests, test_uniform_frequencies);
    tcase_add_test(tests, test_ranges);
    tcase_add_test(tests, test_fair_takes_each_once);
    tcase_add_test(tests, test_fair_needs_a_multiple);
    tcase_add_test(tests, test_fair_with_fixed_blocks);
    tcase_add_test(tests, test_widths);
    tcase_add_test(tests, test_fair_widths);
    tcase_add_test(tests, test_pinned_widths);
    tcase_add_test(tests, test_spread_is_a_reordering);
    tcase_add_test(tests, test_spread_of_one_is_uniform);
    tcase_add_test(tests, test_spread_shortens_the_chain);
    tcase_add_test(tests, test_pinned_draws);
    tcase_add_test(tests, test_pinned_spread);
    tcase_add_test(tests, test_ties);
    return suite_run(suite);
}

/* Crews on GPUs wait for the stamps of each other, hosts for replies, and a link carries as if the
 * stream of the crew did: without that the shim reports a race. */
#include <check.h>
#include <signal.h>
#include <stdlib.h>

extern "C" {
#include "cuda/cuda_device.h"
#include "cuda/cuda_team.h"
#include "suite.h"
}

enum { WORDS = 64, TURNS = 4, GPUS = 2 };

/* On each GPU a crew that has x and y, and a place for its reply. */
struct side {
    struct np_crew *crew;
    struct np_stamp *stamp;
    float *x, *y, *reply, value;
    bool finite;
};

static struct side side_new(const struct np_device *gpu)
{
    struct side side = {};
    struct np_crew_config config = {};
    config.size = 1;
    config.replies = config.watches = 1;
    config.reply_bytes = sizeof(float);
    ck_assert_int_eq(np_crew_new(&side.crew, gpu, &config, NULL), NP_OK);
    ck_assert_int_eq(np_stamp_new(&side.stamp, side.crew, NULL), NP_OK);
    ck_assert_int_eq(np_device_alloc(gpu, &side.x, WORDS * sizeof(float), NULL), NP_OK);
    ck_assert_int_eq(np_device_alloc(gpu, &side.y, WORDS * sizeof(float), NULL), NP_OK);
    return side;
}

static void side_free(const struct np_device *gpu, const struct side *side)
{
    np_stamp_free(side->stamp, side->crew);
    np_crew_free(side->crew);
    np_device_release(gpu, side->x);
    np_device_release(gpu, side->y);
}

static void run_fill(struct np_team *team, void *argument)
{
    const struct side *side = static_cast<const struct side *>(argument);
    np_kernels_cuda.fill(team, side->x, WORDS, side->value);
}

static void run_reply(struct np_team *team, void *argument)
{
    const struct side *side = static_cast<const struct side *>(argument);
    np_kernels_cuda.copy(team, side->y, side->x, WORDS);
    np_kernels_cuda.copy(team, side->reply, side->y, 1);
}

/* The crew makes x all of this value. */
static void fill(struct side *side, float value)
{
    side->value = value;
    np_crew_run(side->crew, run_fill, side);
}

/* The crew says later what x is, and that it is finite. */
static void ask(struct side *side, float *x)
{
    np_crew_watch(side->crew, &side->finite);
    side->reply = static_cast<float *>(np_crew_reply(side->crew, x, sizeof *x));
    np_crew_run(side->crew, run_reply, side);
}

static void after(const struct side *side, const struct side *other)
{
    np_crew_stamp(other->crew, other->stamp);
    np_crew_after(side->crew, other->stamp);
}

static void choose_seed(int i)
{
    setenv("SHIM_SEED", i ? "7" : "3", 1);
}

/* One crew fills x, another one reads it, the first one fills it again: how often the other one has
 * read something else. */
static int hand_over(void)
{
    int wrong = 0;
    struct np_device gpu;
    int number = 0;
    ck_assert_int_eq(np_cuda_open(&gpu, &number, 1, NULL), NP_OK);
    struct side writer = side_new(&gpu), reader = side_new(&gpu);
    float *own = reader.x;
    reader.x = writer.x;
    for (int i = 0; i < TURNS; i++) {
        float said = 0.0f, y[WORDS];
        fill(&writer, 1.0f);
        after(&reader, &writer);
        ask(&reader, &said);
        after(&writer, &reader);
        fill(&writer, 2.0f);
        ck_assert_int_eq(np_crew_finish(reader.crew, NULL), NP_OK);
        ck_assert_int_eq(np_device_copy(&gpu, y, reader.y, sizeof y, NULL), NP_OK);
        wrong += said != 1.0f || y[WORDS - 1] != 1.0f;
        ck_assert_int_eq(np_stamp_await(writer.crew, writer.stamp, NULL), NP_OK);
        ck_assert_int_eq(np_crew_finish(writer.crew, NULL), NP_OK);
    }
    reader.x = own;
    side_free(&gpu, &writer);
    side_free(&gpu, &reader);
    return wrong;
}

START_TEST(crews_wait_for_stamps_and_replies)
{
    choose_seed(_i);
    ck_assert_int_eq(hand_over(), 0);
}
END_TEST

static const char *const skipped[] = {"cudaStreamWaitEvent", "cudaEventSynchronize"};

START_TEST(a_wait_that_is_missing_is_reported)
{
    choose_seed(_i % 2);
    setenv("SHIM_SKIP", skipped[_i / 2], 1);
    hand_over();
}
END_TEST

/* --- links ---------------------------------------------------------------------------------- */

struct linked {
    struct np_device gpus[GPUS];
    struct np_link *link;
    struct side sides[GPUS];
};

static struct linked join(bool nccl)
{
    struct linked l;
    const int numbers[GPUS] = {0, 1};
    setenv("SHIM_DEVICES", "2", 1);
    ck_assert_int_eq(np_cuda_open(l.gpus, numbers, GPUS, NULL), NP_OK);
    ck_assert_int_eq(nccl ? np_cuda_nccl(&l.link, l.gpus, GPUS, 10, NULL)
                          : np_cuda_peers(&l.link, l.gpus, GPUS, NULL),
                     NP_OK);
    for (int i = 0; i < GPUS; i++)
        l.sides[i] = side_new(&l.gpus[i]);
    return l;
}

static void part(struct linked *l)
{
    np_link_settle(l->link);
    for (int i = 0; i < GPUS; i++)
        side_free(&l->gpus[i], &l->sides[i]);
    np_link_free(l->link);
}

static void carry(struct linked *l, const struct side *by)
{
    const struct np_link_part parts[] = {
        {l->sides[1].x, l->sides[0].x, WORDS / 2 * sizeof(float)},
        {l->sides[1].x + WORDS / 2, l->sides[0].x + WORDS / 2, WORDS / 2 * sizeof(float)}};
    ck_assert_int_eq(np_link_carry(l->link, by->crew, 0, 1, parts, 2, NULL), NP_OK);
}

static void finish(struct linked *l, struct side *side)
{
    uint64_t mark = np_crew_mark(side->crew, nullptr);
    ck_assert_int_eq(np_link_await(l->link, side->crew, mark, NULL), NP_OK);
}

/* What the crew does before and after it is as if it had copied it itself, whoever's crew. */
START_TEST(a_link_carries_in_the_crews_order)
{
    choose_seed(_i / 4);
    struct linked l = join(_i / 2 % 2);
    struct side *from = &l.sides[0], *to = &l.sides[1];
    for (int i = 0; i < TURNS; i++) {
        float said = 0.0f;
        fill(from, 1.0f);
        fill(to, 2.0f);
        if (_i % 2) { /* the sender's crew carries */
            after(from, to);
            carry(&l, from);
            fill(from, 3.0f);
            after(to, from);
            ask(to, &said);
        } else {
            after(to, from);
            carry(&l, to);
            ask(to, &said);
            after(from, to);
            fill(from, 3.0f);
        }
        finish(&l, to);
        ck_assert(said == 1.0f);
    }
    finish(&l, &l.sides[0]);
    part(&l);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("crews");
    TCase *tests = suite_case(suite, "crews");
    tcase_add_loop_test(tests, crews_wait_for_stamps_and_replies, 0, 2);
    tcase_add_loop_test_raise_signal(tests, a_wait_that_is_missing_is_reported, SIGABRT, 0, 4);
    tcase_add_loop_test(tests, a_link_carries_in_the_crews_order, 0, 8);
    return suite_run_apart(suite);
}

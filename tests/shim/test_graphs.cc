/* Launches that are noted and played (cuda/cuda_graphs.cuh): which of them a graph makes, and that
 * they come to what they would one by one. */
#include <check.h>
#include <stdlib.h>

#include "cuda/launch.cuh"
#include "inside.h"

extern "C" {
#include "suite.h"
}

enum { WORDS = 4, LISTS = 24000 };

/* A team with graphs, and numbers on its device. */
struct side {
    struct np_cuda_team team;
    float *words;
};

static struct side side_new(void)
{
    struct side side = {};
    void *memory = nullptr;
    cudaSetDevice(0);
    ck_assert_int_eq(cudaMalloc(&memory, (WORDS + 1) * sizeof(float)), cudaSuccess);
    side.words = static_cast<float *>(memory);
    side.team.team.size = 1;
    side.team.verdict = reinterpret_cast<uint32_t *>(side.words + WORDS);
    cudaStreamCreateWithFlags(&side.team.stream, cudaStreamNonBlocking);
    cudaMemsetAsync(side.words, 0, (WORDS + 1) * sizeof(float), side.team.stream);
    ck_assert_int_eq(np_cuda_graphs_new(&side.team.graphs, side.team.stream, nullptr), NP_OK);
    return side;
}

static void side_free(struct side *side)
{
    cudaStreamSynchronize(side->team.stream);
    np_cuda_graphs_free(side->team.graphs);
    cudaStreamDestroy(side->team.stream);
    cudaFree(side->words);
}

/* words = (((value + value) + value) + ...), of so many launches. */
static void note(struct side *side, float value, int launches)
{
    struct np_team *team = &side->team.team;
    np_kernels_cuda.fill(team, side->words, 1, value);
    if (launches > 1)
        np_kernels_cuda.copy(team, side->words + 1, side->words, 1);
    for (int i = 2; i < launches; i++)
        np_kernels_cuda.add(team, NP_ACT_NONE, side->words, nullptr, side->words, side->words + 1,
                            1);
}

/* How many graphs were launched for it. */
static unsigned play(struct side *side)
{
    unsigned before = shim_graphs_launched;
    np_cuda_graphs_play(side->team.graphs);
    return shim_graphs_launched - before;
}

static float first(const struct side *side)
{
    float word = 0;
    cudaMemcpyAsync(&word, side->words, sizeof word, cudaMemcpyDeviceToHost, side->team.stream);
    cudaStreamSynchronize(side->team.stream);
    return word;
}

START_TEST(a_graph_makes_what_came_before)
{
    struct side side = side_new();
    for (int round = 0; round < 3; round++)
        for (int value = 1; value <= 5; value++) {
            note(&side, (float)value, 3 + value);
            ck_assert_uint_eq(play(&side), round > 0);
            ck_assert(first(&side) == (float)((2 + value) * value));
        }
    ck_assert_uint_eq(play(&side), 0); /* nothing */
    side_free(&side);
}
END_TEST

/* Nothing but one byte of one argument differs. */
START_TEST(a_graph_has_equal_arguments)
{
    struct side side = side_new();
    for (int i = 0; i < 4; i++) {
        note(&side, 1.0f + (float)i * 0x1p-23f, 4);
        ck_assert_uint_eq(play(&side), 0);
        ck_assert(first(&side) == 3 * (1.0f + (float)i * 0x1p-23f));
    }
    note(&side, 1.0f, 4);
    ck_assert_uint_eq(play(&side), 1);
    note(&side, 1.0f, 5);
    ck_assert_uint_eq(play(&side), 0);
    side_free(&side);
}
END_TEST

START_TEST(few_launches_are_made_one_by_one)
{
    struct side side = side_new();
    for (int round = 0; round < 3; round++) {
        note(&side, 2, 2);
        ck_assert_uint_eq(play(&side), 0);
        ck_assert(first(&side) == 2);
    }
    side_free(&side);
}
END_TEST

/* What is noted is made before what is made at once. */
START_TEST(what_is_at_once_keeps_its_place)
{
    struct side side = side_new();
    for (int round = 0; round < 3; round++) {
        note(&side, 1, 5);
        unsigned before = shim_graphs_launched;
        struct np_cuda_team at_once = cuda_at_once(&side.team.team);
        ck_assert_ptr_null(at_once.graphs);
        ck_assert_uint_eq(shim_graphs_launched - before, round > 0);
        np_kernels_cuda.add(&at_once.team, NP_ACT_NONE, side.words, nullptr, side.words, side.words,
                            1);
        ck_assert_uint_eq(play(&side), 0);
        ck_assert(first(&side) == 8);
    }
    side_free(&side);
}
END_TEST

/* More than are noted at a time. */
START_TEST(there_is_room_for_any_number)
{
    struct side side = side_new();
    for (int round = 0; round < 3; round++) {
        note(&side, 1, 900);
        ck_assert_uint_eq(play(&side), round > 0);
        ck_assert(first(&side) == 899);
    }
    ck_assert_uint_ge(shim_graphs_launched, 4);
    side_free(&side);
}
END_TEST

/* More than there is room for: the first stay while they are not long out of use, and then others
 * come. */
START_TEST(what_is_not_used_goes)
{
    struct side side = side_new();
    int last = 0;
    for (int i = 0; i < LISTS; i++)
        for (int round = 0; round < 3; round++) {
            note(&side, (float)(i + 1), 3);
            unsigned graphs = play(&side);
            ck_assert(i >= 300 || graphs == (round > 0));
            ck_assert_uint_le(3 * shim_graphs_there, NP_CUDA_GRAPH_LAUNCHES);
            last = graphs ? i : last;
        }
    ck_assert(first(&side) == 2 * (float)LISTS);
    ck_assert_int_gt(last, LISTS / 2);
    ck_assert_uint_gt(3 * shim_graphs_there, NP_CUDA_GRAPH_LAUNCHES / 2);
    note(&side, 1.0f, 3);
    play(&side);
    ck_assert(first(&side) == 2);
    side_free(&side);
    ck_assert_uint_eq(shim_graphs_there, 0);
}
END_TEST

static const char *const without[] = {"cudaGraphCreate:2", "cudaGraphAddKernelNode:6",
                                      "cudaGraphInstantiate:2"};

/* The second graph cannot be made, nor is another one tried; the first stays. */
START_TEST(without_room_launches_are_made_one_by_one)
{
    setenv("SHIM_FAIL", without[_i], 1);
    struct side side = side_new();
    for (int round = 0; round < 3; round++)
        for (int value = 1; value <= 3; value++) {
            note(&side, (float)value, 4);
            ck_assert_uint_eq(play(&side), round > 0 && value == 1);
            ck_assert_int_eq(cudaGetLastError(), cudaSuccess);
            ck_assert(first(&side) == (float)(3 * value));
        }
    side_free(&side);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("graphs");
    TCase *graphs = suite_case(suite, "graphs");
    tcase_add_test(graphs, a_graph_makes_what_came_before);
    tcase_add_test(graphs, a_graph_has_equal_arguments);
    tcase_add_test(graphs, few_launches_are_made_one_by_one);
    tcase_add_test(graphs, what_is_at_once_keeps_its_place);
    tcase_add_test(graphs, there_is_room_for_any_number);
    tcase_add_test(graphs, what_is_not_used_goes);
    tcase_add_loop_test(graphs, without_room_launches_are_made_one_by_one, 0,
                        (int)(sizeof without / sizeof *without));
    return suite_run_apart(suite);
}

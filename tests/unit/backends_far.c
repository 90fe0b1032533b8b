/* For the tests that are linked with it instead of backends.c: kernels by way of the orders that
 * other processes get (mpi/calls.h), which every member writes and carries out for itself. */
#include <check.h>

#include "backends.h"
#include "mpi/calls.h"
#include "mpi/kernel_list.h"
#include "team_run.h"

/* The pointers in an order are rank 0's, as those of a test are. */
static bool carry_out(struct np_team *team, struct np_orders *orders)
{
    const struct np_order *order = (const struct np_order *)orders->at;
    const char *end = orders->at + orders->used;
    bool finite;
    ck_assert(!orders->lost && np_calls_end(orders->at, end) == end);
    ck_assert_uint_eq(orders->used, sizeof *order + order->bytes);
    finite = np_call_run(team, np_kernels_best(), order);
    np_orders_clear(orders);
    return finite;
}

#define RETURN_bool return
#define RETURN_void (void)

#define HAND_ON(kind, type, name) , name
#define ENTRY(result, kernel, ...)                                                                 \
    static result far_##kernel(struct np_team *team NP_EACH(NP_PARAMETER, __VA_ARGS__))            \
    {                                                                                              \
        struct np_orders orders = {NULL, 0, 0, false};                                             \
        struct np_far_team far = {{.size = 1}, &orders};                                           \
        np_kernels_far.kernel(&far.team NP_EACH(HAND_ON, __VA_ARGS__));                            \
        RETURN_##result carry_out(team, &orders);                                                  \
    }
NP_KERNELS(ENTRY)

static uint64_t fingerprint(struct np_team *team, const float *x, size_t count, uint64_t address)
{
    return np_kernels_best()->fingerprint(team, x, count, address);
}

#define FILL(result, kernel, ...) .kernel = far_##kernel,
static const struct np_kernels kernels = {.name = "mpi",
                                          NP_KERNELS(FILL).fingerprint = fingerprint};

const struct np_kernels *backend_get(int index)
{
    return index == 0 ? np_kernels_get(NP_ISA_SCALAR) : index == 1 ? &kernels : NULL;
}

bool team_is_tried(int size, int backend)
{
    return tests_are_full() || (size + backend) % 3 == 0;
}

#include "base/memory.h"
#include "num/attention.h"
#include "num/gemm.h"
#include "num/kernels.h"

/* Operands and sums of a matrix product. */
static size_t matmul_floats(void)
{
    return NP_GEMM_B + NP_GEMM_C;
}

size_t np_kernels_scratch_bytes(size_t length, size_t head_width)
{
    size_t t = np_round_up(length, NP_GEMM_NR), d = np_round_up(head_width, NP_GEMM_NR);
    size_t attention =
        NP_ATTENTION_PACKED * t * d + NP_ATTENTION_BLOCKS * NP_KC * (t + NP_GEMM_PAD);
    size_t floats = matmul_floats() > attention ? matmul_floats() : attention;
    return np_round_up(floats * sizeof(float), NP_ALIGN);
}

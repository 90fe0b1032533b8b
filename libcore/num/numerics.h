/* Numerics: what a recipe says of how matrix products are computed; everything else is computed in
 * one way.
 *
 * portable/1       the sums of num/kernels.h: the same bits on every machine.
 * fast/sm_NN-TYPE  by NVIDIA's cuBLASLt on GPUs of compute capability N.N, in the units that
 *                  num/products.h says: operands rounded to TYPE, sums in single precision. The
 *                  same bits on one model of GPU with one version of the library.
 */
#ifndef NP_NUM_NUMERICS_H
#define NP_NUM_NUMERICS_H

/* What the operands of products are rounded to, to nearest even. */
enum np_operand {
    NP_OPERAND_EXACT,
    NP_OPERAND_TF32, /* 10 bits of mantissa, in 32 */
    NP_OPERAND_BF16  /* 7 bits, in 16 */
};

struct np_numerics {
    const char *name;
    int capability; /* of the GPUs that compute it, as 90; 0: anything does */
    enum np_operand operand;
};

#define NP_NUMERICS_COUNT 13

/* portable/1 is the first. */
extern const struct np_numerics np_numerics_list[NP_NUMERICS_COUNT];

#endif

#include "num/numerics.h"

const struct np_numerics np_numerics_list[NP_NUMERICS_COUNT] = {
    {"portable/1", 0, NP_OPERAND_EXACT},        {"fast/sm_80-tf32", 80, NP_OPERAND_TF32},
    {"fast/sm_80-bf16", 80, NP_OPERAND_BF16},   {"fast/sm_86-tf32", 86, NP_OPERAND_TF32},
    {"fast/sm_86-bf16", 86, NP_OPERAND_BF16},   {"fast/sm_89-tf32", 89, NP_OPERAND_TF32},
    {"fast/sm_89-bf16", 89, NP_OPERAND_BF16},   {"fast/sm_90-tf32", 90, NP_OPERAND_TF32},
    {"fast/sm_90-bf16", 90, NP_OPERAND_BF16},   {"fast/sm_100-tf32", 100, NP_OPERAND_TF32},
    {"fast/sm_100-bf16", 100, NP_OPERAND_BF16}, {"fast/sm_120-tf32", 120, NP_OPERAND_TF32},
    {"fast/sm_120-bf16", 120, NP_OPERAND_BF16},
};

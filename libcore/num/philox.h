/* Philox4x32-10: random numbers by address.
 *
 * A random number is a pure function of (seed, purpose, step, member, layer, tensor, element):
 * there is no stream and no state. The first words of the address make a 64-bit key, once per
 * tensor; the step and the element make the counter, so kernels draw any element in any order.
 *
 * Units:  np_philox_unit: [0,1), the top 24 bits times 2^-24.
 * Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
 */
#ifndef NP_NUM_PHILOX_H
#define NP_NUM_PHILOX_H

#include <stdint.h>

#include "num/function.h"

/* What a number is for; part of its address, so the values are fixed for ever. */
enum np_purpose {
    NP_DRAW_INIT = 1,   /* initial weights */
    NP_DRAW_SUBNET = 2, /* sampling of candidates */
    NP_DRAW_BATCH = 3,  /* where a training sample begins, if it is drawn */
    NP_DRAW_DROPOUT = 4,
    NP_DRAW_EVAL = 5,    /* subnets and batches of an evaluation */
    NP_DRAW_DELAY = 6,   /* injected delays: never changes a bit */
    NP_DRAW_PATH = 7,    /* drop-path */
    NP_DRAW_AUGMENT = 8, /* what becomes of a training image */
    NP_DRAW_ORDER = 9,   /* the order of an epoch's samples */
    NP_DRAW_SEARCH = 10  /* subnets that a search tries: never changes a bit */
};

struct np_philox {
    uint32_t w[4];
};

struct np_draw_key {
    uint32_t k[2];
};

#define NP_PHILOX_ROUNDS 10
#define NP_PHILOX_MUL0 0xD2511F53u
#define NP_PHILOX_MUL1 0xCD9E8D57u
#define NP_PHILOX_KEY0 0x9E3779B9u
#define NP_PHILOX_KEY1 0xBB67AE85u

NP_FN struct np_philox np_philox(struct np_philox counter, struct np_draw_key key)
{
    for (int round = 0; round < NP_PHILOX_ROUNDS; round++) {
        uint64_t a = (uint64_t)NP_PHILOX_MUL0 * counter.w[0];
        uint64_t b = (uint64_t)NP_PHILOX_MUL1 * counter.w[2];
        struct np_philox next = {{(uint32_t)(b >> 32) ^ counter.w[1] ^ key.k[0], (uint32_t)b,
                                  (uint32_t)(a >> 32) ^ counter.w[3] ^ key.k[1], (uint32_t)a}};
        counter = next;
        key.k[0] += NP_PHILOX_KEY0;
        key.k[1] += NP_PHILOX_KEY1;
    }
    return counter;
}

/* The key of everything drawn for (seed, purpose, member, layer, tensor). */
NP_FN struct np_draw_key np_draw_key(uint64_t seed, enum np_purpose purpose, uint32_t member,
                                     uint32_t layer, uint32_t tensor)
{
    struct np_draw_key key = {{(uint32_t)seed, (uint32_t)(seed >> 32)}};
    struct np_philox address = {{(uint32_t)purpose, member, layer, tensor}};
    struct np_philox drawn = np_philox(address, key);
    key.k[0] = drawn.w[0];
    key.k[1] = drawn.w[1];
    return key;
}

/* Four words for elements 4*block .. 4*block+3 of the given step. */
NP_FN struct np_philox np_draw(struct np_draw_key key, uint64_t step, uint64_t block)
{
    struct np_philox counter = {
        {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)step, (uint32_t)(step >> 32)}};
    return np_philox(counter, key);
}

NP_FN float np_philox_unit(uint32_t word)
{
    return (float)(word >> 8) * 0x1p-24f;
}

/* An integer in [0, bound), bound > 0, from 64 random bits (bias below bound / 2^64). */
NP_FN uint64_t np_philox_below(struct np_philox drawn, uint64_t bound)
{
    uint64_t bits = (uint64_t)drawn.w[0] << 32 | drawn.w[1];
    return (uint64_t)(((unsigned __int128)bits * bound) >> 64);
}

#endif

/* The epilogue of a product, element by element (num/arguments.h): the reference.
 * Private to num/. */
#ifndef NP_NUM_EPILOGUE_H
#define NP_NUM_EPILOGUE_H

#include "num/activation.h"

/* c, the complete sum of element (i, j), to what is stored. *finite becomes false if that, or what
 * went into the activation, is not finite. */
NP_FN float np_epilogue_element(const struct np_epilogue *e, size_t i, size_t j, float c,
                                bool *finite)
{
    size_t at = i * e->ld + j;
    if (e->bias)
        c = c + e->bias[j];
    if (e->before)
        c = c * np_act_grad(e->act, e->before[at]);
    if (e->residual)
        c = e->residual[at] + c;
    if (!np_is_finite(c))
        *finite = false;
    if (e->before || e->act == NP_ACT_NONE)
        return c;
    if (e->kept)
        e->kept[at] = c;
    return np_act(e->act, c);
}

#endif

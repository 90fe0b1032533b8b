#include "space/op_fields.h"
#include "space/supernet.h"

/* Operations on one element; elementary functions are polynomials of about this many. */
enum { NORM_F = 8, NORM_B = 14, NORM_W = 4, ACT = 20, EXP = 20 };

/* Products and sums of a matrix product of m x k by k x n. */
static double product(double m, double n, double k)
{
    return 2.0 * m * n * k;
}

static struct np_flops linear(double rows, double from, double to)
{
    double each = product(rows, to, from);
    return (struct np_flops){each, each, each};
}

static void add(struct np_flops *sum, struct np_flops term)
{
    sum->forward += term.forward;
    sum->backward += term.backward;
    sum->weight += term.weight;
}

/* Causal: half of the T x T pairs. Forward: scores and values; backward: scores again, and the
 * gradients of probabilities, values, queries and keys. */
static struct np_flops attention(double length, double width, double heads)
{
    double pairs = length * (length + 1.0) / 2.0;
    return (struct np_flops){pairs * (4.0 * width + EXP * heads),
                             pairs * (10.0 * width + (EXP + 6.0) * heads), 0.0};
}

static struct np_flops branch(const struct np_kind *kind)
{
    double rows = (double)kind->length, width = (double)kind->width, vocab = (double)kind->vocab;
    double taps = kind->spec.kernel, ratio = kind->spec.ratio, cells = rows * width;
    struct np_flops sum = {0.0, 0.0, 0.0};
    switch (kind->spec.op) {
    case NP_OP_MHA:
        add(&sum, linear(rows, width, 3.0 * width));
        add(&sum, attention(rows, width, kind->spec.heads));
        add(&sum, linear(rows, width, width));
        break;
    case NP_OP_FFN:
        add(&sum, linear(rows, width, ratio * width));
        add(&sum, (struct np_flops){ACT * ratio * cells, ACT * ratio * cells, ratio * cells});
        add(&sum, linear(rows, ratio * width, width));
        break;
    case NP_OP_GLU:
        add(&sum, linear(rows, width, 2.0 * width));
        add(&sum, (struct np_flops){ACT * cells, ACT * cells, 2.0 * cells});
        break;
    case NP_OP_CONV1D:
        add(&sum, linear(rows, taps * width, width));
        break;
    case NP_OP_SEPCONV1D:
        add(&sum, (struct np_flops){2.0 * taps * cells, 2.0 * taps * cells, 2.0 * taps * cells});
        add(&sum, linear(rows, width, width));
        break;
    case NP_OP_LIGHTCONV:
        add(&sum, (struct np_flops){2.0 * taps * cells, 2.0 * taps * cells, 2.0 * taps * cells});
        break;
    case NP_OP_LM:
        add(&sum, linear(rows, width, vocab));
        add(&sum, (struct np_flops){EXP * rows * vocab, EXP * rows * vocab, 0.0});
        break;
    case NP_OP_IDENTITY:
    case NP_OP_EMBEDDING:
        break;
    }
    return sum;
}

struct np_flops np_kind_flops(const struct np_kind *kind)
{
    double cells = (double)kind->length * (double)kind->width;
    struct np_flops flops = branch(kind);
    if (kind->spec.op == NP_OP_IDENTITY)
        return flops;
    if (kind->spec.op == NP_OP_EMBEDDING)
        return (struct np_flops){cells, 0.0, 2.0 * cells};
    add(&flops, (struct np_flops){NORM_F * cells, NORM_B * cells, NORM_W * cells});
    if (kind->spec.op != NP_OP_LM)
        add(&flops, (struct np_flops){2.0 * cells, 2.0 * cells, cells}); /* bias, residual */
    return flops;
}

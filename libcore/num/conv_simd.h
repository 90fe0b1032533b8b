/* Body of conv_<isa>.c: convolutions as products whose left operand, the matrix [positions][taps x
 * channels] of what the windows see, is never built (num/image_rows.h). The gradient of the input
 * is, for each residue of positions modulo the stride, a convolution of dy by some of the taps, in
 * reverse; that of the weights is the product with the transposed matrix (num/image_lines.h).
 */
#ifndef NP_NUM_CONV_SIMD_H
#define NP_NUM_CONV_SIMD_H

#include <string.h>

#include "num/backend.h"
#include "num/conv_groups.h"
#include "num/conv_right.h"
#include "num/grid.h"
#include "num/image_lines.h"
#include "num/image_rows.h"
#include "num/product_chunks.h"
#include "num/product_simd.h"

#define GRAD_BLOCK (256 << 10) /* floats */

/* A convolution that is the product of matrices as they lie there. */
static bool is_matmul(const struct np_conv *v)
{
    const struct np_window *w = &v->window;
    return v->groups == 1 && w->kernel_height == 1 && w->kernel_width == 1 &&
           w->stride_height == 1 && w->stride_width == 1 && w->pad_top == 0 && w->pad_left == 0 &&
           v->in_height == v->out_height && v->in_width == v->out_width;
}

static size_t taps(const struct np_conv *v)
{
    return (size_t)v->window.kernel_height * (size_t)v->window.kernel_width;
}

/* The epilogue of the columns from `first`. */
static struct np_epilogue epilogue_from(struct np_epilogue e, size_t first)
{
    e.bias = e.bias ? e.bias + first : NULL;
    e.before = e.before ? e.before + first : NULL;
    e.residual = e.residual ? e.residual + first : NULL;
    e.kept = e.kept ? e.kept + first : NULL;
    return e;
}

/* What the products of one member have in common. */
static struct product start(const struct np_team *team, const struct np_grid *grid)
{
    float *scratch = team->scratch;
    struct product p = {.rows = grid->rows, .cols = grid->cols};
    p.packed = scratch;
    p.sums = scratch + NP_GEMM_B;
    return p;
}

/* The product of image rows, whose image and axes are known, and b, [columns of a][n]. */
static bool multiply_rows(struct np_team *team, struct image_rows *a, struct right *b,
                          const struct bundle *g, const struct product *c)
{
    size_t n = g->count * g->groups.cols;
    struct np_grid grid =
        np_grid_share(team, a->samples * a->h.out * a->w.out, n, bundle_groups(g) ? n : NR);
    struct product p = start(team, &grid);
    a->base = (struct left){rows_end, find_image_rows, next_column, NULL, 0, 0};
    p.rows = rows_share(a, &grid.down);
    p.groups = bundle_groups(g);
    p.a_copied = a->w.stride * a->ld % NP_GEMM_ALIASES == 0 && g->groups.lanes == 0;
    p.inner.end = a->h.taps * a->w.taps * a->channels;
    p.a = &a->base;
    p.b = b;
    p.place = place_rows;
    p.c = c->c;
    p.ldc = c->ldc;
    p.epilogue = c->epilogue;
    if (!is_in_place(np_share_count(p.rows), n, b->ld, false) || !can_be_in_place(p.groups))
        b->direct = NULL;
    if (grid.down.size == team->size)
        deal_rows(&p, team, a->samples * a->h.out * a->w.out);
    return run_product(&p);
}

static bool conv_groups(struct np_team *team, const struct np_conv *v, const struct bundle *g)
{
    size_t first = g->first * g->groups.cols;
    struct image_rows a = {.ld = v->ldx, .channels = g->groups.depth};
    struct plain_right b = {{.pack = pack_plain, .direct = v->w + first, .ld = v->out_channels},
                            NULL};
    struct product c = {.c = v->out + first, .ldc = v->ldy};
    a.x = v->x + g->first * g->groups.depth;
    a.samples = v->samples;
    a.h = forward_height(v);
    a.w = forward_width(v);
    b.b = b.base.direct;
    if (g->groups.lanes > 0)
        b.base.pack = pack_plain_narrow;
    c.epilogue = epilogue_from(v->epilogue, first);
    return multiply_rows(team, &a, &b.base, g, &c);
}

bool NP_SIMD(np_conv)(struct np_team *team, const struct np_conv *v)
{
    size_t in = v->in_channels / v->groups, out = v->out_channels / v->groups;
    struct bundle g;
    bool finite = true;
    if (is_matmul(v)) {
        struct np_matmul mm = {.n = v->out_channels, .k = v->in_channels, .a = v->x, .b = v->w};
        mm.m = v->samples * v->out_height * v->out_width;
        mm.c = v->out;
        mm.lda = v->ldx;
        mm.ldb = v->out_channels;
        mm.ldc = v->ldy;
        mm.epilogue = v->epilogue;
        return NP_SIMD(np_matmul)(team, &mm);
    }
    bundle_init(&g, v->groups, out, in, taps(v) * in);
    while (next_bundle(&g))
        finite = conv_groups(team, v, &g) && finite;
    return finite;
}

/* Zero for every row of a, whose windows see nothing. */
static void clear_rows(const struct np_team *team, struct image_rows *a, const struct product *c,
                       size_t n)
{
    struct np_share rows = np_team_share(team, a->samples * a->h.out * a->w.out, 1), part;
    size_t place[NP_GEMM_ROWS];
    first_zone(a);
    for (part.begin = rows.begin; part.begin < rows.end; part.begin = part.end) {
        part.end = np_min(rows_end(&a->base, part.begin, rows.end), part.begin + NP_GEMM_ROWS);
        place_rows(&a->base, place, part);
        for (size_t i = 0; i < np_share_count(part); i++)
            memset(c->c + place[i] * c->ldc, 0, n * sizeof(float));
    }
}

static bool grad_residue(struct np_team *team, const struct np_conv *v, const struct bundle *g,
                         const struct residue *h, const struct residue *w)
{
    size_t in = g->groups.cols, out = g->groups.depth, first = g->first * in;
    struct image_rows a = {.x = v->dy + g->first * out, .ld = v->ldy, .channels = out};
    struct turned_right b = {{.pack = pack_turned, .ld = v->out_channels}, .channels = out};
    struct product c = {.c = v->out + first, .ldc = v->ldx};
    size_t tap = in * v->out_channels, wide = (size_t)v->window.kernel_width;
    if (g->groups.lanes > 0)
        b.base.pack = pack_turned_narrow;
    a.samples = v->samples;
    a.h = h->axis;
    a.w = w->axis;
    b.w = v->w + (h->last * wide + w->last) * tap + g->first * out;
    b.cols = in;
    b.across = w->axis.taps;
    b.back_h = h->step * wide * tap;
    b.back_w = w->step * tap;
    c.epilogue = epilogue_from(v->epilogue, first);
    if (h->axis.taps * w->axis.taps > 0 || !is_bare(&c.epilogue))
        return multiply_rows(team, &a, &b.base, g, &c);
    clear_rows(team, &a, &c, g->count * in);
    return true;
}

static bool grad_groups(struct np_team *team, const struct np_conv *v, const struct bundle *g)
{
    const struct np_window *win = &v->window;
    size_t high = np_min((size_t)win->stride_height, v->in_height);
    size_t wide = np_min((size_t)win->stride_width, v->in_width);
    bool finite = true;
    for (size_t i = 0; i < high; i++)
        for (size_t j = 0; j < wide; j++) {
            struct residue h = residue_at(i, v->in_height, v->out_height, win->stride_height,
                                          win->kernel_height, win->dilation, win->pad_top);
            struct residue w = residue_at(j, v->in_width, v->out_width, win->stride_width,
                                          win->kernel_width, win->dilation, win->pad_left);
            finite = grad_residue(team, v, g, &h, &w) && finite;
        }
    return finite;
}

/* Samples whose residues are worked on before those of others: each writes parts of lines of the
 * cache that lie beside those of the next, which stay in the second-level cache meanwhile. */
static size_t grad_block(const struct np_team *team, const struct np_conv *v)
{
    size_t image = v->in_height * v->in_width * v->ldx, size = (size_t)team->size;
    size_t strides = (size_t)(v->window.stride_height * v->window.stride_width);
    return strides == 1 ? v->samples : (GRAD_BLOCK / image + 1) * size;
}

/* Samples first .. first + count - 1 of a gradient of the input. */
static struct np_conv grad_samples(const struct np_conv *v, size_t first, size_t count)
{
    struct np_conv part = *v;
    size_t rows = first * v->in_height * v->in_width;
    part.samples = count;
    part.dy += first * v->out_height * v->out_width * v->ldy;
    part.out += rows * v->ldx;
    part.epilogue = epilogue_from(v->epilogue, rows * v->epilogue.ld);
    part.epilogue.bias = v->epilogue.bias;
    return part;
}

bool NP_SIMD(np_conv_grad)(struct np_team *team, const struct np_conv *v)
{
    size_t in = v->in_channels / v->groups, out = v->out_channels / v->groups;
    struct bundle g;
    bool finite = true;
    if (is_matmul(v)) {
        struct np_matmul mm = {.n = v->in_channels, .k = v->out_channels, .a = v->dy, .b = v->w};
        mm.m = v->samples * v->in_height * v->in_width;
        mm.c = v->out;
        mm.lda = v->ldy;
        mm.ldb = v->out_channels;
        mm.b_trans = true;
        mm.ldc = v->ldx;
        mm.epilogue = v->epilogue;
        return NP_SIMD(np_matmul)(team, &mm);
    }
    for (size_t first = 0, count; first < v->samples; first += count) {
        count = np_min(grad_block(team, v), v->samples - first);
        struct np_conv part = grad_samples(v, first, count);
        bundle_init(&g, v->groups, in, out, taps(v) * out);
        while (next_bundle(&g))
            finite = grad_groups(team, &part, &g) && finite;
    }
    return finite;
}

static bool grad_weight_groups(struct np_team *team, const struct np_conv *v,
                               const struct bundle *g)
{
    size_t first = g->first * g->groups.cols, n = g->count * g->groups.cols;
    struct image_lines a = {.ld = v->ldx, .channels = g->groups.depth};
    struct plain_right b = {{.pack = pack_plain, .direct = v->dy + first, .ld = v->ldy}, NULL};
    size_t image = v->out_height * v->out_width;
    a.base = (struct left){strip_end, find_lines, next_seeing, row_at, 0, 0};
    a.x = v->x + g->first * g->groups.depth;
    a.h = forward_height(v);
    a.w = forward_width(v);
    choose_strips(&a, n);
    size_t k = v->samples * image, m = taps(v) * g->groups.depth;
    bool chunks = pays_by_chunks(team, m, n, k, v->grain * image);
    struct np_grid grid = {{0, m}, {0, n}, {0}};
    if (!chunks)
        grid = np_grid_share(team, m, n, packed_at_once(bundle_groups(g), NR));
    struct product p = start(team, &grid);
    p.inner.end = k;
    p.grain = v->grain * image;
    p.a_trans = true;
    p.accumulate = v->accumulate;
    p.a = &a.base;
    p.b = &b.base;
    p.groups = bundle_groups(g);
    p.c = v->out + first;
    p.ldc = v->out_channels;
    b.b = b.base.direct;
    if (g->groups.lanes > 0)
        b.base.pack = pack_plain_narrow;
    if (!is_in_place(np_share_count(p.rows), n, v->ldy, true) || !can_be_in_place(p.groups))
        b.base.direct = NULL;
    return chunks ? run_by_chunks(team, &p) : run_product(&p);
}

bool NP_SIMD(np_conv_grad_weight)(struct np_team *team, const struct np_conv *v)
{
    size_t in = v->in_channels / v->groups, out = v->out_channels / v->groups;
    struct bundle g;
    bool finite = true;
    if (is_matmul(v)) {
        struct np_matmul mm = {.m = v->in_channels, .n = v->out_channels, .a = v->x, .b = v->dy};
        size_t image = v->out_height * v->out_width;
        mm.k = v->samples * image;
        mm.grain = v->grain * image;
        mm.c = v->out;
        mm.lda = v->ldx;
        mm.a_trans = true;
        mm.ldb = v->ldy;
        mm.ldc = v->out_channels;
        mm.accumulate = v->accumulate;
        return NP_SIMD(np_matmul)(team, &mm);
    }
    bundle_init(&g, v->groups, out, in, NP_KC);
    while (next_bundle(&g))
        finite = grad_weight_groups(team, v, &g) && finite;
    return finite;
}

#endif

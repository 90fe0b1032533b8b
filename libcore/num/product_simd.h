/* One member's part of a matrix product, a part of matmul_simd.h and conv_simd.h.
 *
 * The operands are given by functions: the left one is a stored matrix, or its transpose, whose
 * rows are found one by one (or made, in scratch) and are contiguous in runs; the right one is
 * packed, or read in place. Columns of C are worked off in blocks whose panel of B stays in the
 * second cache. Where the panels of all inner indices fit the scratch they are packed once and rows
 * are finished block by block; else one panel comes after the other and sums wait in C. They cannot
 * wait there if C holds the residual that is added in the end.
 */
#ifndef NP_NUM_PRODUCT_SIMD_H
#define NP_NUM_PRODUCT_SIMD_H

#include "num/chunk.h"
#include "num/gemm.h"
#include "num/grid.h"
#include "num/simd.h"

#define NR (2 * NP_VW)
#define CACHE_LINE 16                   /* floats */
#define WHOLE (NP_VW == 16 ? 8 : NP_VW) /* floats of a register: a vector, or half of one */
#define DENSE (3 * NP_VW) /* columns of B that fill more of the first cache when packed */
#define NARROW 128        /* columns for which it does not pay to pack A or B again and again */
#define DEALT 64          /* rows that may be dealt out alone */

_Static_assert(NR <= NP_GEMM_NR, "packed blocks fit the scratch");

/* The left operand, or its transpose, as a matrix whose rows are found one by one: those of op(A)
 * or, transposed, its inner indices. Inner indices may be left out. */
struct left {
    /* Where rows of C that begin there and are worked on together end; what follows is about
     * them. */
    size_t (*end)(struct left *, size_t begin, size_t end);
    /* Pointers to the rows, whatever `inner` is (or, transposed, to those inner indices, left out
     * or not), of which the others are read. */
    const float *const *(*find)(struct left *, struct np_share rows, struct np_share inner);
    /* The first inner index from `index` that is not left out (SIZE_MAX: none); in `s`, how many
     * follow it in memory, where it is from the pointers to rows, and what rows it is for. */
    size_t (*next)(struct left *, size_t index, struct np_stretch *s);
    /* Where a row of C is from the pointers to inner indices. */
    size_t (*row_at)(const struct left *, size_t row);
    size_t across, pitch; /* of those rows: as in np_tiles */
};

struct right {
    /* Packs inner indices and columns, those of one group, as np_gemm_pack_b does; or, where
     * groups are narrow, those of one sliver. */
    void (*pack)(const struct right *, float *dst, size_t sliver, struct np_share inner,
                 struct np_share cols);
    const float *direct; /* if not NULL, read in place: [k][n], rows ld floats apart */
    size_t ld;
    bool copied; /* but sliver by sliver */
};

/* Whether n columns of B, rows `ld` floats apart, are read in place for so many rows of C. If its
 * rows meet in the cache, or cut its lines so that a sliver of a long chunk fills the first cache,
 * packing pays for fewer rows; it does not where a panel is one sliver that stays there anyway. */
static bool is_in_place(size_t rows, size_t n, size_t ld, bool a_trans)
{
    bool meet = ld % NP_GEMM_ALIASES == 0;
    bool cut = NP_GEMM_PACKS_A && a_trans && n > DENSE && ld % CACHE_LINE != 0;
    if (a_trans && n <= NR && !meet)
        return true;
    return rows <= (cut || meet ? NP_GEMM_FEW : NP_GEMM_DIRECT);
}

struct product {
    struct np_share rows, cols; /* of C */
    struct np_share inner;      /* whole chunks */
    size_t grain;
    bool a_trans, a_copied, accumulate;
    struct left *a;
    const struct right *b;
    const struct np_groups *groups; /* NULL: one; else their columns are not divided in passes */
    float *c;
    size_t ldc;
    void (*place)(const struct left *, size_t *row, struct np_share rows); /* NULL: in order */
    struct np_epilogue epilogue;
    float *packed, *sums; /* NP_GEMM_B, NP_GEMM_C floats */
    struct np_team *team; /* if not NULL, all `height` rows are dealt out to it, not the caller's */
    size_t height;        /* worked off, where block comes after block */
};

/* What is fixed while columns `cols` are worked on. */
struct pass {
    struct np_share cols;
    size_t packed_width; /* of B, in whole slivers */
    bool whole;          /* all panels of B are packed */
    bool aside;          /* sums wait in p->sums */
};

/* Inner indices that are worked on together. */
struct panel {
    struct np_share inner;
    size_t step; /* chunks */
    const float *b;
};

/* The stretches of a panel for the current rows. */
static size_t cut_panel(const struct product *p, const struct panel *panel,
                        struct np_stretch *stretch)
{
    struct np_share inner = panel->inner;
    size_t count = 0, begin = inner.begin;
    do {
        size_t end = np_min(begin + panel->step, inner.end), chunk = count;
        for (size_t q = begin; q < end; q += stretch[count++].count) {
            struct np_stretch *s = &stretch[count];
            s->rows = NP_GEMM_ALL;
            q = p->a->next(p->a, q, s);
            if (q >= end)
                break;
            s->from = q - inner.begin;
            s->count = np_min(s->count, end - q);
            s->ends = false;
        }
        if (count == chunk)
            stretch[count++] = (struct np_stretch){.rows = NP_GEMM_ALL};
        stretch[count - 1].ends = true;
        begin = end;
    } while (begin < inner.end);
    return count;
}

/* The rows of C from `begin` that are worked on together. */
static struct np_share next_rows(const struct product *p, size_t begin, size_t end)
{
    size_t count = p->a->end(p->a, begin, end) - begin;
    size_t parts = (count + NP_GEMM_ROWS - 1) / NP_GEMM_ROWS;
    return (struct np_share){begin, begin + (count + parts - 1) / parts};
}

/* Columns of the last sliver if it cannot be read in place: its last vector is in part outside of
 * the matrix. Groups with such slivers are packed as a whole. */
static size_t narrow_tail(const struct product *p, struct np_share cols)
{
    size_t tail = np_share_count(cols) % NR;
    return p->groups || p->b->copied || tail % WHOLE == 0 ? 0 : tail;
}

/* Columns of C that are packed at once, of `cols`. */
static size_t packed_at_once(const struct np_groups *groups, size_t cols)
{
    return !groups ? cols : groups->lanes > 0 ? groups->lanes : groups->cols;
}

/* Floats of an inner index in a packed sliver, and in all slivers of `cols` columns. */
static size_t sliver_width(const struct np_groups *groups)
{
    return groups && groups->lanes > 0 ? NP_VW : NR;
}

static size_t packed_width(const struct np_groups *groups, size_t cols)
{
    size_t width = sliver_width(groups), each = packed_at_once(groups, cols);
    size_t slivers = (each + width - 1) / width, rest = (cols % each + width - 1) / width;
    return (cols / each * slivers + rest) * width;
}

/* Whether sums are complete but for additions. */
static bool is_plain(const struct np_epilogue *e)
{
    return !e->before && e->act == NP_ACT_NONE;
}

/* Rows of C that are worked on together: where each is, among all rows and from which column on. */
struct block {
    struct np_share rows;
    const float *const *a; /* those of A, if it is not transposed */
    size_t row[NP_GEMM_ROWS];
    float *c[NP_GEMM_ROWS];
};

static void aim_block(const struct product *p, const struct pass *pass, struct block *b,
                      struct np_share rows)
{
    const size_t m = np_share_count(rows), n = np_share_count(pass->cols);
    b->rows = rows;
    b->a = p->a_trans ? NULL : p->a->find(p->a, rows, p->inner);
    if (p->place)
        p->place(p->a, b->row, rows);
    else
        for (size_t i = 0; i < m; i++)
            b->row[i] = rows.begin + i;
    for (size_t i = 0; i < m; i++)
        b->c[i] = pass->aside ? p->sums + i * n : p->c + b->row[i] * p->ldc + pass->cols.begin;
}

/* One panel of a block of rows. */
static bool run_block(const struct product *p, const struct pass *pass, const struct panel *panel,
                      const struct block *block)
{
    struct np_stretch stretch[NP_KC];
    const struct np_epilogue *e = &p->epilogue;
    const struct np_share rows = block->rows;
    struct np_finish finish = {e, p->c, p->ldc, pass->cols.begin, block->row, false};
    struct np_tiles t = {.m = np_share_count(rows), .n = np_share_count(pass->cols), .c = block->c};
    bool last = panel->inner.end == p->inner.end;

    t.a = p->a_trans ? p->a->find(p->a, rows, panel->inner) : block->a;
    t.a_trans = p->a_trans;
    t.a_copied = p->a_copied;
    t.a_at = p->a_trans ? p->a->row_at(p->a, rows.begin) : 0;
    t.across = p->a->across;
    t.pitch = p->a->pitch;
    if (p->groups) {
        t.groups = p->groups;
        t.channel = (p->a_trans ? rows.begin : panel->inner.begin) % p->groups->depth;
        t.a_at += pass->cols.begin / p->groups->cols * p->groups->depth;
    }
    t.stretch = stretch;
    t.stretches = cut_panel(p, panel, stretch);
    t.b = panel->b;
    t.tail = narrow_tail(p, pass->cols) > 0 ? panel->b : NULL;
    t.b_step = sliver_width(p->groups);
    t.sliver = np_share_count(panel->inner) * t.b_step;
    if (p->b->direct) {
        t.b = p->b->direct + panel->inner.begin * p->b->ld + pass->cols.begin;
        t.b_step = p->b->ld;
        t.strips = p->b->copied ? p->packed : NULL;
        t.sliver = 0;
    } else {
        t.tail = NULL;
    }
    t.first = panel->inner.begin == p->inner.begin && !p->accumulate;
    finish.plain = !pass->aside && is_plain(e);
    t.finish = last ? &finish : NULL;
    return NP_SIMD(np_gemm_tiles)(&t);
}

/* Packs columns of a panel. */
static void pack_panel(const struct product *p, float *b, struct np_share inner,
                       struct np_share cols)
{
    size_t count = np_share_count(inner), each = packed_at_once(p->groups, np_share_count(cols));
    for (struct np_share part = {cols.begin, 0}; part.begin < cols.end; part.begin = part.end) {
        part.end = np_min(part.begin + each, cols.end);
        p->b->pack(p->b, b, count * sliver_width(p->groups), inner, part);
        b += count * packed_width(p->groups, np_share_count(part));
    }
}

/* The panel that begins at inner index `begin`; packs it unless it is packed. */
static struct panel next_panel(const struct product *p, const struct pass *pass, size_t begin,
                               bool pack)
{
    struct panel panel = {.inner = {begin, 0}};
    struct np_share cols = pass->cols;
    float *b = p->packed + (pass->whole ? (begin - p->inner.begin) * pass->packed_width : 0);
    panel.inner.end = np_panel_end(begin, p->inner.end, p->grain, &panel.step);
    panel.b = b;
    if (p->b->direct)
        cols.begin = cols.end - narrow_tail(p, cols);
    if (pack)
        pack_panel(p, b, panel.inner, cols);
    return panel;
}

/* A block of rows with all its panels, which may be packed already. */
static bool run_rows(const struct product *p, const struct pass *pass, struct np_share rows,
                     bool packed)
{
    struct block block;
    bool finite = true;
    size_t k = p->inner.begin;
    aim_block(p, pass, &block, rows);
    do {
        struct panel panel = next_panel(p, pass, k, !packed);
        finite = run_block(p, pass, &panel, &block) && finite;
        k = panel.inner.end;
    } while (k < p->inner.end);
    return finite;
}

/* Block after block of rows. */
static bool run_blocks(const struct product *p, const struct pass *pass)
{
    struct np_deal deal = {.piece = p->rows};
    bool finite = true, packed = false;
    if (p->team)
        deal = np_team_deal(p->team, p->height, DEALT);
    for (struct np_share piece, rows; np_deal_piece(&deal, &piece);)
        for (; piece.begin < piece.end; piece.begin = rows.end) {
            rows = next_rows(p, piece.begin, piece.end);
            finite = run_rows(p, pass, rows, packed) && finite;
            packed = pass->whole;
        }
    return finite;
}

/* Panel after panel, each with all blocks of rows. */
static bool run_panels(const struct product *p, const struct pass *pass)
{
    struct block block;
    bool finite = true;
    size_t k = p->inner.begin;
    do {
        struct panel panel = next_panel(p, pass, k, true);
        for (size_t i = p->rows.begin; i < p->rows.end; i = block.rows.end) {
            aim_block(p, pass, &block, next_rows(p, i, p->rows.end));
            finite = run_block(p, pass, &panel, &block) && finite;
        }
        k = panel.inner.end;
    } while (k < p->inner.end);
    return finite;
}

/* Where members have all columns: rows are dealt out if there are many. */
static void deal_rows(struct product *p, struct np_team *team, size_t height)
{
    if (height < 4 * DEALT * (size_t)team->size)
        return;
    p->team = team;
    p->height = height;
}

static bool is_bare(const struct np_epilogue *e)
{
    return !e->bias && !e->residual && !e->before && !e->kept && e->act == NP_ACT_NONE;
}

/* Whether the sums of an element pass through memory more than once before they are finished. */
static bool has_chunks(const struct product *p)
{
    return np_chunk_end(p->inner.begin, p->inner.end, p->grain) < p->inner.end;
}

/* False if an element is not finite. */
static bool run_product(const struct product *p)
{
    bool finite = true;
    size_t count = np_share_count(p->cols), width = NP_GEMM_NC, k = np_share_count(p->inner);
    struct pass pass = {0};
    if (np_share_count(p->rows) == 0 || count == 0)
        return true;
    pass.aside = p->epilogue.residual == p->c && (has_chunks(p) || !is_plain(&p->epilogue));
    pass.whole = pass.aside || !p->a_trans;
    if (p->b->copied && !pass.aside) {
        width = count;
    } else if (np_min(packed_width(p->groups, count), width) * k > NP_GEMM_B) {
        size_t fits = NP_GEMM_B / k / NR * NR;
        pass.whole = fits >= NARROW && !p->a_trans;
        width = pass.whole ? fits : width;
    }
    size_t parts = (count + width - 1) / width;
    width = ((count + parts - 1) / parts + NR - 1) / NR * NR;
    for (size_t j = p->cols.begin; j < p->cols.end; j = pass.cols.end) {
        pass.cols = (struct np_share){j, np_min(j + width, p->cols.end)};
        pass.packed_width = p->b->direct ? NR : packed_width(p->groups, np_share_count(pass.cols));
        finite = (pass.aside || pass.whole ? run_blocks(p, &pass) : run_panels(p, &pass)) && finite;
    }
    return finite;
}

#endif

#include <cassert>
#include <climits>

#include "cuda/product.cuh"

/* Both operands may be stored either way; a quad lies along memory. */
struct matmul_operands {
    static constexpr bool sparse = false;
    const float *a, *b;
    size_t lda, ldb;
    int m, n, k, grain;
    bool a_inner, b_inner;

    __device__ void enter(int)
    {
    }

    __device__ size_t c_row(int i) const
    {
        return i;
    }

    __device__ size_t c_column(int j) const
    {
        return j;
    }
};

/* Tiles and slabs of which nothing is missing, quads at multiples of 16 bytes: a thread goes on
 * from slab to slab, which follow each other along the inner index. */
struct matmul_whole : matmul_operands {
    static constexpr bool whole = true, may_be_whole = false;
    size_t a_step, b_step; /* floats from slab to slab */

    typedef const float *a_place;
    typedef const float *b_place;

    __device__ a_place a_quad(int i, int p) const
    {
        return a + (a_inner ? i * lda + p : p * lda + i);
    }

    __device__ b_place b_quad(int j, int p) const
    {
        return b + (b_inner ? j * ldb + p : p * ldb + j);
    }

    static __device__ void load(float v[4], const float **at, size_t step)
    {
        load_quad(v, *at, 4, true, 0.0f);
        *at += step;
    }

    __device__ void a_load(float v[4], a_place &at, int, int) const
    {
        load(v, &at, a_step);
    }

    __device__ void b_load(float v[4], b_place &at, int, int) const
    {
        load(v, &at, b_step);
    }
};

struct matmul_source : matmul_operands {
    static constexpr bool whole = false, may_be_whole = true;
    bool a_aligned, b_aligned, aligned;

    typedef matmul_whole when_whole;
    struct place {
        const float *at; /* of inner index 0 */
        int count;       /* rows (columns) from here on */
    };
    typedef place a_place;
    typedef place b_place;

    matmul_whole as_whole(int slab) const
    {
        matmul_whole w = {};
        static_cast<matmul_operands &>(w) = *this;
        w.a_step = a_inner ? slab : slab * lda;
        w.b_step = b_inner ? slab : slab * ldb;
        return w;
    }

    __device__ a_place a_quad(int i, int) const
    {
        return {a + (a_inner ? i * lda : i), m - i};
    }

    __device__ b_place b_quad(int j, int) const
    {
        return {b + (b_inner ? j * ldb : j), n - j};
    }

    static __device__ void load(float v[4], const place &at, size_t ld, int p, int end, bool inner,
                                bool aligned, float padding)
    {
        if (inner)
            load_quad(v, at.at + p, at.count > 0 ? end - p : 0, aligned, padding);
        else
            load_quad(v, at.at + p * ld, p < end ? at.count : 0, aligned, padding);
    }

    __device__ void a_load(float v[4], const a_place &at, int p, int end) const
    {
        load(v, at, lda, p, end, a_inner, a_aligned, -0.0f);
    }

    __device__ void b_load(float v[4], const b_place &at, int p, int end) const
    {
        load(v, at, ldb, p, end, b_inner, b_aligned, 0.0f);
    }
};

/* Every quad of rows (columns) begins at a multiple of 16 bytes: chunks that begin at multiples of
 * four keep it so along the inner index. */
static bool quads_aligned(const float *p, size_t ld, bool inner, size_t grain)
{
    return (uintptr_t)p % sizeof(float4) == 0 && ld % 4 == 0 && (!inner || grain % 4 == 0);
}

bool np_cuda_matmul(struct np_team *team, const struct np_matmul *mm)
{
    matmul_source s = {};
    product_output out = {};
    assert(mm->m <= INT_MAX && mm->n <= INT_MAX && mm->k <= INT_MAX);
    s.a = mm->a;
    s.b = mm->b;
    s.lda = mm->lda;
    s.ldb = mm->ldb;
    s.m = (int)mm->m;
    s.n = (int)mm->n;
    s.k = (int)mm->k;
    s.grain = (int)mm->grain;
    s.a_inner = !mm->a_trans;
    s.b_inner = mm->b_trans;
    s.a_aligned = quads_aligned(mm->a, mm->lda, s.a_inner, mm->grain);
    s.b_aligned = quads_aligned(mm->b, mm->ldb, s.b_inner, mm->grain);
    s.aligned = s.a_aligned && s.b_aligned;
    out.c = mm->c;
    out.ld = mm->ldc;
    out.accumulate = mm->accumulate;
    out.epilogue = mm->epilogue;
    return launch_product(team, s, out, {mm->m, mm->n, mm->k, mm->grain, 1, true});
}

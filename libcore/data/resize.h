/* A part of an image of H x W, resized to another size: which part, and what lies where. Private
 * to data/.
 *
 * All in double, every operation rounded. Of four words u_k = word k / 2^32; the part's share of
 * the area a = scale[0] + u_0 * (scale[1] - scale[0]), the ratio of its width to its height, apart
 * from the image's, r = np_expf((float)((2 u_1 - 1) * log(4/3))): 3/4 to 4/3. It is
 * min(sqrt(a / r), 1) * H high and min(sqrt(a * r), 1) * W wide, and begins at u_2 and u_3 of what
 * is left of the image.
 * Along a side of the image, position i of n lies at begin + (i + 0.5) * (size / n) - 0.5, but not
 * before the side's first position nor after its last, between the positions floor(at) and the
 * next, if there is one, and `by` = at - floor(at) behind the first. What lies between numbers a
 * and b is a + by * (b - a): along both rows, then between these, of pixels that have become
 * numbers; a result is rounded to single precision.
 */
#ifndef NP_DATA_RESIZE_H
#define NP_DATA_RESIZE_H

#include <math.h>

#include "data/image_file.h"
#include "num/elementary.h"
#include "num/philox.h"

/* Along one side. */
struct np_resize {
    double begin, step; /* step: size / n */
    int last;           /* position of the image */
};

struct np_resized {
    int first, next; /* positions */
    double by;       /* 0 .. 1, from the first to the next */
};

/* `part` of a side of `side` positions, to become n. */
static inline struct np_resize np_resize_side(double part, double unit, int side, int n)
{
    double size = (part < 1.0 ? part : 1.0) * side;
    return (struct np_resize){unit * (side - size), size / n, side - 1};
}

/* Rows, then columns. */
static inline void np_resize_draw(struct np_resize side[2], const double scale[2],
                                  struct np_philox drawn, struct np_image_size from,
                                  struct np_image_size to)
{
    const double spread = 0x1.269621134db92p-2; /* log(4/3) */
    double u[4], share, ratio;
    for (int k = 0; k < 4; k++)
        u[k] = drawn.w[k] / 4294967296.0;
    share = scale[0] + u[0] * (scale[1] - scale[0]);
    ratio = (double)np_expf((float)((2.0 * u[1] - 1.0) * spread));
    side[0] = np_resize_side(sqrt(share / ratio), u[2], from.height, to.height);
    side[1] = np_resize_side(sqrt(share * ratio), u[3], from.width, to.width);
}

static inline struct np_resized np_resize_at(const struct np_resize *side, int i)
{
    double at = side->begin + (i + 0.5) * side->step - 0.5;
    int first;
    at = at < 0.0 ? 0.0 : at > side->last ? side->last : at;
    first = (int)at;
    return (struct np_resized){first, first + (first < side->last), at - first};
}

#endif

/* Brightness, contrast, saturation and hue of an image, changed by chance. Private to data/.
 *
 * Values are 0 .. 1 for pixels 0 .. 255. With u = word k of `by` / 2^32, brightness, contrast and
 * saturation (k = 0, 1, 2) of an amount x draw the factor f = 1 - x + u * (2 * x), hue (3) the
 * sixths of a turn (2 * u - 1) * (6 * x), in double, rounded to single. An amount of 0 changes
 * nothing; the others follow each other as the words of `order` of the same k ascend. In single
 * precision, every operation rounded:
 *
 * gray        0.299 r + 0.587 g + 0.114 b, from left to right; the value of a single channel
 * brightness  v = f * v
 * contrast    v = m + f * (v - m), m the mean of all positions' grays: their sum in double, in
 *             order, from 0, by their number, rounded
 * saturation  v = gray + f * (v - gray)
 * hue         a the largest of r, g, b, d = a - the smallest; h = n + ((x - y) / d + turn), over 1
 *             if d is 0; n, x, y = 0, g, b if a is r, else 2, b, r if it is g, else 4, r, g; 6 more
 *             if h < 0, then 6 less if h >= 6; r, g, b = a - d * w(5), w(3), w(1), where w(n) is
 *             min(t, 4 - t), cut to 0 .. 1, and t = n + h, 6 less if t >= 6
 * After each of them all values are cut to 0 .. 1.
 *
 * Source:    the order, factors and formulas of torchvision's ColorJitter.
 */
#ifndef NP_DATA_JITTER_H
#define NP_DATA_JITTER_H

#include <stddef.h>

#include "num/philox.h"
#include "space/recipe.h"

/* x: [positions][channels]; 1 or 3 channels, of 1 without saturation and hue. */
void np_jitter(float *x, size_t positions, int channels, const double amount[NP_JITTERS],
               struct np_philox by, struct np_philox order);

#endif

/* How a team divides a matrix. Private to num/. */
#ifndef NP_NUM_GRID_H
#define NP_NUM_GRID_H

#include <stdint.h>

#include "num/team.h"

/* A member's rectangle of C, and its place among those that divide the rows. */
struct np_grid {
    struct np_share rows, cols;
    struct np_team down;
};

static inline size_t np_share_count(struct np_share s)
{
    return s.end - s.begin;
}

#define NP_GRID_A 8 /* multiplications in the time of fetching a float of A from afar ... */
#define NP_GRID_B 8 /* ... and of packing one of B */

/* The rectangle of the grid of members that costs least; columns in multiples of `unit`. */
static inline struct np_grid np_grid_share(const struct np_team *team, size_t m, size_t n,
                                           size_t unit)
{
    size_t size = (size_t)team->size, rank = (size_t)team->rank, high = 1, best = SIZE_MAX;
    for (size_t down = 1; down <= size; down++) {
        size_t across = size / down, units = (n + unit - 1) / unit;
        size_t rows = (m + down - 1) / down, cols = (units + across - 1) / across * unit;
        size_t cost = rows * cols + NP_GRID_A * rows + NP_GRID_B * cols;
        if (size % down == 0 && cost < best) {
            best = cost;
            high = down;
        }
    }
    struct np_team down = {.rank = (int)(rank % high), .size = (int)high};
    struct np_team across = {.rank = (int)(rank / high), .size = (int)(size / high)};
    return (struct np_grid){np_team_share(&down, m, 1), np_team_share(&across, n, unit), down};
}

#endif

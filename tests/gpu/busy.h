/* Intervals of time in which something of a GPU is at work, and how much of a window they cover. */
#ifndef NP_GPU_BUSY_H
#define NP_GPU_BUSY_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

struct busy {
    uint64_t begin, end; /* nanoseconds */
    const char *what;    /* or NULL */
};

static inline int busy_compare(const void *a, const void *b)
{
    const struct busy *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

/* Orders them by their beginnings. */
static inline void busy_sort(struct busy *list, size_t count)
{
    if (count > 0)
        qsort(list, count, sizeof *list, busy_compare);
}

/* Nanoseconds of the window that at least one of them covers; they are sorted. */
static inline uint64_t busy_covers(const struct busy *list, size_t count, struct busy window)
{
    uint64_t covered = 0, to = window.begin;
    for (size_t i = 0; i < count; i++) {
        uint64_t begin = list[i].begin > to ? list[i].begin : to;
        uint64_t end = list[i].end < window.end ? list[i].end : window.end;
        if (end > begin) {
            covered += end - begin;
            to = end;
        }
    }
    return covered;
}

#endif

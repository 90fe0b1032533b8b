/* What the parts of the SVG drawing share; for timeline_*.c only. */
#ifndef NP_SCHED_TIMELINE_DRAWING_H
#define NP_SCHED_TIMELINE_DRAWING_H

#include "sched/timeline.h"

#define NP_DRAW_WIDTH 1200.0
#define NP_DRAW_LEFT 72.0
#define NP_DRAW_RIGHT 20.0

struct np_drawing {
    struct np_buf *out;
    const struct np_timeline *timeline;
    struct np_trace_sums sums;
    double top;                  /* of the first stage */
    double lane, copies, memory; /* heights, gaps included; 0: not drawn */
    double bottom;               /* where the lanes end */
    double scale;                /* pixels per unit of time */
    struct np_error *err;
};

/* Where a moment is, within the drawing. */
double np_drawing_x(const struct np_drawing *drawing, double time);
/* The top of a device's lanes. */
double np_drawing_y(const struct np_drawing *drawing, int device);

/* Below every stage, what is copied, and how much of its memory is in use; their legend. */
enum np_status np_drawing_lanes(const struct np_drawing *drawing);
enum np_status np_drawing_lane_legend(const struct np_drawing *drawing, double y);

#endif

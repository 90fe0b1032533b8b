/* The lanes of a stage's memory: fetches in the upper half of the first, writes in the lower, dark
 * and light, so that they differ in print; below, the bytes in use as an area under the most there
 * are. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/memory.h"
#include "base/text.h"
#include "sched/timeline_drawing.h"

#define GAP 3.0
#define FETCH "#1b1b1b"
#define WRITE "#8f8f8f"
#define FIXED "#c6c6c6" /* what is always in use */
#define IN_USE "#dbe6f2"
#define LINE "#3c5a7d"
#define FINE 0.05 /* pixels: what is thinner is not drawn */

static enum np_status lane(const struct np_drawing *d, double y, double height, const char *name)
{
    return np_buf_printf(d->out, d->err,
                         "<rect x=\"%g\" y=\"%.1f\" width=\"%g\" height=\"%.1f\" fill=\"#f3f3f3\"/>"
                         "<text x=\"%g\" y=\"%.1f\" font-size=\"%g\" text-anchor=\"end\" "
                         "fill=\"#555\">%s</text>\n",
                         NP_DRAW_LEFT, y, NP_DRAW_WIDTH - NP_DRAW_LEFT - NP_DRAW_RIGHT, height,
                         NP_DRAW_LEFT - 8, y + height / 2 + 3, height < 8 ? 7.0 : 9.0, name);
}

static enum np_status copies(const struct np_drawing *d, int stage)
{
    const struct np_trace *trace = d->timeline->trace;
    double y = np_drawing_y(d, stage) + d->lane, height = d->copies - GAP;
    enum np_status status;
    NP_TRY(lane(d, y, height, "copies"));
    for (size_t i = 0; i < trace->copy_count; i++) {
        const struct np_copy_span *span = &trace->copies[i];
        bool write = span->copy.kind == NP_COPY_WRITE;
        double x = np_drawing_x(d, span->start), width = np_drawing_x(d, span->end) - x;
        if (span->stage != stage || width < FINE || (!write && span->copy.kind != NP_COPY_FETCH))
            continue;
        NP_TRY(np_buf_printf(d->out, d->err,
                             "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" "
                             "fill=\"%s\"/>\n",
                             x, y + (write ? height / 2 : 0), width, height / 2,
                             write ? WRITE : FETCH));
    }
out:
    return status;
}

/* The path of what is in use: from the left edge, up and down at every change. */
static enum np_status curve(const struct np_drawing *d, const struct np_memory_change *changes,
                            int stage, double base, double unit)
{
    const struct np_trace *trace = d->timeline->trace;
    const struct np_trace_stage *s = &trace->stage[stage];
    double from = NP_DRAW_LEFT, level = base - (double)(s->fixed_bytes + s->held_bytes) * unit;
    enum np_status status;
    NP_TRY(np_buf_printf(d->out, d->err, "<path d=\"M%g %.2f", from, level));
    for (size_t i = 0; i < trace->copy_count; i++) {
        double x = np_drawing_x(d, changes[i].time), y = base - (double)changes[i].bytes * unit;
        bool last = i + 1 == trace->copy_count;
        if (changes[i].stage != stage)
            continue;
        if (last || x - from >= FINE)
            NP_TRY(np_buf_printf(d->out, d->err, "V%.2fH%.2f", level, x));
        from = last || x - from >= FINE ? x : from;
        level = y;
    }
    NP_TRY(np_buf_printf(d->out, d->err, "V%.2fH%.2f", level, np_drawing_x(d, d->sums.end)));
out:
    return status;
}

static enum np_status memory(const struct np_drawing *d, const struct np_memory_change *changes,
                             int stage)
{
    const struct np_trace_stage *s = &d->timeline->trace->stage[stage];
    double y = np_drawing_y(d, stage) + d->lane + d->copies, height = d->memory - 2 * GAP;
    double width = NP_DRAW_WIDTH - NP_DRAW_LEFT - NP_DRAW_RIGHT, base = y + height;
    double unit = s->device_bytes ? height / (double)s->device_bytes : 0;
    char most[32];
    enum np_status status;
    if (d->timeline->layers)
        snprintf(most, sizeof most, "%" PRIu64 " layers", s->device_bytes);
    else
        snprintf(most, sizeof most, "%s", np_text_size(s->device_bytes).s);
    NP_TRY(lane(d, y, height, most));
    NP_TRY(curve(d, changes, stage, base, unit));
    NP_TRY(np_buf_printf(d->out, d->err, "V%.2fH%gZ\" fill=\"" IN_USE "\" stroke=\"none\"/>\n",
                         base, NP_DRAW_LEFT));
    NP_TRY(np_buf_printf(
        d->out, d->err,
        "<rect x=\"%g\" y=\"%.2f\" width=\"%g\" height=\"%.2f\" fill=\"" FIXED "\"/>\n",
        NP_DRAW_LEFT, base - (double)s->fixed_bytes * unit, width, (double)s->fixed_bytes * unit));
    NP_TRY(curve(d, changes, stage, base, unit));
    NP_TRY(np_buf_printf(d->out, d->err,
                         "\" fill=\"none\" stroke=\"" LINE "\" stroke-width=\"0.8\"/>\n"
                         "<path d=\"M%g %.1fh%g\" stroke=\"#222\" stroke-width=\"0.7\" "
                         "stroke-dasharray=\"5 3\"/>\n",
                         NP_DRAW_LEFT, y, width));
out:
    return status;
}

enum np_status np_drawing_lanes(const struct np_drawing *d)
{
    struct np_memory_change *changes = NULL;
    enum np_status status;
    NP_TRY(np_trace_memory(&changes, d->timeline->trace, d->err));
    for (int k = 0; k < d->timeline->trace->stages && k < d->timeline->stages; k++) {
        NP_TRY(copies(d, k));
        NP_TRY(memory(d, changes, k));
    }
out:
    free(changes);
    return status;
}

enum np_status np_drawing_lane_legend(const struct np_drawing *d, double y)
{
    static const struct {
        const char *fill, *name;
        double at;
    } entries[] = {{"url(#stall)", "waits for a layer", 0},
                   {FETCH, "fetch", 130},
                   {WRITE, "write back", 190},
                   {FIXED, "memory always in use", 281},
                   {IN_USE, "by layers", 456}};
    double x = NP_DRAW_WIDTH - NP_DRAW_RIGHT - 532;
    enum np_status status = NP_OK;
    for (size_t i = 0; i < sizeof entries / sizeof *entries && status == NP_OK; i++)
        status = np_buf_printf(d->out, d->err,
                               "<rect x=\"%g\" y=\"%g\" width=\"14\" height=\"11\" fill=\"%s\" "
                               "stroke=\"#777\" stroke-width=\"0.5\"/>"
                               "<text x=\"%g\" y=\"%g\" font-size=\"12\">%s</text>\n",
                               x + entries[i].at, y, entries[i].fill, x + entries[i].at + 19,
                               y + 10, entries[i].name);
    return status;
}

/* The drawing: made to be read in print as well as on a screen, so kinds differ in lightness and
 * steps in hue, and text is drawn only where it fits. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/memory.h"
#include "sched/timeline_drawing.h"

#define WIDTH NP_DRAW_WIDTH
#define LEFT NP_DRAW_LEFT
#define RIGHT NP_DRAW_RIGHT
#define AXIS 46.0
#define GAP 3.0
#define JOIN 0.3         /* pixels: smaller gaps are not shown inside a task's run */
#define LABEL_WIDTH 26.0 /* least width of a span with its name in it */

/* Eight hues that stay apart for most colour-blind readers; a step takes the one of step mod 8. */
static const uint8_t hues[8][3] = {{78, 121, 167}, {242, 142, 43},  {89, 161, 79},
                                   {225, 87, 89},  {176, 122, 161}, {118, 183, 178},
                                   {156, 117, 95}, {214, 178, 52}};

/* A task that waits: hatched. */
static const char stall_pattern[] =
    "<defs><pattern id=\"stall\" width=\"4\" height=\"4\" patternUnits=\"userSpaceOnUse\" "
    "patternTransform=\"rotate(45)\"><rect width=\"4\" height=\"4\" fill=\"#fff\"/>"
    "<path d=\"M0 0V4\" stroke=\"#333\" stroke-width=\"1.6\"/></pattern></defs>\n";

/* F is the hue lightened, B the hue, W the hue darkened. */
static unsigned shade(uint64_t step, enum np_task_kind kind)
{
    unsigned rgb = 0;
    for (int c = 0; c < 3; c++) {
        double v = hues[step % 8][c];
        if (kind == NP_TASK_F)
            v += (255 - v) * 0.55;
        if (kind == NP_TASK_W)
            v *= 0.62;
        rgb = rgb << 8 | (unsigned)v;
    }
    return rgb;
}

/* 1, 2 or 5 times a power of ten, so that a span has 6 to 14 ticks. */
static double tick_step(double span)
{
    double raw = span / 14, power = pow(10, floor(log10(raw)));
    double lead = raw / power;
    return power * (lead <= 1 ? 1 : lead <= 2 ? 2 : lead <= 5 ? 5 : 10);
}

double np_drawing_x(const struct np_drawing *d, double time)
{
    double t = time < d->sums.start ? d->sums.start : time > d->sums.end ? d->sums.end : time;
    return LEFT + (t - d->sums.start) * d->scale;
}

double np_drawing_y(const struct np_drawing *d, int device)
{
    return d->top + device * (d->lane + d->copies + d->memory);
}

static enum np_status escaped(const struct np_drawing *d, const char *text)
{
    enum np_status status = NP_OK;
    for (; *text && status == NP_OK; text++) {
        switch (*text) {
        case '&':
            status = np_buf_printf(d->out, d->err, "&amp;");
            break;
        case '<':
            status = np_buf_printf(d->out, d->err, "&lt;");
            break;
        case '>':
            status = np_buf_printf(d->out, d->err, "&gt;");
            break;
        default:
            status = np_buf_printf(d->out, d->err, "%c", (unsigned char)*text < ' ' ? ' ' : *text);
        }
    }
    return status;
}

static enum np_status line_of_text(const struct np_drawing *d, double y, int size, const char *text)
{
    enum np_status status;
    NP_TRY(
        np_buf_printf(d->out, d->err, "<text x=\"%g\" y=\"%g\" font-size=\"%d\">", LEFT, y, size));
    NP_TRY(escaped(d, text));
    NP_TRY(np_buf_printf(d->out, d->err, "</text>\n"));
out:
    return status;
}

static enum np_status legend(const struct np_drawing *d)
{
    static const char *const names[] = {"F forward", "B backward, input", "W backward, weights"};
    enum np_status status = NP_OK;
    double x = WIDTH - RIGHT - 430, y = 40;
    for (int kind = NP_TASK_F; kind <= NP_TASK_W && status == NP_OK; kind++) {
        static const double at[] = {0, 92, 232};
        status = np_buf_printf(d->out, d->err,
                               "<rect x=\"%g\" y=\"%g\" width=\"14\" height=\"11\" fill=\"#%06x\"/>"
                               "<text x=\"%g\" y=\"%g\" font-size=\"12\">%s</text>\n",
                               x + at[kind], y, shade(0, (enum np_task_kind)kind),
                               x + at[kind] + 19, y + 10, names[kind]);
    }
    if (status == NP_OK)
        status = np_buf_printf(d->out, d->err,
                               "<text x=\"%g\" y=\"%g\" font-size=\"12\" text-anchor=\"end\">"
                               "colour: step</text>\n",
                               WIDTH - RIGHT, y - 14);
    return status;
}

static enum np_status axis(const struct np_drawing *d)
{
    enum np_status status = NP_OK;
    double length = d->sums.end - d->sums.start, unit = 1;
    const char *name = "time (1 = forward of one block)";
    if (d->timeline->nanoseconds) {
        unit = length < 1e5 ? 1e3 : length < 1e10 ? 1e6 : 1e9;
        name = unit == 1e3 ? "time (us)" : unit == 1e6 ? "time (ms)" : "time (s)";
    }
    double step = tick_step(length > 0 ? length / unit : 1);
    for (double t = 0; t * unit <= length * 1.0001 && status == NP_OK; t += step) {
        double x = np_drawing_x(d, d->sums.start + t * unit);
        status = np_buf_printf(
            d->out, d->err,
            "<path d=\"M%.1f %g V%.1f\" stroke=\"#bbb\" stroke-width=\"0.6\"/>"
            "<text x=\"%.1f\" y=\"%.1f\" font-size=\"11\" text-anchor=\"middle\">%.6g</text>\n",
            x, d->top, d->bottom + 5, x, d->bottom + 18, t);
    }
    if (status == NP_OK)
        status = np_buf_printf(d->out, d->err,
                               "<text x=\"%g\" y=\"%.1f\" font-size=\"12\" "
                               "text-anchor=\"middle\">%s</text>\n",
                               (LEFT + WIDTH - RIGHT) / 2, d->bottom + 36, name);
    return status;
}

static enum np_status lane_name(const struct np_drawing *d, double y, double size, const char *what,
                                int number)
{
    return np_buf_printf(d->out, d->err,
                         "<text x=\"%g\" y=\"%.1f\" font-size=\"%g\" text-anchor=\"end\">%s "
                         "%d</text>\n",
                         LEFT - 8, y, size, what, number);
}

/* A device's replica is named above its stage, as large as two lines can be. */
static enum np_status lane_names(const struct np_drawing *d)
{
    const struct np_timeline *t = d->timeline;
    bool replicas = t->replicas > 1;
    double size = d->lane < 14 ? 8 : 12;
    enum np_status status = NP_OK;
    if (replicas)
        size = 0.4 * d->lane;
    for (int device = 0; device < np_timeline_devices(t); device++) {
        double y = np_drawing_y(d, device), middle = y + d->lane / 2 + 2;
        NP_TRY(np_buf_printf(
            d->out, d->err,
            "<rect x=\"%g\" y=\"%.1f\" width=\"%g\" height=\"%.1f\" fill=\"#f3f3f3\"/>", LEFT, y,
            WIDTH - LEFT - RIGHT, d->lane - GAP));
        if (replicas)
            NP_TRY(lane_name(d, middle - size / 2, size, "replica", device / t->stages));
        NP_TRY(lane_name(d, middle + (replicas ? size / 2 : 0), size, "stage", device % t->stages));
    }
out:
    return status;
}

static enum np_status draw_span(const struct np_drawing *d, const struct np_span *span)
{
    enum np_status status;
    const struct np_task *task = &span->task;
    double wait = span->stall * d->scale, x = np_drawing_x(d, span->start) + wait;
    double width = (span->end - span->start) * d->scale - wait;
    double y = np_drawing_y(d, task->device), height = d->lane - GAP;
    if (span->end <= span->start)
        return NP_OK;
    if (wait > JOIN)
        NP_TRY(np_buf_printf(d->out, d->err,
                             "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" "
                             "fill=\"url(#stall)\"/>",
                             x - wait, y, wait, height));
    NP_TRY(np_buf_printf(d->out, d->err,
                         "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" "
                         "fill=\"#%06x\"/>",
                         x, y, width, height, shade(task->step, task->kind)));
    if (width >= LABEL_WIDTH && height >= 11)
        NP_TRY(np_buf_printf(d->out, d->err,
                             "<text x=\"%.2f\" y=\"%.1f\" font-size=\"9\" text-anchor=\"middle\" "
                             "fill=\"%s\">%" PRIu64 ".%d</text>",
                             x + width / 2, y + height / 2 + 3,
                             task->kind == NP_TASK_F ? "#222" : "#fff", task->step, task->micro));
    NP_TRY(np_buf_printf(d->out, d->err, "\n"));
out:
    return status;
}

static bool continues(const struct np_drawing *d, const struct np_span *last,
                      const struct np_span *next)
{
    const struct np_task *a = &last->task, *b = &next->task;
    return last->end > last->start && a->kind == b->kind && a->step == b->step &&
           a->member == b->member && a->micro == b->micro &&
           fabs(next->start - last->end) * d->scale < JOIN && next->stall * d->scale < JOIN;
}

/* Consecutive tasks of one kind on the same micro-batch are drawn as one. */
static enum np_status draw_spans(const struct np_drawing *d)
{
    const struct np_trace *trace = d->timeline->trace;
    int devices = np_timeline_devices(d->timeline);
    struct np_span *waiting = NULL; /* [devices] not drawn yet; start == end: none */
    enum np_status status;
    NP_TRY(np_zalloc(&waiting, (size_t)devices, sizeof *waiting, d->err));
    for (size_t i = 0; i < trace->count; i++) {
        const struct np_span *next = &trace->spans[i];
        if (next->task.device >= devices || next->end <= next->start)
            continue;
        struct np_span *last = &waiting[next->task.device];
        if (continues(d, last, next)) {
            last->end = next->end;
            continue;
        }
        NP_TRY(draw_span(d, last));
        *last = *next;
    }
    for (int k = 0; k < devices; k++)
        NP_TRY(draw_span(d, &waiting[k]));
out:
    free(waiting);
    return status;
}

static void lay_out(struct np_drawing *d)
{
    int devices = np_timeline_devices(d->timeline);
    bool memory = d->timeline->trace->stage != NULL;
    double length = d->sums.end - d->sums.start;
    d->top = memory ? 80 : 62;
    d->lane = devices <= 16 ? 28 : devices <= 32 ? 18 : 10;
    d->copies = memory ? d->lane * 0.45 + GAP : 0;
    d->memory = memory ? d->lane + 2 * GAP : 0;
    d->bottom = np_drawing_y(d, devices);
    d->scale = length > 0 ? (WIDTH - LEFT - RIGHT) / length : 0;
}

enum np_status np_timeline_svg(struct np_buf *out, const struct np_timeline *timeline,
                               struct np_error *err)
{
    enum np_status status;
    struct np_drawing d = {.out = out, .timeline = timeline, .err = err};
    d.sums = np_trace_sum(timeline->trace, np_timeline_devices(timeline));
    lay_out(&d);
    NP_TRY(np_buf_printf(out, err,
                         "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" "
                         "width=\"%g\" height=\"%g\" font-family=\"sans-serif\" fill=\"#222\" "
                         "shape-rendering=\"geometricPrecision\">\n"
                         "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
                         WIDTH, d.bottom + AXIS, WIDTH, d.bottom + AXIS));
    NP_TRY(line_of_text(&d, 24, 17, timeline->title ? timeline->title : "timeline"));
    if (timeline->note)
        NP_TRY(line_of_text(&d, 48, 12, timeline->note));
    NP_TRY(legend(&d));
    NP_TRY(lane_names(&d));
    if (timeline->trace->stage) {
        NP_TRY(np_buf_printf(out, err, "%s", stall_pattern));
        NP_TRY(np_drawing_lane_legend(&d, 58));
        NP_TRY(np_drawing_lanes(&d));
    }
    NP_TRY(axis(&d));
    NP_TRY(draw_spans(&d));
    NP_TRY(np_buf_printf(out, err, "</svg>\n"));
out:
    return status;
}

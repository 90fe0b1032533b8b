#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli.h"

#define LINE 256 /* most characters of a line */

static bool stands; /* a line, on the terminal */

void cli_progress_begin(struct cli_progress *progress, bool quiet)
{
    const char *terminal = getenv("TERM");
    bool dumb = terminal && strcmp(terminal, "dumb") == 0;
    progress->on = !quiet && !dumb && isatty(STDERR_FILENO);
    progress->started_s = np_now_s();
    progress->shown_s = 0;
}

/* A job in the background would write over what is typed, or be stopped for it. */
static bool in_background(void)
{
    pid_t front = tcgetpgrp(STDERR_FILENO);
    return front >= 0 && front != getpgrp();
}

bool cli_progress_due(const struct cli_progress *progress)
{
    return progress->on && np_now_s() - progress->shown_s >= 1.0 / 6 && !in_background();
}

/* Characters of a line that the terminal, as wide as it is now, does not continue on the next. */
static size_t room(void)
{
    struct winsize size;
    bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    return known && size.ws_col < LINE ? size.ws_col - 1u : LINE - 1;
}

void cli_progress_show(struct cli_progress *progress, const char *format, ...)
{
    char line[LINE];
    va_list args;
    if (!cli_progress_due(progress))
        return;
    progress->shown_s = np_now_s();
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    line[room()] = '\0';
    fprintf(stderr, "\r\033[K%s", line);
    fflush(stderr);
    stands = true;
}

void cli_progress_clear(FILE *before)
{
    if (!stands || !isatty(fileno(before)))
        return;
    fputs("\r\033[K", stderr);
    stands = false;
}

void cli_progress_end(struct cli_progress *progress)
{
    cli_progress_clear(stderr);
    progress->on = false;
}

struct cli_eta cli_progress_eta(const struct cli_progress *progress, uint64_t done, uint64_t total)
{
    struct cli_eta eta = {""};
    double spent = np_now_s() - progress->started_s;
    if (done == 0 || done > total || total == UINT64_MAX)
        return eta;
    double left = spent / (double)done * (double)(total - done);
    if (left < 1e8) /* some years */
        snprintf(eta.s, sizeof eta.s, " | ETA %d:%02d", (int)left / 60, (int)left % 60);
    return eta;
}

/* What the tools share: option parsing, messages, exit codes, progress.
 *
 * Manners: stdout is data, stderr is talk; exit 0 yes, 1 the answer is no, 2 could not do it, 75
 * stopped on request after a clean checkpoint. One argp option table per tool drives parsing,
 * --help, --list-options (for completions) and the man-page test.
 */
#ifndef NP_CMD_CLI_H
#define NP_CMD_CLI_H

#include <argp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "io/file.h"

enum { CLI_YES = 0, CLI_NO = 1, CLI_FAILED = 2, CLI_STOPPED = 75 };

/* Parses argv with the tool's argp table and the options every tool has (--version,
 * --list-options); a usage error prints what is wrong and where to read more, and exits 2. */
void cli_parse(const struct argp *argp, int argc, char **argv, void *input);

/* For option parsers: strict values; on a bad one, a usage error (exit 2). */
int64_t cli_int(struct argp_state *state, const char *option, const char *text, int64_t min,
                int64_t max);
uint64_t cli_seed(struct argp_state *state, const char *option, const char *text);
double cli_number(struct argp_state *state, const char *option, const char *text, double min,
                  double max);
/* A number of things, 1 or more, such as 600M. */
double cli_amount(struct argp_state *state, const char *option, const char *text);
uint64_t cli_bytes(struct argp_state *state, const char *option, const char *text);
/* Which of the words it is. */
int cli_word(struct argp_state *state, const char *option, const char *text,
             const char *const *words, size_t count);

/* Whether a path, or NULL, stands for standard input. */
bool cli_is_standard(const char *path);
/* A usage error if more than one of the paths is; NULL: none. */
void cli_one_standard(struct argp_state *state, const char *const *inputs, size_t count);
/* Whether both paths lead to the same regular file. */
bool cli_is_same_file(const char *a, const char *b);
/* A usage error if the file that an option writes is one of those that are read; NULL: none. */
void cli_apart(struct argp_state *state, const char *option, const char *path,
               const char *const *inputs, size_t count);

/* "np-train: error: <message>" on stderr. */
void cli_error(const struct np_error *err);
void cli_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
void cli_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The exit code of a status (NP_ENO and NP_ENAN 1, NP_ESTOP 75, others 2). */
int cli_exit_code(enum np_status status);
/* A line on stdout in sha256sum's form: it begins with a backslash where the name has an escape. */
void cli_print_digest(const char *digest, const char *name);
/* Flushes and closes stdout; an error (full disk, /dev/full) is reported and makes `code` 2. */
int cli_finish(int code);

/* What is written to a path: a file complete or not at all, where the path is a link its target;
 * into a pipe or a device, which stay; "-" or NULL: stdout. Open, write, close; abort may follow
 * anything, and takes back what is not closed. path is borrowed. */
struct cli_output {
    const char *path;
    struct np_file_out file;
    FILE *into; /* NULL: the file */
};
enum np_status cli_output_open(struct cli_output *out, const char *path, struct np_error *err);
enum np_status cli_output_write(struct cli_output *out, const void *bytes, size_t n,
                                struct np_error *err);
enum np_status cli_output_close(struct cli_output *out, struct np_error *err);
void cli_output_abort(struct cli_output *out);

/* All of that with a text. */
enum np_status cli_write(const char *path, const char *text, size_t bytes, struct np_error *err);
/* Fails if the file that an option writes (NULL: none) is one that the run keeps. */
enum np_status cli_spares_run(const char *run, const char *option, const char *path,
                              struct np_error *err);
/* Fails as it would where that can be known before there is a text. */
enum np_status cli_can_write(const char *path, struct np_error *err);

/* Data cut short from here on is an error that is said. */
void cli_catch_lost_data(void);
/* The first of SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU and, unless it is ignored, SIGHUP that
 * came after they were caught, else 0: finish the step, save, exit 75. A SIGINT after one of the
 * first two ends the process at once. */
extern volatile sig_atomic_t cli_stop_requested;
void cli_catch_signals(void);
/* SIGUSR1, SIGUSR2 and SIGXCPU alone, which have time: for what is done before there is anything to
 * be saved, and asks nobody. */
void cli_catch_notice(void);
/* Whether there was one, for what asks its caller (context is not looked at). */
bool cli_stop(void *context);
/* Its name; NULL: none came. */
const char *cli_stop_signal(void);

/* Progress on stderr: only on a terminal that can erase a line, by a job in its foreground; one
 * line, cut to the terminal's width, at most 6 times a second, erased at the end. */
struct cli_progress {
    bool on;
    double shown_s, started_s;
};
void cli_progress_begin(struct cli_progress *progress, bool quiet);
void cli_progress_show(struct cli_progress *progress, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void cli_progress_end(struct cli_progress *progress);
/* Erases the line that stands, if `before`, which is written next, is a terminal; the messages
 * above do it themselves. */
void cli_progress_clear(FILE *before);
bool cli_progress_due(const struct cli_progress *progress);

/* " | ETA 5:08" when `done` of `total` (UINT64_MAX: nobody knows) have been done since it began. */
struct cli_eta {
    char s[32];
};
struct cli_eta cli_progress_eta(const struct cli_progress *progress, uint64_t done, uint64_t total);

#endif

#define _GNU_SOURCE /* program_invocation_short_name, pthread_setattr_default_np */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "version.h"

volatile sig_atomic_t cli_stop_requested;

enum { OPTION_LIST = 0x1000, OPTION_USAGE, OPTION_VERSION };

static const struct argp_option common_options[] = {
    {"list-options", OPTION_LIST, 0, OPTION_HIDDEN, "print the option table for completions", 0},
    {"help", '?', 0, 0, "give this help list", -1},
    {"usage", OPTION_USAGE, 0, 0, "give a short usage message", -1},
    {"version", OPTION_VERSION, 0, 0, "print version, compiler, flags, libraries", -1},
    {0}};

/* One line an option: --name<TAB>key or nothing<TAB>argument or nothing<TAB>description. */
static void list_options(const struct argp *argp)
{
    for (const struct argp_option *o = argp->options; o && (o->name || o->key || o->doc); o++) {
        if (!o->name || o->flags & OPTION_HIDDEN)
            continue;
        char key[3] = {'-', (char)o->key, 0};
        printf("--%s\t%s\t%s\t%s\n", o->name, o->key > ' ' && o->key < 127 ? key : "",
               o->arg ? o->arg : "", o->doc ? o->doc : "");
    }
    for (const struct argp_child *child = argp->children; child && child->argp; child++)
        list_options(child->argp);
}

/* Not argp's own --help, which leaves without looking whether it could be written. */
static void help(struct argp_state *state, unsigned what)
{
    argp_state_help(state, stdout, what & ~(unsigned)ARGP_HELP_EXIT_OK);
    exit(cli_finish(CLI_YES));
}

/* The tool's table is a child of the common one, so that both are one interface to argp. */
struct parse_input {
    const struct argp *tool;
    void *input;
};

static error_t parse_common(int key, char *arg, struct argp_state *state)
{
    const struct parse_input *in = state->input;
    (void)arg;
    switch (key) {
    case OPTION_LIST:
        list_options(in->tool);
        list_options(&(struct argp){.options = common_options});
        exit(cli_finish(CLI_YES));
    case '?':
        help(state, ARGP_HELP_STD_HELP);
        return 0;
    case OPTION_USAGE:
        help(state, ARGP_HELP_USAGE);
        return 0;
    case OPTION_VERSION:
        version_print(stdout, program_invocation_short_name);
        exit(cli_finish(CLI_YES));
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_root(int key, char *arg, struct argp_state *state)
{
    struct parse_input *in = state->input;
    if (key == ARGP_KEY_INIT) {
        state->child_inputs[0] = in->input;
        return 0;
    }
    return parse_common(key, arg, state);
}

/* The number of a closed standard stream would go to the next file that is opened, and what is said
 * would be written into it. What opens here refuses to be used that way. */
static void hold_standard_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd ? O_RDONLY : O_WRONLY) != fd) {
            fprintf(stderr, "%s: error: a standard stream is closed, and there is no /dev/null\n",
                    program_invocation_short_name);
            exit(CLI_FAILED);
        }
}

/* Stacks are of 2 MiB at least, whatever `ulimit -s` says, and those of threads of 8 at most: in a
 * small one a tool is killed, and for some as large as all memory there is no room. */
static void hold_stacks(void)
{
    const rlim_t least = (rlim_t)2 << 20, most = (rlim_t)8 << 20;
    struct rlimit limit;
    pthread_attr_t attributes;
    if (getrlimit(RLIMIT_STACK, &limit) != 0 ||
        (limit.rlim_cur >= least && limit.rlim_cur <= most) || pthread_attr_init(&attributes) != 0)
        return;
    pthread_attr_setstacksize(&attributes, limit.rlim_cur > most ? most : least);
    pthread_setattr_default_np(&attributes);
    pthread_attr_destroy(&attributes);
    if (limit.rlim_cur < least) {
        limit.rlim_cur = limit.rlim_max < least ? limit.rlim_max : least;
        setrlimit(RLIMIT_STACK, &limit);
    }
}

void cli_parse(const struct argp *argp, int argc, char **argv, void *input)
{
    struct argp tool = *argp; /* the root says what it is for */
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow on is an error like any other */
    hold_standard_streams();
    hold_stacks();
    tool.args_doc = tool.doc = NULL;
    struct argp_child children[] = {{&tool, 0, NULL, 0}, {0}};
    struct argp root = {.options = common_options,
                        .parser = parse_root,
                        .args_doc = argp->args_doc,
                        .doc = argp->doc,
                        .children = children};
    struct parse_input in = {argp, input};
    argp_err_exit_status = CLI_FAILED;
    /* in order: argv stays as it was given */
    errno = argp_parse(&root, argc, argv, ARGP_IN_ORDER | ARGP_NO_HELP, NULL, &in);
    if (errno) { /* all else it has said itself */
        fprintf(stderr, "%s: error: cannot read the command line: %s\n",
                program_invocation_short_name, strerror(errno));
        exit(CLI_FAILED);
    }
}

int64_t cli_int(struct argp_state *state, const char *option, const char *text, int64_t min,
                int64_t max)
{
    int64_t value = min;
    if (!np_text_parse_int64(&value, text, min, max))
        argp_error(state, "--%s must be a whole number from %lld to %lld, not '%s'", option,
                   (long long)min, (long long)max, np_text_safe(text).s);
    return value;
}

uint64_t cli_seed(struct argp_state *state, const char *option, const char *text)
{
    uint64_t value = 0;
    if (!np_text_parse_uint64(&value, text, 0, UINT64_MAX))
        argp_error(state, "--%s must be a whole number from 0 to 2^64-1, not '%s'", option,
                   np_text_safe(text).s);
    return value;
}

double cli_number(struct argp_state *state, const char *option, const char *text, double min,
                  double max)
{
    double value = min;
    if (!np_text_parse_double(&value, text) || value < min || value > max)
        argp_error(state, "--%s must be a number from %g to %g, not '%s'", option, min, max,
                   np_text_safe(text).s);
    return value;
}

double cli_amount(struct argp_state *state, const char *option, const char *text)
{
    double value = 1;
    if (!np_text_parse_amount(&value, text) || !(value >= 1))
        argp_error(state, "--%s must be a number of 1 or more, such as 600M, not '%s'", option,
                   np_text_safe(text).s);
    return value;
}

uint64_t cli_bytes(struct argp_state *state, const char *option, const char *text)
{
    uint64_t value = 0;
    if (!np_text_parse_size(&value, text, 1, INT64_MAX))
        argp_error(state, "--%s must be a size such as 512MiB or 2GiB, not '%s'", option,
                   np_text_safe(text).s);
    return value;
}

int cli_word(struct argp_state *state, const char *option, const char *text,
             const char *const *words, size_t count)
{
    char list[128] = "";
    size_t used = 0;
    for (size_t i = 0; i < count; i++)
        if (strcmp(words[i], text) == 0)
            return (int)i;
    const char *near = np_text_suggest(text, words, count);
    if (near)
        argp_error(state, "unknown --%s '%s' (did you mean '%s'?)", option, np_text_safe(text).s,
                   near);
    for (size_t i = 0; i < count && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", words[i]);
    argp_error(state, "unknown --%s '%s' (known: %s)", option, np_text_safe(text).s, list);
    return 0;
}

bool cli_is_standard(const char *path)
{
    return path && strcmp(path, "-") == 0;
}

void cli_one_standard(struct argp_state *state, const char *const *inputs, size_t count)
{
    size_t standard = 0;
    for (size_t i = 0; i < count; i++)
        standard += cli_is_standard(inputs[i]);
    if (standard > 1)
        argp_error(state, "one input alone can be standard input");
}

bool cli_is_same_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && S_ISREG(x.st_mode) && x.st_dev == y.st_dev &&
           x.st_ino == y.st_ino;
}

void cli_apart(struct argp_state *state, const char *option, const char *path,
               const char *const *inputs, size_t count)
{
    for (size_t i = 0; path && i < count; i++)
        if (inputs[i] && cli_is_same_file(path, inputs[i]))
            argp_error(state, "--%s '%s' would overwrite '%s'", option, np_text_safe(path).s,
                       np_text_safe(inputs[i]).s);
}

static void __attribute__((format(printf, 2, 0)))
say(const char *kind, const char *format, va_list args)
{
    cli_progress_clear(stderr);
    fprintf(stderr, "%s: %s", program_invocation_short_name, kind);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
}

void cli_error(const struct np_error *err)
{
    cli_progress_clear(stderr);
    fprintf(stderr, "%s: error: %s\n", program_invocation_short_name, err->msg);
}

void cli_warn(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say("warning: ", format, args);
    va_end(args);
}

void cli_note(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say("", format, args);
    va_end(args);
}

int cli_exit_code(enum np_status status)
{
    switch (status) {
    case NP_OK:
        return CLI_YES;
    case NP_ENO:
    case NP_ENAN:
        return CLI_NO;
    case NP_ESTOP:
        return CLI_STOPPED;
    default:
        return CLI_FAILED;
    }
}

void cli_print_digest(const char *digest, const char *name)
{
    static const char special[] = "\\\n\r";
    printf("%s%s  ", strpbrk(name, special) ? "\\" : "", digest);
    for (; *name; name++) {
        const char *at = strchr(special, *name);
        if (at)
            putchar('\\');
        putchar(at ? "\\nr"[at - special] : *name);
    }
    putchar('\n');
}

int cli_finish(int code)
{
    int failed = ferror(stdout);
    if ((fclose(stdout) != 0 || failed) && code != CLI_FAILED) { /* or it was said already */
        fprintf(stderr, "%s: error: cannot write standard output: %s\n",
                program_invocation_short_name, strerror(errno ? errno : EIO));
        return CLI_FAILED;
    }
    return code;
}

#define AGAIN_MS 100 /* what comes sooner is the same request: timeout(1) also signals its group */

/* Ends the process, even the first one of a container, which a signal of its own does not end. */
static void end_by(int number)
{
    sigset_t own;
    sigemptyset(&own);
    sigaddset(&own, number);
    signal(number, SIG_DFL);
    raise(number);
    pthread_sigmask(SIG_UNBLOCK, &own, NULL);
    _exit(128 + number);
}

static atomic_llong asked_ms; /* when the first SIGINT or SIGTERM came; 0: not yet */

static long long now_ms(void)
{
    return (long long)(np_now_s() * 1e3);
}

/* Whether this is the first; else for how long it has been asked for. */
static bool is_first(long long *since_ms)
{
    long long none = 0, now = now_ms();
    bool first = atomic_compare_exchange_strong(&asked_ms, &none, now);
    *since_ms = now - none;
    return first;
}

static void ask(int number)
{
    if (!cli_stop_requested)
        cli_stop_requested = number;
}

/* At a terminal the first asks for a clean end; one that comes later ends the process at once. */
static void on_interrupt(int number)
{
    long long since_ms;
    ask(number);
    if (!is_first(&since_ms) && since_ms >= AGAIN_MS)
        end_by(number);
}

/* Batch systems send several: Slurm one for the step, then one for the job. Who means the end has
 * SIGKILL. */
static void on_termination(int number)
{
    long long since_ms;
    ask(number);
    is_first(&since_ms);
}

/* Data is read from mapped files: one that another process cuts short is an error like any other,
 * and the last checkpoint stands. */
static void on_lost_data(int number)
{
    static const char text[] = ": error: a data file was cut short while it was read\n";
    const char *name = program_invocation_short_name;
    (void)number;
    if (write(STDERR_FILENO, name, strlen(name)) < 0 ||
        write(STDERR_FILENO, text, sizeof text - 1) < 0)
        _exit(CLI_FAILED);
    _exit(CLI_FAILED);
}

void cli_catch_lost_data(void)
{
    struct sigaction lost = {.sa_handler = on_lost_data};
    sigemptyset(&lost.sa_mask);
    sigaction(SIGBUS, &lost, NULL);
}

/* What asks for a clean end. Those after the first two are notice, of launchers, batch systems and
 * a terminal that goes away. */
static const struct {
    int number;
    const char *name;
    void (*act)(int);
} requests[] = {{SIGINT, "SIGINT", on_interrupt}, {SIGTERM, "SIGTERM", on_termination},
                {SIGUSR1, "SIGUSR1", ask},        {SIGUSR2, "SIGUSR2", ask},
                {SIGXCPU, "SIGXCPU", ask},        {SIGHUP, "SIGHUP", ask}};
enum { REQUESTS = sizeof requests / sizeof *requests };

bool cli_stop(void *context)
{
    (void)context;
    return cli_stop_requested;
}

const char *cli_stop_signal(void)
{
    for (int i = 0; i < REQUESTS; i++)
        if (requests[i].number == cli_stop_requested)
            return requests[i].name;
    return NULL;
}

static void catch_request(int request)
{
    struct sigaction action = {.sa_handler = requests[request].act, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(requests[request].number, &action, NULL);
}

void cli_catch_notice(void)
{
    for (int i = 0; i < REQUESTS; i++)
        if (requests[i].act == ask && requests[i].number != SIGHUP)
            catch_request(i);
}

/* SIGINT and SIGTERM also where they were ignored, as of a script's own jobs; not so SIGHUP, of
 * nohup(1). */
void cli_catch_signals(void)
{
    struct sigaction before;
    for (int i = 0; i < REQUESTS; i++)
        if (requests[i].number != SIGHUP ||
            (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN))
            catch_request(i);
    signal(SIGPIPE, SIG_IGN); /* what cannot be written is an error like any other */
}

/* np-verify: do two runs have the same bits, and if not, where do they part? */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli.h"
#include "run/compare.h"
#include "run/fsck.h"

enum { OPT_EXPECT = 0x100, OPT_FSCK, OPT_JSON };

static const struct argp_option option_table[] = {
    {"expect", OPT_EXPECT, "DIGEST", 0, "is DIGEST the digest of RUN?", 0},
    {"fsck", OPT_FSCK, 0, 0, "is everything in RUN there and undamaged?", 0},
    {"json", OPT_JSON, 0, 0, "answer in JSON", 0},
    {"quiet", 'q', 0, 0, "answer by the exit code alone", 0},
    {0}};

struct options {
    const char *runs[2], *expect;
    int run_count;
    bool fsck, json, quiet;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;
    int wanted = o->fsck || o->expect ? 1 : 2;
    switch (key) {
    case OPT_EXPECT:
        o->expect = arg;
        return 0;
    case OPT_FSCK:
        o->fsck = true;
        return 0;
    case OPT_JSON:
        o->json = true;
        return 0;
    case 'q':
        o->quiet = true;
        return 0;
    case ARGP_KEY_ARG:
        if (o->run_count == 2)
            argp_error(state, "two runs are enough: '%s' is left over", np_text_safe(arg).s);
        if (!*arg)
            argp_error(state, "a run directory has a name");
        o->runs[o->run_count++] = arg;
        return 0;
    case ARGP_KEY_END:
        if (o->fsck && o->expect)
            argp_error(state, "--fsck and --expect are two questions: ask one at a time");
        if (o->run_count != wanted)
            argp_error(state, "%d run director%s expected, %d given", wanted,
                       wanted == 1 ? "y" : "ies", o->run_count);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Prints and releases a JSON answer. */
static enum np_status print_json(json_t *root, struct np_error *err)
{
    char *text = root ? json_dumps(root, JSON_INDENT(2) | JSON_PRESERVE_ORDER) : NULL;
    json_decref(root);
    if (!text)
        return np_fail(err, NP_EMEM, "cannot write JSON: out of memory");
    puts(text);
    free(text);
    return NP_OK;
}

/* A name need not be UTF-8, and JSON must. */
static json_t *name_json(const char *name)
{
    json_t *text = json_string(name);
    return text ? text : json_string(np_text_safe(name).s);
}

static json_t *head_json(const char *run, const struct np_run_head *head)
{
    return json_pack("{so ss sI}", "run", name_json(run), "digest", np_digest_hex(&head->digest).s,
                     "steps", (json_int_t)head->step);
}

static json_t *comparison_json(const struct options *o, const struct np_comparison *r)
{
    json_t *root = json_pack("{sb so so}", "same", r->same, "a", head_json(o->runs[0], &r->a), "b",
                             head_json(o->runs[1], &r->b));
    if (r->step_differs) {
        json_object_set_new(root, "first_step", json_integer((json_int_t)r->step));
        if (r->step_layer[0])
            json_object_set_new(root, "first_step_layer", json_string(r->step_layer));
    }
    if (r->layer_differs)
        json_object_set_new(root, "layer",
                            json_pack("{sI ss sI sI}", "checkpoint", (json_int_t)r->checkpoint_step,
                                      "name", r->layer, "updates_a", (json_int_t)r->updates_a,
                                      "updates_b", (json_int_t)r->updates_b));
    if (r->element_differs)
        json_object_set_new(root, "element",
                            json_pack("{ss ss sI ss ss}", "part", r->part, "tensor", r->tensor,
                                      "index", (json_int_t)r->element, "a",
                                      np_text_hex((double)r->value_a).s, "b",
                                      np_text_hex((double)r->value_b).s));
    return root;
}

static void print_step(const struct options *o, const struct np_comparison *r)
{
    if (!r->step_differs) {
        printf("ledgers are the same\n");
        return;
    }
    if (r->ended_a || r->ended_b)
        printf("ledgers are the same up to step %llu, where that of %s ends\n",
               (unsigned long long)r->step, np_text_safe(o->runs[r->ended_a ? 0 : 1]).s);
    else
        printf("first step that differs: %llu\n", (unsigned long long)r->step);
    if (r->step_layer[0])
        printf("first layer of that step that differs: %s\n", r->step_layer);
}

static void print_layer(const struct options *o, const struct np_comparison *r)
{
    if (!r->checkpoint) {
        printf("no checkpoint of the same step to compare\n");
        return;
    }
    if (!r->layer_differs) {
        printf("checkpoints after %llu steps are the same\n",
               (unsigned long long)r->checkpoint_step);
        return;
    }
    printf("first layer that differs after %llu steps: %s\n",
           (unsigned long long)r->checkpoint_step, r->layer);
    if (r->updates_a != r->updates_b)
        printf("updates: %llu and %llu\n", (unsigned long long)r->updates_a,
               (unsigned long long)r->updates_b);
    if (r->element_differs) {
        printf("first element that differs: %s of %s, element %zu\n", r->part, r->tensor,
               r->element);
        printf("  %s  %s\n", np_text_hex((double)r->value_a).s, np_text_safe(o->runs[0]).s);
        printf("  %s  %s\n", np_text_hex((double)r->value_b).s, np_text_safe(o->runs[1]).s);
    }
}

static enum np_status compare(const struct options *o, struct np_error *err)
{
    struct np_comparison r;
    enum np_status status = np_compare_runs(&r, o->runs[0], o->runs[1], err);
    if (status != NP_OK)
        return status;
    if (o->json) {
        status = print_json(comparison_json(o, &r), err);
    } else if (!o->quiet) {
        printf("%s: %llu and %llu steps\n", r.same ? "same" : "different",
               (unsigned long long)r.a.step, (unsigned long long)r.b.step);
        cli_print_digest(np_digest_hex(&r.a.digest).s, o->runs[0]);
        cli_print_digest(np_digest_hex(&r.b.digest).s, o->runs[1]);
        if (!r.same) {
            print_step(o, &r);
            print_layer(o, &r);
        }
    }
    return status == NP_OK && !r.same ? NP_ENO : status;
}

static enum np_status expect(const struct options *o, struct np_error *err)
{
    struct np_digest wanted;
    struct np_run_head head;
    bool same;
    enum np_status status;
    if (!np_digest_parse(&wanted, o->expect, strlen(o->expect)))
        return np_fail(err, NP_EINPUT, "--expect '%s' is not 64 hex digits",
                       np_text_safe(o->expect).s);
    NP_TRY(np_compare_head(&head, o->runs[0], err));
    same = np_digest_equal(&wanted, &head.digest);
    if (o->json)
        NP_TRY(print_json(json_pack("{sb so ss}", "same", same, "run", head_json(o->runs[0], &head),
                                    "expected", o->expect),
                          err));
    else if (!o->quiet)
        printf("%s: %s  %s\n", same ? "same" : "different", np_digest_hex(&head.digest).s,
               np_text_safe(o->runs[0]).s);
    status = same ? NP_OK : NP_ENO;
out:
    return status;
}

struct checking {
    const struct options *options;
    struct cli_progress progress;
};

static void print_problem(void *context, const char *message)
{
    const struct checking *c = context;
    if (!c->options->quiet)
        cli_note("%s", message);
}

static void show_objects(void *context, size_t objects)
{
    struct checking *c = context;
    cli_progress_show(&c->progress, "%zu objects read", objects);
}

static enum np_status fsck(const struct options *o, struct np_error *err)
{
    struct checking checking = {.options = o};
    struct np_fsck check = {
        .problem = print_problem, .progress = show_objects, .context = &checking};
    enum np_status status;
    cli_progress_begin(&checking.progress, o->quiet);
    status = np_fsck_run(&check, o->runs[0], err);
    cli_progress_end(&checking.progress);
    if (status != NP_OK)
        return status;
    if (o->json)
        status = print_json(
            json_pack("{sb so sI sI sI}", "sound", check.problems == 0, "run",
                      name_json(o->runs[0]), "checkpoints", (json_int_t)check.checkpoints,
                      "objects", (json_int_t)check.objects, "problems", (json_int_t)check.problems),
            err);
    else if (!o->quiet)
        printf("%s: %zu checkpoint%s, %zu object%s, %zu problem%s  %s\n",
               check.problems ? "damaged" : "sound", check.checkpoints,
               check.checkpoints == 1 ? "" : "s", check.objects, check.objects == 1 ? "" : "s",
               check.problems, check.problems == 1 ? "" : "s", np_text_safe(o->runs[0]).s);
    return status == NP_OK && check.problems ? NP_ENO : status;
}

int main(int argc, char **argv)
{
    static const struct argp argp = {option_table,
                                     parse,
                                     "RUN RUN\n--expect DIGEST RUN\n--fsck RUN",
                                     "Compares runs bit for bit and says where they part.\v"
                                     "Exit code: 0 the same, 1 different, 2 could not compare.",
                                     NULL,
                                     NULL,
                                     NULL};
    struct options options = {.run_count = 0};
    struct np_error err;
    enum np_status status;
    cli_parse(&argp, argc, argv, &options);
    if (options.fsck)
        status = fsck(&options, &err);
    else
        status = options.expect ? expect(&options, &err) : compare(&options, &err);
    if (status != NP_OK && status != NP_ENO)
        cli_error(&err);
    return cli_finish(cli_exit_code(status));
}

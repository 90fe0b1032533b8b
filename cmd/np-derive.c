/* np-derive: a subnet of a space as a recipe of its own, to be trained by itself. */
#include <stdlib.h>

#include "base/buf.h"
#include "cli.h"
#include "space/derive.h"
#include "space_options.h"

enum { OPT_SUBNET = 0x100 };

static const struct argp_option table[] = {
    {"subnet", OPT_SUBNET, "FILE", 0, "the subnet, its candidates in a line; - is a pipe", 0},
    {"output", 'o', "FILE", 0, "write the recipe to FILE instead of standard output", 0},
    {0}};

struct options {
    struct space_options space;
    const char *subnet, *output;
};

static void check(const struct options *o, struct argp_state *state)
{
    const char *const inputs[] = {o->space.path, o->subnet};
    if (!o->space.path)
        argp_error(state, "a recipe is needed");
    if (!o->subnet)
        argp_error(state, "--subnet FILE is needed");
    cli_one_standard(state, inputs, 2);
    cli_apart(state, "output", o->output, inputs, 2);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->space;
        return 0;
    case OPT_SUBNET:
        o->subnet = arg;
        return 0;
    case 'o':
        o->output = arg;
        return 0;
    case ARGP_KEY_END:
        check(o, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int main(int argc, char **argv)
{
    static const struct argp_child children[] = {{&space_options_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .options = table,
        .parser = parse,
        .args_doc = "RECIPE",
        .doc = "Write a subnet of a space as a recipe of its own, to be trained by itself.",
        .children = children};
    struct options options = {.subnet = NULL};
    struct space space = {0};
    struct np_buf text = {0};
    uint16_t *choices = NULL;
    struct np_error err;
    enum np_status status;
    cli_parse(&argp, argc, argv, &options);
    cli_catch_signals();
    NP_TRY(space_open(&space, &options.space, &err));
    NP_TRY(space_spares(&space, "output", options.output, &err));
    NP_TRY(space_read_subnet(&choices, &space, options.subnet, &err));
    NP_TRY(np_derive(&text, &space.net, choices, &err));
    NP_TRY(cli_write(options.output, text.text, text.used, &err));
out:
    if (status == NP_ESTOP)
        cli_note("stopped on request: there is no recipe");
    else if (status != NP_OK)
        cli_error(&err);
    free(choices);
    np_buf_clear(&text);
    space_close(&space);
    return cli_finish(cli_exit_code(status));
}

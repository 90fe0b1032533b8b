#include "space_options.h"

#include <stdlib.h>

#include "base/memory.h"
#include "base/text.h"
#include "cli.h"
#include "space/sampler.h"

static const struct argp_option options[] = {
    {"set", 's', "KEY=VALUE", 0, "override a value of the recipe, such as train.steps=200", 0},
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct space_options *space = state->input;
    switch (key) {
    case 's':
        if (space->set_count == SPACE_MAX_SETS)
            argp_error(state, "more than %d --set", SPACE_MAX_SETS);
        else
            space->set[space->set_count++] = arg;
        return 0;
    case ARGP_KEY_ARG:
        if (space->path)
            return ARGP_ERR_UNKNOWN;
        space->path = arg;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp space_options_argp = {options, parse, NULL, NULL, NULL, NULL, NULL};

enum np_status space_open(struct space *space, const struct space_options *given,
                          struct np_error *err)
{
    enum np_status status;
    NP_TRY(np_recipe_read(&space->recipe, given->path, given->set, given->set_count, err));
    NP_TRY(np_supernet_init(&space->net, &space->recipe, err));
out:
    if (status != NP_OK)
        space_close(space);
    return status;
}

void space_close(struct space *space)
{
    np_supernet_clear(&space->net);
    np_recipe_clear(&space->recipe);
    *space = (struct space){0};
}

static enum np_status spares(const struct np_recipe *recipe, const struct np_data_spec *spec,
                             const char *option, const char *path, struct np_error *err)
{
    enum np_status status = NP_OK;
    for (int i = 0; spec->given && i < spec->file_count && status == NP_OK; i++) {
        char *file = NULL;
        status = np_data_path(&file, recipe, spec->files[i], err);
        if (status == NP_OK && cli_is_same_file(path, file))
            status = np_fail(err, NP_EINPUT, "--%s '%s' would overwrite data: '%s'", option,
                             np_text_safe(path).s, np_text_safe(file).s);
        free(file);
    }
    return status;
}

enum np_status space_spares(const struct space *space, const char *option, const char *path,
                            struct np_error *err)
{
    const struct np_recipe *recipe = &space->recipe;
    enum np_status status = NP_OK;
    if (path)
        status = spares(recipe, &recipe->train_data, option, path, err);
    if (path && status == NP_OK)
        status = spares(recipe, &recipe->valid_data, option, path, err);
    return status;
}

static void show_reading(void *context, uint64_t done, uint64_t count)
{
    struct cli_progress *progress = context;
    if (cli_progress_due(progress))
        cli_progress_show(progress, "reading data: %.0f %%%s", 100 * (double)done / (double)count,
                          cli_progress_eta(progress, done, count).s);
}

enum np_status space_open_data(struct np_data **out, const struct space *space,
                               const struct np_data_spec *spec, bool quiet, bool stops,
                               struct np_error *err)
{
    struct cli_progress progress;
    const struct np_data_hooks hooks = {&progress, show_reading, stops ? cli_stop : NULL};
    enum np_status status;
    cli_progress_begin(&progress, quiet);
    status = np_data_open(out, &space->recipe, spec, &hooks, err);
    cli_progress_end(&progress);
    return status;
}

/* The only step, of one member. */
static enum np_status read_only_one(struct np_stream *stream, uint16_t *choices, uint16_t *another,
                                    const char *file, struct np_error *err)
{
    bool more;
    enum np_status status;
    NP_TRY(np_stream_next(stream, choices, &more, err));
    if (!more)
        NP_TRY(np_fail(err, NP_EINPUT, "there is no subnet in '%s'", np_text_safe(file).s));
    NP_TRY(np_stream_next(stream, another, &more, err));
    if (more)
        NP_TRY(np_fail(err, NP_EINPUT, "'%s' has more than one subnet", np_text_safe(file).s));
out:
    return status;
}

enum np_status space_read_subnet(uint16_t **choices, const struct space *space, const char *file,
                                 struct np_error *err)
{
    size_t blocks = (size_t)space->recipe.block_count;
    struct np_stream_shape shape;
    struct np_stream *stream = NULL;
    struct np_stream_block *each = NULL;
    uint16_t *another = NULL;
    enum np_status status;
    *choices = NULL;
    NP_TRY(np_stream_shape_init(&shape, &each, &space->recipe, err));
    shape.members = 1;
    NP_TRY(np_alloc(choices, blocks, sizeof **choices, err));
    NP_TRY(np_alloc(&another, blocks, sizeof *another, err));
    NP_TRY(np_stream_open(&stream, &shape, file, 0, cli_stop, NULL, err));
    NP_TRY(read_only_one(stream, *choices, another, file, err));
out:
    np_stream_close(stream);
    free(each);
    free(another);
    return status;
}

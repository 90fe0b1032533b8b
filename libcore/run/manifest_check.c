#include "run/manifest_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "run/run_recipe.h"

void np_manifest_name(const struct np_supernet *net, uint32_t layer, int back, char *out)
{
    char name[NP_LAYER_NAME];
    np_supernet_layer_name(net, layer, name);
    if (back == 0)
        snprintf(out, NP_ENTRY_NAME, "%s", name);
    else
        snprintf(out, NP_ENTRY_NAME, "%s@-%d", name, back);
}

enum np_status np_manifest_layer(const struct np_manifest_entry *entry, const char *path,
                                 const struct np_supernet *net, uint32_t *layer, uint64_t *back,
                                 struct np_error *err)
{
    char name[NP_ENTRY_NAME];
    char *at;
    memcpy(name, entry->name, sizeof name);
    at = strchr(name, '@');
    if (at)
        *at = '\0';
    *back = 0;
    if (np_supernet_find(net, name, layer) &&
        (!at ||
         (at[1] == '-' &&
          np_text_parse_count(back, at + 2, 1, (uint64_t)np_supernet_old_count(net, *layer)))))
        return NP_OK;
    return np_fail(err, NP_EDATA, "%s: the recipe has no layer '%s'", path,
                   np_text_safe(entry->name).s);
}

static enum np_status refuse(const struct np_supernet *net, const char *path, uint32_t layer,
                             const char *what, struct np_error *err)
{
    char name[NP_LAYER_NAME];
    np_supernet_layer_name(net, layer, name);
    return np_fail(err, NP_EDATA, "%s: damaged manifest: layer '%s' %s", path, name, what);
}

/* Of a shared layer, whose entries' updates are all that its versions should be. */
static enum np_status check_shared(const struct np_manifest *m, const char *path,
                                   const struct np_supernet *net, uint32_t layer, uint64_t entries,
                                   bool inherits, struct np_error *err)
{
    uint64_t old = (uint64_t)np_supernet_old_count(net, layer);
    uint64_t wanted = 1 + (old < m->step ? old : m->step);
    return entries == (m->step > 0 || inherits ? wanted : 0)
               ? NP_OK
               : refuse(net, path, layer, "has not all its versions", err);
}

/* One candidate of a block is used by each step; one without weights has no updates. */
static enum np_status check_block(const struct np_manifest *m, const char *path,
                                  const struct np_supernet *net, int position,
                                  const uint64_t *updates, struct np_error *err)
{
    uint32_t first = net->layer_first[position], end = net->layer_first[position + 1];
    uint64_t sum = 0;
    for (uint32_t layer = first; layer < end; layer++) {
        if (np_supernet_kind(net, net->layer_whole[layer])->floats == 0)
            return NP_OK;
        sum += updates[layer];
    }
    return sum >= m->step ? NP_OK : refuse(net, path, first, "and its block lack updates", err);
}

/* All layers of a run that has inherited weights have a line, as this recipe says, or a line that
 * no other run has. */
static bool says_inherits(const struct np_manifest *m, const struct np_recipe *recipe)
{
    if (np_digest_equal(&m->recipe, &recipe->digest))
        return recipe->has_init;
    for (size_t i = 0; i < m->count; i++)
        if (m->entries[i].updates == 0 && !strchr(m->entries[i].name, '@'))
            return true;
    return false;
}

static enum np_status check_whole(const char *path, const struct np_supernet *net,
                                  const uint64_t *entries, struct np_error *err)
{
    for (uint32_t layer = 0; layer < net->layers; layer++)
        if (np_supernet_kind(net, layer)->floats > 0 && entries[layer] == 0)
            return refuse(net, path, layer, "is missing", err);
    return NP_OK;
}

enum np_status np_manifest_check(const struct np_manifest *m, const char *path,
                                 const struct np_supernet *net, struct np_error *err)
{
    bool inherits = says_inherits(m, net->recipe);
    uint64_t *updates = NULL, *entries = NULL, back;
    uint32_t layer;
    enum np_status status;
    NP_TRY(np_zalloc(&updates, net->layers, sizeof *updates, err));
    NP_TRY(np_zalloc(&entries, net->layers, sizeof *entries, err));
    for (size_t i = 0; i < m->count; i++) {
        const struct np_manifest_entry *entry = &m->entries[i];
        NP_TRY(np_manifest_layer(entry, path, net, &layer, &back, err));
        bool shared = np_supernet_is_shared(net, layer);
        bool end = np_supernet_is_end(net, np_supernet_position(net, layer));
        if (entry->updates == 0 && back == 0 && !inherits)
            NP_TRY(refuse(net, path, layer, "has a line without an update", err));
        if (entry->updates > m->step - (back < m->step ? back : m->step) ||
            (shared ? entry->updates + back != m->step : end && entry->updates > 0))
            NP_TRY(refuse(net, path, layer, "has updates that no step made", err));
        if (back == 0)
            updates[layer] = entry->updates;
        entries[layer]++;
    }
    for (int position = 0; position < net->positions; position++) {
        layer = net->layer_first[position];
        if (np_supernet_is_shared(net, layer))
            NP_TRY(check_shared(m, path, net, layer, entries[layer], inherits, err));
        else if (position > 0 && position < net->positions - 1)
            NP_TRY(check_block(m, path, net, position, updates, err));
    }
    if (inherits)
        NP_TRY(check_whole(path, net, entries, err));
out:
    free(updates);
    free(entries);
    return status;
}

enum np_status np_manifest_load(struct np_manifest *m, char **path, struct np_digest *digest,
                                const char *run, uint64_t step, const struct np_supernet *net,
                                const struct np_digest *recipe, const struct np_digest *data,
                                struct np_error *err)
{
    enum np_status status;
    *m = (struct np_manifest){.count = 0};
    NP_TRY(np_manifest_path(path, run, step, err));
    NP_TRY(np_manifest_read(m, *path, digest, err));
    if (!np_digest_equal(&m->recipe, recipe ? recipe : &net->recipe->digest))
        return np_run_recipe_differs(*path, run, net->recipe, err);
    if (data && !np_digest_equal(&m->data, data))
        return np_fail(err, NP_EINPUT, "%s: the run was made with other training data", *path);
    if (m->step != step)
        return np_fail(err, NP_EDATA, "%s:4: damaged manifest: step %llu", *path,
                       (unsigned long long)m->step);
    status = np_manifest_check(m, *path, net, err);
out:
    return status;
}

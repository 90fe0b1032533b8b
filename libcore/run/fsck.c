#include "run/fsck.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/memory.h"
#include "base/text.h"
#include "io/file.h"
#include "io/store.h"
#include "io/yaml.h"
#include "run/ledger_check.h"
#include "run/manifest_check.h"
#include "run/products_file.h"
#include "run/subnets_file.h"
#include "space/supernet.h"

struct object {
    struct np_digest digest;
    uint64_t bytes;
    bool sound;
};

struct check {
    struct np_fsck *fsck;
    const char *run;
    struct np_recipe recipe;
    struct np_supernet net;
    bool has_recipe;
    struct np_store store;
    uint64_t latest;        /* step of the latest good checkpoint */
    struct object *objects; /* [fsck->objects], sorted by digest */
    size_t capacity;
};

static void report(struct check *c, const struct np_error *err)
{
    c->fsck->problems++;
    c->fsck->problem(c->fsck->context, err->msg);
}

/* Damage is reported; the rest is forwarded. */
static enum np_status sort_out(struct check *c, enum np_status status, const struct np_error *found,
                               struct np_error *err)
{
    if (status == NP_OK || status == NP_EMEM) {
        if (status == NP_EMEM)
            np_fail(err, status, "%s", found->msg);
        return status;
    }
    report(c, found);
    return NP_OK;
}

static enum np_status check_recipe(struct check *c, struct np_error *err)
{
    struct np_buf path = {NULL, 0, 0};
    struct np_error found;
    char *text = NULL;
    size_t bytes;
    enum np_status status;
    NP_TRY(np_buf_printf(&path, err, "%s/recipe.yaml", c->run));
    status = np_file_read_regular(&text, &bytes, path.text, NP_YAML_MAX_BYTES, &found);
    if (status == NP_OK)
        status = np_recipe_read(&c->recipe, path.text, NULL, 0, &found);
    if (status == NP_OK)
        status = np_supernet_init(&c->net, &c->recipe, &found);
    c->has_recipe = status == NP_OK;
    if (status == NP_OK &&
        (bytes != c->recipe.canonical_bytes || memcmp(text, c->recipe.canonical, bytes) != 0))
        status = np_fail(&found, NP_EDATA, "%s: not the canonical form of a recipe",
                         np_text_safe(path.text).s);
    status = sort_out(c, status, &found, err);
out:
    free(text);
    np_buf_clear(&path);
    return status;
}

/* The list of products is whole, and that of the recipe's numerics. */
static enum np_status check_products(struct check *c, struct np_error *err)
{
    struct np_products_maker maker;
    struct np_error found;
    enum np_status status = np_products_read(&maker, NULL, c->run, &found);
    if (status == NP_OK && c->has_recipe && strcmp(maker.numerics, c->recipe.numerics->name) != 0)
        status = np_fail(&found, NP_EDATA, "%s/" NP_PRODUCTS_FILE ": of numerics %s, not %s",
                         c->run, np_text_safe(maker.numerics).s, c->recipe.numerics->name);
    return sort_out(c, status, &found, err);
}

/* Looks at one object, whether a checkpoint names it or not; they come in the order of digests. */
static enum np_status check_object(void *context, const struct np_digest *digest,
                                   struct np_error *err)
{
    struct check *c = context;
    struct object object = {.digest = *digest};
    struct np_error found;
    enum np_status status;
    NP_TRY(np_grow(&c->objects, &c->capacity, c->fsck->objects, sizeof *c->objects, err));
    status = np_store_check(&c->store, digest, &object.bytes, &found);
    object.sound = status == NP_OK;
    NP_TRY(sort_out(c, status, &found, err));
    c->objects[c->fsck->objects++] = object;
    if (c->fsck->progress)
        c->fsck->progress(c->fsck->context, c->fsck->objects);
out:
    return status;
}

static int by_digest(const void *a, const void *b)
{
    return memcmp(a, &((const struct object *)b)->digest, sizeof(struct np_digest));
}

/* Where the recipe can be read: the entry is one of its layers, and the object as large. */
static enum np_status check_layer(struct check *c, const char *path,
                                  const struct np_manifest_entry *entry,
                                  const struct object *object, struct np_error *found)
{
    enum np_status status = NP_OK;
    uint64_t back, bytes;
    uint32_t layer;
    if (!c->has_recipe)
        return NP_OK;
    NP_TRY(np_manifest_layer(entry, path, &c->net, &layer, &back, found));
    bytes = (back > 0 ? 1 : 1 + (uint64_t)c->net.moments) *
            np_supernet_kind(&c->net, layer)->floats * sizeof(float);
    if (object && object->sound && object->bytes != bytes)
        status =
            np_fail(found, NP_EDATA, "object '%s' has not the size of layer '%s' of %s",
                    np_text_safe(np_store_file(&c->store, &entry->digest)).s, entry->name, path);
out:
    return status;
}

/* The object of one line of a manifest: there, sound, and what the recipe's layer is. */
static bool check_entry(struct check *c, const char *path, const struct np_manifest_entry *entry)
{
    const struct object *object =
        c->fsck->objects
            ? bsearch(&entry->digest, c->objects, c->fsck->objects, sizeof *object, by_digest)
            : NULL;
    struct object unlisted = {.digest = entry->digest};
    struct np_error found;
    enum np_status status;
    if (!object && np_store_check(&c->store, &entry->digest, &unlisted.bytes, &found) == NP_OK) {
        unlisted.sound = true;
        object = &unlisted;
    }
    status = check_layer(c, path, entry, object, &found);
    if (status == NP_OK && !object)
        status =
            np_fail(&found, NP_EDATA, "object '%s' is missing: layer '%s' of %s",
                    np_text_safe(np_store_file(&c->store, &entry->digest)).s, entry->name, path);
    if (status == NP_OK)
        return object->sound; /* else it was said when the object was looked at */
    report(c, &found);
    return false;
}

static enum np_status check_manifest(struct check *c, uint64_t step, struct np_error *err)
{
    struct np_manifest m = {.count = 0};
    struct np_digest digest;
    struct np_error found;
    char *path = NULL;
    bool good = true;
    enum np_status status;
    NP_TRY(np_manifest_path(&path, c->run, step, err));
    status = np_manifest_read(&m, path, &digest, &found);
    if (status == NP_OK && m.step != step)
        status = np_fail(&found, NP_EDATA, "%s:4: damaged manifest: step %llu", path,
                         (unsigned long long)m.step);
    if (status == NP_OK && c->has_recipe && !np_digest_equal(&m.recipe, &c->recipe.digest))
        status = np_fail(&found, NP_EDATA, "%s:2: not the digest of the run's recipe.yaml", path);
    if (status != NP_OK) {
        status = sort_out(c, status, &found, err);
        goto out;
    }
    if (c->has_recipe) {
        status = np_manifest_check(&m, path, &c->net, &found);
        good = status == NP_OK;
        NP_TRY(sort_out(c, status, &found, err));
    }
    if (good)
        for (size_t i = 0; i < m.count; i++)
            good = check_entry(c, path, &m.entries[i]) && good;
    if (good) {
        c->fsck->checkpoints++;
        c->fsck->digest = digest;
        c->latest = step;
    }
out:
    np_manifest_clear(&m);
    free(path);
    return status;
}

/* The ledger up to the latest checkpoint. */
static enum np_status check_ledger(struct check *c, struct np_error *err)
{
    struct np_ledger_ends ends;
    struct np_error found;
    enum np_status status =
        np_ledger_check(&ends, c->run, c->has_recipe ? &c->net : NULL, c->latest, &found);
    return sort_out(c, status, &found, err);
}

static enum np_status check_subnets(struct check *c, struct np_error *err)
{
    struct np_error found;
    enum np_status status =
        c->has_recipe ? np_subnets_check(&c->recipe, c->run, c->latest, &found) : NP_OK;
    return sort_out(c, status, &found, err);
}

enum np_status np_fsck_run(struct np_fsck *fsck, const char *run, struct np_error *err)
{
    struct check c = {.fsck = fsck, .run = run};
    struct np_error found;
    uint64_t *steps = NULL;
    char *objects = NULL;
    size_t count;
    enum np_status status;
    fsck->checkpoints = fsck->objects = fsck->problems = 0;
    NP_TRY(np_manifest_list(&steps, &count, run, err));
    NP_TRY(check_recipe(&c, err));
    NP_TRY(check_products(&c, err));
    NP_TRY(np_manifest_objects(&objects, run, err));
    NP_TRY(np_store_init(&c.store, objects, err));
    NP_TRY(sort_out(&c, np_store_each(&c.store, check_object, &c, &found), &found, err));
    for (size_t i = 0; i < count; i++)
        NP_TRY(check_manifest(&c, steps[i], err));
    NP_TRY(check_ledger(&c, err));
    NP_TRY(check_subnets(&c, err));
out:
    np_store_clear(&c.store);
    np_supernet_clear(&c.net);
    np_recipe_clear(&c.recipe);
    free(c.objects);
    free(steps);
    free(objects);
    return status;
}

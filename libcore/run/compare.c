#include "run/compare.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/memory.h"
#include "base/text.h"
#include "io/file.h"
#include "io/store.h"
#include "run/manifest_check.h"
#include "run/products_file.h"
#include "run/run_recipe.h"
#include "space/supernet.h"

/* One of the two runs. */
struct side {
    const char *run;
    uint64_t *steps; /* of its checkpoints */
    size_t step_count;
    struct np_manifest manifest; /* of the checkpoint that is compared */
    struct np_store store;
};

struct pair {
    struct side side[2];
    struct np_recipe recipe;
    struct np_supernet net;
};

static enum np_status list_steps(struct side *s, struct np_error *err)
{
    enum np_status status = np_manifest_list(&s->steps, &s->step_count, s->run, err);
    if (status == NP_OK && !s->step_count)
        status = np_fail(err, NP_EINPUT, "'%s' holds no checkpoint", s->run);
    return status;
}

static enum np_status read_manifest(struct np_manifest *m, struct np_digest *digest,
                                    const char *run, uint64_t step, struct np_error *err)
{
    char *path = NULL;
    enum np_status status;
    NP_TRY(np_manifest_path(&path, run, step, err));
    NP_TRY(np_manifest_read(m, path, digest, err));
out:
    free(path);
    return status;
}

static enum np_status read_head(struct np_run_head *head, const struct side *s,
                                struct np_manifest *m, struct np_error *err)
{
    head->step = s->steps[s->step_count - 1];
    return read_manifest(m, &head->digest, s->run, head->step, err);
}

enum np_status np_compare_head(struct np_run_head *head, const char *run, struct np_error *err)
{
    struct side s = {.run = run};
    enum np_status status;
    NP_TRY(list_steps(&s, err));
    NP_TRY(read_head(head, &s, &s.manifest, err));
out:
    np_manifest_clear(&s.manifest);
    free(s.steps);
    return status;
}

/* The latest checkpoint step that both have. */
static bool common_step(const struct side *a, const struct side *b, uint64_t *step)
{
    size_t i = a->step_count, j = b->step_count;
    while (i && j) {
        if (a->steps[i - 1] == b->steps[j - 1]) {
            *step = a->steps[i - 1];
            return true;
        }
        if (a->steps[i - 1] > b->steps[j - 1])
            i--;
        else
            j--;
    }
    return false;
}

static enum np_status open_part(FILE **out, const char *run, const char *name, bool optional,
                                struct np_error *err)
{
    char *path = NULL;
    bool there = true;
    enum np_status status;
    NP_TRY(np_file_join(&path, run, name, err));
    if (optional)
        NP_TRY(np_file_exists(&there, path, err));
    if (there)
        status = np_file_open(out, path, false, err);
out:
    free(path);
    return status;
}

/* The number before the first tab of a line. */
static bool line_step(const char *line, uint64_t *step)
{
    char digits[24];
    const char *tab = line ? strchr(line, '\t') : NULL;
    if (!tab || (size_t)(tab - line) >= sizeof digits)
        return false;
    memcpy(digits, line, (size_t)(tab - line));
    digits[tab - line] = '\0';
    return np_text_parse_uint64(step, digits, 0, UINT64_MAX);
}

/* Bytes of the next line; -1 at the end, which is before a line that was cut off, as a run that
 * was killed may leave it; -2 if it cannot be read. */
static ssize_t next_line(char **line, size_t *capacity, FILE *file)
{
    ssize_t bytes = np_file_line(line, capacity, file);
    return bytes > 0 && (*line)[bytes - 1] != '\n' && feof(file) ? -1 : bytes;
}

/* One of two files that are read side by side; line: the last that was read, NULL at the end. */
struct part {
    const char *run, *name;
    FILE *file;
    char *line;
    size_t capacity;
    ssize_t bytes;
};

static enum np_status part_next(struct part *p, struct np_error *err)
{
    p->bytes = next_line(&p->line, &p->capacity, p->file);
    if (p->bytes < -1)
        return np_fail_errno(err, "cannot read '%s/%s'", np_text_safe(p->run).s, p->name);
    if (p->bytes < 0) {
        free(p->line);
        p->line = NULL;
    }
    return NP_OK;
}

static void part_close(struct part *p)
{
    free(p->line);
    if (p->file)
        fclose(p->file);
}

static bool lines_differ(const struct part *a, const struct part *b)
{
    return a->bytes != b->bytes || (a->line && memcmp(a->line, b->line, (size_t)a->bytes) != 0);
}

/* Reads up to the first line that differs. */
static enum np_status first_difference(bool *differ, struct part *a, struct part *b,
                                       struct np_error *err)
{
    enum np_status status;
    do {
        NP_TRY(part_next(a, err));
        NP_TRY(part_next(b, err));
        *differ = lines_differ(a, b);
    } while (!*differ && a->line);
out:
    return status;
}

static enum np_status compare_ledgers(struct np_comparison *r, const struct pair *p,
                                      struct np_error *err)
{
    struct part a = {.run = p->side[0].run, .name = "ledger.tsv"};
    struct part b = {.run = p->side[1].run, .name = "ledger.tsv"};
    enum np_status status;
    NP_TRY(open_part(&a.file, a.run, a.name, false, err));
    NP_TRY(open_part(&b.file, b.run, b.name, false, err));
    NP_TRY(first_difference(&r->step_differs, &a, &b, err));
    if (r->step_differs) {
        r->ended_a = !a.line;
        r->ended_b = !b.line;
        if (!line_step(a.line ? a.line : b.line, &r->step))
            status = np_fail(err, NP_EDATA, "'%s/ledger.tsv' is damaged", a.line ? a.run : b.run);
    }
out:
    part_close(&a);
    part_close(&b);
    return status;
}

static bool is_of_step(const struct part *p, uint64_t step)
{
    uint64_t found;
    return line_step(p->line, &found) && found == step;
}

/* Reads up to the first line of a step that is not before this one. */
static enum np_status part_skip(struct part *p, uint64_t step, struct np_error *err)
{
    uint64_t found;
    enum np_status status;
    do
        NP_TRY(part_next(p, err));
    while (line_step(p->line, &found) && found < step);
out:
    return status;
}

/* The first layer of the first differing step, where both runs have that step's in layers.tsv: each
 * may begin at another one. */
static enum np_status compare_layers(struct np_comparison *r, const struct pair *p,
                                     struct np_error *err)
{
    struct part a = {.run = p->side[0].run, .name = "layers.tsv"};
    struct part b = {.run = p->side[1].run, .name = "layers.tsv"};
    bool differ = false;
    const char *name;
    enum np_status status;
    NP_TRY(open_part(&a.file, a.run, a.name, true, err));
    NP_TRY(open_part(&b.file, b.run, b.name, true, err));
    if (!a.file || !b.file)
        goto out;
    NP_TRY(part_skip(&a, r->step, err));
    NP_TRY(part_skip(&b, r->step, err));
    if (is_of_step(&a, r->step) && is_of_step(&b, r->step)) {
        differ = lines_differ(&a, &b);
        if (!differ)
            NP_TRY(first_difference(&differ, &a, &b, err));
    }
    if (differ && (is_of_step(&a, r->step) || is_of_step(&b, r->step))) {
        name = strchr(is_of_step(&a, r->step) ? a.line : b.line, '\t') + 1;
        np_text_escape(r->step_layer, sizeof r->step_layer, name, strcspn(name, "\t\n"));
    }
out:
    part_close(&a);
    part_close(&b);
    return status;
}

static const struct np_manifest_entry *find_entry(const struct np_manifest *m, const char *name)
{
    size_t low = 0, high = m->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp(m->entries[middle].name, name);
        if (order == 0)
            return &m->entries[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static void name_element(struct np_comparison *r, const struct pair *p, const struct np_kind *kind,
                         size_t index)
{
    const char *const adamw[] = {"weights", "first moments", "second moments"};
    const char *const sgd[] = {"weights", "momentum"};
    size_t part = index / kind->floats, at = index % kind->floats;
    int t = kind->tensor_count - 1;
    while (t > 0 && kind->tensors[t].offset > at)
        t--;
    r->part = p->recipe.optimizer.kind == NP_ADAMW ? adamw[part] : sgd[part];
    snprintf(r->tensor, sizeof r->tensor, "%s", kind->tensors[t].name);
    r->element = at - kind->tensors[t].offset;
}

/* Of an old version the weights alone are kept. */
static enum np_status compare_elements(struct np_comparison *r, struct pair *p, uint32_t layer,
                                       bool old, const struct np_manifest_entry *a,
                                       const struct np_manifest_entry *b, struct np_error *err)
{
    const struct np_kind *kind = np_supernet_kind(&p->net, layer);
    size_t count = (1 + (old ? 0 : (size_t)p->net.moments)) * kind->floats;
    float *x = NULL, *y = NULL;
    enum np_status status;
    NP_TRY(np_alloc(&x, count, sizeof *x, err));
    NP_TRY(np_alloc(&y, count, sizeof *y, err));
    NP_TRY(np_store_get(&p->side[0].store, &a->digest, x, count * sizeof *x, err));
    NP_TRY(np_store_get(&p->side[1].store, &b->digest, y, count * sizeof *y, err));
    for (size_t i = 0; i < count && !r->element_differs; i++) {
        if (memcmp(&x[i], &y[i], sizeof *x) == 0)
            continue;
        r->element_differs = true;
        r->value_a = x[i];
        r->value_b = y[i];
        name_element(r, p, kind, i);
    }
out:
    free(x);
    free(y);
    return status;
}

/* A layer's version so many before the latest. */
static enum np_status compare_version(struct np_comparison *r, struct pair *p, uint32_t layer,
                                      int back, struct np_error *err)
{
    char name[NP_ENTRY_NAME];
    const struct np_manifest_entry *a, *b;
    np_manifest_name(&p->net, layer, back, name);
    a = find_entry(&p->side[0].manifest, name);
    b = find_entry(&p->side[1].manifest, name);
    if ((!a && !b) ||
        (a && b && a->updates == b->updates && np_digest_equal(&a->digest, &b->digest)))
        return NP_OK;
    r->layer_differs = true;
    snprintf(r->layer, sizeof r->layer, "%s", name);
    r->updates_a = a ? a->updates : 0;
    r->updates_b = b ? b->updates : 0;
    return a && b ? compare_elements(r, p, layer, back > 0, a, b, err) : NP_OK;
}

/* The first layer, in forward order, whose stored state differs: its own, then what is kept of
 * older versions. */
static enum np_status compare_checkpoints(struct np_comparison *r, struct pair *p,
                                          struct np_error *err)
{
    enum np_status status = NP_OK;
    for (uint32_t layer = 0; layer < p->net.layers; layer++)
        for (int back = 0; back <= np_supernet_old_count(&p->net, layer); back++) {
            NP_TRY(compare_version(r, p, layer, back, err));
            if (r->layer_differs)
                goto out;
        }
out:
    return status;
}

static enum np_status check_comparable(const struct pair *p, struct np_error *err)
{
    const struct side *a = &p->side[0], *b = &p->side[1];
    if (!np_digest_equal(&a->manifest.recipe, &b->manifest.recipe))
        return np_fail(err, NP_EINPUT,
                       "'%s' and '%s' were made with different recipes and cannot be compared",
                       a->run, b->run);
    if (!np_digest_equal(&a->manifest.data, &b->manifest.data))
        return np_fail(
            err, NP_EINPUT,
            "'%s' and '%s' were made with different training data and cannot be compared", a->run,
            b->run);
    return NP_OK;
}

static enum np_status open_store(struct side *s, struct np_error *err)
{
    char *objects = NULL;
    enum np_status status;
    NP_TRY(np_manifest_objects(&objects, s->run, err));
    NP_TRY(np_store_init(&s->store, objects, err));
out:
    free(objects);
    return status;
}

static enum np_status open_pair(struct pair *p, struct np_comparison *r, struct np_error *err)
{
    struct np_run_head *heads[2] = {&r->a, &r->b};
    enum np_status status;
    NP_TRY(np_products_compare(p->side[0].run, p->side[1].run, err));
    for (int i = 0; i < 2; i++) {
        NP_TRY(list_steps(&p->side[i], err));
        NP_TRY(read_head(heads[i], &p->side[i], &p->side[i].manifest, err));
        NP_TRY(open_store(&p->side[i], err));
    }
    NP_TRY(check_comparable(p, err));
    NP_TRY(np_run_recipe_read(&p->recipe, p->side[0].run, err));
    NP_TRY(np_supernet_init(&p->net, &p->recipe, err));
    if (!np_digest_equal(&p->recipe.digest, &p->side[0].manifest.recipe))
        status = np_fail(err, NP_EDATA, "'%s' is not the recipe of the run's checkpoints",
                         np_text_safe(p->recipe.path).s);
out:
    return status;
}

static void close_pair(struct pair *p)
{
    for (int i = 0; i < 2; i++) {
        np_manifest_clear(&p->side[i].manifest);
        np_store_clear(&p->side[i].store);
        free(p->side[i].steps);
    }
    np_supernet_clear(&p->net);
    np_recipe_clear(&p->recipe);
}

enum np_status np_compare_runs(struct np_comparison *r, const char *a, const char *b,
                               struct np_error *err)
{
    struct pair p = {.side = {{.run = a}, {.run = b}}};
    enum np_status status;
    *r = (struct np_comparison){.same = false};
    NP_TRY(open_pair(&p, r, err));
    NP_TRY(compare_ledgers(r, &p, err));
    r->same =
        !r->step_differs && r->a.step == r->b.step && np_digest_equal(&r->a.digest, &r->b.digest);
    if (r->same)
        goto out;
    if (r->step_differs)
        NP_TRY(compare_layers(r, &p, err));
    r->checkpoint = common_step(&p.side[0], &p.side[1], &r->checkpoint_step);
    if (r->checkpoint) {
        for (int i = 0; i < 2; i++) {
            struct np_digest ignored;
            np_manifest_clear(&p.side[i].manifest);
            NP_TRY(read_manifest(&p.side[i].manifest, &ignored, p.side[i].run, r->checkpoint_step,
                                 err));
        }
        NP_TRY(compare_checkpoints(r, &p, err));
    }
out:
    close_pair(&p);
    return status;
}

#include "run/prune.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/text.h"
#include "io/file.h"
#include "io/store.h"
#include "run/manifest.h"

struct pruning {
    const char *run;
    struct np_store store;
    struct np_digest *needed; /* objects, sorted */
    size_t count, capacity;
};

static int by_digest(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct np_digest));
}

static enum np_status remove_file(const char *path, struct np_error *err)
{
    return unlink(path) == 0 || errno == ENOENT
               ? NP_OK
               : np_fail_errno(err, "cannot remove '%s'", np_text_safe(path).s);
}

/* Notes what the checkpoint after `step` steps consists of. */
static enum np_status need(struct pruning *p, uint64_t step, struct np_error *err)
{
    struct np_manifest m = {.count = 0};
    struct np_digest digest;
    char *path = NULL;
    enum np_status status;
    NP_TRY(np_manifest_path(&path, p->run, step, err));
    NP_TRY(np_manifest_read(&m, path, &digest, err));
    for (size_t i = 0; i < m.count; i++) {
        NP_TRY(np_grow(&p->needed, &p->capacity, p->count, sizeof *p->needed, err));
        p->needed[p->count++] = m.entries[i].digest;
    }
out:
    np_manifest_clear(&m);
    free(path);
    return status;
}

static enum np_status remove_manifests(struct pruning *p, const uint64_t *steps, size_t count,
                                       struct np_error *err)
{
    char *path = NULL;
    enum np_status status = NP_OK;
    for (size_t i = 0; i < count; i++) {
        NP_TRY(np_manifest_path(&path, p->run, steps[i], err));
        NP_TRY(remove_file(path, err));
        free(path);
        path = NULL;
    }
    NP_TRY(np_file_join(&path, p->run, "checkpoints", err));
    NP_TRY(np_file_sync_dir(path, err));
out:
    free(path);
    return status;
}

static enum np_status remove_unneeded(void *context, const struct np_digest *digest,
                                      struct np_error *err)
{
    struct pruning *p = context;
    if (p->count && bsearch(digest, p->needed, p->count, sizeof *digest, by_digest))
        return NP_OK;
    return remove_file(np_store_file(&p->store, digest), err);
}

enum np_status np_prune(const char *run, uint64_t keep, bool left, struct np_error *err)
{
    struct pruning p = {.run = run};
    uint64_t *steps = NULL;
    char *objects = NULL;
    size_t count, old;
    enum np_status status;
    NP_TRY(np_manifest_list(&steps, &count, run, err));
    old = count > keep ? count - (size_t)keep : 0;
    if (!old && !left)
        goto out;
    NP_TRY(np_manifest_objects(&objects, run, err));
    NP_TRY(np_store_init(&p.store, objects, err));
    for (size_t i = old; i < count; i++) {
        status = need(&p, steps[i], err);
        if (status == NP_EDATA && !old)
            status = NP_OK;
        else if (status == NP_OK)
            continue;
        goto out;
    }
    if (p.count)
        qsort(p.needed, p.count, sizeof *p.needed, by_digest);
    NP_TRY(remove_manifests(&p, steps, old, err));
    NP_TRY(np_store_each(&p.store, remove_unneeded, &p, err));
out:
    np_store_clear(&p.store);
    free(p.needed);
    free(steps);
    free(objects);
    return status;
}

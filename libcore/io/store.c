#include "io/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "base/memory.h"
#include "base/text.h"
#include "io/file.h"

#define BLOCK (128 << 10)
/* Weights hardly compress: the fastest level finds what there is (zeros, repeated moments). */
#define LEVEL 1
/* What a reader must have for any level up to 19; a larger window is not one of ours. */
#define WINDOW_LOG_MAX 23

static enum np_status damaged(const struct np_digest *digest, struct np_error *err,
                              const char *reason)
{
    return np_fail(err, NP_EDATA, "object '%s' is damaged: %s", np_digest_hex(digest).s, reason);
}

enum np_status np_store_init(struct np_store *store, const char *path, struct np_error *err)
{
    enum np_status status;
    *store = (struct np_store){0};
    NP_TRY(np_strdup(&store->path, path, err));
    NP_TRY(np_alloc(&store->object, strlen(path) + NP_DIGEST_HEX + 3, 1, err));
    NP_TRY(np_alloc(&store->buffer, 2, BLOCK, err));
    store->compressor = ZSTD_createCCtx();
    store->expander = ZSTD_createDCtx();
    if (!store->compressor || !store->expander ||
        ZSTD_isError(ZSTD_CCtx_setParameter(store->compressor, ZSTD_c_compressionLevel, LEVEL)) ||
        ZSTD_isError(ZSTD_DCtx_setParameter(store->expander, ZSTD_d_windowLogMax, WINDOW_LOG_MAX)))
        status = np_fail(err, NP_EMEM, "cannot start zstd");
out:
    if (status != NP_OK)
        np_store_clear(store);
    return status;
}

void np_store_clear(struct np_store *store)
{
    if (!store)
        return;
    ZSTD_freeCCtx(store->compressor);
    ZSTD_freeDCtx(store->expander);
    np_sha256_clear(&store->sha);
    free(store->buffer);
    free(store->object);
    free(store->path);
    *store = (struct np_store){0};
}

/* The directory of the objects whose digest begins with this byte, and an object's file; each
 * stands until the next call. */
static const char *dir_path(struct np_store *store, unsigned byte)
{
    snprintf(store->object, strlen(store->path) + 4, "%s/%02x", store->path, byte);
    return store->object;
}

static const char *object_path(struct np_store *store, const struct np_digest *digest)
{
    struct np_digest_hex hex = np_digest_hex(digest);
    snprintf(store->object, strlen(store->path) + NP_DIGEST_HEX + 3, "%s/%.2s/%s", store->path,
             hex.s, hex.s + 2);
    return store->object;
}

enum np_status np_store_has(struct np_store *store, bool *out, const struct np_digest *digest,
                            struct np_error *err)
{
    return np_file_exists(out, object_path(store, digest), err);
}

static enum np_status compress(struct np_store *store, struct np_file_out *file, const void *bytes,
                               size_t n, struct np_error *err)
{
    ZSTD_inBuffer in = {.src = bytes, .size = n};
    enum np_status status = NP_OK;
    size_t rest = ZSTD_CCtx_reset(store->compressor, ZSTD_reset_session_only);
    if (!ZSTD_isError(rest))
        rest = ZSTD_CCtx_setPledgedSrcSize(store->compressor, n);
    do {
        ZSTD_outBuffer block = {.dst = store->buffer, .size = BLOCK};
        if (!ZSTD_isError(rest))
            rest = ZSTD_compressStream2(store->compressor, &block, &in, ZSTD_e_end);
        if (ZSTD_isError(rest))
            return np_fail(err, NP_EMEM, "cannot compress '%s': %s", np_text_safe(file->path).s,
                           ZSTD_getErrorName(rest));
        status = np_file_out_write(file, block.dst, block.pos, err);
    } while (status == NP_OK && rest > 0);
    return status;
}

/* The directory's own name becomes durable in np_store_sync. */
static enum np_status ensure_dir(struct np_store *store, unsigned byte, struct np_error *err)
{
    const char *path = dir_path(store, byte);
    if (store->unsynced[byte])
        return NP_OK;
    if (mkdir(path, 0777) == 0)
        store->dir_unsynced = true;
    else if (errno != EEXIST)
        return np_fail_errno(err, "cannot create '%s'", np_text_safe(path).s);
    return NP_OK;
}

enum np_status np_store_put(struct np_store *store, struct np_digest *out, const void *bytes,
                            size_t n, struct np_error *err)
{
    struct np_file_out file = {0};
    struct np_digest digest;
    bool there;
    enum np_status status;
    NP_TRY(np_digest_compute(&digest, bytes, n, err));
    NP_TRY(np_store_has(store, &there, &digest, err));
    if (!there) {
        NP_TRY(ensure_dir(store, digest.b[0], err));
        NP_TRY(np_file_out_init(&file, object_path(store, &digest), err));
        NP_TRY(compress(store, &file, bytes, n, err));
        NP_TRY(np_file_out_rename(&file, err));
    }
    /* Also when it is there: a run that crashed may have renamed it and not come to the sync. */
    store->unsynced[digest.b[0]] = true;
    *out = digest;
out:
    np_file_out_abort(&file);
    return status;
}

enum np_status np_store_sync(struct np_store *store, struct np_error *err)
{
    enum np_status status = NP_OK;
    for (unsigned i = 0; i < 256; i++) {
        if (store->unsynced[i])
            NP_TRY(np_file_sync_dir(dir_path(store, i), err));
        store->unsynced[i] = false;
    }
    if (store->dir_unsynced)
        NP_TRY(np_file_sync_dir(store->path, err));
    store->dir_unsynced = false;
out:
    return status;
}

/* An object being read. With out == NULL its content passes through a block and only the digest
 * stays. */
struct reading {
    struct np_store *store;
    const struct np_digest *digest;
    int fd;
    ZSTD_inBuffer in;
    bool ended; /* the file, not the frame: zstd may still hold content */
    uint8_t *out;
    uint64_t size, done; /* bytes of content: as the frame states, and so far */
};

static enum np_status open_object(struct reading *r, struct np_error *err)
{
    const char *path = object_path(r->store, r->digest);
    struct stat info;
    r->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (r->fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return np_fail(err, NP_EDATA, "object '%s' is missing", np_digest_hex(r->digest).s);
    if (r->fd < 0 || fstat(r->fd, &info) != 0)
        return np_fail_errno(err, "cannot open '%s'", np_text_safe(path).s);
    return S_ISREG(info.st_mode) ? NP_OK : damaged(r->digest, err, "it is not a regular file");
}

static enum np_status fill(struct reading *r, struct np_error *err)
{
    ssize_t got;
    do
        got = read(r->fd, r->store->buffer, BLOCK);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return np_fail_errno(err, "cannot read object '%s'", np_digest_hex(r->digest).s);
    r->in = (ZSTD_inBuffer){.src = r->store->buffer, .size = (size_t)got};
    r->ended = got == 0;
    return NP_OK;
}

/* The first block is there: it must begin a frame (a skippable one is not an object) of known size.
 * A first read of a regular file is short only at its end. */
static enum np_status read_size(struct reading *r, struct np_error *err)
{
    static const uint8_t magic[4] = {0x28, 0xb5, 0x2f, 0xfd};
    unsigned long long size = ZSTD_getFrameContentSize(r->in.src, r->in.size);
    if (r->in.size < 4 || memcmp(r->in.src, magic, 4) != 0 || size == ZSTD_CONTENTSIZE_ERROR)
        return damaged(r->digest, err, "it does not begin as a zstd frame");
    if (size == ZSTD_CONTENTSIZE_UNKNOWN)
        return damaged(r->digest, err, "it does not state its size");
    r->size = size;
    return NP_OK;
}

/* Expands what one block of output takes; *more: bytes that zstd still expects, 0 at the end. */
static enum np_status expand(struct reading *r, size_t *more, struct np_error *err)
{
    uint64_t rest = r->size - r->done;
    ZSTD_outBuffer block = {.dst = r->out ? r->out + r->done : r->store->buffer + BLOCK,
                            .size = rest < BLOCK ? (size_t)rest : BLOCK};
    size_t before = r->in.pos;
    *more = ZSTD_decompressStream(r->store->expander, &block, &r->in);
    if (ZSTD_isError(*more))
        return damaged(r->digest, err, ZSTD_getErrorName(*more));
    if (*more > 0 && block.pos == 0 && r->in.pos == before)
        return damaged(r->digest, err, r->ended ? "it ends early" : "it is longer than it states");
    r->done += block.pos;
    return np_sha256_add(&r->store->sha, block.dst, block.pos, err);
}

static enum np_status read_content(struct reading *r, struct np_error *err)
{
    size_t more = 1;
    enum np_status status;
    ZSTD_DCtx_reset(r->store->expander, ZSTD_reset_session_only);
    NP_TRY(np_sha256_begin(&r->store->sha, err));
    while (more > 0) {
        NP_TRY(expand(r, &more, err));
        if (more > 0 && r->in.pos == r->in.size && !r->ended)
            NP_TRY(fill(r, err));
    }
    if (r->in.pos == r->in.size)
        NP_TRY(fill(r, err));
    if (r->in.pos < r->in.size)
        return damaged(r->digest, err, "bytes follow its end");
    if (r->done != r->size)
        return damaged(r->digest, err, "it is shorter than it states");
out:
    return status;
}

static enum np_status read_object(struct reading *r, struct np_error *err)
{
    struct np_digest found;
    enum np_status status;
    NP_TRY(read_content(r, err));
    NP_TRY(np_sha256_end(&r->store->sha, &found, err));
    if (!np_digest_equal(&found, r->digest))
        status = damaged(r->digest, err, "its content has another digest");
out:
    return status;
}

static void close_object(struct reading *r)
{
    if (r->fd >= 0)
        close(r->fd);
}

enum np_status np_store_get(struct np_store *store, const struct np_digest *digest, void *out,
                            size_t n, struct np_error *err)
{
    struct reading r = {.store = store, .digest = digest, .fd = -1, .out = out};
    enum np_status status;
    NP_TRY(open_object(&r, err));
    NP_TRY(fill(&r, err));
    NP_TRY(read_size(&r, err));
    if (r.size != n) {
        status = np_fail(err, NP_EDATA, "object '%s' holds %llu bytes, not %zu",
                         np_digest_hex(digest).s, (unsigned long long)r.size, n);
        goto out;
    }
    NP_TRY(read_object(&r, err));
out:
    close_object(&r);
    return status;
}

enum np_status np_store_check(struct np_store *store, const struct np_digest *digest,
                              uint64_t *size, struct np_error *err)
{
    struct reading r = {.store = store, .digest = digest, .fd = -1};
    enum np_status status;
    NP_TRY(open_object(&r, err));
    NP_TRY(fill(&r, err));
    NP_TRY(read_size(&r, err));
    NP_TRY(read_object(&r, err));
    *size = r.size;
out:
    close_object(&r);
    return status;
}

static enum np_status visit_dir(struct np_store *store, const char *byte, np_store_visit *visit,
                                void *context, struct np_error *err)
{
    struct np_file_names names = {0};
    char *dir = NULL, hex[NP_DIGEST_HEX + 1];
    enum np_status status;
    NP_TRY(np_file_join(&dir, store->path, byte, err));
    NP_TRY(np_file_list(&names, dir, err));
    for (size_t i = 0; i < names.count; i++) {
        struct np_digest digest;
        int length = snprintf(hex, sizeof hex, "%s%s", byte, names.name[i]);
        if (np_digest_parse(&digest, hex, (size_t)length))
            NP_TRY(visit(context, &digest, err));
    }
out:
    np_file_names_clear(&names);
    free(dir);
    return status;
}

enum np_status np_store_each(struct np_store *store, np_store_visit *visit, void *context,
                             struct np_error *err)
{
    struct np_file_names names = {0};
    enum np_status status;
    NP_TRY(np_file_list(&names, store->path, err));
    for (size_t i = 0; i < names.count; i++) {
        const char *name = names.name[i];
        if (strlen(name) == 2 && strspn(name, "0123456789abcdef") == 2)
            NP_TRY(visit_dir(store, name, visit, context, err));
    }
out:
    np_file_names_clear(&names);
    return status;
}

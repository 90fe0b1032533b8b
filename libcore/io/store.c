#include "io/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "base/memory.h"
#include "base/text.h"
#include "io/file.h"

#define BLOCK NP_STORE_PIECE
/* Weights hardly compress: the fastest level finds what there is (zeros, repeated moments). */
#define LEVEL 1
/* What a reader must have for any level up to 19; a larger window is not one of ours. */
#define WINDOW_LOG_MAX 23

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

/* The directory of the objects whose digest begins with this byte; stands until the next call. */
static const char *dir_path(struct np_store *store, unsigned byte)
{
    snprintf(store->object, strlen(store->path) + 4, "%s/%02x", store->path, byte);
    return store->object;
}

const char *np_store_file(struct np_store *store, const struct np_digest *digest)
{
    struct np_digest_hex hex = np_digest_hex(digest);
    snprintf(store->object, strlen(store->path) + NP_DIGEST_HEX + 3, "%s/%.2s/%s", store->path,
             hex.s, hex.s + 2);
    return store->object;
}

/* Of an object whose digest is not known yet; its file is written aside. */
static const char *new_path(struct np_store *store)
{
    snprintf(store->object, strlen(store->path) + 5, "%s/new", store->path);
    return store->object;
}

/* Begins a frame of n bytes of content. */
static enum np_status begin_frame(struct np_store *store, uint64_t n, struct np_error *err)
{
    size_t state = ZSTD_CCtx_reset(store->compressor, ZSTD_reset_session_only);
    if (!ZSTD_isError(state))
        state = ZSTD_CCtx_setPledgedSrcSize(store->compressor, n);
    if (ZSTD_isError(state))
        return np_fail(err, NP_EMEM, "cannot compress: %s", ZSTD_getErrorName(state));
    return NP_OK;
}

/* Compresses the n bytes in the first block, the last of the content or not. */
static enum np_status compress(struct np_store *store, struct np_file_out *file, size_t n,
                               bool last, struct np_error *err)
{
    ZSTD_inBuffer in = {.src = store->buffer, .size = n};
    enum np_status status = NP_OK;
    size_t rest;
    do {
        ZSTD_outBuffer block = {.dst = store->buffer + BLOCK, .size = BLOCK};
        rest = ZSTD_compressStream2(store->compressor, &block, &in,
                                    last ? ZSTD_e_end : ZSTD_e_continue);
        if (ZSTD_isError(rest))
            return np_fail(err, NP_EMEM, "cannot compress: %s", ZSTD_getErrorName(rest));
        status = np_file_out_write(file, block.dst, block.pos, err);
    } while (status == NP_OK && (last ? rest > 0 : in.pos < in.size));
    return status;
}

/* Content from the source to the file, and its digest. */
static enum np_status write_content(struct np_store *store, struct np_file_out *file,
                                    struct np_digest *digest, struct np_store_source source,
                                    uint64_t n, struct np_error *err)
{
    bool last = false;
    enum np_status status;
    NP_TRY(np_sha256_begin(&store->sha, err));
    NP_TRY(begin_frame(store, n, err));
    while (!last) {
        size_t piece = n < BLOCK ? (size_t)n : BLOCK;
        n -= piece;
        last = n == 0;
        NP_TRY(source.read(source.context, store->buffer, piece, err));
        NP_TRY(np_sha256_add(&store->sha, store->buffer, piece, err));
        NP_TRY(compress(store, file, piece, last, err));
    }
    NP_TRY(np_sha256_end(&store->sha, digest, err));
out:
    return status;
}

/* The directory's own name becomes durable in np_store_sync. */
static enum np_status ensure_dir(struct np_store *store, unsigned byte, struct np_error *err)
{
    const char *path = dir_path(store, byte);
    if (store->unsynced[byte])
        return NP_OK;
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        return np_fail_errno(err, "cannot create '%s'", np_text_safe(path).s);
    /* Also when it is there: a run that crashed may have made it and not come to the sync. */
    store->dir_unsynced = true;
    return NP_OK;
}

/* The name is known at the end only: written beside the directories, then renamed. So it is where
 * an object of that name is already, which may be damaged: nothing has read it. */
enum np_status np_store_put_from(struct np_store *store, struct np_digest *out,
                                 struct np_store_source source, uint64_t n, struct np_error *err)
{
    struct np_file_out file = {0};
    struct np_digest digest;
    enum np_status status;
    NP_TRY(np_file_out_init(&file, new_path(store), err));
    NP_TRY(write_content(store, &file, &digest, source, n, err));
    NP_TRY(ensure_dir(store, digest.b[0], err));
    NP_TRY(np_file_out_rename(&file, np_store_file(store, &digest), err));
    store->unsynced[digest.b[0]] = true;
    *out = digest;
out:
    np_file_out_abort(&file);
    return status;
}

static enum np_status read_bytes(void *context, void *piece, size_t n, struct np_error *err)
{
    const uint8_t **bytes = context;
    (void)err;
    if (n)
        memcpy(piece, *bytes, n);
    *bytes += n;
    return NP_OK;
}

enum np_status np_store_put(struct np_store *store, struct np_digest *out, const void *bytes,
                            size_t n, struct np_error *err)
{
    const uint8_t *at = bytes;
    return np_store_put_from(store, out, (struct np_store_source){read_bytes, &at}, n, err);
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

/* An object being read. Without a sink only the digest of its content stays. */
struct reading {
    struct np_store *store;
    const struct np_digest *digest;
    int fd;
    ZSTD_inBuffer in;
    bool ended; /* the file, not the frame: zstd may still hold content */
    struct np_store_sink sink;
    uint64_t size, done; /* bytes of content: as the frame states, and so far */
};

static struct np_safe file_of(const struct reading *r)
{
    return np_text_safe(np_store_file(r->store, r->digest));
}

static enum np_status damaged(const struct reading *r, struct np_error *err, const char *reason)
{
    return np_fail(err, NP_EDATA, "object '%s' is damaged: %s", file_of(r).s, reason);
}

static enum np_status open_object(struct reading *r, struct np_error *err)
{
    const char *path = np_store_file(r->store, r->digest);
    struct stat info;
    r->fd = np_file_fd(path, O_RDONLY | O_NONBLOCK);
    if (r->fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return np_fail(err, NP_EDATA, "object '%s' is missing", np_text_safe(path).s);
    if (r->fd < 0 || fstat(r->fd, &info) != 0)
        return np_fail_errno(err, "cannot open '%s'", np_text_safe(path).s);
    return S_ISREG(info.st_mode) ? NP_OK : damaged(r, err, "it is not a regular file");
}

static enum np_status fill(struct reading *r, struct np_error *err)
{
    size_t done = 0;
    ssize_t got;
    do {
        got = read(r->fd, r->store->buffer + done, BLOCK - done);
        done += got > 0 ? (size_t)got : 0;
    } while ((got > 0 && done < BLOCK) || (got < 0 && errno == EINTR));
    if (got < 0)
        return np_fail_errno(err, "cannot read object '%s'", file_of(r).s);
    r->in = (ZSTD_inBuffer){.src = r->store->buffer, .size = done};
    r->ended = done == 0;
    return NP_OK;
}

/* The first block is there: it must begin a frame (a skippable one is not one) of known size. */
static enum np_status read_size(struct reading *r, struct np_error *err)
{
    static const uint8_t magic[4] = {0x28, 0xb5, 0x2f, 0xfd};
    unsigned long long size = ZSTD_getFrameContentSize(r->in.src, r->in.size);
    if (r->in.size < 4 || memcmp(r->in.src, magic, 4) != 0 || size == ZSTD_CONTENTSIZE_ERROR)
        return damaged(r, err, "it does not begin as a zstd frame");
    if (size == ZSTD_CONTENTSIZE_UNKNOWN)
        return damaged(r, err, "it does not state its size");
    r->size = size;
    return NP_OK;
}

/* The block of content is full, or the last: it goes to the digest and the sink. */
static enum np_status pass_on(struct reading *r, size_t n, struct np_error *err)
{
    const uint8_t *block = r->store->buffer + BLOCK;
    enum np_status status;
    NP_TRY(np_sha256_add(&r->store->sha, block, n, err));
    if (r->sink.write)
        NP_TRY(r->sink.write(r->sink.context, block, n, err));
out:
    return status;
}

/* Expands what the rest of the block takes; *more: bytes that zstd still expects, 0 at the end. */
static enum np_status expand(struct reading *r, size_t *more, struct np_error *err)
{
    uint64_t start = r->done / BLOCK * BLOCK, rest = r->size - start;
    ZSTD_outBuffer block = {.dst = r->store->buffer + BLOCK,
                            .size = rest < BLOCK ? (size_t)rest : BLOCK,
                            .pos = (size_t)(r->done - start)};
    size_t before_in = r->in.pos, before_out = block.pos;
    *more = ZSTD_decompressStream(r->store->expander, &block, &r->in);
    if (ZSTD_isError(*more) && ZSTD_getErrorCode(*more) == ZSTD_error_memory_allocation)
        return np_fail(err, NP_EMEM, "cannot allocate what expands an object");
    if (ZSTD_isError(*more))
        return damaged(r, err, ZSTD_getErrorName(*more));
    if (*more > 0 && block.pos == before_out && r->in.pos == before_in)
        return damaged(r, err, r->ended ? "it ends early" : "it is longer than it states");
    r->done = start + block.pos;
    return block.pos > before_out && block.pos == block.size ? pass_on(r, block.pos, err) : NP_OK;
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
        return damaged(r, err, "bytes follow its end");
    if (r->done != r->size)
        return damaged(r, err, "it is shorter than it states");
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
        status = damaged(r, err, "its content has another digest");
out:
    return status;
}

static void close_object(struct reading *r)
{
    if (r->fd >= 0)
        close(r->fd);
}

enum np_status np_store_get_into(struct np_store *store, const struct np_digest *digest,
                                 struct np_store_sink sink, uint64_t n, struct np_error *err)
{
    struct reading r = {.store = store, .digest = digest, .fd = -1, .sink = sink};
    enum np_status status;
    NP_TRY(open_object(&r, err));
    NP_TRY(fill(&r, err));
    NP_TRY(read_size(&r, err));
    if (r.size != n) {
        status = np_fail(err, NP_EDATA, "object '%s' holds %llu bytes, not %llu", file_of(&r).s,
                         (unsigned long long)r.size, (unsigned long long)n);
        goto out;
    }
    NP_TRY(read_object(&r, err));
out:
    close_object(&r);
    return status;
}

static enum np_status write_bytes(void *context, const void *piece, size_t n, struct np_error *err)
{
    uint8_t **bytes = context;
    (void)err;
    memcpy(*bytes, piece, n);
    *bytes += n;
    return NP_OK;
}

enum np_status np_store_get(struct np_store *store, const struct np_digest *digest, void *out,
                            size_t n, struct np_error *err)
{
    uint8_t *at = out;
    return np_store_get_into(store, digest, (struct np_store_sink){write_bytes, &at}, n, err);
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
                                void *context, struct np_error *unlisted, struct np_error *err)
{
    struct np_file_names names = {0};
    char *dir = NULL, hex[NP_DIGEST_HEX + 1];
    enum np_status status;
    NP_TRY(np_file_join(&dir, store->path, byte, err));
    if (np_file_list(&names, dir, unlisted) != NP_OK)
        goto out;
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
    struct np_error unlisted = {.code = NP_OK};
    enum np_status status;
    NP_TRY(np_file_list(&names, store->path, err));
    for (size_t i = 0; i < names.count; i++) {
        const char *name = names.name[i];
        if (strlen(name) == 2 && strspn(name, "0123456789abcdef") == 2)
            NP_TRY(visit_dir(store, name, visit, context, &unlisted, err));
    }
    if (unlisted.code != NP_OK)
        status = np_fail(err, unlisted.code, "%s", unlisted.msg);
out:
    np_file_names_clear(&names);
    return status;
}

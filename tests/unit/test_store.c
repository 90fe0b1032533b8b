#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "io/file.h"
#include "io/store.h"
#include "suite.h"

static struct np_store store;
static struct np_error err;

static void open_store(void)
{
    suite_enter();
    ck_assert_int_eq(np_file_make_dir("objects", &err), NP_OK);
    ck_assert_int_eq(np_store_init(&store, "objects", &err), NP_OK);
}

static void close_store(void)
{
    np_store_clear(&store);
    suite_leave();
}

static const char *object_file(const struct np_digest *digest)
{
    static char path[100];
    struct np_digest_hex hex = np_digest_hex(digest);
    snprintf(path, sizeof path, "objects/%.2s/%s", hex.s, hex.s + 2);
    return path;
}

/* Bytes that are part noise, part zeros. */
static uint8_t *make_bytes(size_t n, uint32_t seed)
{
    uint8_t *bytes = malloc(n + 1);
    ck_assert_ptr_nonnull(bytes);
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525 + 1013904223;
        bytes[i] = (i >> 10) % 3 == 2 ? 0 : (uint8_t)(seed >> 24);
    }
    return bytes;
}

START_TEST(test_round_trip)
{
    static const size_t sizes[] = {0, 1, 7, 255, 256, 131071, 131072, 131073, 262144, 5000000};
    struct np_digest digest, again, expected;
    uint64_t size;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t n = sizes[i];
        uint8_t *bytes = make_bytes(n, (uint32_t)i), *back = malloc(n + 1);
        ck_assert_ptr_nonnull(back);
        ck_assert_int_eq(np_digest_compute(&expected, bytes, n, &err), NP_OK);
        ck_assert_int_eq(np_store_check(&store, &expected, &size, &err), NP_EDATA);
        ck_assert_int_eq(np_store_put(&store, &digest, bytes, n, &err), NP_OK);
        ck_assert(np_digest_equal(&digest, &expected));
        ck_assert_int_eq(np_store_put(&store, &again, bytes, n, &err), NP_OK);
        ck_assert(np_digest_equal(&digest, &again));
        back[n] = 0x5a;
        ck_assert_msg(np_store_get(&store, &digest, back, n, &err) == NP_OK, "%s", err.msg);
        ck_assert(memcmp(bytes, back, n) == 0 && back[n] == 0x5a);
        ck_assert_msg(np_store_check(&store, &digest, &size, &err) == NP_OK, "%s", err.msg);
        ck_assert(size == n);
        free(bytes);
        free(back);
    }
    ck_assert_int_eq(np_store_sync(&store, &err), NP_OK);
}
END_TEST

/* Bytes in pieces: what has passed, and where to fail. */
struct pieces {
    uint8_t *bytes;
    size_t n, at, fail_at;
};

static enum np_status next_piece(struct pieces *p, size_t n)
{
    ck_assert_uint_eq(n, p->n - p->at < NP_STORE_PIECE ? p->n - p->at : NP_STORE_PIECE);
    return p->at == p->fail_at ? np_fail(&err, NP_ENAN, "a piece failed") : NP_OK;
}

static enum np_status read_piece(void *context, void *piece, size_t n, struct np_error *e)
{
    struct pieces *p = context;
    (void)e;
    memcpy(piece, p->bytes + p->at, n);
    enum np_status status = next_piece(p, n);
    p->at += n;
    return status;
}

static enum np_status write_piece(void *context, const void *piece, size_t n, struct np_error *e)
{
    struct pieces *p = context;
    (void)e;
    memcpy(p->bytes + p->at, piece, n);
    enum np_status status = next_piece(p, n);
    p->at += n;
    return status;
}

/* Every piece is full but the last; a failure passes through and leaves nothing behind. */
START_TEST(test_pieces)
{
    static const size_t sizes[] = {1, NP_STORE_PIECE, 3 * NP_STORE_PIECE + 5};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t n = sizes[i], last = (n - 1) / NP_STORE_PIECE * NP_STORE_PIECE;
        struct pieces out = {make_bytes(n, (uint32_t)i), n, 0, last}, in = {malloc(n), n, 0, last};
        struct np_store_source source = {read_piece, &out};
        struct np_store_sink sink = {write_piece, &in};
        struct np_digest digest, expected;
        struct np_file_names names = {0};
        ck_assert_ptr_nonnull(in.bytes);
        ck_assert_int_eq(np_digest_compute(&expected, out.bytes, n, &err), NP_OK);
        ck_assert_int_eq(np_store_put_from(&store, &digest, source, n, &err), NP_ENAN);
        ck_assert_str_eq(err.msg, "a piece failed");
        ck_assert_int_eq(np_file_list(&names, "objects", &err), NP_OK);
        ck_assert_uint_eq(names.count, i); /* directories of the objects before */
        np_file_names_clear(&names);
        out.at = 0;
        out.fail_at = n;
        ck_assert_int_eq(np_store_put_from(&store, &digest, source, n, &err), NP_OK);
        ck_assert(np_digest_equal(&digest, &expected));
        ck_assert_int_eq(np_store_get_into(&store, &digest, sink, n, &err), NP_ENAN);
        ck_assert_str_eq(err.msg, "a piece failed");
        in.at = 0;
        in.fail_at = n;
        ck_assert_int_eq(np_store_get_into(&store, &digest, sink, n, &err), NP_OK);
        ck_assert_uint_eq(in.at, n);
        ck_assert_mem_eq(in.bytes, out.bytes, n);
        free(out.bytes);
        free(in.bytes);
    }
}
END_TEST

/* Every cut and every flipped bit is found, whatever it hits. */
START_TEST(test_damage)
{
    enum { N = 3000 };
    uint8_t *bytes = make_bytes(N, 1), back[N];
    struct np_digest digest;
    const char *path;
    char *file, message[200];
    uint64_t size;
    size_t length;
    ck_assert_int_eq(np_store_put(&store, &digest, bytes, N, &err), NP_OK);
    path = object_file(&digest);
    snprintf(message, sizeof message, "object '%s' ", path);
    ck_assert_int_eq(np_file_read(&file, &length, path, 1 << 20, &err), NP_OK);
    for (size_t n = 0; n <= length + 1; n += n + 50 < length && n > 50 ? 7 : 1) {
        FILE *out = fopen(path, "wb");
        ck_assert_ptr_nonnull(out);
        ck_assert_uint_eq(fwrite(file, 1, n, out), n); /* length + 1: its NUL follows */
        fclose(out);
        if (n == length) {
            ck_assert_int_eq(np_store_get(&store, &digest, back, N, &err), NP_OK);
            continue;
        }
        ck_assert_int_eq(np_store_get(&store, &digest, back, N, &err), NP_EDATA);
        ck_assert_msg(strncmp(err.msg, message, strlen(message)) == 0, "%s", err.msg);
        ck_assert_int_eq(np_store_check(&store, &digest, &size, &err), NP_EDATA);
    }
    for (size_t bit = 0; bit < 8 * length; bit += bit < 400 ? 1 : 31) {
        FILE *out = fopen(path, "wb");
        ck_assert_ptr_nonnull(out);
        file[bit / 8] ^= (char)(1 << bit % 8);
        ck_assert_uint_eq(fwrite(file, 1, length, out), length);
        file[bit / 8] ^= (char)(1 << bit % 8);
        fclose(out);
        /* A flip that leaves the content as it was does no harm (a frame has a few unused bits). */
        if (np_store_get(&store, &digest, back, N, &err) == NP_OK)
            ck_assert(memcmp(back, bytes, N) == 0);
        else
            ck_assert_int_eq(err.code, NP_EDATA);
    }
    free(file);
    free(bytes);
}
END_TEST

/* What is put in the place of a damaged object is whole. */
START_TEST(test_repair)
{
    static const uint8_t bytes[] = "what the object holds";
    struct np_digest digest;
    uint64_t size;
    ck_assert_int_eq(np_store_put(&store, &digest, bytes, sizeof bytes, &err), NP_OK);
    ck_assert_int_eq(np_file_write(object_file(&digest), "damage", 6, &err), NP_OK);
    ck_assert_int_eq(np_store_check(&store, &digest, &size, &err), NP_EDATA);
    ck_assert_int_eq(np_store_put(&store, &digest, bytes, sizeof bytes, &err), NP_OK);
    ck_assert_int_eq(np_store_check(&store, &digest, &size, &err), NP_OK);
    ck_assert_uint_eq(size, sizeof bytes);
}
END_TEST

/* Writes a file where the object should be. */
static void plant(const struct np_digest *digest, const void *bytes, size_t n)
{
    char sub[16];
    snprintf(sub, sizeof sub, "objects/%.2s", np_digest_hex(digest).s);
    ck_assert_int_eq(np_file_ensure_dir(sub, &err), NP_OK);
    ck_assert_int_eq(np_file_write(object_file(digest), bytes, n, &err), NP_OK);
}

static void expect_damaged(const struct np_digest *digest, size_t n, const char *reason)
{
    uint8_t *back = malloc(n + 1);
    char message[300];
    uint64_t size;
    ck_assert_ptr_nonnull(back);
    snprintf(message, sizeof message, "object '%s' %s", object_file(digest), reason);
    ck_assert_int_eq(np_store_get(&store, digest, back, n, &err), NP_EDATA);
    ck_assert_str_eq(err.msg, message);
    if (strncmp(reason, "holds", 5) != 0)
        ck_assert_int_eq(np_store_check(&store, digest, &size, &err), NP_EDATA);
    free(back);
}

static size_t make_frame(uint8_t *out, size_t room, const void *bytes, size_t n, bool with_size)
{
    ZSTD_CCtx *c = ZSTD_createCCtx();
    size_t length;
    ck_assert_ptr_nonnull(c);
    ZSTD_CCtx_setParameter(c, ZSTD_c_contentSizeFlag, with_size);
    length = ZSTD_compress2(c, out, room, bytes, n);
    ck_assert(!ZSTD_isError(length));
    ZSTD_freeCCtx(c);
    return length;
}

START_TEST(test_hostile)
{
    static const uint8_t skippable[] = {0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0};
    /* A frame that states 2^62 bytes and ends with an empty block. */
    static const uint8_t huge[] = {0x28, 0xb5, 0x2f, 0xfd, 0xc0, 0x58, 0, 0, 0,
                                   0,    0,    0,    0,    0x40, 1,    0, 0};
    struct np_digest empty, digest;
    uint8_t frame[2000], *bytes = make_bytes(1000, 2);
    size_t length;
    ck_assert_int_eq(np_digest_compute(&empty, "", 0, &err), NP_OK);
    ck_assert_int_eq(np_digest_compute(&digest, bytes, 1000, &err), NP_OK);
    expect_damaged(&digest, 1000, "is missing");
    plant(&digest, "", 0);
    expect_damaged(&digest, 1000, "is damaged: it does not begin as a zstd frame");
    plant(&empty, skippable, sizeof skippable);
    expect_damaged(&empty, 0, "is damaged: it does not begin as a zstd frame");
    plant(&digest, bytes, 1000);
    expect_damaged(&digest, 1000, "is damaged: it does not begin as a zstd frame");
    plant(&digest, huge, sizeof huge);
    expect_damaged(&digest, 1000, "holds 4611686018427387904 bytes, not 1000");
    length = make_frame(frame, sizeof frame, bytes, 1000, false);
    plant(&digest, frame, length);
    expect_damaged(&digest, 1000, "is damaged: it does not state its size");
    length = make_frame(frame, sizeof frame, bytes, 999, true);
    plant(&digest, frame, length);
    expect_damaged(&digest, 999, "is damaged: its content has another digest");
    expect_damaged(&digest, 1000, "holds 999 bytes, not 1000");
    length = make_frame(frame, sizeof frame, bytes, 1000, true);
    frame[length] = 0;
    plant(&digest, frame, length + 1);
    expect_damaged(&digest, 1000, "is damaged: bytes follow its end");
    plant(&digest, frame, length - 1);
    expect_damaged(&digest, 1000, "is damaged: it ends early");
    plant(&digest, frame, length);
    ck_assert_int_eq(np_store_get(&store, &digest, frame, 1000, &err), NP_OK);
    free(bytes);
}
END_TEST

/* An object that fills what is read at once: what follows it is found all the same. */
START_TEST(test_full_block)
{
    enum { ROOM = NP_STORE_PIECE + 64 };
    uint8_t *bytes = malloc(ROOM), *frame = malloc(ROOM + 1);
    struct np_digest digest;
    size_t n = NP_STORE_PIECE, length;
    uint32_t seed = 1;
    ck_assert(bytes && frame);
    for (size_t i = 0; i < ROOM; i++) { /* noise: stored as it is, with a few bytes beside */
        seed = seed * 1664525 + 1013904223;
        bytes[i] = (uint8_t)(seed >> 24);
    }
    while ((length = make_frame(frame, ROOM, bytes, n, true)) > NP_STORE_PIECE)
        n--;
    ck_assert_uint_eq(length, NP_STORE_PIECE);
    frame[length] = 0;
    ck_assert_int_eq(np_digest_compute(&digest, bytes, n, &err), NP_OK);
    plant(&digest, frame, length + 1);
    expect_damaged(&digest, n, "is damaged: bytes follow its end");
    plant(&digest, frame, length);
    ck_assert_int_eq(np_store_get(&store, &digest, bytes, n, &err), NP_OK);
    free(bytes);
    free(frame);
}
END_TEST

START_TEST(test_window)
{
    /* The same with one of 2^24, twice what any object needs. */
    static const uint8_t twice[] = {0x28, 0xb5, 0x2f, 0xfd, 0x80, 0x70, 0, 0, 0, 0x80, 1, 0, 0};
    /* A frame that wants a window of 2^31 bytes for a content of 2^31: refused before. */
    static const uint8_t wide[] = {0x28, 0xb5, 0x2f, 0xfd, 0x80, 0xa8, 0, 0, 0, 0x80, 1, 0, 0};
    struct np_digest digest = {{1}};
    uint64_t size;
    plant(&digest, wide, sizeof wide);
    ck_assert_int_eq(np_store_check(&store, &digest, &size, &err), NP_EDATA);
    ck_assert_ptr_nonnull(strstr(err.msg, "Frame requires too much memory for decoding"));
    plant(&digest, twice, sizeof twice);
    ck_assert_int_eq(np_store_check(&store, &digest, &size, &err), NP_EDATA);
    ck_assert_ptr_nonnull(strstr(err.msg, "Frame requires too much memory for decoding"));
}
END_TEST

START_TEST(test_not_a_file)
{
    struct np_digest digest = {{2}};
    ck_assert_int_eq(np_file_make_dir("objects/02", &err), NP_OK);
    ck_assert_int_eq(mkfifo(object_file(&digest), 0600), 0);
    expect_damaged(&digest, 10, "is damaged: it is not a regular file");
}
END_TEST

struct seen {
    struct np_digest last;
    int count, stop_at;
};

static enum np_status see(void *context, const struct np_digest *digest, struct np_error *error)
{
    struct seen *seen = context;
    uint64_t size;
    enum np_status status = np_store_check(&store, digest, &size, error);
    ck_assert(seen->count == 0 || memcmp(seen->last.b, digest->b, 32) < 0);
    seen->last = *digest;
    seen->count++;
    return seen->count == seen->stop_at ? np_fail(error, NP_ESTOP, "enough") : status;
}

START_TEST(test_each)
{
    struct seen seen = {.stop_at = -1};
    struct np_digest digest;
    ck_assert_int_eq(np_store_each(&store, see, &seen, &err), NP_OK);
    ck_assert_int_eq(seen.count, 0);
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(np_store_put(&store, &digest, &i, sizeof i, &err), NP_OK);
    ck_assert_int_eq(np_store_sync(&store, &err), NP_OK);
    ck_assert_int_eq(np_store_each(&store, see, &seen, &err), NP_OK);
    ck_assert_int_eq(seen.count, 100);
    seen = (struct seen){.stop_at = 10};
    ck_assert_int_eq(np_store_each(&store, see, &seen, &err), NP_ESTOP);
    ck_assert_int_eq(seen.count, 10);
    ck_assert_int_eq(np_file_ensure_dir("objects/00", &err), NP_OK);
    ck_assert_int_eq(np_file_write("objects/00/.np-1-0", "left over", 9, &err), NP_OK);
    seen = (struct seen){.stop_at = -1};
    ck_assert_int_eq(np_store_each(&store, see, &seen, &err), NP_OK);
    ck_assert_int_eq(seen.count, 100);
    ck_assert_int_eq(np_file_write("objects/00/x\n", "", 0, &err), NP_OK);
    ck_assert_int_eq(np_file_write("objects/AB", "", 0, &err), NP_OK);
    seen = (struct seen){.stop_at = -1};
    ck_assert_int_eq(np_store_each(&store, see, &seen, &err), NP_OK);
    ck_assert_int_eq(seen.count, 100);
}
END_TEST

START_TEST(test_no_directory)
{
    struct np_store other;
    struct np_digest digest;
    ck_assert_int_eq(np_store_init(&other, "none", &err), NP_OK);
    ck_assert_int_eq(np_store_put(&other, &digest, "x", 1, &err), NP_EIO);
    ck_assert_str_eq(err.msg, "cannot create 'none/new': No such file or directory");
    np_store_clear(&other);
    np_store_clear(&other);
    np_store_clear(NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store");
    TCase *tests = suite_case(suite, "store");
    tcase_add_checked_fixture(tests, open_store, close_store);
    tcase_add_test(tests, test_round_trip);
    tcase_add_test(tests, test_pieces);
    tcase_add_test(tests, test_damage);
    tcase_add_test(tests, test_repair);
    tcase_add_test(tests, test_hostile);
    tcase_add_test(tests, test_full_block);
    tcase_add_test(tests, test_window);
    tcase_add_test(tests, test_not_a_file);
    tcase_add_test(tests, test_each);
    tcase_add_test(tests, test_no_directory);
    return suite_run_apart(suite);
}

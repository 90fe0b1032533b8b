/* The object store: bytes named by their SHA-256, each in a file of its own, compressed.
 *
 *     <store>/ab/cdef...   one zstd frame that states its content's size
 *
 * The name says what the content must be, so an object is written once and read with proof. Objects
 * are data from outside: nothing is believed before the digest agrees, and memory is taken only
 * for sizes that the caller stated.
 *
 * Errors:    NP_EDATA "object '<its file>' is damaged: ..." or "... is missing"; NP_EIO; NP_EMEM.
 * Ownership: a zeroed struct np_store is empty; np_store_clear releases it.
 * Threads:   one at a time per struct np_store; several stores on one directory are safe, also in
 *            several processes.
 */
#ifndef NP_IO_STORE_H
#define NP_IO_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "io/digest.h"

struct np_store {
    char *path;                  /* the directory */
    char *object;                /* room for the path of one object */
    void *compressor, *expander; /* zstd's contexts */
    uint8_t *buffer;             /* one block in, one block out */
    struct np_sha256 sha;
    bool unsynced[256]; /* directories with names that may not be durable yet */
    bool dir_unsynced;  /* the same for the store's own directory */
};

/* Opens the store in an existing directory; makes nothing until the first put. */
enum np_status np_store_init(struct np_store *store, const char *path, struct np_error *err);
void np_store_clear(struct np_store *store);

/* Where content comes from, and where it goes, in pieces of at most NP_STORE_PIECE bytes, all but
 * the last of that size: the next n bytes into or out of piece. A failure ends the call, with its
 * message. */
#define NP_STORE_PIECE (128 << 10)
struct np_store_source {
    enum np_status (*read)(void *context, void *piece, size_t n, struct np_error *err);
    void *context;
};
struct np_store_sink {
    enum np_status (*write)(void *context, const void *piece, size_t n, struct np_error *err);
    void *context;
};

/* Stores n bytes under their digest, which is *out, also where such an object is: that may be
 * damaged. The content is on disk when this returns and the name after np_store_sync, so that a
 * checkpoint of thousands of objects synchronises each of the 256 directories once. */
enum np_status np_store_put(struct np_store *store, struct np_digest *out, const void *bytes,
                            size_t n, struct np_error *err);
enum np_status np_store_put_from(struct np_store *store, struct np_digest *out,
                                 struct np_store_source source, uint64_t n, struct np_error *err);
enum np_status np_store_sync(struct np_store *store, struct np_error *err);

/* Reads the object of exactly n bytes, and compares its digest, which is after the sink has it. On
 * failure nothing that was read may be used. */
enum np_status np_store_get(struct np_store *store, const struct np_digest *digest, void *out,
                            size_t n, struct np_error *err);
enum np_status np_store_get_into(struct np_store *store, const struct np_digest *digest,
                                 struct np_store_sink sink, uint64_t n, struct np_error *err);

/* The same without keeping the content: *size is its length. */
enum np_status np_store_check(struct np_store *store, const struct np_digest *digest,
                              uint64_t *size, struct np_error *err);

/* Where an object is, if it is there; stands until the next call with this store. */
const char *np_store_file(struct np_store *store, const struct np_digest *digest);

/* Calls visit for every object in the order of the digests and stops where it fails; a directory
 * that cannot be listed is passed over, and is a failure at the end. Files that are not named as
 * objects, such as a crashed writer's, are passed over. visit may use the store. */
typedef enum np_status np_store_visit(void *context, const struct np_digest *digest,
                                      struct np_error *err);
enum np_status np_store_each(struct np_store *store, np_store_visit *visit, void *context,
                             struct np_error *err);

#endif

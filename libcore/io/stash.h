/* The stash: records kept off the device, in memory or in a scratch file.
 *
 * Record i has bytes[i] bytes, fixed when the stash is made, and is empty until it is first put. In
 * memory a record takes room when it is first put. In a file records lie in ascending order at
 * aligned offsets (what is empty takes no room on the disk); transfers are direct, so that the
 * system keeps no second copy in memory, and cut into chunks of which several are under way
 * (io_uring); where the kernel or the file system has neither, they are plain reads and writes
 * whose pages are dropped.
 *
 * The file must not exist; it is unlinked as soon as it is open: whatever ends the process leaves
 * nothing behind.
 *
 * A block of an arena can be sent to the stash and brought back as it is: in memory it changes
 * hands, and nothing is copied; unless the arena's memory is that of a device apart from the host,
 * which is copied to and from memory that is pinned for it: the records' own, or what little stands
 * between the device and the file.
 *
 * Buffers   start at multiples of NP_STASH_ALIGN and have room up to the next multiple of it
 *           beyond the record's bytes (what an arena gives); what stands there is undefined after
 *           a get.
 * Errors    NP_EINPUT: the file exists or cannot be made; NP_EIO with file and cause: the disk is
 *           full, a transfer failed or came up short; NP_EMEM. A put that failed leaves the record
 *           undefined.
 * Ownership np_stash_free releases memory and file.
 * Threads   any, on different records; one record by one caller at a time.
 */
#ifndef NP_IO_STASH_H
#define NP_IO_STASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "num/device.h"

#define NP_STASH_ALIGN 4096

struct np_stash;

/* For arenas of the device, which is borrowed and may be the host. Copies bytes[count]. path NULL:
 * in memory. */
enum np_status np_stash_new(struct np_stash **out, const struct np_device *device, const char *path,
                            const uint64_t *bytes, size_t count, struct np_error *err);
void np_stash_free(struct np_stash *stash);

enum np_status np_stash_put(struct np_stash *stash, size_t record, const void *data,
                            struct np_error *err);
/* The same for the bytes from `offset` on, a multiple of NP_STASH_ALIGN; so is n, or the record
 * ends there. A record is put when its last part is, the parts in ascending order. */
enum np_status np_stash_put_part(struct np_stash *stash, size_t record, uint64_t offset,
                                 const void *data, uint64_t n, struct np_error *err);
/* The record must have been put. */
enum np_status np_stash_get_part(struct np_stash *stash, size_t record, uint64_t offset, void *data,
                                 uint64_t n, struct np_error *err);

/* A record's block leaves the arena for the stash; changed: since it was brought, or it never
 * was. */
enum np_status np_stash_send(struct np_stash *stash, size_t record, struct np_arena *arena,
                             void *block, bool changed, struct np_error *err);
/* A block of the arena with the record, which must have been put or sent. Of what changes hands the
 * stash has no record then, until the block is sent again. */
enum np_status np_stash_bring(struct np_stash *stash, size_t record, struct np_arena *arena,
                              void *out_pointer, struct np_error *err);

/* How a file is used, for run.json and messages: "memory", "direct, io_uring", "buffered" ... */
const char *np_stash_means(const struct np_stash *stash);
/* Bytes that the records put so far take, in memory or on the disk; the other is 0. */
uint64_t np_stash_memory(struct np_stash *stash);
uint64_t np_stash_disk(struct np_stash *stash);

#endif

/* The parts of the stash, for stash*.c and their tests: the scratch file, its rings, and what
 * stands between it and a device. */
#ifndef NP_IO_STASH_PARTS_H
#define NP_IO_STASH_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "io/stash.h"

/* What may be tried; what the machine does not have is done without. uring counts only if the file
 * is direct. */
struct np_stash_ways {
    bool direct, uring;
};

/* As np_stash_new, which tries all. */
enum np_status np_stash_new_ways(struct np_stash **out, const struct np_device *device,
                                 const char *path, const uint64_t *bytes, size_t count,
                                 struct np_stash_ways ways, struct np_error *err);

/* A transfer between memory and file, both aligned, its length too. */
struct np_stash_span {
    bool write;
    char *data;
    uint64_t offset, bytes;
};

/* A scratch file of that size, a hole. */
struct np_stash_file;
enum np_status np_stash_file_new(struct np_stash_file **out, const char *path, uint64_t bytes,
                                 struct np_stash_ways ways, struct np_error *err);
void np_stash_file_free(struct np_stash_file *file);
enum np_status np_stash_file_move(struct np_stash_file *file, struct np_stash_span span,
                                  struct np_error *err);
const char *np_stash_file_means(const struct np_stash_file *file);

/* Memory of the host through which blocks of a device that is apart go to the file and come back:
 * 16 MiB and a page at most, pinned for the device. No record has more than `largest` bytes, whole
 * pages. */
struct np_stash_staging;
enum np_status np_stash_staging_new(struct np_stash_staging **out, const struct np_device *device,
                                    uint64_t largest, struct np_error *err);
void np_stash_staging_free(struct np_stash_staging *staging);
/* The span's data are the device's. NP_EIO of the device, too. */
enum np_status np_stash_staging_move(struct np_stash_staging *staging, struct np_stash_file *file,
                                     struct np_stash_span span, struct np_error *err);

/* Rings of the kernel for direct transfers on fd, borrowed, whose first page may be read. NULL:
 * the kernel has none for us. */
struct np_stash_rings;
struct np_stash_rings *np_stash_rings_new(int fd);
void np_stash_rings_free(struct np_stash_rings *rings);
/* 0, or what errno would be, of this or of a transfer before it that has left requests unsent.
 * Nothing is under way when it returns. */
int np_stash_rings_move(struct np_stash_rings *rings, struct np_stash_span span);

/* Whether a transfer with this errno is tried again: interrupted, always; where the system lacks
 * something for the moment, after a pause, NP_STASH_TRIES times in a row. */
#define NP_STASH_TRIES 3000
bool np_stash_retried(int error, int *tries);
void np_stash_pause(void); /* 1 ms */

#endif

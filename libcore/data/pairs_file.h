/* One file of pairs, mapped: text lines "source TAB target", and where each line begins.
 *
 * Errors:    NP_EINPUT: no lines, a line without a tab or with two, a byte 0; NP_EIO; NP_EMEM.
 * Ownership: borrows the path; np_pairs_file_clear takes any zeroed or initialised struct.
 */
#ifndef NP_DATA_PAIRS_FILE_H
#define NP_DATA_PAIRS_FILE_H

#include "io/file.h"

struct np_pairs_file {
    const char *path;
    struct np_file_map map;
    uint64_t count;
    size_t *lines; /* [count + 1] offset of each line, and one past the last line's end */
};

struct np_pair {
    const uint8_t *source, *target;
    size_t source_count, target_count; /* bytes */
};

enum np_status np_pairs_file_init(struct np_pairs_file *file, const char *path,
                                  struct np_error *err);
void np_pairs_file_clear(struct np_pairs_file *file);

struct np_pair np_pairs_file_get(const struct np_pairs_file *file, uint64_t index);

#endif

/* One file of tokens, mapped: bytes, or llm.c's .bin with 16- or 32-bit tokens.
 *
 * Errors:    NP_EINPUT: empty, or not a token file; NP_EIO.
 * Ownership: borrows the path; np_token_file_clear takes any zeroed or initialised struct.
 */
#ifndef NP_DATA_TOKEN_FILE_H
#define NP_DATA_TOKEN_FILE_H

#include "io/file.h"
#include "space/recipe.h"

struct np_token_file {
    const char *path;
    struct np_file_map map;
    const uint8_t *first; /* token 0 */
    int width;            /* bytes a token: 1, 2, 4; little-endian */
    uint64_t count;
};

enum np_status np_token_file_init(struct np_token_file *file, const char *path,
                                  enum np_data_kind kind, struct np_error *err);
void np_token_file_clear(struct np_token_file *file);

/* out[i] = token begin + i; tokens from 2^31 on come out negative. */
void np_token_file_read(const struct np_token_file *file, int32_t *out, uint64_t begin,
                        size_t count);

#endif

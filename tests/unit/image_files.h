/* Files of images that a test writes into its directory, of pixels that tell their places. */
#ifndef NP_TEST_IMAGE_FILES_H
#define NP_TEST_IMAGE_FILES_H

#include "data_files.h"

enum { RECORD = 3073, FILE_BYTES = 64 * RECORD };

/* What the last file was written from. */
extern uint8_t file_bytes[FILE_BYTES];

struct idx_file {
    uint32_t count, height, width, channels; /* channels 0: three dimensions */
    int label_width, extra; /* file_bytes more (less) of pixels than the header counts */
};

/* Of 10 classes. */
struct np_recipe image_files_recipe(int height, int width, int channels);

/* A byte for (image, channel, row, column) that tells them apart. */
uint8_t image_files_pixel(size_t image, size_t c, size_t h, size_t w);

/* Words into file_bytes, most significant byte first; returns where they end. */
size_t image_files_words(size_t at, const uint32_t *words, size_t count);

/* Files of images and labels, from number `first` on; labels are (image * 7) % 10. */
void image_files_idx(const char *images, const char *labels, size_t first, struct idx_file idx);
/* Likewise, a record of one or two labels, of which the last counts. */
void image_files_cifar(const char *name, size_t labels, size_t first, size_t count);

#endif

/* Files of images, mapped, and seen the same way whatever their format.
 *
 * Shapes     image i begins at pixels + i * image_bytes; its channel c at row h, column w is
 *            [c * plane + (h * width + w) * step].
 * Errors:    NP_EINPUT: empty, bad header, a length that the header does not give, images of
 *            another size; NP_EIO.
 * Ownership: borrows the paths; np_image_file_clear takes any zeroed or initialised struct.
 */
#ifndef NP_DATA_IMAGE_FILE_H
#define NP_DATA_IMAGE_FILE_H

#include "io/file.h"

struct np_image_size {
    int height, width, channels;
};

struct np_image_file {
    const char *path; /* of what holds the labels */
    struct np_file_map map, label_map;
    uint64_t count;
    const uint8_t *pixels, *labels; /* of image 0 */
    size_t image_bytes, plane, step;
    size_t label_bytes; /* from label to label */
    int label_width;    /* bytes of one: 1, 2 or 4, most significant first */
};

/* MNIST's format: a file of images and a file of labels. */
enum np_status np_idx_file_init(struct np_image_file *file, const char *path,
                                const char *label_path, struct np_image_size size,
                                struct np_error *err);
/* CIFAR's binary version: records of so many labels, 1 or (CIFAR-100) 2, of which the last counts,
 * and three planes of 32 x 32. */
enum np_status np_cifar_file_init(struct np_image_file *file, const char *path, size_t labels,
                                  struct np_image_size size, struct np_error *err);

/* The label of an image, as stored: it may be negative. */
int32_t np_image_file_label(const struct np_image_file *file, size_t index);

void np_image_file_clear(struct np_image_file *file);

#endif

/* How an image of a file becomes an input. Private to data/.
 *
 * A pixel p of channel c becomes (float)((p / 255.0 - mean[c]) / std[c]), in double. Of an image
 * that is stored larger the input is the middle: it begins at row (stored - height) / 2, rounded
 * down, and at such a column.
 * Training batches draw words 0 .. 3 of np_draw(np_draw_key(seed, NP_DRAW_AUGMENT, member, 0, 0),
 * step, i) for their sample i. Words 0 and 1 move the input down and to the right by word * (2 *
 * crop + 1) / 2^32, rounded down, - crop; it is +0 outside of the stored image. With a scale,
 * instead, a part of the stored image is resized to the input, by the words of the draw of tensor
 * 1: data/resize.h. If the top bit of word 2 is set, a flip makes left and right of the input
 * change places. A cutout of n then makes +0 of rows y - n / 2 .. + n - 1 of columns x - n / 2 ..
 * + n - 1, where inside; y is the upper half of word 3 * height / 2^16, x the lower half * width /
 * 2^16, rounded down.
 *
 * Errors:    NP_EMEM.
 * Ownership: np_image_reader_clear takes any zeroed or initialised struct.
 * Threads:   any number may read with one reader.
 */
#ifndef NP_DATA_IMAGE_READER_H
#define NP_DATA_IMAGE_READER_H

#include "data/format.h"
#include "data/image_file.h"

struct np_image_reader {
    struct np_image_size stored, size; /* of an image of the file; of what is read */
    int crop, cutout;
    double scale[2];
    bool flip;
    float (*value)[256]; /* [channels] what each byte becomes */
};

enum np_status np_image_reader_init(struct np_image_reader *reader, const struct np_recipe *recipe,
                                    const struct np_data_spec *spec, struct np_error *err);

/* out: [height][width][channels]; pixels: of an image of the file; augment[2]: NULL for none. */
void np_image_read(const struct np_image_reader *reader, float *out,
                   const struct np_image_file *file, const uint8_t *pixels,
                   const struct np_philox augment[2]);

void np_image_reader_clear(struct np_image_reader *reader);

#endif

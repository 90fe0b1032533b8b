/* How an image of a file becomes an input. Private to data/.
 *
 * A pixel p of channel c becomes (float)((p / 255.0 - mean[c]) / std[c]), in double. Of an image
 * that is stored larger the input is the middle: it begins at row (stored - height) / 2, rounded
 * down, and at such a column.
 * Sample i of a training batch has the draws np_draw(np_draw_key(seed, NP_DRAW_AUGMENT, member, 0,
 * k), step, i). Words 0 and 1 of k = 0 move the input down and to the right, by word * (2 * crop +
 * 1) / 2^32, rounded down, - crop; it is +0 outside of the stored image. With a scale, instead, a
 * part of the stored image is resized to the input, by the draw k = 1: data/resize.h. If the top
 * bit of word 2 of k = 0 is set, a flip makes left and right of the input change places. In the end
 * a cutout of n makes +0 of rows y - n / 2 .. + n - 1 of columns x - n / 2 .. + n - 1, where
 * inside; y is the upper half of word 3 of k = 0 * height / 2^16, x its lower half * width / 2^16,
 * rounded down.
 * With a jitter, by the draws k = 2 and 3, what is cropped or resized are values (float)(p /
 * 255.0), (float)mean[c] outside; what data/jitter.h makes of them is then normalised: (float)((v -
 * mean[c]) / std[c]), in double.
 *
 * Errors:    NP_EMEM.
 * Ownership: np_image_reader_clear takes any zeroed or initialised struct.
 * Threads:   any number may read with one reader.
 */
#ifndef NP_DATA_IMAGE_READER_H
#define NP_DATA_IMAGE_READER_H

#include "data/format.h"
#include "data/image_file.h"

/* What each byte of a channel becomes, and what is outside of the image. */
struct np_levels {
    float value[256], outside;
};

struct np_image_reader {
    struct np_image_size stored, size; /* of an image of the file; of what is read */
    int crop, cutout;
    double scale[2];
    bool flip;
    double jitter[NP_JITTERS];
    bool jittered;
    double mean[NP_MAX_IMAGE_CHANNELS], std[NP_MAX_IMAGE_CHANNELS];
    struct np_levels *normal, *plain; /* [channels] what is normalised, what is yet to be */
};

enum np_status np_image_reader_init(struct np_image_reader *reader, const struct np_recipe *recipe,
                                    const struct np_data_spec *spec, struct np_error *err);

/* out: [height][width][channels]; pixels: of an image of the file; augment: NULL for none. */
void np_image_read(const struct np_image_reader *reader, float *out,
                   const struct np_image_file *file, const uint8_t *pixels,
                   const struct np_philox augment[NP_AUGMENT_DRAWS]);

void np_image_reader_clear(struct np_image_reader *reader);

#endif

/* How an image of a file becomes numbers: in training moved, or a part of it resized, mirrored and
 * cut out, as data/data.h says. Private to data/.
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
    struct np_image_size size;
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

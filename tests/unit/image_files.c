#include "image_files.h"

#include "suite.h"

enum { PLANE = 32 * 32 };

uint8_t file_bytes[FILE_BYTES];

struct np_recipe image_files_recipe(int height, int width, int channels)
{
    struct np_recipe recipe = data_files_recipe(NP_INPUT_IMAGES, 10, 0);
    recipe.height = height;
    recipe.image_width = width;
    recipe.channels = channels;
    return recipe;
}

size_t image_files_words(size_t at, const uint32_t *words, size_t count)
{
    for (size_t i = 0; i < 4 * count; i++)
        file_bytes[at + i] = (uint8_t)(words[i / 4] >> (24 - 8 * (i % 4)));
    return at + 4 * count;
}

uint8_t image_files_pixel(size_t image, size_t c, size_t h, size_t w)
{
    return (uint8_t)(image * 37 + c * 101 + h * 11 + w * 3 + h * w);
}

void image_files_idx(const char *images, const char *labels, size_t first, struct idx_file idx)
{
    static const uint32_t types[] = {0, 0x801, 0xB01, 0, 0xC01};
    const uint32_t header[] = {idx.channels ? 0x804 : 0x803, idx.count, idx.height, idx.width,
                               idx.channels};
    const uint32_t label_header[] = {types[idx.label_width], idx.count};
    size_t at = image_files_words(0, header, idx.channels ? 5 : 4);
    for (size_t i = first; i < first + idx.count; i++)
        for (size_t h = 0; h < idx.height; h++)
            for (size_t w = 0; w < idx.width; w++)
                for (size_t c = 0; c < (idx.channels ? idx.channels : 1); c++)
                    file_bytes[at++] = image_files_pixel(i, c, h, w);
    suite_write_bytes(images, file_bytes, (size_t)((long)at + idx.extra));
    at = image_files_words(0, label_header, 2);
    for (size_t i = first; i < first + idx.count; i++) {
        for (int j = 1; j < idx.label_width; j++)
            file_bytes[at++] = 0;
        file_bytes[at++] = (uint8_t)(i * 7 % 10);
    }
    suite_write_bytes(labels, file_bytes, at);
}

void image_files_cifar(const char *name, size_t labels, size_t first, size_t count)
{
    size_t at = 0;
    for (size_t i = first; i < first + count; i++) {
        if (labels == 2)
            file_bytes[at++] = (uint8_t)(i * 3 % 7);
        file_bytes[at++] = (uint8_t)(i * 7 % 10);
        for (size_t c = 0; c < 3; c++)
            for (size_t j = 0; j < PLANE; j++)
                file_bytes[at++] = image_files_pixel(i, c, j / 32, j % 32);
    }
    suite_write_bytes(name, file_bytes, at);
}

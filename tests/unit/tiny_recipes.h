/* The tiny recipes' texts; together they have every candidate. Private to tiny.c. */
#ifndef NP_TEST_TINY_RECIPES_H
#define NP_TEST_TINY_RECIPES_H

/* Every text candidate, dropout on, trained stem and head. */
static const char tiny_text[] = "naspipe: recipe/1\n"
                                "seed: 11\n"
                                "data:\n"
                                "  train: {kind: bytes, files: [corpus.txt]}\n"
                                "space:\n"
                                "  input: {kind: tokens, vocab: 256, length: 12}\n"
                                "  width: 16\n"
                                "  blocks:\n"
                                "    - repeat: 6\n"
                                "      choices:\n"
                                "        - {op: mha, heads: 2, dropout: 0.1}\n"
                                "        - {op: ffn, ratio: 2, act: gelu, dropout: 0.1}\n"
                                "        - {op: ffn, ratio: 3, act: relu}\n"
                                "        - {op: glu, dropout: 0.2}\n"
                                "        - {op: conv1d, kernel: 3, dropout: 0.1}\n"
                                "        - {op: sepconv1d, kernel: 5, dropout: 0.1}\n"
                                "        - {op: lightconv, kernel: 4, heads: 4, dropout: 0.1}\n"
                                "        - {op: identity}\n"
                                "train:\n"
                                "  steps: 10\n"
                                "  batch: 8\n"
                                "  grain: 2\n"
                                "  optimizer: {kind: adamw, lr: 1.0e-2}\n"
                                "  loss: {kind: cross_entropy, label_smoothing: 0.1}\n";

#define TINY_IMAGE_DATA                                                                            \
    "data:\n"                                                                                      \
    "  train: {kind: idx, files: [images.idx, labels.idx], mean: [0.5], std: [0.25], crop: 1, "    \
    "flip: true}\n"                                                                                \
    "  valid: {kind: idx, files: [images.idx, labels.idx], mean: [0.5], std: [0.25]}\n"

#define TINY_TRAIN                                                                                 \
    "train:\n"                                                                                     \
    "  steps: 10\n"                                                                                \
    "  batch: 8\n"                                                                                 \
    "  grain: 2\n"                                                                                 \
    "  optimizer: {kind: sgd, lr: 0.05, nesterov: true}\n"

/* Batch norm everywhere, shapes that change. */
static const char tiny_images[] =
    "naspipe: recipe/1\n"
    "seed: 12\n" TINY_IMAGE_DATA "space:\n"
    "  input: {kind: images, height: 9, width: 6, channels: 1, classes: 5}\n"
    "  width: 8\n"
    "  stem: {op: conv2d, kernel: 3}\n"
    "  blocks:\n"
    "    - repeat: 2\n"
    "      choices:\n"
    "        - {op: conv2d, kernel: 3, groups: 2}\n"
    "        - {op: relu_conv_bn, kernel: [1, 3]}\n"
    "        - {op: sepconv, kernel: 3}\n"
    "        - {op: dilconv, kernel: 3}\n"
    "        - {op: resnet_basic, hidden: 4}\n"
    "        - {op: mbconv, kernel: 3, expand: 2, se: 4, drop_path: 0.2}\n"
    "        - {op: shuffle, kernel: 3}\n"
    "        - {op: mha, heads: 2, dropout: 0.1}\n"
    "        - {op: identity}\n"
    "    - repeat: 2\n"
    "      out: 12\n"
    "      stride: 2\n"
    "      choices:\n"
    "        - {op: conv2d, kernel: 5, act: gelu}\n"
    "        - {op: resnet_basic}\n"
    "        - {op: mbconv, kernel: 5, expand: 3, act: hswish}\n"
    "        - {op: shuffle, kernel: 3, xception: true}\n"
    "        - {op: identity}\n"
    "    - repeat: 2\n"
    "      choices:\n"
    "        - {op: dwconv2d, kernel: 3}\n"
    "        - {op: max_pool, kernel: 3, norm: batch}\n"
    "        - {op: avg_pool, kernel: 3}\n"
    "        - {op: ffn, ratio: 2}\n"
    "  head: {op: classifier, features: 16}\n" TINY_TRAIN "  calibration: 3\n";

/* Images without batch norm, so that mini-batches may be cut. */
static const char tiny_norms[] =
    "naspipe: recipe/1\n"
    "seed: 13\n" TINY_IMAGE_DATA "space:\n"
    "  input: {kind: images, height: 9, width: 6, channels: 1, classes: 5}\n"
    "  width: 8\n"
    "  stem: {op: conv2d, kernel: 3, norm: group}\n"
    "  blocks:\n"
    "    - repeat: 4\n"
    "      choices:\n"
    "        - {op: conv2d, kernel: 3, norm: group}\n"
    "        - {op: conv2d, kernel: 1, norm: layer, act: swish}\n"
    "        - {op: dwconv2d, kernel: 3, norm: none, act: relu6}\n"
    "        - {op: mha, heads: 4, drop_path: 0.3}\n"
    "        - {op: ffn, ratio: 2, dropout: 0.1}\n"
    "        - {op: max_pool}\n"
    "        - {op: zero}\n"
    "    - repeat: 2\n"
    "      out: 16\n"
    "      stride: 2\n"
    "      choices:\n"
    "        - {op: conv2d, kernel: 3, dilation: 2, norm: layer}\n"
    "        - {op: conv2d, kernel: [3, 1], norm: none, act: none}\n"
    "  head: {op: classifier, features: 8, norm: layer}\n" TINY_TRAIN;

/* Cells: values with several readers, sums, and values that nobody gives a gradient. */
static const char tiny_cells[] =
    "naspipe: recipe/1\n"
    "seed: 14\n" TINY_IMAGE_DATA "space:\n"
    "  input: {kind: images, height: 9, width: 6, channels: 1, classes: 5}\n"
    "  width: 8\n"
    "  stem: {op: patch, kernel: 3}\n"
    "  blocks:\n"
    "    - repeat: 2\n"
    "      cell: 4\n"
    "      choices:\n"
    "        - {op: zero}\n"
    "        - {op: identity}\n"
    "        - {op: avg_pool, kernel: 3}\n"
    "        - {op: conv2d, kernel: 3, norm: group}\n"
    "    - repeat: 1\n"
    "      cell: 3\n"
    "      choices:\n"
    "        - {op: zero}\n"
    "        - {op: identity}\n"
    "        - {op: dwconv2d, kernel: 3, norm: layer}\n"
    "  head: {op: classifier, norm: none}\n" TINY_TRAIN;

/* An encoder, and a decoder that attends to it. */
static const char tiny_pairs[] = "naspipe: recipe/1\n"
                                 "seed: 15\n"
                                 "data:\n"
                                 "  train: {kind: pairs, files: [pairs.tsv]}\n"
                                 "space:\n"
                                 "  input: {kind: pairs, vocab: 256, source_length: 7, length: 9}\n"
                                 "  width: 16\n"
                                 "  blocks:\n"
                                 "    - name: encoder\n"
                                 "      repeat: 3\n"
                                 "      choices:\n"
                                 "        - {op: mha, heads: 2, mask: none}\n"
                                 "        - {op: ffn, ratio: 2}\n"
                                 "        - {op: identity}\n"
                                 "    - choices:\n"
                                 "        - {op: embedding}\n"
                                 "    - repeat: 3\n"
                                 "      choices:\n"
                                 "        - {op: mha, heads: 2, memory: encoder, dropout: 0.1}\n"
                                 "        - {op: mha, heads: 4}\n"
                                 "        - {op: glu}\n"
                                 "        - {op: identity}\n" TINY_TRAIN;

#endif

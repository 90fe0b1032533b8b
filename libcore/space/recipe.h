/* The recipe: everything that decides the bits of a training run.
 *
 * Read from YAML (man 5 naspipe-recipe), checked, defaults filled in, and written back in one
 * canonical form, itself a valid recipe: keys in a fixed order, every default spelled out, `repeat`
 * folded, numbers in shortest round-trip form. The recipe's digest is the SHA-256 of that text.
 *
 * Keys, their bounds and (defaults); without one in parentheses a key is required:
 *   naspipe recipe/1; seed (0); numerics (portable/1)|fast/sm_NN-tf32|fast/sm_NN-bf16
 *          (num/numerics.h)
 *   data.train, data.valid (none): kind bytes|tokens (input tokens), pairs|token_pairs (pairs),
 *          idx|cifar10|cifar100 (images), files 1..4096 (idx: images, labels, ...), part [from, to)
 *          ([0, 1]); of images: mean, std (a number a channel; 0 and 1), and of train: crop, below
 *          65 and the image's size (0), flip (false), cutout, up to the image's size (0), scale
 *          [from, to] in (0, 1] (none), without a crop; of train: order (drawn)|shuffled
 *   space: input {kind (tokens), vocab 2..2^24, length 1..65536} or {kind: pairs, vocab,
 *          source_length, length, padding (seen)|masked}
 *          or {kind: images, height, width 1..4096, channels 1..64, classes 2..2^20};
 *          width 1..65536: channels of the stem's output;
 *          stem, tokens and pairs (of the source): {op (embedding), positions (learned)|none};
 *          images: {op (conv2d), kernel (3), stride 1|2 (1), norm (batch)|group|none, act (relu)}
 *          or {op: patch, kernel (16) K or [height, width], which divides the image, positions
 *          (learned)|none}; of all, name (none), which blocks may read as those of blocks
 *          blocks: list of {repeat 1..4096 (1), name, tie (none), from, add (none), cell 2..16
 *          (none), inputs 1|2 (1), out (as before), stride 1|2 (1), weights (own)|entangled,
 *          widths (none), tie_widths (none), origin 0..4095 (0), choices: list of 1..4096};
 *          images alone have inputs, out and stride; stride and from are the first repeat's, the
 *          others have 1 and read what was made before.
 *          Or an item is {repeat, blocks: a list of items}, repeated as a whole: strides are its
 *          first repeat's, names are known within a repeat.
 *          depth, of either: list of 1..64 ascending, from 0, the last of which is `repeat`, if
 *          that is given: so many of the repeats are there (space/depth.h). What may be passed over
 *          keeps the shape; no name, from, add, tie, cell or depth within.
 *          name, from, add: the name of what the last repeat makes, which later blocks read, or add
 *          theirs to (no cell, repeat 1, the same shape). Every block is read.
 *          weights: entangled candidates of one operator have the weights of the largest of them,
 *          each as large a part as it needs (space/parts.h), and must fit into them.
 *          widths: list of 1..64 ascending: the candidates are there once for each
 *          (space/widths.h), at most 4096; no cell. The largest is at most `out`, which it is by
 *          default, or, of sequences, the width.
 *          tie_widths: blocks of the same one have as many widths, and draw that of one number.
 *          origin: the number that the first candidate had in the space that this is from, where
 *          a run that inherits its weights looks first; no cell.
 *          tie: repeats of the same one draw alike, and have equal numbers of candidates and nodes.
 *          cell N: a repeat is a cell of nodes 0 .. N-1, node 0 its input, the last its output, and
 *          each edge i -> j, i < j, ordered by j, then i, is a choice block of its own: node j is
 *          the sum of its edges in that order. Edges that leave node 0 have the stride and make
 *          `out` of its channels. inputs 2, N from 3: nodes 0 and 1 are the values before the last
 *          and the last, made to fit by fixed blocks; nodes 2 .. are concatenated by such
 *          (space/cells.h).
 *          head, tokens and pairs: {op (lm), norm (layer)|rms}; images: {op (classifier), hidden
 *          0..65536 (0: none), features likewise, norm (batch; without features none)|layer|rms|
 *          none, act (relu; without features and hidden none), dropout (0)}: a 1 x 1 convolution to
 *          the features, norm, act, global pool, linear to hidden, act, dropout, linear
 *   choice: op and its keys; act none|relu|relu6|gelu|swish|hswish|sigmoid|hsigmoid; dropout [0, 1)
 *          (0), drop_path [0, 1) (0) where there is a residual.
 *     sequences (mha, ffn, gated_ffn, identity also images, where they keep the shape):
 *          mha heads, kv_heads (heads), a divisor of them, hidden (the width), their width in all,
 *          memory (none): a name, whose value gives keys and values, the same for all candidates of
 *          a block, mask (causal; images and memory: none and nothing else)|none, positions
 *          (none)|rotary (neither images nor memory; heads of an even width)|relative (no memory),
 *          base 2..2^30 (10000), of rotary positions alone; ffn ratio 1..64 (4), a multiple of 1/8,
 *          or hidden, the width between its layers, which ratio * width is, rounded down, act
 *          (gelu); gated_ffn likewise, act (swish); glu; conv1d, sepconv1d kernel 1..256 (3);
 *          lightconv heads, kernel (3); identity; embedding (pairs: of the target; once, and the
 *          only candidate of its block), positions (learned)|none; norm (also images) norm
 *          (layer)|rms, of images also batch|group, act (none). Heads divide the width, or hidden.
 *          All but the last three are pre-norm residuals, y = x + drop(branch(norm(x))), norm
 *          (layer)|rms; of mha, ffn and gated_ffn bias (true) is that of their linear layers.
 *     images, all of them with the block's out and stride; kernel is K or [height, width], at most
 *     256 taps, padded to keep the size (stride 2: ceil(size / 2)), even sizes more behind than
 *     before:
 *          conv2d kernel (3), dilation 1|2 (1), groups (1), norm (batch)|group|layer|rms|none, act
 *          (relu): act(norm(conv)); dwconv2d likewise without groups, keeps the channels;
 *          relu_conv_bn kernel, dilation (1); sepconv kernel: twice relu, depthwise, 1 x 1, batch
 *          norm, the first with the stride; dilconv kernel, dilation (2): the same once;
 *          resnet_basic kernel (3), hidden (out), act (relu): act(bn(conv(act(bn(conv x)))) +
 *          shortcut), the shortcut of another shape being a 1 x 1 convolution and a batch norm;
 *          bottleneck kernel, hidden (a fourth of out, 1 at least), groups (1), which divides
 *          hidden, se 0..64 (0: none, else its reduction of hidden), act (relu): act(bn(1 x 1 (se(
 *          act(bn(conv(act(bn(1 x 1 x)))))))) + shortcut), conv with the groups and the stride;
 *          mbconv kernel, expand 1..16 (6) or hidden, the expanded channels, act (relu6), se 0..64
 *          (0: none, else its reduction of the expanded channels); residual where shapes agree;
 *          shuffle kernel, xception (false): ShuffleNetV2's units, both halves of the output equal;
 *          max_pool, avg_pool kernel (3), norm (none)|batch, keep the channels;
 *          identity (other shapes: relu, 1 x 1 convolution, at stride 2 two of half the channels,
 *          one of them shifted by a position, batch norm); concat memory, of x's size: its
 *          channels, then x's; zero
 *     Group norm has the largest number of groups up to 32 that divides the channels.
 *   shared: policy (delay)|frozen, steps 1..1024 (1)
 *   sampler: kind (uniform)|fair|spread|sandwich, members 1..1024 (1; fair: a multiple of every
 *          block's candidates (the most of them); sandwich: 2 or more (4)), spread 1..1024 (64),
 *          batch (own; sandwich same)
 *   train: steps; batch 1..2^20 (16); grain, a divisor of batch, of which there are 4096 at most
 *          (the largest up to batch / 8);
 *          optimizer {kind (adamw)|sgd; lr [1e-30, 1e30] (0.001; sgd 0.01), weight_decay (0.01;
 *          sgd 0); beta1 (0.9), beta2 (0.999), eps (1e-8); momentum (0.9), nesterov (false)};
 *          schedule {kind (constant)|linear|cosine|inverse_sqrt|multistep|step, warmup (0;
 *          inverse_sqrt: required, from 1), final [0, 1) (0; linear, cosine), milestones 1..1024
 *          ascending steps from 1 on, none below warmup (multistep), every 1.. (step), gamma (0, 1]
 *          (0.1; multistep, step)};
 *          loss {kind (cross_entropy), label_smoothing [0, 1) (0), distill [0, 1] (0)};
 *          clip {kind (none)|value|layer, limit [1e-30, 1e30]};
 *          checkpoint_every (0: only at the end);
 *          calibration 1..4096 (8): training batches that batch norm's statistics are taken from
 *          for an evaluation, if the space has batch norm;
 *          init 64 hex digits (none): the digest of a run that weights are taken from first
 *          (run/inherit.h)
 *
 * Shapes:    width C, length T (positions of a sample), vocab V, batch B samples, N choice blocks.
 * Errors:    NP_EINPUT with file:line:column; NP_EIO; NP_EMEM.
 * Ownership: np_recipe_clear releases what np_recipe_read filled in.
 */
#ifndef NP_SPACE_RECIPE_H
#define NP_SPACE_RECIPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "io/digest.h"
#include "num/kernels.h"
#include "num/numerics.h"

enum np_op {
    NP_OP_IDENTITY,
    NP_OP_MHA,
    NP_OP_FFN,
    NP_OP_GATED_FFN,
    NP_OP_GLU,
    NP_OP_CONV1D,
    NP_OP_SEPCONV1D,
    NP_OP_LIGHTCONV,
    NP_OP_CONV2D,
    NP_OP_DWCONV2D,
    NP_OP_RELU_CONV_BN,
    NP_OP_SEPCONV,
    NP_OP_DILCONV,
    NP_OP_RESNET_BASIC,
    NP_OP_BOTTLENECK,
    NP_OP_MBCONV,
    NP_OP_SHUFFLE,
    NP_OP_MAX_POOL,
    NP_OP_AVG_POOL,
    NP_OP_CONCAT,
    NP_OP_ZERO,
    NP_OP_NORM,
    NP_OP_EMBEDDING, /* stem, and the target's of pairs */
    NP_OP_PATCH,     /* stem */
    NP_OP_LM,        /* head: norm + output layer + cross entropy */
    NP_OP_CLASSIFIER /* head */
};

enum np_norm {
    NP_NORM_NONE,
    NP_NORM_OF_BATCH,
    NP_NORM_OF_GROUPS,
    NP_NORM_OF_LAYER,
    NP_NORM_OF_RMS
};

enum np_positions {
    NP_POSITIONS_NONE,
    NP_POSITIONS_LEARNED, /* of stems */
    NP_POSITIONS_ROTARY,  /* of attention, as the next */
    NP_POSITIONS_RELATIVE,
    NP_POSITIONS_COUNT
};

/* One layer as written; unused fields are 0, so two equal specs are bytewise equal. stride: of a
 * stem; a choice's is its block's, and 0 here. */
struct np_layer_spec {
    enum np_op op;
    int kernel[2];       /* height, width; of sequences: 1, K */
    int heads, kv_heads; /* kv_heads: 0 where they are as many */
    int base;            /* of rotary positions; 0: NP_ROTARY_BASE */
    int stride, dilation, groups, hidden, expand, se, features;
    float ratio; /* a multiple of 1 / 8 */
    enum np_act act;
    enum np_norm norm;
    enum np_positions positions;
    bool causal, cross, xception, unbiased;
    bool source;              /* embedding: of a pair's source */
    int width;                /* channels that it makes, of a block with widths; else 0 */
    float dropout, drop_path; /* 0 <= p < 1, on the branch before the residual */
};

/* A choice block at position p = its index + 1. Positions name the values they make, 0 the stem's.
 * y = value[sum] + candidate(value[from], value[memory]). (The target's embedding reads no value,
 * but has a `from`, like every block.) */
struct np_block {
    int count;  /* candidates, 1 .. NP_MAX_CHOICES */
    int widths; /* the candidates are there once for each of so many; 0: none (space/widths.h) */
    const struct np_layer_spec *choices; /* of an item of the list, one array; or fixed */
    int out, stride;                     /* channels, of images */
    int from, memory, sum;               /* positions before p; memory, sum: -1 none */
    bool entangled;                      /* candidates share weights (space/parts.h) */
    int depth;                           /* of the recipe's that it is in; -1 none */
    int level;                           /* of its depth, 0: it is always there (space/depth.h) */
    int cell, inputs;                    /* nodes of the cell that it belongs to, 0: none */
    int drawn;                           /* the block whose draws are its own, too */
    int width_drawn;                     /* the block whose draws of a width are its own */
    int origin; /* number of the first candidate in the space that it is from (run/inherit.h) */
    int largest, smallest;               /* candidates; found for the sampler sandwich alone */
    const char *name, *tie, *tie_widths; /* "" none; one of the recipe's names, ties */
};

#define NP_MAX_DEPTHS 64 /* of an item */

/* Repeats of an item of which the last ones may be passed over. */
struct np_depth {
    int first, each;                   /* its first block; blocks of a repeat */
    int count, repeats[NP_MAX_DEPTHS]; /* that there may be, ascending; the last: that there are */
};

enum np_data_kind {
    NP_DATA_BYTES,
    NP_DATA_TOKENS,
    NP_DATA_PAIRS,
    NP_DATA_TOKEN_PAIRS,
    NP_DATA_IDX,
    NP_DATA_CIFAR10,
    NP_DATA_CIFAR100
};

#define NP_MAX_IMAGE_SIDE 4096
#define NP_MAX_IMAGE_CHANNELS 64

/* What a jitter changes. */
enum { NP_BRIGHTNESS, NP_CONTRAST, NP_SATURATION, NP_HUE, NP_JITTERS };

struct np_data_spec {
    bool given;
    enum np_data_kind kind;
    int file_count;
    char **files;   /* as written; relative to the recipe's directory */
    double part[2]; /* [from, to) of the concatenated tokens, pairs or images */
    double mean[NP_MAX_IMAGE_CHANNELS], std[NP_MAX_IMAGE_CHANNELS];
    int stored[2]; /* height and width of the files' images; 0: the input's */
    int crop, cutout;
    double scale[2]; /* part of an image's area that it is resized from, drawn; 0: all, as it is */
    double jitter[NP_JITTERS]; /* by how much at most */
    bool flip;
    bool shuffled; /* samples come in epochs; else each is drawn by itself */
};

enum np_input_kind { NP_INPUT_TOKENS, NP_INPUT_PAIRS, NP_INPUT_IMAGES };

enum np_sampler_kind {
    NP_SAMPLER_UNIFORM,
    NP_SAMPLER_FAIR,
    NP_SAMPLER_SPREAD,
    NP_SAMPLER_SANDWICH
};

enum np_optimizer_kind { NP_SGD, NP_ADAMW };

struct np_optimizer {
    enum np_optimizer_kind kind;
    double lr, beta1, beta2, eps, weight_decay, momentum;
    bool nesterov;
};

enum np_schedule_kind {
    NP_LR_CONSTANT,
    NP_LR_LINEAR,
    NP_LR_COSINE,
    NP_LR_INVERSE_SQRT,
    NP_LR_MULTISTEP,
    NP_LR_STEP
};

enum np_clip_kind {
    NP_CLIP_NONE,
    NP_CLIP_VALUE,
    NP_CLIP_LAYER /* to an L2 norm, each layer by itself */
};

#define NP_MAX_VOCAB (1 << 24)
#define NP_MAX_WIDTH 65536
#define NP_MAX_CHOICES 4096
#define NP_MAX_WIDTHS 64 /* of a block */
#define NP_MAX_BLOCKS 4096
#define NP_MAX_CELL 16          /* nodes */
#define NP_MAX_LAYERS (1 << 20) /* the stem and the head included */
#define NP_MAX_MEMBERS 1024
#define NP_MAX_SPREAD 1024
#define NP_MAX_DELAY 1024
#define NP_MAX_BATCH (1 << 20)
#define NP_MAX_FILES 4096
#define NP_MAX_GRAINS 4096
#define NP_MAX_MILESTONES 1024

struct np_recipe {
    char *path;      /* as given, for messages */
    char *directory; /* of path: where relative data files begin */
    uint64_t seed;
    const struct np_numerics *numerics;
    char *numerics_place; /* where it is said, for messages */
    struct np_data_spec train_data, valid_data;
    enum np_input_kind input;
    int vocab;                         /* tokens, or classes of images */
    int length, source_length;         /* images: length 1 */
    bool masked;                       /* pairs: what is filled is left out */
    int height, image_width, channels; /* of images */
    int width;
    struct np_layer_spec stem, head;
    const char *stem_name; /* "" none; one of the names */
    int block_count;
    struct np_block *blocks;
    int list_count, name_count, tie_count, depth_count;
    struct np_layer_spec **lists; /* the candidates of every item of the list of blocks */
    char **names, **ties;         /* that the stem and blocks have */
    struct np_depth *depths;      /* by ascending blocks */
    bool shared_frozen;
    int delay; /* D >= 1 when not frozen */
    enum np_sampler_kind sampler;
    int spread;                       /* pool of the spread sampler */
    int members;                      /* subnets a step */
    bool same_batch;                  /* on the first one's mini-batch */
    uint64_t steps, checkpoint_every; /* checkpoint_every 0: only at the end */
    int batch, grain;                 /* samples; grain divides batch */
    struct np_optimizer optimizer;
    enum np_schedule_kind schedule;
    uint64_t warmup;
    double final; /* share of the learning rate in the end, linear and cosine */
    int milestone_count;
    uint64_t *milestones; /* ascending steps, of multistep */
    uint64_t every;       /* of step */
    double gamma;         /* what is left of the learning rate at each of either */
    double label_smoothing;
    double distill; /* share of the loss that is towards the step's first subnet; 0: none */
    enum np_clip_kind clip;
    double clip_limit;
    int calibration; /* 0: the space has no batch norm */
    bool has_init;
    struct np_digest init; /* the run whose weights are the first, as has_init says */

    char *canonical; /* NUL-terminated */
    size_t canonical_bytes;
    struct np_digest digest;
    struct np_digest planned; /* of the text without train.init: what plans are made for */
};

/* path "-" is standard input. `sets` are "key.path=value" overrides, applied before checking. */
enum np_status np_recipe_read(struct np_recipe *recipe, const char *path, const char *const *sets,
                              size_t set_count, struct np_error *err);
void np_recipe_clear(struct np_recipe *recipe);

/* Makes it the recipe that differs from it in train.init alone. Unchanged where it fails. */
enum np_status np_recipe_set_init(struct np_recipe *recipe, const struct np_digest *init,
                                  struct np_error *err);

/* The SHA-256 of the canonical text but for data.valid and train.calibration, which decide what
 * evaluations look at, and no weight, and for train.init, whose weights checkpoints have. */
enum np_status np_recipe_training(struct np_digest *digest, const struct np_recipe *recipe,
                                  struct np_error *err);

/* Names as in recipes: "gelu", ... */
const char *np_act_name(enum np_act act);

/* The learning rate of a step: base lr, warmup linear from lr/warmup, then constant; linear to
 * `final` of it at `steps`; cosine to the same; lr * sqrt(warmup / (step + 1)); or times gamma for
 * each milestone up to the step. Double arithmetic, rounded once. */
float np_recipe_lr(const struct np_recipe *recipe, uint64_t step);

#endif

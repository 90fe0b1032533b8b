/* The recipe: everything that decides the bits of a training run.
 *
 * Read from YAML (man 5 naspipe-recipe), checked, defaults filled in, and written back in one
 * canonical form, itself a valid recipe: keys in a fixed order, every default spelled out, `repeat`
 * folded, numbers in shortest round-trip form. The recipe's digest is the SHA-256 of that text.
 *
 * Keys, their bounds and (defaults); without one in parentheses a key is required:
 *   naspipe recipe/1; seed (0); numerics (portable/1)
 *   data.train, data.valid (none): kind bytes|tokens, files 1..4096, part [from, to) ([0, 1])
 *   space: input {kind (tokens), vocab 2..2^24, length 1..65536}, width 1..65536,
 *          stem {op (embedding), positions (learned)}, head {op (lm)},
 *          blocks: list of {repeat 1..4096 (1), choices: list of 1..4096}
 *   choice: op; mha heads; ffn ratio 1..64 (4), act relu|gelu|swish (gelu); glu; conv1d, sepconv1d
 *          kernel 1..256 (3); lightconv heads, kernel (3); all of these dropout [0, 1) (0);
 *          identity. Heads divide the width.
 *   shared: policy (delay)|frozen, steps 1..1024 (1)
 *   sampler: kind (uniform)|fair|spread, members 1..1024 (1; fair: the candidates of a block, and
 *          nothing else), spread 1..1024 (64)
 *   train: steps; batch 1..2^20 (16); grain, a divisor of batch (the largest up to batch / 8);
 *          optimizer {kind (adamw)|sgd; lr (0.001; sgd 0.01), weight_decay (0.01; sgd 0);
 *          beta1 (0.9), beta2 (0.999), eps (1e-8); momentum (0.9), nesterov (false)};
 *          schedule {kind (constant)|linear|cosine|inverse_sqrt, warmup (0; inverse_sqrt:
 *          required, from 1)}; loss {kind (cross_entropy), label_smoothing [0, 1) (0)};
 *          clip {kind (none)|value|layer, limit}; checkpoint_every (0: only at the end)
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

enum np_op {
    NP_OP_IDENTITY,
    NP_OP_MHA,       /* heads: causal self-attention */
    NP_OP_FFN,       /* ratio, act */
    NP_OP_GLU,       /* gated linear unit */
    NP_OP_CONV1D,    /* kernel: causal convolution along time, C to C */
    NP_OP_SEPCONV1D, /* kernel: depthwise, then pointwise */
    NP_OP_LIGHTCONV, /* kernel, heads: softmax-normalised weights shared per head */
    NP_OP_EMBEDDING, /* stem: token table + learned positions */
    NP_OP_LM         /* head: norm + output layer + cross entropy */
};

/* One candidate as written; unused fields are 0, so two equal specs are bytewise equal. */
struct np_layer_spec {
    enum np_op op;
    int heads, ratio, kernel;
    enum np_act act;
    float dropout; /* 0 <= p < 1, on the branch before the residual */
};

struct np_block {
    int count;                     /* candidates, 1 .. NP_MAX_CHOICES */
    struct np_layer_spec *choices; /* one array for all neighbours of one `repeat` */
};

enum np_data_kind { NP_DATA_BYTES, NP_DATA_TOKENS };

struct np_data_spec {
    bool given;
    enum np_data_kind kind;
    int file_count;
    char **files;   /* as written; relative to the recipe's directory */
    double part[2]; /* [from, to) of the concatenated tokens */
};

enum np_sampler_kind { NP_SAMPLER_UNIFORM, NP_SAMPLER_FAIR, NP_SAMPLER_SPREAD };

enum np_optimizer_kind { NP_SGD, NP_ADAMW };

struct np_optimizer {
    enum np_optimizer_kind kind;
    double lr, beta1, beta2, eps, weight_decay, momentum;
    bool nesterov;
};

enum np_schedule_kind { NP_LR_CONSTANT, NP_LR_LINEAR, NP_LR_COSINE, NP_LR_INVERSE_SQRT };

enum np_clip_kind {
    NP_CLIP_NONE,
    NP_CLIP_VALUE,
    NP_CLIP_LAYER /* to an L2 norm, each layer by itself */
};

#define NP_MAX_CHOICES 4096
#define NP_MAX_BLOCKS 4096
#define NP_MAX_LAYERS (1 << 20) /* the stem and the head included */
#define NP_MAX_MEMBERS 1024
#define NP_MAX_SPREAD 1024
#define NP_MAX_DELAY 1024
#define NP_MAX_BATCH (1 << 20)
#define NP_MAX_FILES 4096
#define NP_MAX_GRAINS 4096

struct np_recipe {
    char *path;      /* as given, for messages */
    char *directory; /* of path: where relative data files begin */
    uint64_t seed;
    struct np_data_spec train_data, valid_data;
    int vocab, length, width;
    struct np_layer_spec stem, head;
    int block_count;
    struct np_block *blocks;
    bool shared_frozen;
    int delay; /* D >= 1 when not frozen */
    enum np_sampler_kind sampler;
    int spread;                       /* pool of the spread sampler */
    int members;                      /* subnets a step */
    uint64_t steps, checkpoint_every; /* checkpoint_every 0: only at the end */
    int batch, grain;                 /* samples; grain divides batch */
    struct np_optimizer optimizer;
    enum np_schedule_kind schedule;
    uint64_t warmup;
    double label_smoothing;
    enum np_clip_kind clip;
    double clip_limit;

    char *canonical; /* NUL-terminated */
    size_t canonical_bytes;
    struct np_digest digest;
};

/* path "-" is standard input. `sets` are "key.path=value" overrides, applied before checking. */
enum np_status np_recipe_read(struct np_recipe *recipe, const char *path, const char *const *sets,
                              size_t set_count, struct np_error *err);
void np_recipe_clear(struct np_recipe *recipe);

/* Names as in recipes: "mha", "gelu", ... */
const char *np_op_name(enum np_op op);
const char *np_act_name(enum np_act act);

/* The learning rate of a step: base lr, warmup linear from lr/warmup, then constant; linear to 0 at
 * `steps`; cosine to 0; or lr * sqrt(warmup / (step + 1)). Double arithmetic, rounded once. */
float np_recipe_lr(const struct np_recipe *recipe, uint64_t step);

#endif

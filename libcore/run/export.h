/* Export: the weights of a subnet, or of a whole supernet, as a file of the safetensors format.
 *
 * Format    8 bytes, little-endian: the bytes of the header; the header, JSON and blanks up to a
 *           multiple of 8, of every tensor its type, shape and where it is; then all tensors, one
 *           after the other, row by row in IEEE 754 single precision, little-endian as checkpoints.
 * Names     layer '.' tensor, as manifests and naspipe-numerics(7) have them:
 *           "block03.choice07.up.weight".
 * Shapes    PyTorch's: a linear layer's weight is [N][K], a convolution's [N][C/groups][kh][kw], a
 *           depthwise one's [C][1][kh][kw], and of sequences without kh; what else there is keeps
 *           the shape that it has here. Values are the checkpoint's, bit for bit.
 *           Beside a batch norm's gamma and beta, of a subnet, are those that its evaluation finds:
 *           "norm.running_mean" and "norm.running_var" [C].
 * Errors    those of np_trained_bring and np_evaluate; NP_EINPUT: a header over the format's 100
 *           MB; NP_EMEM; what write returns. NP_ESTOP when stop said so.
 * Ownership borrows everything in the config; np_export_free releases.
 */
#ifndef NP_RUN_EXPORT_H
#define NP_RUN_EXPORT_H

#include "data/data.h"
#include "num/kernels.h"
#include "run/trained.h"

struct np_export_config {
    const struct np_supernet *net;
    struct np_trained *trained;       /* on the host */
    const uint16_t *choices;          /* [blocks]; NULL: every layer */
    const struct np_data *train_data; /* where a subnet has a batch norm; else NULL will do */
    const struct np_kernels *kernels;
    int threads; /* that find statistics */
    bool (*stop)(void *context);
    enum np_status (*write)(void *context, const void *bytes, size_t n, struct np_error *err);
    void *context;
};

struct np_export;

/* Finds the statistics, and what the file will have. */
enum np_status np_export_new(struct np_export **out, const struct np_export_config *config,
                             struct np_error *err);
void np_export_free(struct np_export *e);

/* Of the whole file. */
uint64_t np_export_bytes(const struct np_export *e);
/* The file from its beginning on; one layer at a time is in memory. */
enum np_status np_export_write(struct np_export *e, struct np_error *err);

#endif

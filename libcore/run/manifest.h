/* Manifests: what a checkpoint consists of.
 *
 * A manifest is text: four header lines, one line a stored layer, sorted by name, and the SHA-256
 * of all that:
 *
 *     naspipe manifest/1
 *     recipe <64 hex digits>
 *     data <64 hex digits>
 *     step <steps completed>
 *     <64 hex digits>  <updates>  <name>
 *     end <64 hex digits>
 *
 * The digest of a line is the SHA-256 of the layer's canonical bytes (weights, then moments, as
 * little-endian binary32, no padding). A layer that was never updated has no line, for its value is
 * its address; but in a run that has inherited weights all layers have one. `stem@-1` is the
 * version before the latest of a layer read with a delay, and so on. The SHA-256 of the manifest's
 * own bytes is the digest of the run; nothing in it depends on how the run was made.
 *
 * Errors    NP_EDATA with file:line for anything that is not exactly of this form; NP_EIO; NP_EMEM.
 * Ownership np_manifest_clear.
 */
#ifndef NP_RUN_MANIFEST_H
#define NP_RUN_MANIFEST_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "io/digest.h"

#define NP_ENTRY_NAME 64

struct np_manifest_entry {
    struct np_digest digest;
    uint64_t updates;
    char name[NP_ENTRY_NAME];
};

struct np_manifest {
    struct np_digest recipe, data;
    uint64_t step;
    size_t count, capacity;
    struct np_manifest_entry *entries;
};

enum np_status np_manifest_add(struct np_manifest *manifest, const struct np_digest *digest,
                               uint64_t updates, const char *name, struct np_error *err);
/* Sorts the entries, writes checkpoints/NNNNNNNNNN.manifest of the run directory, durably, complete
 * or not at all. *digest is the digest of the run. */
enum np_status np_manifest_write(struct np_manifest *manifest, const char *run,
                                 struct np_digest *digest, struct np_error *err);
enum np_status np_manifest_read(struct np_manifest *manifest, const char *path,
                                struct np_digest *digest, struct np_error *err);
void np_manifest_clear(struct np_manifest *manifest);

/* The steps of all complete checkpoints of a run directory, ascending; the caller frees *steps. */
enum np_status np_manifest_list(uint64_t **steps, size_t *count, const char *run,
                                struct np_error *err);
/* "RUN/checkpoints/0000000500.manifest" and "RUN/objects"; the caller frees them. */
enum np_status np_manifest_path(char **path, const char *run, uint64_t step, struct np_error *err);
enum np_status np_manifest_objects(char **path, const char *run, struct np_error *err);

#endif

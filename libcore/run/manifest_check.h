/* Whether a manifest of the right form can be that of a checkpoint: a shared layer was updated by
 * every step, a candidate by some of them and one of each block by each; and of a layer read with a
 * delay all versions that later steps may read are there; of a run that has inherited weights, all
 * layers are.
 *
 * Errors    NP_EDATA, with the manifest's path; NP_EMEM.
 */
#ifndef NP_RUN_MANIFEST_CHECK_H
#define NP_RUN_MANIFEST_CHECK_H

#include "run/manifest.h"
#include "space/supernet.h"

/* The name of a layer's entry: "stem", or "stem@-1" of a version so many before the latest; `out`
 * holds NP_ENTRY_NAME bytes. */
void np_manifest_name(const struct np_supernet *net, uint32_t layer, int back, char *out);
/* The layer of an entry's name, and how many versions before the latest it is. */
enum np_status np_manifest_layer(const struct np_manifest_entry *entry, const char *path,
                                 const struct np_supernet *net, uint32_t *layer, uint64_t *back,
                                 struct np_error *err);

/* Reads and checks the manifest after `step` completed steps; its path, which messages name, is the
 * caller's to free, and both are after an error. NP_EINPUT: it is of another recipe than the digest
 * `recipe` says (NULL: the net's), or of other training data than `data`, unless that is NULL. */
enum np_status np_manifest_load(struct np_manifest *manifest, char **path, struct np_digest *digest,
                                const char *run, uint64_t step, const struct np_supernet *net,
                                const struct np_digest *recipe, const struct np_digest *data,
                                struct np_error *err);

enum np_status np_manifest_check(const struct np_manifest *manifest, const char *path,
                                 const struct np_supernet *net, struct np_error *err);

#endif

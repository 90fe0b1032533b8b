/* np-partition --estimate: what each candidate layer takes, one line a layer, or what subnets do,
 * one line a subnet; without a plan.
 *
 * Columns   of a layer block, candidate, kind; parameters; moment_bytes; activation_bytes of a
 *           sample in flight, as the memory model counts them; floating-point operations of a
 *           sample and nanoseconds of a micro-batch, each of forward, backward (input) and weight
 *           (with its share of the update); multiply-adds of a sample's forward pass; of a subnet
 *           the candidates.
 */
#ifndef NP_CMD_ESTIMATE_H
#define NP_CMD_ESTIMATE_H

#include "base/buf.h"
#include "plan/partition.h"

/* Tab-separated, the columns' names first; of the layers, or of the subnets of a stream. Costs are
 * those of the stages, threads and micro-batches asked for, each 1 unless given. NP_EINPUT: illegal
 * micro-batches, a bad stream. */
enum np_status estimate_write(struct np_buf *out, const struct np_supernet *net,
                              const struct np_partition_request *request, const char *subnets,
                              struct np_error *err);

#endif

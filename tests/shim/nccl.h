/* Stands in for NCCL's header, with as much of it as libcore/cuda calls: sends and receives of one
 * process.
 *
 * A send meets its receive: what a rank is told in one group is one piece of work of its stream,
 * which lasts until each of its sends and receives has met the other rank's, in the order of
 * calls, in work that has come to the head of its own stream. A communicator that is not blocking
 * is in progress after a group, for a few looks at it, before the work is in the stream at all.
 *
 * Caught  two ranks on one device (ncclInvalidUsage, as NCCL says); sizes that differ; a
 *         communicator that is used while in progress or after its end, with streams that are not
 *         its device's, or with memory that is not its device's; a buffer that is written while it
 *         is under way. Ranks that wait for each other in a circle: the program ends and says who
 *         waits for whom. What is received is filled with NaN patterns until it has come.
 * Tests   choose by the environment:
 *         SHIM_FAIL  CALL:N, as in cuda_runtime.h; of ncclCommGetAsyncError: what it finds
 *         SHIM_HANG  CALL:N: what the Nth call of ncclSend, ncclRecv, ncclCommInitRankConfig or
 *                    ncclCommFinalize begins never ends
 *         SHIM_SWAP  N: the receiving rank of the Nth group gets that after its next one
 */
#ifndef NP_TEST_NCCL_H
#define NP_TEST_NCCL_H

#include "cuda_runtime.h"

typedef struct ncclComm *ncclComm_t;

typedef struct {
    char internal[128];
} ncclUniqueId;

typedef enum {
    ncclSuccess,
    ncclUnhandledCudaError,
    ncclSystemError,
    ncclInternalError,
    ncclInvalidArgument,
    ncclInvalidUsage,
    ncclRemoteError,
    ncclInProgress
} ncclResult_t;

typedef enum { ncclChar } ncclDataType_t;

typedef struct {
    size_t size;
    int blocking;
} ncclConfig_t;
#define NCCL_CONFIG_INITIALIZER                                                                    \
    {                                                                                              \
        sizeof(ncclConfig_t), 1                                                                    \
    }

ncclResult_t ncclGetVersion(int *version);
const char *ncclGetErrorString(ncclResult_t result);
const char *ncclGetLastError(ncclComm_t comm);
ncclResult_t ncclGetUniqueId(ncclUniqueId *id);
ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int count, ncclUniqueId id, int rank,
                                    ncclConfig_t *config);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state);
ncclResult_t ncclCommFinalize(ncclComm_t comm);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommAbort(ncclComm_t comm);
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream);

#endif

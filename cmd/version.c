#include "version.h"

#include <openssl/crypto.h>
#include <yaml.h>
#include <zstd.h>

#include "cuda/cuda_device.h"
#include "num/kernels.h"

void version_print(FILE *out, const char *tool)
{
    char cuda[64], nccl[64];
    fprintf(out, "%s (naspipe) %s\n", tool, NP_VERSION);
    fprintf(out, "numerics: portable/1\ncompiler: %s\n", __VERSION__);
    fprintf(out, "instruction sets:");
    for (int isa = 0; isa < NP_ISA_COUNT; isa++)
        if (np_kernels_get((enum np_isa)isa))
            fprintf(out, " %s", np_isa_name((enum np_isa)isa));
    fprintf(out, "\nlibraries: libyaml %s, zstd %s, %s\n", yaml_get_version_string(),
            ZSTD_versionString(), OpenSSL_version(OPENSSL_VERSION));
    np_cuda_version(cuda, sizeof cuda);
    np_cuda_nccl_version(nccl, sizeof nccl);
    fprintf(out, "CUDA: %s; NCCL: %s; MPI: not built\n", cuda, nccl);
}

#include "version.h"

#include <jansson.h>
#include <openssl/crypto.h>
#include <yaml.h>
#include <zstd.h>

#include "cuda/cuda_device.h"
#include "mpi/mpi_device.h"
#include "num/kernels.h"
#include "num/numerics.h"

void version_print(FILE *out, const char *tool)
{
    char cuda[64], nccl[64], lt[64], mpi[64];
    fprintf(out, "%s (naspipe) %s\n", tool, NP_VERSION);
    fprintf(out, "numerics: %s", np_numerics_list[0].name);
    for (int i = 1; i < NP_NUMERICS_COUNT; i++)
        fprintf(out, ", %s", np_numerics_list[i].name);
    fprintf(out, "\ncompiler: %s\nflags: %s\ninstruction sets:", __VERSION__, NP_FLAGS);
    for (int isa = 0; isa < NP_ISA_COUNT; isa++)
        if (np_kernels_get((enum np_isa)isa))
            fprintf(out, " %s", np_isa_name((enum np_isa)isa));
    fprintf(out, "\nlibraries: libyaml %s, zstd %s, jansson %s, %s\n", yaml_get_version_string(),
            ZSTD_versionString(), JANSSON_VERSION, OpenSSL_version(OPENSSL_VERSION));
    np_cuda_version(cuda, sizeof cuda);
    np_cuda_nccl_version(nccl, sizeof nccl);
    np_cuda_lt_version(lt, sizeof lt);
    np_mpi_version(mpi, sizeof mpi);
    fprintf(out, "CUDA: %s; NCCL: %s; cuBLASLt: %s; MPI: %s\n", cuda, nccl, lt, mpi);
}

# naspipe: one non-recursive makefile. `make help` lists the targets.
# User variables (CC CFLAGS CPPFLAGS LDFLAGS PREFIX DESTDIR WERROR SAN V) are left to the user; ours
# begin with NP_.

CC       ?= cc
AR       ?= ar
PKG_CONFIG ?= pkg-config
PREFIX   ?= $(or $(prefix),/usr/local)
SAN      ?=
# Sanitized code, and code optimized when it is linked, makes compilers warn of what is not there;
# tarballs meet compilers of any age.
LTO      := $(findstring -flto,$(CC) $(CFLAGS) $(LDFLAGS))
WERROR   ?= $(if $(SAN)$(LTO),,$(if $(wildcard .git),-Werror))
V        ?=
BUILD    ?= build$(if $(SAN),-$(SAN))
# For addresses, -O1 compiles in seven tenths of the time that -O2 takes; threads' tests want -O2.
CFLAGS   ?= $(if $(SAN),$(if $(findstring thread,$(SAN)),-O2,-O1) -g1,-O3 -g)

Q        := $(if $(V),,@)
SAY       = @$(if $(V),:,printf '%-6s %s\n' $(1) $(2))

VERSION  := 0.1.0
TOOLS    := np-partition np-train np-predict-trace np-evaluate np-evolve np-derive np-export \
            np-verify

NP_PACKAGES := yaml-0.1 libzstd libcrypto jansson liburing
NP_CPPFLAGS := -Ilibcore -D_POSIX_C_SOURCE=200809L -D_DEFAULT_SOURCE \
               -DNP_VERSION='"$(VERSION)"' -MMD -MP
NP_WARNINGS := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla \
               -Wformat=2 -Wundef $(WERROR)
# Clang also warns of branches that constants rule out, of loops that it unrolls in its own way, and
# of fields that are zero.
COMPILER := $(shell $(CC) --version)
CLANG    := $(findstring clang,$(COMPILER))
NP_WARNINGS += $(if $(CLANG),-Wno-array-bounds -Wno-pass-failed -Wno-missing-field-initializers)
NP_SANITIZE := $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer \
               $(if $(findstring undefined,$(SAN)),-fno-sanitize-recover=all))
# The numeric flags come last: no user flag may switch contraction or fast-math on, or round
# constants to floats.
NP_NUMERIC  := -ffp-contract=off -fno-fast-math -fno-math-errno -fno-trapping-math \
               $(if $(CLANG),,-fno-single-precision-constant)
NP_CFLAGS    = -std=c11 -pthread $(NP_WARNINGS) $(CFLAGS) $(NP_SANITIZE) $(NP_NUMERIC)
NP_LIBS      = $(shell $(PKG_CONFIG) --libs $(NP_PACKAGES)) -lm -pthread

# A file name that ends in an instruction set is compiled for it, where the target has it; not for
# AVX-512 under a sanitizer: the text is the same as AVX2's, but for vectors. Sanitized kernels are
# compact (num/loops.h), or they take minutes to compile.
TARGET   := $(shell $(CC) -dumpmachine)
AVX512   := $(if $(SAN),,here)
ISA      := $(if $(filter x86_64%,$(TARGET)),avx2 $(if $(AVX512),avx512)) \
            $(if $(filter aarch64%,$(TARGET)),neon)
NP_CPPFLAGS += $(if $(AVX512),,-DNP_NO_AVX512) $(if $(SAN),-DNP_COMPACT)
FOREIGN  := $(patsubst %,\%_%.c,$(filter-out $(ISA),avx2 avx512 neon))

# CUDA=1 compiles the kernels for GPUs, with NVIDIA's compiler, and links them into the tools, as
# CUDA=auto does where there is one; and NCCL and cuBLASLt, unless they are not there or NCCL=0,
# CUBLASLT=0.
CUDA     ?= 0
CUDA_HOME ?= /usr/local/cuda
NVCC     ?= $(firstword $(shell command -v nvcc) $(wildcard $(CUDA_HOME)/bin/nvcc))
ifeq ($(CUDA),auto)
override CUDA := $(if $(NVCC),1,0)
endif
NCCL     ?= $(if $(wildcard $(CUDA_HOME)/include/nccl.h /usr/include/nccl.h),1,0)
CUBLASLT ?= $(if $(wildcard $(CUDA_HOME)/include/cublasLt.h),1,0)
NP_SHARED_LIBS := $(if $(filter 1,$(NCCL)),-lnccl) $(if $(filter 1,$(CUBLASLT)),-lcublasLt)
NP_CUDA_LIBS = -L$(CUDA_HOME)/lib64 -Wl,-rpath,$(CUDA_HOME)/lib64 $(NP_SHARED_LIBS) \
               -lcudart_static -ldl -lrt -lstdc++
# First what takes NVIDIA's compiler a minute.
CUDA_SRC := libcore/cuda/cuda_conv.cu \
            $(filter-out %/cuda_conv.cu,$(sort $(wildcard libcore/cuda/*.cu)))
CUDA_REAL := $(filter-out $(if $(filter 1,$(NCCL)),,%_nccl.cu) \
             $(if $(filter 1,$(CUBLASLT)),,%_cublaslt.cu),$(CUDA_SRC))
CUDA_OBJ := $(CUDA_REAL:%.cu=$(BUILD)/%.o)
# Without kernels: C++, which takes NVIDIA's compiler a tenth of the time.
CUDA_HOST := crew cublaslt device graphs nccl peer
CUDA_CPP := $(filter $(CUDA_HOST:%=\%/cuda_%.o),$(CUDA_OBJ))
KERNEL_OBJ := $(filter-out $(CUDA_CPP),$(CUDA_OBJ))
$(CUDA_CPP): NVCCFLAGS += -x c++
ifeq ($(CUDA),1)
CUDA_BIN := $(CUDA_OBJ)
NP_LIBS  += $(NP_CUDA_LIBS)
endif

# MPI, where pkg-config knows one (Debian's choice, Open MPI or MPICH), is linked into the tools,
# unless MPI=0; MPI_PACKAGE says which. GCC takes MPICH's MPI_STATUSES_IGNORE for an array.
MPI_PACKAGE ?= $(firstword $(foreach p,mpi-c ompi-c mpich,$(shell $(PKG_CONFIG) --exists $p && \
                                                                    echo $p)))
MPI      ?= $(if $(MPI_PACKAGE),1,0)
ifeq ($(MPI),auto)
override MPI := $(if $(MPI_PACKAGE),1,0)
endif
ifneq ($(filter-out 0 1,$(CUDA) $(MPI)),)
$(error CUDA and MPI are 0, 1 or auto, not '$(filter-out 0 1,$(CUDA) $(MPI))')
endif
ifeq ($(MPI),1)
MPI_OBJ  := $(BUILD)/libcore/mpi/wire_mpi.o
NP_MPI_LIBS := $(shell $(PKG_CONFIG) --libs $(MPI_PACKAGE))
NP_MPI_INC := $(patsubst -I%,-isystem %,$(shell $(PKG_CONFIG) --cflags-only-I $(MPI_PACKAGE)))
$(MPI_OBJ): NP_ISA = $(NP_MPI_INC) $(if $(CLANG),,-Wno-stringop-overflow)
endif

# What takes longest to compile comes first, so that no processor has nothing to do at the end.
LIB_SRC  := $(filter-out %/wire_mpi.c,$(sort $(wildcard libcore/*/*.c)))
LIB_SRC  := $(filter libcore/num/kernels_% libcore/num/gemm_%,$(LIB_SRC)) \
            $(filter-out libcore/num/kernels_% libcore/num/gemm_%,$(LIB_SRC))
LIB_OBJ  := $(patsubst %.c,$(BUILD)/%.o,$(filter-out $(FOREIGN),$(LIB_SRC)))
LIB      := $(BUILD)/libnaspipe.a
CMD_SRC  := $(sort $(wildcard cmd/*.c))
CMD_OBJ  := $(CMD_SRC:%.c=$(BUILD)/%.o)
CLI_OBJ  := $(filter-out $(TOOLS:%=$(BUILD)/cmd/%.o),$(CMD_OBJ))
BIN      := $(patsubst cmd/%.c,$(BUILD)/%,$(wildcard $(TOOLS:%=cmd/%.c)))
UNIT_SRC := $(sort $(wildcard tests/unit/test_*.c))
UNIT_BIN := $(UNIT_SRC:%.c=$(BUILD)/%)
UNIT_AUX := $(patsubst %.c,$(BUILD)/%.o,\
            $(filter-out $(UNIT_SRC) %/backends_far.c,$(wildcard tests/unit/*.c)))

all: $(BIN)

$(BUILD)/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call SAY,CC,$<)
	$(Q)$(CC) $(NP_CPPFLAGS) $(CPPFLAGS) $(NP_CFLAGS) $(NP_ISA) -c -o $@ $<

# Operators heed what kernels say (num/kernels.h).
$(BUILD)/libcore/ops/%.o: NP_CPPFLAGS += -DNP_OPERATORS

# Not compact for the thread sanitizer: products, whose sums would lie in memory, which it sees.
ifneq ($(findstring thread,$(SAN)),)
$(BUILD)/libcore/num/gemm_%.o: CFLAGS = -O1 -g1 -UNP_COMPACT
endif

# Where a debugger finds the variables of unrolled kernels is a third of the time they take.
NP_UNROLLED := $(if $(findstring -g,$(CFLAGS)),-g1)
# Or how fast their loops are depends on the length of functions before them in the file.
NP_UNROLLED += -falign-functions=64
# A quarter of GCC's time there went into looking back for what loads may alias.
$(BUILD)/libcore/num/kernels_%.o: NP_UNROLLED += \
    $(if $(CLANG),,--param sccvn-max-alias-queries-per-access=50)
$(BUILD)/%_avx2.o: NP_ISA = -mavx2 -mfma -mno-avx512f $(NP_UNROLLED)
$(BUILD)/%_avx512.o: NP_ISA = -mavx512f -mavx512dq -mavx512vl -mfma -mprefer-vector-width=512 \
                              $(NP_UNROLLED) $(AVX512_CFLAGS) $(NP_NUMERIC)
$(BUILD)/%_neon.o: NP_ISA = $(NP_UNROLLED)

$(LIB): $(LIB_OBJ)
	@rm -f $@
	$(call SAY,AR,$@)
	$(Q)$(AR) rcs $@ $^

$(BIN): $(BUILD)/%: $(BUILD)/cmd/%.o $(CLI_OBJ) $(CUDA_BIN) $(MPI_OBJ) $(LIB)
	$(call SAY,LINK,$@)
	$(Q)$(CC) $(NP_CFLAGS) $(LDFLAGS) -o $@ $^ $(NP_LIBS) $(NP_MPI_LIBS)

$(UNIT_BIN): $(BUILD)/%: $(BUILD)/%.o $(UNIT_AUX) $(LIB)
	$(call SAY,LINK,$@)
	$(Q)$(CC) $(NP_CFLAGS) $(LDFLAGS) -Wl,--wrap=_mark_point -o $@ \
	    $(filter %.o,$^) $(LIB) $(NP_LIBS) $(shell $(PKG_CONFIG) --libs check)

# Tests of kernels by way of what is sent to other processes (libcore/mpi/calls.h).
FAR_BIN  := $(patsubst %,$(BUILD)/far/test_%,kernels kernels_vision)
$(FAR_BIN): $(BUILD)/far/%: $(BUILD)/tests/unit/%.o $(BUILD)/tests/unit/backends_far.o \
    $(UNIT_AUX) $(LIB)
	@mkdir -p $(@D)
	$(call SAY,LINK,$@)
	$(Q)$(CC) $(NP_CFLAGS) $(LDFLAGS) -Wl,--wrap=_mark_point -o $@ \
	    $(filter-out %/backends.o,$(filter %.o,$^)) $(LIB) $(NP_LIBS) \
	    $(shell $(PKG_CONFIG) --libs check)

# A file of this text, which is written when the text is another.
define REMEMBER
@mkdir -p $(@D)
@echo '$(subst ','\'',$(1))' | cmp -s - $@ || echo '$(subst ','\'',$(1))' > $@
endef

# Rebuild everything when the compiler or a flag changes.
FLAGS_NOW := $(CC) $(CXX) $(CFLAGS) $(CPPFLAGS) $(NP_CPPFLAGS) $(NP_WARNINGS) $(NP_SANITIZE) \
             $(NP_NUMERIC) $(NP_UNROLLED) $(AVX512_CFLAGS) $(LDFLAGS) CUDA=$(CUDA) NCCL=$(NCCL) \
             CUBLASLT=$(CUBLASLT) MPI=$(MPI) $(NP_MPI_INC) $(NP_MPI_LIBS)
$(BUILD)/flags: FORCE
	$(call REMEMBER,$(FLAGS_NOW))

# What --version says of them: those that may be chosen, and those that make the arithmetic what it
# is; not those that keep the path of a build out of what is built.
UNMAPPED    = $(filter-out -ffile-prefix-map=% -fdebug-prefix-map=% -fmacro-prefix-map=%,$(1))
FLAGS_SAID := $(strip $(call UNMAPPED,$(CPPFLAGS) $(CFLAGS) $(LDFLAGS)) $(NP_SANITIZE) \
                      $(NP_NUMERIC))
$(BUILD)/cmd/version.o: NP_ISA = '-DNP_FLAGS="$(subst ','\'',$(subst ",\",$(FLAGS_SAID)))"'

# What ranks of one job must have in common, and times that were measured (libcore/mpi/calls.h,
# libcore/plan/profile_cache.h).
SOURCES_NOW := $(shell cat $(sort $(wildcard libcore/*/*.[ch] libcore/*/*.cu libcore/*/*.cuh)) | \
                       sha256sum | cut -c 1-12)
$(BUILD)/sources: FORCE
	$(call REMEMBER,$(SOURCES_NOW))
NAMED := $(BUILD)/libcore/mpi/calls.o $(BUILD)/libcore/plan/profile_cache.o
$(NAMED): $(BUILD)/sources
$(NAMED): NP_ISA = -DNP_SOURCES='"$(SOURCES_NOW)"' $(COMPILED)
$(BUILD)/libcore/plan/profile_cache.o: COMPILED = -DNP_COMPILED='"$(COMPILED_NOW)"'
COMPILED_NOW = $(shell echo '$(subst ','\'',$(call UNMAPPED,$(FLAGS_NOW)) $(COMPILER))' | \
                       sha256sum | cut -c 1-6)

# --- tests ---------------------------------------------------------------------------------------

# The scalar code calls a function for every fused multiply-add, as not all processors of its kind
# have them. Where this one has, tests that wait for it have it compiled for them; the others, of
# them test_ops with all operators, and the tools have it as it is. Sanitized, none has.
COMPARING := attention conv dwconv engine evaluate kernels kernels_far kernels_vision matmul
FMA       := $(if $(filter x86_64%,$(TARGET)),$(shell grep -wom1 fma /proc/cpuinfo))
ifneq ($(SAN),)
$(BUILD)/libcore/num/%_scalar.o: NP_ISA = $(FMA:%=-m%)
else
REFERENCE := $(if $(FMA),$(patsubst %.c,$(BUILD)/reference/%.o,$(wildcard libcore/num/*_scalar.c)))
endif
$(COMPARING:%=$(BUILD)/tests/unit/test_%) $(FAR_BIN): $(REFERENCE)

$(BUILD)/reference/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call SAY,CC,$<)
	$(Q)$(CC) $(NP_CPPFLAGS) $(CPPFLAGS) $(NP_CFLAGS) -mfma -c -o $@ $<

# Everything, in full. Under the sanitizers, which are ten times slower, and in emulators the same
# code in a covering subset: small teams alone (backends.h), few large shapes, a few of the
# matrix of engines for each recipe, whose bits are the plain build's affair (team_run.h, tiny.h),
# as are test_training's numbers; and under the thread sanitizer only tests that start threads, with
# a quarter of the recipes; test_ops runs every kernel in teams. Of the tools, what they do with
# options, recipes and damaged files, and one run or more of most of the rest. Of CUDA, trainings,
# for the host's code: what kernels touch, and that it is theirs, tests/shim sees itself in the
# plain build. There the kernels have such a subset, too, but for products and convolutions, whose
# tiles depend on shapes; check-cuda has all of it.
THREADED := alarm arena engine evaluate ops ranks residence run scoring staging stash stop team \
            transport weights
TRIED    := $(if $(findstring thread,$(SAN)),$(THREADED:%=$(BUILD)/tests/unit/test_%), \
            $(filter-out $(if $(SAN),%/test_training),$(UNIT_BIN)) $(FAR_BIN))

UNSANITIZED := $(patsubst %,tests/cli/%.bats,balanced-cuts completions device-memory fuzz install \
               manual recompute shapes)
CLI      := $(filter-out $(if $(SAN),$(UNSANITIZED)),$(wildcard tests/cli/*.bats))
# What takes longest comes first, so that no processor has nothing to do at the end.
LONG     := %/training.bats %/device-memory.bats %/test_engine %/test_residence %/test_matmul \
            %/test_conv %/test_ops %/test_transport %/test_stash %/fast.bats %/mpi.bats \
            %/np-train.bats %/resume.bats %/inherit.bats %/hostile.bats
# A sanitized program is one process: another for every test, and a look for leaks after it, take
# longer than most of them.
run-tests = NP_TEST_FULL=$(if $(SAN)$(SHORT),0,1) NP_BIN='$(abspath $(BUILD))' LC_ALL=C \
            $(if $(SAN),CK_FORK=no) tests/run-tests \
            $(filter $(LONG),$(1)) $(filter-out $(LONG),$(1))

check-unit: $(TRIED)
	@$(call run-tests,$(TRIED))

check-cli: $(BIN) completions
	@$(call run-tests,$(CLI))

check: check-programs completions
	@$(call run-tests,$(TRIED) $(SHIM_SHORT) $(CLI))
check-programs: $(TRIED) $(BIN)

# Random recipes by random plans for FUZZ_SECONDS, beginning with FUZZ_SEED (tests/fuzz/run).
fuzz: $(BIN)
	@NP_BIN='$(abspath $(BUILD))' tests/fuzz/run

# The same bits on another machine: the tools cross-built, the numeric tests under an emulator, and
# runs that must equal this machine's. Needs the packages of `.ci/deps aarch64`. Kernels are compact
# (num/loops.h): in the emulator they are as fast, and compile in a fifth of the time; GCC warns of
# arrays in their loops that it would keep in registers otherwise.
AARCH64  := BUILD=build-aarch64 CC=aarch64-linux-gnu-gcc AR=aarch64-linux-gnu-ar \
            PKG_CONFIG=aarch64-linux-gnu-pkg-config HERE='$(abspath $(BUILD))' \
            CPPFLAGS='-DNP_COMPACT -Wno-array-bounds -Wno-maybe-uninitialized'
RUNNER   ?= qemu-aarch64
EMULATED := conv matmul attention dwconv elementary jitter kernels kernels_reference \
            kernels_vision ops_forward reference weights engine team

check-aarch64: $(BIN)
	+@$(MAKE) --no-print-directory $(AARCH64) check-emulated

check-emulated: compare-machines $(EMULATED:%=emulated-%)
compare-machines: $(BIN)
	@NP_BIN='$(HERE)' tests/compare-machines $(RUNNER) $(BUILD)
$(EMULATED:%=emulated-%): emulated-%: $(BUILD)/tests/unit/test_%
	@CK_FORK=no $(RUNNER) $<
emulated-engine: export CK_RUN_CASE = recorded

# AVX-512's code on machines that have AVX2 only: its intrinsics from SIMDe (tests/simde/avx512.h),
# its loops compact, as those of sanitized builds.
SIMDE_OBJ   := $(patsubst %.c,$(BUILD)/simde/%.o,$(filter %_avx512.c,$(LIB_SRC)) \
               tests/simde/backends.c)
SIMDE_TESTS := conv matmul attention dwconv kernels kernels_vision
SIMDE_BIN   := $(SIMDE_TESTS:%=$(BUILD)/simde/test_%)

$(BUILD)/simde/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call SAY,CC,$<)
	$(Q)$(CC) -include tests/simde/avx512.h $(NP_CPPFLAGS) -Itests/unit $(CPPFLAGS) \
	    -DNP_COMPACT $(NP_CFLAGS) -Og -g1 -mavx2 -mfma -Wno-psabi -c -o $@ $<

$(SIMDE_BIN): $(BUILD)/simde/%: $(BUILD)/tests/unit/%.o $(SIMDE_OBJ) $(REFERENCE) $(UNIT_AUX) \
    $(LIB)
	$(call SAY,LINK,$@)
	$(Q)$(CC) $(NP_CFLAGS) $(LDFLAGS) -Wl,--wrap=_mark_point -o $@ \
	    $(filter-out $(BUILD)/tests/unit/backends.o,$^) $(NP_LIBS) $(shell $(PKG_CONFIG) --libs check)

check-avx512: SHORT = yes
check-avx512: $(SIMDE_BIN)
	@$(call run-tests,$(SIMDE_BIN))

# Formatting, scripts, manual pages, headers that compile alone, and a library that is silent.
lint: $(LIB)
	@.ci/lint $(LIB)

# --- CUDA ----------------------------------------------------------------------------------------

# CUDA's sources compiled for the CPU (tests/shim), the tests of the table linked with them, and the
# tools that work on them: neither a GPU nor its compiler is needed.
CXX        ?= c++
SHIM_OBJ   := $(CUDA_SRC:%.cu=$(BUILD)/shim/%.o) \
              $(patsubst %.cc,$(BUILD)/%.o,$(wildcard tests/shim/[!t]*.cc))
SHIM_TOOLS := $(patsubst %,$(BUILD)/shim/np-%,train partition evaluate)
SHIM_TESTS := kernels kernels_vision matmul attention conv dwconv ops parts weights
SHIM_BIN   := $(SHIM_TESTS:%=$(BUILD)/shim/test_%)
SHIM_OWN   := $(patsubst tests/%.cc,$(BUILD)/%,$(wildcard tests/shim/test_*.cc))
NP_CXXFLAGS = -std=c++20 -pthread -fno-exceptions -fno-rtti -fno-strict-aliasing -Wall -Wextra \
              -Wno-unknown-pragmas -Wno-missing-field-initializers $(WERROR) $(CFLAGS) \
              $(NP_SANITIZE) $(NP_NUMERIC) $(if $(FMA),-mavx2 -mfma)
NP_SHIM     = $(NP_CPPFLAGS) -DNP_CUDA_LT_WORKSPACE=65536 -DNP_CUDA_SCRATCH_MORE=4194304 \
              -DNP_CUDA_GRAPH_LAUNCHES=1024 -DNP_ATTENTION_SCORES=32768 \
              -DNP_ATTENTION_OFFSETS=4096 -Itests/shim -Itests/unit $(CPPFLAGS) $(NP_CXXFLAGS)

# What kernels touch is looked at by tests/shim/races.cc, which is this sanitizer's library there.
# The address sanitizer does not know a GPU's memory: kernels are left to the others, in half the
# time, the host's code is not.
SHIM_HOST := $(patsubst %,$(BUILD)/shim/libcore/cuda/cuda_%.o,$(CUDA_HOST) fast)
$(BUILD)/shim/%.o $(BUILD)/tests/shim/test_%.o: NP_SEEN = \
    $(if $(SAN),$(if $(filter $(SHIM_HOST),$@),,-fno-sanitize=address),-fsanitize=thread)

$(BUILD)/shim/%.o: %.cu $(BUILD)/flags
	@mkdir -p $(@D)
	$(call SAY,CXX,$<)
	$(Q)$(CXX) $(NP_SHIM) $(NP_SEEN) -c -o $@ -x c++ $<

$(BUILD)/%.o: %.cc $(BUILD)/flags
	@mkdir -p $(@D)
	$(call SAY,CXX,$<)
	$(Q)$(CXX) $(NP_SHIM) $(NP_SEEN) -c -o $@ $<

$(SHIM_OWN): $(BUILD)/shim/%: $(BUILD)/tests/shim/%.o
$(SHIM_BIN): $(BUILD)/shim/%: $(BUILD)/tests/unit/%.o $(REFERENCE)
$(SHIM_BIN) $(SHIM_OWN): $(SHIM_OBJ) $(UNIT_AUX) $(LIB)
	$(call SAY,LINK,$@)
	$(Q)$(CC) $(NP_CFLAGS) $(LDFLAGS) -o $@ \
	    -Wl,--wrap=_mark_point,--wrap=np_alloc,--wrap=free \
	    $(filter-out %/backends.o,$(filter %.o,$^)) $(LIB) $(NP_LIBS) \
	    $(shell $(PKG_CONFIG) --libs check)

$(SHIM_TOOLS): $(BUILD)/shim/%: $(BUILD)/cmd/%.o $(CLI_OBJ) \
    $(filter-out %_shim.o,$(SHIM_OBJ)) $(MPI_OBJ) $(LIB)
	$(call SAY,LINK,$@)
	$(Q)$(CC) $(NP_CFLAGS) $(LDFLAGS) -o $@ $^ $(NP_LIBS) $(NP_MPI_LIBS)

# For real, where NVIDIA's compiler is: every architecture, and a look at the code it makes. Nothing
# in the sources depends on the architecture, so that all have one PTX.
NP_ARCH  := -gencode arch=compute_80,code=[sm_80,sm_90,compute_80]
NP_NVCC   = -std=c++20 -O3 --extended-lambda -Ilibcore -MMD -MP \
            $(if $(WERROR),-Werror all-warnings) $(NVCCFLAGS) \
            --fmad=false -prec-div=true -prec-sqrt=true -ftz=false -Xcompiler=-ffp-contract=off

$(BUILD)/cuda-flags: FORCE
	$(call REMEMBER,$(NVCC) $(NP_NVCC) $(NP_ARCH))

$(BUILD)/%.o: %.cu $(BUILD)/flags $(BUILD)/cuda-flags
	@rm -rf $@.keep && mkdir -p $@.keep
	$(call SAY,NVCC,$<)
	$(Q)$(NVCC) $(NP_NVCC) $(NP_ARCH) -Xptxas -v -keep -keep-dir $@.keep -c -o $@ $< \
	    2> $@.log || { cat $@.log; exit 1; }
	@find $@.keep -type f ! -name '*.ptx' -delete

ifeq ($(NVCC),)
check-cuda-build:
	@echo 'check-cuda-build: skipped: there is no nvcc here' >&2
else
# What tests/gpu/run measures with, on a machine that has a GPU.
GPU_BENCH := $(BUILD)/tests/gpu/bench_gpu \
             $(if $(wildcard $(CUDA_HOME)/include/cupti.h),$(BUILD)/tests/gpu/activity.so)
gpu-bench: $(GPU_BENCH)

check-cuda-build: $(CUDA_OBJ) $(BUILD)/cuda/np-train $(GPU_BENCH)
	@tests/cuda-code $(KERNEL_OBJ:=.log) $(KERNEL_OBJ:=.keep/*.ptx)
	@$(BUILD)/cuda/np-train --version | grep '^CUDA: runtime'

$(BUILD)/tests/gpu/activity.so: tests/gpu/activity.c tests/gpu/busy.h $(BUILD)/flags
	@mkdir -p $(@D)
	$(call SAY,LINK,$@)
	$(Q)$(CC) $(NP_CPPFLAGS) -isystem $(CUDA_HOME)/include $(CPPFLAGS) $(NP_CFLAGS) -fPIC -shared \
	    -o $@ $< -L$(CUDA_HOME)/lib64 -lcupti -Wl,-rpath,$(CUDA_HOME)/lib64
$(BUILD)/tests/gpu/bench_gpu.o: NVCCFLAGS += -Itests/bench
$(BUILD)/tests/gpu/bench_gpu: $(BUILD)/tests/gpu/bench_gpu.o $(CUDA_OBJ) $(LIB)
	$(call SAY,LINK,$@)
	$(Q)$(CC) $(NP_CFLAGS) $(LDFLAGS) -o $@ $^ $(NP_LIBS) -L$(CUDA_HOME)/lib64 -lcublas \
	    $(NP_CUDA_LIBS)

# The tool that CUDA=1 makes.
$(BUILD)/cuda/np-train: $(BUILD)/cmd/np-train.o $(CLI_OBJ) $(CUDA_OBJ) $(MPI_OBJ) $(LIB)
	@mkdir -p $(@D)
	$(call SAY,LINK,$@)
	$(Q)$(CC) $(NP_CFLAGS) $(LDFLAGS) -o $@ $^ $(NP_LIBS) $(NP_MPI_LIBS) $(NP_CUDA_LIBS)
endif

ifneq ($(findstring thread,$(SAN)),)
check: check-cuda
check-cuda:
	@echo 'check-cuda: skipped: it runs in one thread' >&2
else
SHIM_BRIEF := $(patsubst %,$(BUILD)/shim/test_%,kernels kernels_vision attention dwconv ops)
SHIM_PROGRAMS = $(if $(SAN),,$(SHIM_OWN) $(SHIM_BIN)) $(SHIM_TOOLS)
SHIM_TRIED = $(filter-out $(SHIM_TOOLS),$(SHIM_PROGRAMS)) $(wildcard tests/shim/*.bats)
SHIM_SHORT = $(patsubst %,short:%,$(filter $(SHIM_BRIEF),$(SHIM_TRIED))) \
             $(filter-out $(SHIM_BRIEF),$(SHIM_TRIED))
check-programs: $(SHIM_PROGRAMS)
check-cuda: $(SHIM_PROGRAMS) $(BIN)
	@$(call run-tests,$(SHIM_TRIED))
endif

# --- benchmarks ----------------------------------------------------------------------------------

BENCH    := $(patsubst tests/bench/bench_%.c,%,$(wildcard tests/bench/bench_*.c))

# What single benchmarks compare with; nothing else needs OpenBLAS and oneDNN.
$(BUILD)/tests/bench/bench_matmul: NP_BENCH_LIBS = -lopenblas
$(BUILD)/tests/bench/bench_conv: NP_BENCH_LIBS = -lopenblas -ldnnl -lgomp

# What else they are made of; plain loops must not be slower than memory for want of wide vectors.
$(BUILD)/tests/bench/roofs.o: NP_ISA = $(if $(filter x86_64%,$(TARGET)),-mavx2)
BENCH_OBJ := $(patsubst %,$(BUILD)/tests/bench/%.o,kernel_runs roofs timing units vision_runs)
$(BUILD)/tests/bench/bench_kernels: $(BUILD)/tests/bench/kernel_runs.o
$(BUILD)/tests/bench/bench_vision: $(BUILD)/tests/bench/vision_runs.o
$(BUILD)/tests/bench/bench_kernels $(BUILD)/tests/bench/bench_vision: $(BUILD)/tests/bench/units.o
$(BUILD)/tests/bench/bench_kernels $(BUILD)/tests/bench/bench_vision \
    $(BUILD)/tests/bench/bench_cores: $(BUILD)/tests/bench/roofs.o

$(BUILD)/tests/bench/bench_%: $(BUILD)/tests/bench/bench_%.o $(BUILD)/tests/bench/timing.o $(LIB)
	$(call SAY,LINK,$@)
	$(Q)$(CC) $(NP_CFLAGS) $(LDFLAGS) -o $@ $^ $(NP_LIBS) $(NP_BENCH_LIBS)

# np-train with its kernels timed (tests/bench/in_training).
TIMED_OBJ := $(BUILD)/tests/bench/timed_kernels.o
$(BUILD)/tests/bench/np-train: $(BUILD)/cmd/np-train.o $(CLI_OBJ) $(TIMED_OBJ) $(CUDA_BIN) \
    $(MPI_OBJ) $(LIB)
	$(call SAY,LINK,$@)
	$(Q)$(CC) $(NP_CFLAGS) $(LDFLAGS) -Wl,--wrap=np_kernels_best -o $@ $^ $(NP_LIBS) $(NP_MPI_LIBS)

# make bench-ops BENCH_ARGS='RECIPE [SAMPLES [WORD]]'
bench-ops: BENCH_ARGS ?= examples/text-small.yaml
$(BENCH:%=bench-%): bench-%: $(BUILD)/tests/bench/bench_%
	@$< $(BENCH_ARGS) | tests/bench/table

# All of it, one after the other. What cannot be built, for want of its library, is skipped there.
bench: $(BIN)
	-@$(MAKE) --no-print-directory -k bench-programs
	@NP_BUILD=$(BUILD) tests/bench/run
bench-programs: $(BENCH:%=$(BUILD)/tests/bench/bench_%) $(BUILD)/tests/bench/np-train

# --- demo, completions, installation -------------------------------------------------------------

demo: $(BIN)
	@NP_BIN='$(abspath $(BUILD))' examples/demo

SHELLS   := bash zsh fish
COMPLETE := $(foreach s,$(SHELLS),$(BUILD)/completions/naspipe.$(s))
completions: $(COMPLETE)
$(BUILD)/completions/naspipe.%: completions/generate $(BIN)
	@mkdir -p $(@D)
	$(Q)completions/generate $* $(BIN) > $@.new && mv $@.new $@

MAN1     := $(wildcard man/*.1)
MAN5     := $(wildcard man/*.5)
MAN7     := $(wildcard man/*.7)
TO       := "$(DESTDIR)$(PREFIX)"
install: all completions
	install -d $(TO)/bin $(TO)/share/man/man1 $(TO)/share/man/man5 $(TO)/share/man/man7 \
	    $(TO)/share/bash-completion/completions $(TO)/share/zsh/site-functions \
	    $(TO)/share/fish/vendor_completions.d $(TO)/share/naspipe/examples
	install -m 755 $(BIN) $(TO)/bin
	install -m 644 $(MAN1) $(TO)/share/man/man1
	install -m 644 $(MAN5) $(TO)/share/man/man5
	install -m 644 $(MAN7) $(TO)/share/man/man7
	for tool in $(TOOLS); do \
	    install -m 644 $(BUILD)/completions/naspipe.bash \
	        $(TO)/share/bash-completion/completions/$$tool && \
	    install -m 644 $(BUILD)/completions/naspipe.fish \
	        $(TO)/share/fish/vendor_completions.d/$$tool.fish || exit 1; done
	install -m 644 $(BUILD)/completions/naspipe.zsh $(TO)/share/zsh/site-functions/_naspipe
	install -m 644 $(wildcard examples/*.yaml) $(TO)/share/naspipe/examples
	install -m 755 examples/slurm.sh examples/evolve $(TO)/share/naspipe/examples

uninstall:
	if [ -d $(TO)/ ]; then cd $(TO)/ && \
	    rm -f $(TOOLS:%=bin/%) $(MAN1:man/%=share/man/man1/%) $(MAN5:man/%=share/man/man5/%) \
	    $(MAN7:man/%=share/man/man7/%) $(TOOLS:%=share/bash-completion/completions/%) \
	    $(TOOLS:%=share/fish/vendor_completions.d/%.fish) share/zsh/site-functions/_naspipe && \
	    rm -rf share/naspipe; fi

deps:
	@.ci/deps

dist:
	@git rev-parse HEAD > /dev/null 2>&1 || { echo 'make dist: this is no git checkout' >&2; exit 1; }
	@mkdir -p dist
	git archive --prefix=naspipe-$(VERSION)/ -o dist/naspipe-$(VERSION).tar.gz HEAD

clean:
	rm -rf build build-* dist

help:
	@echo 'all check check-unit check-cuda check-cli check-avx512 check-aarch64 check-cuda-build'
	@echo 'lint bench demo deps completions install uninstall dist clean'
	@echo 'fuzz: random recipes and plans; FUZZ_SECONDS=60 FUZZ_SEED=N'
	@echo 'CC CFLAGS CPPFLAGS LDFLAGS PREFIX DESTDIR are yours; give them to make install, too'
	@echo 'SAN=address,undefined|thread; CUDA=0|1|auto NCCL=0 CUBLASLT=0; MPI=0|1|auto MPI_PACKAGE=;'
	@echo 'V=1; WERROR='

# `make deps check` also works with -j: nothing is compiled before its packages are there.
ifneq ($(filter deps,$(MAKECMDGOALS)),)
$(BUILD)/flags: | deps
endif

FORCE:
.PHONY: all check check-unit check-cli check-cuda check-cuda-build check-aarch64 check-avx512 \
        check-emulated check-programs fuzz lint bench demo completions install uninstall deps dist \
        clean help FORCE compare-machines bench-programs gpu-bench $(BENCH:%=bench-%) \
        $(EMULATED:%=emulated-%)
.SECONDARY:
-include $(LIB_OBJ:.o=.d) $(REFERENCE:.o=.d) $(CMD_OBJ:.o=.d) $(UNIT_BIN:=.d) $(UNIT_AUX:.o=.d) \
         $(BUILD)/tests/unit/backends_far.d $(MPI_OBJ:.o=.d) \
         $(BENCH:%=$(BUILD)/tests/bench/bench_%.d) $(BENCH_OBJ:.o=.d) $(TIMED_OBJ:.o=.d) \
         $(SHIM_OBJ:.o=.d) $(SHIM_OWN:$(BUILD)/shim/%=$(BUILD)/tests/shim/%.d) \
         $(CUDA_OBJ:.o=.d) $(SIMDE_OBJ:.o=.d)

// The header of the host unit of a `blockscaled_gemm` kernel that is written in CuTe-DSL (compile/cute_dsl/unit.py
// compiles it beside the kernel's machine code). The functions themselves are in the module's table
// (cute_dsl_host.hpp).
#pragma once

#include <cuda.h>

#include <cstdint>

#include "tilewright/blockscaled_gemm/appended_args.h"
#include "tilewright/descriptor.hpp"
#include "tilewright/program.hpp"

namespace tilewright::blockscaled_gemm::cute_dsl {

// What the host knows of a kernel. A and B have k contiguous, D has n contiguous.
struct Facts {
  int tile_m, tile_n, tile_k;
  int cluster_m, cluster_n;
  int subtile;  // columns of D that a TMA store writes
  int threads, shared_bytes;
  bool pdl;
  Program& (*program)();
  int bits, block;             // of an element of A and B; elements along k that share a scale factor
  CUtensorMapDataType type_d;  // as TMA knows it
  int bytes_d;                 // of an element
  bool swapped;                // the kernel's A is the caller's B; threads store D
  bool by_tma;                 // TMA stores D; if not, threads do
  int k_stages;                // stages of tile_k that a tile takes at a time
  int store_bytes;             // that a thread stores at a time, if threads store rows of D
  bool splits;                 // the thread blocks of a launch's cluster may share a tile along k
  bool activates;              // a call may name an activation
};

// The functions of tilewright_kernel (abi.h).
int32_t can_implement(Facts const& facts, void const* args);
int32_t launch(Facts const& facts, void const* args, void* stream);

// The functions of a kernel's descriptor.
template <class Unit>
struct Calls {
  using Kernel = Unit;
  using Args = tilewright_blockscaled_gemm_appended_args;

  static int32_t can_implement(void const* args) { return cute_dsl::can_implement(Unit::kFacts, args); }

  static int64_t workspace_bytes(void const*) { return 0; }

  static int32_t launch(void const* args, void*, void* stream) { return cute_dsl::launch(Unit::kFacts, args, stream); }
};

}  // namespace tilewright::blockscaled_gemm::cute_dsl

// Defines the descriptor of the kernel NAME. TYPE_D: what follows CU_TENSOR_MAP_DATA_TYPE_ in the driver's name; the
// other arguments are the fields of `Facts`, without `program`.
#define TILEWRIGHT_CUTE_DSL_BLOCKSCALED_GEMM(NAME, TILE_M, TILE_N, TILE_K, CLUSTER_M, CLUSTER_N, SUBTILE, THREADS, \
                                             SHARED_BYTES, PDL, BITS, BLOCK, TYPE_D, BYTES_D, SWAPPED, BY_TMA,     \
                                             K_STAGES, STORE_BYTES, SPLITS, ACTIVATES)                             \
  TILEWRIGHT_PROGRAM(NAME)                                                                                         \
  namespace {                                                                                                      \
  struct Unit {                                                                                                    \
    static constexpr uint32_t kThreads = THREADS, kSharedBytes = SHARED_BYTES;                                     \
    static constexpr tilewright::blockscaled_gemm::cute_dsl::Facts kFacts = {TILE_M,                               \
                                                                             TILE_N,                               \
                                                                             TILE_K,                               \
                                                                             CLUSTER_M,                            \
                                                                             CLUSTER_N,                            \
                                                                             SUBTILE,                              \
                                                                             THREADS,                              \
                                                                             SHARED_BYTES,                         \
                                                                             PDL,                                  \
                                                                             &tilewright_program_of_##NAME,        \
                                                                             BITS,                                 \
                                                                             BLOCK,                                \
                                                                             CU_TENSOR_MAP_DATA_TYPE_##TYPE_D,     \
                                                                             BYTES_D,                              \
                                                                             SWAPPED,                              \
                                                                             BY_TMA,                               \
                                                                             K_STAGES,                             \
                                                                             STORE_BYTES,                          \
                                                                             SPLITS,                               \
                                                                             ACTIVATES};                           \
  };                                                                                                               \
  }                                                                                                                \
  extern "C" __attribute__((visibility("default"))) tilewright_kernel const tilewright_##NAME =                    \
      tilewright::descriptor<tilewright::blockscaled_gemm::cute_dsl::Calls<Unit>>(#NAME);

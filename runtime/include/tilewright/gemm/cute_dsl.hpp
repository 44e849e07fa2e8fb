// The header of the host unit of a `gemm` kernel that is written in CuTe-DSL (compile/cute_dsl/unit.py compiles it
// beside the kernel's machine code). The functions themselves are in the module's table (cute_dsl_host.hpp).
#pragma once

#include <cuda.h>

#include <cstdint>

#include "tilewright/descriptor.hpp"
#include "tilewright/gemm/args.h"
#include "tilewright/program.hpp"

namespace tilewright::gemm::cute_dsl {

// A type of elements, as TMA knows it.
struct Element {
  CUtensorMapDataType type;
  int bytes;
};

constexpr int32_t kAnyAddend = -1;

// What the host knows of a kernel. A and B have k contiguous, D has n contiguous.
struct Facts {
  int tile_m, tile_n, tile_k;
  int cluster_m, cluster_n;
  int subtile;  // columns of D that a TMA store writes
  int threads, shared_bytes;
  int32_t addend;  // the type of C, a tilewright_addend; kAnyAddend: any, and bias and activation, too
  bool pdl;
  Program& (*program)();
  Element operand{CU_TENSOR_MAP_DATA_TYPE_UINT16, 2}, result{CU_TENSOR_MAP_DATA_TYPE_UINT16, 2};
  bool swapped = false;  // the kernel's A is the caller's B; threads store D
  bool splits = false;   // the thread blocks of a launch's cluster may share a tile along k
};

// The functions of tilewright_kernel (abi.h).
int32_t can_implement(Facts const& facts, void const* args);
int32_t launch(Facts const& facts, void const* args, void* stream);

// The functions of a kernel's descriptor.
template <class Unit>
struct Calls {
  using Kernel = Unit;
  using Args = tilewright_gemm_args;

  static int32_t can_implement(void const* args) { return cute_dsl::can_implement(Unit::kFacts, args); }

  static int64_t workspace_bytes(void const*) { return 0; }

  static int32_t launch(void const* args, void*, void* stream) { return cute_dsl::launch(Unit::kFacts, args, stream); }
};

}  // namespace tilewright::gemm::cute_dsl

// Defines the descriptor of the kernel NAME. The arguments after it are the fields of `Facts`, without `program`.
#define TILEWRIGHT_CUTE_DSL_GEMM(NAME, TILE_M, TILE_N, TILE_K, CLUSTER_M, CLUSTER_N, SUBTILE, THREADS, SHARED_BYTES, \
                                 ADDEND, PDL)                                                                        \
  TILEWRIGHT_PROGRAM(NAME)                                                                                           \
  namespace {                                                                                                        \
  struct Unit {                                                                                                      \
    static constexpr uint32_t kThreads = THREADS, kSharedBytes = SHARED_BYTES;                                       \
    static constexpr tilewright::gemm::cute_dsl::Facts kFacts = {TILE_M,                                             \
                                                                 TILE_N,                                             \
                                                                 TILE_K,                                             \
                                                                 CLUSTER_M,                                          \
                                                                 CLUSTER_N,                                          \
                                                                 SUBTILE,                                            \
                                                                 THREADS,                                            \
                                                                 SHARED_BYTES,                                       \
                                                                 ADDEND,                                             \
                                                                 PDL,                                                \
                                                                 &tilewright_program_of_##NAME};                     \
  };                                                                                                                 \
  }                                                                                                                  \
  extern "C" __attribute__((visibility("default"))) tilewright_kernel const tilewright_##NAME =                      \
      tilewright::descriptor<tilewright::gemm::cute_dsl::Calls<Unit>>(#NAME);

// The same of a kernel with the mainloop tcgen05. TYPE_A and TYPE_D: what follows CU_TENSOR_MAP_DATA_TYPE_
// in the driver's name; BYTES_A and BYTES_D: the bytes of an element.
#define TILEWRIGHT_TCGEN05_GEMM(NAME, TILE_M, TILE_N, TILE_K, CLUSTER_M, CLUSTER_N, SUBTILE, THREADS, SHARED_BYTES, \
                                PDL, TYPE_A, BYTES_A, TYPE_D, BYTES_D, SWAPPED, SPLITS)                             \
  TILEWRIGHT_PROGRAM(NAME)                                                                                          \
  namespace {                                                                                                       \
  struct Unit {                                                                                                     \
    static constexpr uint32_t kThreads = THREADS, kSharedBytes = SHARED_BYTES;                                      \
    static constexpr tilewright::gemm::cute_dsl::Facts kFacts = {TILE_M,                                            \
                                                                 TILE_N,                                            \
                                                                 TILE_K,                                            \
                                                                 CLUSTER_M,                                         \
                                                                 CLUSTER_N,                                         \
                                                                 SUBTILE,                                           \
                                                                 THREADS,                                           \
                                                                 SHARED_BYTES,                                      \
                                                                 tilewright::gemm::cute_dsl::kAnyAddend,            \
                                                                 PDL,                                               \
                                                                 &tilewright_program_of_##NAME,                     \
                                                                 {CU_TENSOR_MAP_DATA_TYPE_##TYPE_A, BYTES_A},       \
                                                                 {CU_TENSOR_MAP_DATA_TYPE_##TYPE_D, BYTES_D},       \
                                                                 SWAPPED,                                           \
                                                                 SPLITS};                                           \
  };                                                                                                                \
  }                                                                                                                 \
  extern "C" __attribute__((visibility("default"))) tilewright_kernel const tilewright_##NAME =                     \
      tilewright::descriptor<tilewright::gemm::cute_dsl::Calls<Unit>>(#NAME);

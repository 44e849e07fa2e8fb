// The header of the host unit of a `quantize` kernel that is written in CuTe-DSL (compile/cute_dsl/unit.py compiles it
// beside the kernel's machine code). The functions themselves are in the module's table (cute_dsl_host.hpp).
#pragma once

#include <cstdint>

#include "tilewright/descriptor.hpp"
#include "tilewright/program.hpp"
#include "tilewright/quantize/args.h"

namespace tilewright::quantize::cute_dsl {

// What the host knows of a kernel. Its format is NVFP4.
struct Facts {
  int x_bits;
  int box_rows, box_columns;  // that a thread block takes at a time
  bool by_tma;
  int threads, shared_bytes;
  bool pdl;
  Program& (*program)();
};

// The functions of tilewright_kernel (abi.h).
int32_t can_implement(Facts const& facts, void const* args);
int32_t launch(Facts const& facts, void const* args, void* stream);

// The functions of a kernel's descriptor.
template <class Unit>
struct Calls {
  using Kernel = Unit;
  using Args = tilewright_quantize_args;

  static int32_t can_implement(void const* args) { return cute_dsl::can_implement(Unit::kFacts, args); }

  static int64_t workspace_bytes(void const*) { return 0; }

  static int32_t launch(void const* args, void*, void* stream) { return cute_dsl::launch(Unit::kFacts, args, stream); }
};

}  // namespace tilewright::quantize::cute_dsl

// Defines the descriptor of the kernel NAME. The arguments after it are the fields of `Facts`, without `program`.
#define TILEWRIGHT_CUTE_DSL_QUANTIZE(NAME, X_BITS, BOX_ROWS, BOX_COLUMNS, BY_TMA, THREADS, SHARED_BYTES, PDL) \
  TILEWRIGHT_PROGRAM(NAME)                                                                                    \
  namespace {                                                                                                 \
  struct Unit {                                                                                               \
    static constexpr uint32_t kThreads = THREADS, kSharedBytes = SHARED_BYTES;                                \
    static constexpr tilewright::quantize::cute_dsl::Facts kFacts = {                                         \
        X_BITS, BOX_ROWS, BOX_COLUMNS, BY_TMA, THREADS, SHARED_BYTES, PDL, &tilewright_program_of_##NAME};    \
  };                                                                                                          \
  }                                                                                                           \
  extern "C" __attribute__((visibility("default"))) tilewright_kernel const tilewright_##NAME =               \
      tilewright::descriptor<tilewright::quantize::cute_dsl::Calls<Unit>>(#NAME);

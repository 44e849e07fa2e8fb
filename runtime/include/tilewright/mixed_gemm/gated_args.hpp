// The arguments of gated `mixed_gemm` kernels, which are of the same type as other kernels'. n is the number of W's
// rows, those of gate and of up, and D has half as many columns. The activation is SiLU.
#pragma once

#include "tilewright/mixed_gemm/args.h"

namespace tilewright::mixed_gemm {

// The same problem without a gate: D has a column for each row of W.
inline tilewright_mixed_gemm_args not_gated(tilewright_mixed_gemm_args const& args) {
  tilewright_mixed_gemm_args plain = args;
  plain.activation = TILEWRIGHT_MIXED_ACTIVATION_NONE;
  return plain;
}

// Whether the problem is gated. Each half of W's rows is a multiple of 8.
inline bool is_gated(tilewright_mixed_gemm_args const& args) {
  return args.activation == TILEWRIGHT_MIXED_ACTIVATION_SILU && args.n % 16 == 0;
}

}  // namespace tilewright::mixed_gemm

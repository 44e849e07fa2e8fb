// Gated activations: D = silu(A B_gate) * (A B_up), where the columns of one B are those of B_gate, then those of B_up.
//
// A thread must hold the sums of gate and up of the same elements of D. So the rows of B in a stage (of the kernel's
// own A where operands are swapped) alternate: 8 of B_gate, then the same 8 of B_up. TMA loads them in this order from
// the caller's B, by a tensor map of five dimensions:
//
//   k (bytes), 8 rows, 2 halves, n / 16 pairs of 8 rows, matrices of the batch
//
// 8 rows of 128 bytes are one atom of the 128-byte swizzle, so stages, main loop and wgmma are those of other kernels.
// gated_epilogue.hpp says which accumulators of a thread belong together.
#pragma once

#include "tilewright/sm90/epilogue_params.hpp"

namespace tilewright::sm90 {

// The activation that gated kernels are compiled with. Their launches name the activation of the gate instead, kSilu.
constexpr Activation kSiluMul = static_cast<Activation>(static_cast<int>(Activation::kGiven) + 1);

constexpr int kPairedRows = 16;  // rows of a pair: 8 of B_gate and 8 of B_up

}  // namespace tilewright::sm90

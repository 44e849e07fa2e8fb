// Gated activations: D = silu(A B_gate) * (A B_up), where the columns of one B are those of B_gate, then those of B_up.
//
// A kernel's rows of B (its own A where operands are swapped) alternate: 8 of B_gate, then the same 8 of B_up. TMA
// loads them so from B as the caller has it, by a tensor map of five dimensions:
//
//   k (bytes), 8 rows, 2 halves, n / 16 pairs of 8 rows, matrices of the batch
//
// 8 rows of 128 bytes are one atom of the 128-byte swizzle, so stages, main loop and wgmma are those of other kernels.
// A thread then holds the sums of gate and up of the same elements of D: in column groups 2i and 2i + 1 of its
// accumulators, or, where operands are swapped, in rows r and r + 8 of one column group.
#pragma once

#include "tilewright/sm90/epilogue_params.hpp"

namespace tilewright::sm90 {

// What gated kernels are compiled with. A launch does not name it: it names the activation of the gate, kSilu.
constexpr Activation kSiluMul = static_cast<Activation>(static_cast<int>(Activation::kGiven) + 1);

constexpr int kPairedRows = 16;  // rows of a pair: 8 of each half

}  // namespace tilewright::sm90

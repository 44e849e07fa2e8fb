// The types that `blockscaled_gemm` kernels of mma.sync and their host code share. A module's table has the host code
// once, for all units (mma_host.hpp).
#pragma once

#include <cuda.h>

#include <cstdint>

#include "tilewright/blockscaled_gemm/args.h"
#include "tilewright/gemm/lean_params.hpp"

namespace tilewright::blockscaled_gemm::mma {

// The parameters of the lean `gemm` kernels, and the scale factors.
struct Params : gemm::lean::Params {
  int row_blocks_a, row_blocks_b;  // of 128 rows, in the scale factors of a matrix
  CUtensorMap scales_a, scales_b;
};

// How an operand lies in a stage.
struct OperandFacts {
  int bits;               // of an element
  int row_bytes;          // of a box
  int atom_rows;          // whose scale factors are loaded together, of each 128
  int atoms, row_blocks;  // of scale factors in a stage, along k and along rows
};

// What the host knows of a kernel. The kernel's A and B are the caller's B and A where operands are swapped.
struct Facts {
  // As a product of bytes: of elements of 8 bits, or of pairs of FP4 if both operands have it. C and the bias have D's
  // type.
  gemm::lean::Facts bytes;
  OperandFacts a, b;
  int boxes;  // of a stage
  int block;  // elements of k that share a factor
};

// The functions of tilewright_kernel (abi.h).
int32_t can_implement(Facts const& facts, void const* args);
int64_t workspace_bytes(Facts const& facts, void const* args);
int32_t launch(Facts const& facts, void const* args, void* workspace, void* stream);

}  // namespace tilewright::blockscaled_gemm::mma

// The parameters of kernels that split k through a workspace (parts.hpp), and of the kernel that adds the parts
// up.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "tilewright/sm90/divisor.hpp"
#include "tilewright/sm90/epilogue_params.hpp"

namespace tilewright::sm90 {

// The k ranges of every tile. Blocks of all matrices for the first part come first, then those for the second.
struct Parts {
  int count;                     // of k ranges; 1: the workspace is not used
  int matrices;                  // of the batch
  Divisor blocks;                // of a part
  float4* sums;                  // in the workspace
  int tiles_down, tiles_across;  // of a matrix, with those outside of D that the last clusters have

  // The part that block number `block` computes.
  __device__ __forceinline__ int of(int block) const { return count > 1 ? blocks.divide(block) : 0; }

  // Where the sums of a tile begin; a tile has `count` float4s. `matrix` counts the matrices of all parts.
  __device__ __forceinline__ float4* tile(int row, int column, int matrix, int count) const {
    int const number = (matrix * tiles_across + column) * tiles_down + row;
    return sums + int64_t(number) * count;
  }

  // Tiles of all matrices in one part.
  __host__ __device__ int tiles() const { return matrices * tiles_down * tiles_across; }
};

// Threads of the kernel that adds up.
constexpr int kCombineThreads = 128, kCombineWarps = kCombineThreads / 32;
constexpr int kCombineAtOnce = 4;  // parts that a warp loads at a time

// How many warps divide `parts` parts of the same float4s among them: 1, 2 or 4.
constexpr int combine_shares(int parts) {
  return parts <= kCombineAtOnce ? 1 : parts <= 2 * kCombineAtOnce ? 2 : kCombineWarps;
}

struct CombineParams {
  Parts parts;
  int shares;  // combine_shares
  EpilogueParams epilogue;
};

}  // namespace tilewright::sm90

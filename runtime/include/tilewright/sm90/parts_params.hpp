// The parameters of the two kernels of a split k through a workspace (parts.hpp): what host and device share.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "tilewright/sm90/divisor.hpp"
#include "tilewright/sm90/epilogue_params.hpp"

namespace tilewright::sm90 {

// The k ranges ("parts") of every tile, and where their sums lie. In the order of blocks (Raster), all blocks of the
// first part come first, then those of the second.
struct Parts {
  int count;                     // of k ranges; 1: the workspace is not used
  int matrices;                  // of the batch
  Divisor blocks;                // of a part
  float4* sums;                  // in the workspace
  int tiles_down, tiles_across;  // of a matrix, in whole clusters: some may lie outside of D

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

// Threads and warps of a CTA of the second kernel.
constexpr int kCombineThreads = 128, kCombineWarps = kCombineThreads / 32;
constexpr int kCombineAtOnce = 4;  // parts that a warp loads at a time

// How many warps divide the parts of a float4 among them: 1, 2 or 4. `parts`: how many parts a tile has.
constexpr int combine_shares(int parts) {
  return parts <= kCombineAtOnce ? 1 : parts <= 2 * kCombineAtOnce ? 2 : kCombineWarps;
}

struct CombineParams {
  Parts parts;
  int shares;  // combine_shares
  EpilogueParams epilogue;
};

}  // namespace tilewright::sm90

// What a launch tells kernels whose parts of k meet in memory, and the kernel that adds them up (parts.hpp).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "tilewright/sm90/divisor.hpp"
#include "tilewright/sm90/epilogue_params.hpp"

namespace tilewright::sm90 {

struct Parts {
  int count;       // of k; 1: nothing goes to memory
  int matrices;    // of the batch. Blocks of all of them for the first part come first, then those for the next
  Divisor blocks;  // of a part
  float4* sums;    // in the workspace
  int tiles_down, tiles_across;  // of a matrix, with those of the last clusters that do not exist

  // Which part of k a block is of.
  __device__ __forceinline__ int of(int block) const { return count > 1 ? blocks.divide(block) : 0; }

  // Where sums of one of a part's tiles begin, each of `count` float4s. `matrix` counts those of all parts.
  __device__ __forceinline__ float4* tile(int row, int column, int matrix, int count) const {
    int const number = (matrix * tiles_across + column) * tiles_down + row;
    return sums + int64_t(number) * count;
  }

  // Tiles of all matrices, of one part.
  __host__ __device__ int tiles() const { return matrices * tiles_down * tiles_across; }
};

// Of the kernel that adds up.
constexpr int kCombineThreads = 128, kCombineWarps = kCombineThreads / 32;
constexpr int kCombineAtOnce = 4;  // parts of a share, on their way together

// Warps that add up some of so many parts each, for the same float4s: 1, 2 or 4.
constexpr int combine_shares(int parts) {
  return parts <= kCombineAtOnce ? 1 : parts <= 2 * kCombineAtOnce ? 2 : kCombineWarps;
}

struct CombineParams {
  Parts parts;
  int shares;  // combine_shares
  EpilogueParams epilogue;
};

}  // namespace tilewright::sm90

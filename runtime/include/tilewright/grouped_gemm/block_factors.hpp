// How a warp of the producer brings scale factors of 128x128 blocks from global memory into the stages.
#pragma once

#include <cstdint>

#include "tilewright/sm90/ptx.hpp"
#include "tilewright/sm90/scaled_layout.hpp"

namespace tilewright::grouped_gemm {

// The scale factors of a tile, for 32 blocks of k at a time, a block for each lane: `current` holds the factors of
// these blocks, and the loads of the next 32 blocks are under way into `next`. So no stage except the first waits for
// global memory.
template <class Layout, int Boxes>
struct BlockFactors {
  static_assert(32 % Boxes == 0);
  sm90::BlockScales const& blocks;
  int matrix, row, k;  // `k`: the first stage's first block of 128 of k
  float current[Layout::kBlocks + 1], next[Layout::kBlocks + 1];

  __device__ __forceinline__ BlockFactors(sm90::BlockScales const& scales, int of_matrix, int first_row, int first_k)
      : blocks(scales), matrix(of_matrix), row(first_row), k(first_k) {
    if constexpr (Layout::kBlocks > 0) {
      prefetch(0);
    }
  }

  // Issues the loads for 32 blocks of k, which begin `from` blocks after the first stage's first block. Blocks are
  // clamped to k, because the last stage may reach beyond it.
  __device__ __forceinline__ void prefetch(int from) {
    int64_t const block = min(k + from + static_cast<int>(threadIdx.x) % 32, blocks.k - 1);
#pragma unroll
    for (int i = 0; i < Layout::kBlocks; ++i) {
      next[i] = __ldg(blocks.at(matrix, row + i * sm90::kScaleBlock) + block * blocks.k_stride);
    }
  }

  // Stores a stage's factors to shared memory: for each box, the lane that holds them does, and arrives at the stage's
  // `full`. `from`: the stage's first block, counted from the first stage's.
  __device__ __forceinline__ void store(uint32_t shared, int stage, uint32_t full, int from) {
    if (from % 32 == 0) {
#pragma unroll
      for (int i = 0; i < Layout::kBlocks; ++i) {
        current[i] = next[i];
      }
      prefetch(from + 32);
    }
    int const lane = threadIdx.x % 32, box = lane - from % 32;
    if (box >= 0 && box < Boxes) {
#pragma unroll
      for (int i = 0; i < Layout::kBlocks; ++i) {
        sm90::store_float(Layout::blocks(shared, stage, box) + i * 4, current[i]);
      }
      sm90::barrier_arrive(full);
    }
  }
};

}  // namespace tilewright::grouped_gemm

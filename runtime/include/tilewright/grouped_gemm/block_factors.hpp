// Scale factors of blocks of 128x128, on their way from memory into the stages, by a warp of the producer's.
#pragma once

#include <cstdint>

#include "tilewright/sm90/ptx.hpp"
#include "tilewright/sm90/scaled_layout.hpp"

namespace tilewright::grouped_gemm {

// The factors of a tile's blocks, of 32 blocks of k at a time: each lane of a warp holds one's, and has asked for
// that of 32 further on. A stage waits for no memory but its own.
template <class Layout, int Boxes>
struct BlockFactors {
  static_assert(32 % Boxes == 0);
  sm90::BlockScales const& blocks;
  int matrix, row, k;  // block of k, of the first stage
  float held[Layout::kBlocks + 1], next[Layout::kBlocks + 1];

  __device__ __forceinline__ BlockFactors(sm90::BlockScales const& scales, int of_matrix, int first_row, int first_k)
      : blocks(scales), matrix(of_matrix), row(first_row), k(first_k) {
    if constexpr (Layout::kBlocks > 0) {
      ask(0);
    }
  }

  // Of 32 blocks, from `from` on, behind the first stage's. The last stage may reach beyond k.
  __device__ __forceinline__ void ask(int from) {
    int64_t const block = min(k + from + static_cast<int>(threadIdx.x) % 32, blocks.k - 1);
#pragma unroll
    for (int i = 0; i < Layout::kBlocks; ++i) {
      next[i] = __ldg(blocks.at(matrix, row + i * sm90::kScaleBlock) + block * blocks.k_stride);
    }
  }

  // Those of a stage whose first block is number `from`, to its memory: each box by a lane, which tells the barrier.
  __device__ __forceinline__ void store(uint32_t shared, int stage, uint32_t full, int from) {
    if (from % 32 == 0) {
#pragma unroll
      for (int i = 0; i < Layout::kBlocks; ++i) {
        held[i] = next[i];
      }
      ask(from + 32);
    }
    int const lane = threadIdx.x % 32, box = lane - from % 32;
    if (box >= 0 && box < Boxes) {
#pragma unroll
      for (int i = 0; i < Layout::kBlocks; ++i) {
        sm90::store_float(Layout::blocks(shared, stage, box) + i * 4, held[i]);
      }
      sm90::barrier_arrive(full);
    }
  }
};

}  // namespace tilewright::grouped_gemm

// The main loop of scaled_mainloop.hpp with fewer instructions between wgmmas, in rounds of four stages without a
// branch. The factor of a column is known at compile time: the loop has a copy for each place in a tile where one block
// of 128 columns ends. For 128x160, a stage has 131 instructions instead of 154. That matters because the tensor core
// idles while both warpgroups promote.
#pragma once

#include <cstdint>

#include "tilewright/sm90/mainloop.hpp"
#include "tilewright/sm90/ptx.hpp"
#include "tilewright/sm90/scaled_layout.hpp"
#include "tilewright/sm90/scaled_mainloop.hpp"
#include "tilewright/sm90/wgmma.hpp"

namespace tilewright::sm90 {

// `Element`, as a kernel's A whose main loop runs in rounds: the mark selects the specialisation below.
template <class Element>
struct InRounds : Element {};

// For warpgroups of 64 rows with factors of rows, columns with factors of at most two blocks, and 128 of k in a stage.
template <class A, class B, class Layout, int TileM, int TileN, int N, int Stages>
struct ScaledMainloop<InRounds<A>, B, Layout, Scales::kRows, Scales::kBlocks, Promotion::kAfter, TileM, TileN, 1, N, 1,
                      Stages>
    : ScaledMainloop<A, B, Layout, Scales::kRows, Scales::kBlocks, Promotion::kAfter, TileM, TileN, 1, N, 1, Stages> {
  using Base =
      ScaledMainloop<A, B, Layout, Scales::kRows, Scales::kBlocks, Promotion::kAfter, TileM, TileN, 1, N, 1, Stages>;
  static constexpr int kCount = Base::kCount, kUnit = Base::kUnit;
  static constexpr int kRound = 4;  // stages
  static constexpr int kBlocks = Layout::kBlocks;
  static_assert(kBlocks <= 2);

  // As Base::run.
  __device__ __forceinline__ void run(int k_tiles, int column, uint32_t, float (&sum)[1][kCount]) {
    in_rounds<1>(k_tiles, (kScaleBlock - column % kScaleBlock) / kUnit, sum[0]);
  }

 private:
  // Runs the copy of the loop for `split`, the number of units of columns that have the first block's factor. It is at
  // least `kSplit`.
  template <int kSplit>
  __device__ __forceinline__ void in_rounds(int k_tiles, int split, float (&sum)[kCount]) {
    if constexpr (kBlocks == 2 && kSplit < N / kUnit && kSplit < kScaleBlock / kUnit) {
      if (split > kSplit) {
        in_rounds<kSplit + 1>(k_tiles, split, sum);
        return;
      }
    }
    float part[kCount];
    for (; k_tiles >= kRound; k_tiles -= kRound) {
#pragma unroll
      for (int i = 0; i < kRound; ++i) {
        multiply_stage<kSplit>(part, sum);
      }
    }
#pragma unroll 1
    for (; k_tiles > 0; --k_tiles) {
      multiply_stage<kSplit>(part, sum);
    }
  }

  // Waits for, multiplies and promotes a stage. The wait comes first, so that ptxas tests the barrier while the
  // previous stage is promoted.
  template <int kSplit>
  __device__ __forceinline__ void multiply_stage(float (&part)[kCount], float (&sum)[kCount]) {
    int const stage = this->at.stage;
    barrier_wait(Layout::full(this->shared, stage), this->at.phase);
    this->at.next();
    uint32_t const blocks = Layout::blocks(this->shared, stage, 0);
    uint32_t const own_rows = Layout::scales_a(this->shared, stage) + this->own_row;
    float const columns[2] = {load_float(blocks), kBlocks == 2 ? load_float(blocks + 4) : 0.0f};
    float const rows[2] = {load_float(own_rows), load_float(own_rows + 32)};

    uint64_t const begin = swizzled_descriptor(Layout::a(this->shared, 0));
    uint64_t const a = behind(begin, this->first_row * 8 + stage * (Layout::kStageA / 16));
    uint64_t const b =
        behind(begin, Stages * Layout::kStageA / 16 + this->first_column * 8 + stage * (Layout::kStageB / 16));
    hold(part);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      wgmma<A, B, N>(part, behind(a, step * 2), behind(b, step * 2), step > 0);
    }
    wgmma_commit();
    wgmma_wait<0>();
    hold(part);

    // The stage is released after all lanes' loads of factors have returned (`zero_after`).
    uint32_t const loaded =
        __float_as_uint(rows[0]) | __float_as_uint(rows[1]) | __float_as_uint(columns[0]) | __float_as_uint(columns[1]);
    __syncwarp();
    this->release(stage + static_cast<int>(loaded & this->zero));
#pragma unroll
    for (int i = 0; i < kCount; ++i) {  // a column group: two columns of the thread's upper row, two of the lower one
      bool const beyond = kBlocks == 2 && i / 4 * 8 / kUnit >= kSplit;
      sum[i] += rows[i / 2 % 2] * columns[beyond] * part[i];
    }
  }
};

}  // namespace tilewright::sm90

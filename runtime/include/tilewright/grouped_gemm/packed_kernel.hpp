// The `grouped_gemm` kernel of mma.sync (mma_kernel.hpp) with UE8M0 scale factors, by which the instruction multiplies.
// Both operands have a factor for 32 or 128 of k of each row, and four factors lie in a word. Words lie as DeepGEMM
// lays them: in lines, which hold the words of one block of k for all rows, one row after another.
#pragma once

#include <cstdint>
#include <type_traits>

#include "tilewright/grouped_gemm/mma_kernel.hpp"
#include "tilewright/sm120/block_scaled_mainloop.hpp"

namespace tilewright::grouped_gemm {

// Loads one line of words for each stage, for kernels in which a word holds the factors of several stages.
template <class Kernel>
struct LineProducers {
  using Params = typename Kernel::Params;
  using Layout = typename Kernel::Layout;
  static constexpr int kBytes = (Kernel::TileM + Kernel::TileN) * 4;
  static constexpr int kStagesOfLine = 4 * Kernel::kBlock / Kernel::kTileBytesK;
  static_assert(4 * Kernel::kBlock % Kernel::kTileBytesK == 0);

  static __device__ __forceinline__ void run(Params const& params, uint32_t shared, sm90::ClusterPlace const& place,
                                             bool loading_warp, bool epilogue_through_smem) {
    if (threadIdx.x / 32 - Kernel::kConsumers * 4 == 2) {
      load_lines(params, shared, place);
    } else {
      Producers<Kernel>::run(params, shared, place, loading_warp, epilogue_through_smem);
    }
  }

 private:
  static __device__ __forceinline__ void load_lines(Params const& params, uint32_t shared,
                                                    sm90::ClusterPlace const& place) {
    bool const leader = sm90::elect_one();
    sm90::Position<Kernel::Stages> at{};
    TileQueue queue(shared + Kernel::kQueueAt);
    Tile tile;
    for (; queue.wait(tile); queue.pop(tile)) {
      CtaTile<Kernel> const cta_tile(params, place, tile);
#pragma unroll 1
      for (int i = 0; i < cta_tile.k_tiles; ++i) {
        uint32_t const full = Layout::full(shared, at.stage);
        sm90::barrier_wait(Layout::empty(shared, at.stage), at.phase ^ 1);
        if (leader) {
          int const line = i / kStagesOfLine;
          sm90::barrier_expect(full, kBytes);
          sm90::copy_box(Layout::scales_a(shared, at.stage), &params.scales_a, full, cta_tile.a_row, line,
                         cta_tile.a_matrix, params.policy_a);
          sm90::copy_box(Layout::scales_b(shared, at.stage), &params.scales_b, full, cta_tile.b_row, line,
                         cta_tile.b_matrix, params.policy_b);
        }
        at.next();
      }
      __syncwarp();
    }
  }
};

// FloatStage with packed scale factors. `kBlock`: elements of k that share a factor, 32 or 128.
template <class A, class B, int Boxes, int kBlock_>
struct PackedStage : FloatStage<A, B, Boxes, false, false, Scales::kRows, Scales::kRows> {
  static constexpr int kBlock = kBlock_, kPackedBlock = kBlock_;

  template <class Layout, int TileM, int TileN, int Rows, int N, int Stages>
  using Mainloop = sm120::BlockScaledMainloop<sm120::WideOperands<sm120::MmaMxf8<A, B>>,
                                              sm120::WordLines<Layout, TileM, TileN, Rows, N, kBlock>, Layout, Rows, N,
                                              Boxes, Stages>;
  // A word of blocks of 32 belongs to a box, as a factor of F32 does.
  template <class Kernel>
  using Producers = std::conditional_t<kBlock == 32, grouped_gemm::Producers<Kernel>, LineProducers<Kernel>>;
};

template <class A, class B, class ElementD, int TileM, int TileN, int Boxes, int Stages, bool kSwapped, int kBlock,
          int kStoreBuffers, bool kPdl>
using PackedKernel =
    StagedKernel<PackedStage<A, B, Boxes, kBlock>, ElementD, TileM, TileN, Stages, kSwapped, kStoreBuffers, kPdl>;

}  // namespace tilewright::grouped_gemm

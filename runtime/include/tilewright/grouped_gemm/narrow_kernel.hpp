// The `grouped_gemm` kernel of mma.sync for FP8 with UE8M0 scale factors (packed_kernel.hpp), with stages of 64 bytes
// of k, so that twice as many stages fit beside a large tile. A word of scale factors serves two or eight stages, and
// each stage loads the line that it needs. Groups that divide k are refused: their tensor maps have rows of 128 bytes.
#pragma once

#include <cstdint>

#include "tilewright/grouped_gemm/packed_kernel.hpp"
#include "tilewright/grouped_gemm/row_stages.hpp"
#include "tilewright/sm120/narrow_words.hpp"

namespace tilewright::grouped_gemm {

// PackedStage with half a box.
template <class A, class B, int kBlock>
struct NarrowStage : PackedStage<A, B, 1, kBlock> {
  static constexpr int kTileBytesK = sm120::kNarrowRowBytes;
  static constexpr int kBitsA = 8, kBitsB = 8, kRowBytesA = kTileBytesK, kRowBytesB = kTileBytesK;
  static constexpr bool kMapsOfGroups = false;

  template <int TileM, int TileN, int Stages, int StoreBytes>
  using Layout = RowLayout<TileM, TileN, kRowBytesA, kRowBytesB, 1, 1, Stages, StoreBytes>;
  template <class Layout, int TileM, int TileN, int Rows, int N, int Stages>
  using Mainloop = sm120::BlockScaledMainloop<sm120::NarrowOperands<sm120::MmaMxf8<A, B>>,
                                              sm120::NarrowWordLines<Layout, TileM, TileN, Rows, N, kBlock>, Layout,
                                              Rows, N, 1, Stages>;
  template <class Layout, int, int, int Stages>
  using Producer = RowProducer<Layout, kRowBytesA, kRowBytesB, 1, Stages>;
  template <class Kernel>
  using Producers = LineProducers<Kernel>;
};

template <class A, class B, class ElementD, int TileM, int TileN, int Stages, bool kSwapped, int kBlock,
          int kStoreBuffers, bool kPdl>
using NarrowKernel =
    StagedKernel<NarrowStage<A, B, kBlock>, ElementD, TileM, TileN, Stages, kSwapped, kStoreBuffers, kPdl>;

}  // namespace tilewright::grouped_gemm

// The `grouped_gemm` kernel of mma.sync for FP4 operands (E2M1, two to a byte), and for FP8 beside FP4. Each row has a
// UE8M0 scale factor for 32 of k, as DeepGEMM lays them. It is the kernel of mma_kernel.hpp with stages of its own.
// Groups that divide k are refused: their tensor maps are those of operands of bytes.
#pragma once

#include <cstdint>
#include <type_traits>

#include "tilewright/grouped_gemm/mma_kernel.hpp"
#include "tilewright/grouped_gemm/row_stages.hpp"
#include "tilewright/sm120/block_scaled_mainloop.hpp"
#include "tilewright/sm120/block_scaled_operands.hpp"
#include "tilewright/sm120/box_words.hpp"

namespace tilewright::grouped_gemm {

// A policy as FloatStage, for stages of `TileK` elements of k. `A` and `B` are the elements of the kernel's own
// operands, E2m1 or E4m3: those of the caller's B and A where they are swapped. A row of a box has 64 bytes in two
// cases: FP4 beside FP8, which is unpacked when it is read, and two FP4 operands with stages of 64 bytes. Otherwise it
// has 128 bytes.
template <class A, class B, int TileK>
struct Fp4Stage {
  template <class Element>
  static constexpr bool kIsFp4 = std::is_same_v<Element, sm120::E2m1>;
  static_assert(kIsFp4<A> || kIsFp4<B>);
  static constexpr int kBitsA = kIsFp4<A> ? 4 : 8, kBitsB = kIsFp4<B> ? 4 : 8;
  static constexpr bool kMixed = kBitsA != kBitsB;
  static constexpr int kLine = kMixed ? TileK : TileK / 2;  // bytes of k of the wider operand
  static constexpr bool kNarrow = kLine == 64;
  static_assert(kNarrow || kLine % 128 == 0);
  static constexpr int kBoxes = kNarrow ? 1 : kLine / 128;
  static constexpr int kWords = TileK / 128, kWordsOfBox = kWords / kBoxes;  // of scale factors of a row
  using Mma = std::conditional_t<kMixed, sm120::MmaMxf8<A, B>, sm120::MmaMxf4>;
  template <class Element>
  using RowsOf =
      std::conditional_t<kNarrow, sm120::NarrowRows,
                         std::conditional_t<kMixed && kIsFp4<Element>, sm120::UnpackedRows, sm120::WideRows>>;
  using Operands = sm120::BlockScaledOperands<Mma, RowsOf<A>, RowsOf<B>, kNarrow ? 2 : sm120::kSteps>;
  static constexpr int kRowBytesA = Operands::RowsA::kBytes, kRowBytesB = Operands::RowsB::kBytes;

  // The code that other kernels share treats an operand as one of bytes.
  struct ElementA {
    static constexpr int kBytes = 1;
  };
  using ElementB = ElementA;
  static constexpr int kPackedBlock = 32;
  static constexpr int Boxes = kWords;  // the shared code loads as many lines of scale factors for a stage
  static constexpr int kTileBytesK = TileK;
  static constexpr bool kMnA = false, kMnB = false, kScaled = true, kMapsOfGroups = false;
  static constexpr Scales kOwnScalesA = Scales::kRows, kOwnScalesB = Scales::kRows;

  template <int TileM, int TileN, int Stages, int StoreBytes>
  using Layout = RowLayout<TileM, TileN, kRowBytesA, kRowBytesB, kBoxes, kWords, Stages, StoreBytes>;
  template <class Layout, int TileM, int TileN, int Rows, int N, int Stages>
  using Mainloop = sm120::BlockScaledMainloop<Operands, sm120::BoxWordLines<Layout, TileM, TileN, Rows, N, kWordsOfBox>,
                                              Layout, Rows, N, kBoxes, Stages>;
  template <class Layout, int, int, int Stages>
  using Producer = RowProducer<Layout, kRowBytesA, kRowBytesB, kBoxes, Stages>;
  template <class Kernel>
  using Producers = grouped_gemm::Producers<Kernel>;
};

template <class A, class B, class ElementD, int TileM, int TileN, int TileK, int Stages, bool kSwapped,
          int kStoreBuffers, bool kPdl>
using Fp4Kernel = StagedKernel<Fp4Stage<A, B, TileK>, ElementD, TileM, TileN, Stages, kSwapped, kStoreBuffers, kPdl>;

}  // namespace tilewright::grouped_gemm

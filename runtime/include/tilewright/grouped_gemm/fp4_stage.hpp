// How FP4 operands (E2M1, two to a byte), and FP8 beside FP4, lie in the stages of a `grouped_gemm` kernel of mma.sync,
// with UE8M0 scale factors of 32 of k, and how they are loaded.
#pragma once

#include <cstdint>
#include <type_traits>

#include "tilewright/sm120/block_scaled_operands.hpp"
#include "tilewright/sm90/cluster.hpp"
#include "tilewright/sm90/pipeline.hpp"
#include "tilewright/sm90/producer.hpp"
#include "tilewright/sm90/ptx.hpp"

namespace tilewright::grouped_gemm {

// A stage of `TileK` elements of k. A box's row has 128 bytes, or 64: of FP4 beside FP8, which is unpacked when it is
// read, and of two FP4 operands whose stage is that short.
template <class A, class B, int TileK>
struct Fp4Stage {
  template <class Element>
  static constexpr bool kIsFp4 = std::is_same_v<Element, sm120::E2m1>;
  static_assert(kIsFp4<A> || kIsFp4<B>);
  static constexpr bool kMixed = kIsFp4<A> != kIsFp4<B>;
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
};

// The shared memory of a kernel, as sm90::ScaledLayout has it: the stages of A, those of B, the epilogue's buffers,
// the stages' scale factors, the barriers. A stage has `Words` lines of factors of each operand.
template <int TileM, int TileN, int RowBytesA, int RowBytesB, int Boxes, int Words, int Stages, int StoreBytes>
struct Fp4Layout {
  static constexpr int lines(int rows) { return (Words * rows * 4 + 127) / 128 * 128; }  // TMA writes to multiples

  static constexpr int kBoxA = TileM * RowBytesA, kBoxB = TileN * RowBytesB;
  static constexpr int kStageA = Boxes * kBoxA, kStageB = Boxes * kBoxB;
  static_assert(kStageA % 1024 == 0 && kStageB % 1024 == 0, "boxes begin at multiples of their swizzle's pattern");
  static constexpr int kScalesA = lines(TileM), kScalesB = lines(TileN);
  static constexpr int kScaleBytes = Words * 4 * (TileM + TileN);  // that TMA writes to a stage
  static constexpr int kBlocks = 0;                                // no factor serves several rows
  static constexpr int kStoresAt = Stages * (kStageA + kStageB);
  static constexpr int kScalesAt = kStoresAt + StoreBytes;
  static constexpr int kBarriersAt = kScalesAt + Stages * (kScalesA + kScalesB);
  static constexpr int kBytes = kBarriersAt + Stages * 16;

  static __device__ __forceinline__ uint32_t a(uint32_t shared, int stage) { return shared + stage * kStageA; }
  static __device__ __forceinline__ uint32_t b(uint32_t shared, int stage) {
    return shared + Stages * kStageA + stage * kStageB;
  }
  static __device__ __forceinline__ uint32_t scales_a(uint32_t shared, int stage) {
    return shared + kScalesAt + stage * (kScalesA + kScalesB);
  }
  static __device__ __forceinline__ uint32_t scales_b(uint32_t shared, int stage) {
    return scales_a(shared, stage) + kScalesA;
  }
  static __device__ __forceinline__ uint32_t full(uint32_t shared, int stage) {
    return shared + kBarriersAt + stage * 8;
  }
  static __device__ __forceinline__ uint32_t empty(uint32_t shared, int stage) {
    return shared + kBarriersAt + (Stages + stage) * 8;
  }
};

// Loads stages, as sm90::Producer does, without multicast, and with rows of each operand's own bytes.
template <class Layout, int RowBytesA, int RowBytesB, int Boxes, int Stages>
struct Fp4Producer {
  uint32_t shared;
  sm90::Position<Stages> at{};

  __device__ __forceinline__ explicit Fp4Producer(uint32_t memory) : shared(memory) {}

  // Called by one thread.
  __device__ __forceinline__ void run(sm90::ClusterShape const&, sm90::OperandLoads const& loads,
                                      sm90::TileKRange const& range) {
    int box = range.first * Boxes;  // along k
#pragma unroll 1
    for (int i = 0; i < range.count; ++i) {
      uint32_t const full = Layout::full(shared, at.stage);
      sm90::barrier_wait(Layout::empty(shared, at.stage), at.phase ^ 1);
      sm90::barrier_expect(full, Layout::kStageA + Layout::kStageB);
#pragma unroll
      for (int in_stage = 0; in_stage < Boxes; ++in_stage, ++box) {
        sm90::copy_box(Layout::a(shared, at.stage) + in_stage * Layout::kBoxA, loads.a.map, full, box * RowBytesA,
                       range.a_row, range.a_matrix, loads.a.policy);
        sm90::copy_box(Layout::b(shared, at.stage) + in_stage * Layout::kBoxB, loads.b.map, full, box * RowBytesB,
                       range.b_row, range.b_matrix, loads.b.policy);
      }
      at.next();
    }
  }

  __device__ __forceinline__ void drain() {}  // no other thread block shares the loads
};

}  // namespace tilewright::grouped_gemm

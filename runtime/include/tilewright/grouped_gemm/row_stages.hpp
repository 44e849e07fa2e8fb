// Stages in which a box's rows of A and of B have different lengths, or fewer bytes than 128: their shared memory, and
// how they are loaded.
#pragma once

#include <cstdint>

#include "tilewright/sm120/scaled_stages.hpp"
#include "tilewright/sm90/cluster.hpp"
#include "tilewright/sm90/pipeline.hpp"
#include "tilewright/sm90/producer.hpp"
#include "tilewright/sm90/ptx.hpp"

namespace tilewright::grouped_gemm {

// Bytes of `words` lines of scale factors, each with a word of `rows` rows. TMA writes to multiples of 128.
constexpr int line_bytes(int words, int rows) { return (words * rows * 4 + 127) / 128 * 128; }

// The shared memory of a kernel. A stage has `Boxes` boxes of each operand, and `Words` lines of its scale factors.
template <int TileM, int TileN, int RowBytesA, int RowBytesB, int Boxes, int Words, int Stages, int StoreBytes>
struct RowLayout : sm120::ScaledStages<Boxes * TileM * RowBytesA, Boxes * TileN * RowBytesB, line_bytes(Words, TileM),
                                       line_bytes(Words, TileN), Stages, StoreBytes> {
  static constexpr int kBoxA = TileM * RowBytesA, kBoxB = TileN * RowBytesB;
  static_assert(Boxes * kBoxA % 1024 == 0 && Boxes * kBoxB % 1024 == 0,
                "boxes begin at multiples of their swizzle's pattern");
  static constexpr int kScaleBytes = Words * 4 * (TileM + TileN);  // that TMA writes to a stage
  static constexpr int kBlocks = 0;                                // no factor serves several rows
};

// Loads stages as sm90::Producer does, without multicast, and with rows of each operand's own length.
template <class Layout, int RowBytesA, int RowBytesB, int Boxes, int Stages>
struct RowProducer {
  uint32_t shared;
  sm90::Position<Stages> at{};

  __device__ __forceinline__ explicit RowProducer(uint32_t memory) : shared(memory) {}

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

  __device__ __forceinline__ void drain() {}  // no other CTA shares the loads
};

}  // namespace tilewright::grouped_gemm

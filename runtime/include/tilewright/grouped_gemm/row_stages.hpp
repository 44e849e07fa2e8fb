// Stages whose operands have rows of their own length in bytes: their shared memory, how they are loaded, and the
// tensor maps that they are loaded with.
#pragma once

#include <cstdint>

#include "tilewright/grouped_gemm/args.h"
#include "tilewright/sm90/cluster.hpp"
#include "tilewright/sm90/operands.hpp"
#include "tilewright/sm90/pipeline.hpp"
#include "tilewright/sm90/producer.hpp"
#include "tilewright/sm90/ptx.hpp"

namespace tilewright::grouped_gemm {

// The shared memory of a kernel, as sm90::ScaledLayout has it: the stages of A, those of B, the epilogue's buffers,
// the stages' scale factors, the barriers. A stage has `Words` lines of factors of each operand.
template <int TileM, int TileN, int RowBytesA, int RowBytesB, int Boxes, int Words, int Stages, int StoreBytes>
struct RowLayout {
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

  __device__ __forceinline__ void drain() {}  // no other thread block shares the loads
};

// Encodes the maps of operands anew whose rows do not have the 128 bytes of bytes that other kernels' have. `Kernel`
// says how many bytes a row of each has in a box, and how many bits an element.
template <class Kernel>
cudaError_t encode_rows(tilewright_grouped_gemm_args const& args, typename Kernel::Params& params) {
  constexpr bool kSwapped = Kernel::kSwapped;
  cudaError_t error = cudaSuccess;
  auto const encode = [&](CUtensorMap& map, sm90::Matrices const& matrices, int bits, int row_bytes, int rows) {
    if (error == cudaSuccess && (bits != 8 || row_bytes != 128)) {
      auto const swizzle = row_bytes == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B;
      error = sm90::encode_matrices(map, matrices, row_bytes, rows, swizzle);
    }
  };
  bool const own = args.grouping == TILEWRIGHT_GROUPING_NONE || args.grouping == TILEWRIGHT_GROUPING_ROWS_VALID;
  constexpr int kBitsA = kSwapped ? Kernel::kBitsB : Kernel::kBitsA;  // of the caller's A
  constexpr int kBitsB = kSwapped ? Kernel::kBitsA : Kernel::kBitsB;
  encode(kSwapped ? params.b : params.a,
         {args.a, int64_t(args.k) * kBitsA / 8, args.m, own ? args.groups : 1, args.ld_a * kBitsA / 8,
          args.batch_stride_a * kBitsA / 8},
         kBitsA, kSwapped ? Kernel::kRowBytesB : Kernel::kRowBytesA, Kernel::kTileRows);
  encode(kSwapped ? params.a : params.b,
         {args.b, int64_t(args.k) * kBitsB / 8, args.n, args.groups, args.ld_b * kBitsB / 8,
          args.batch_stride_b * kBitsB / 8},
         kBitsB, kSwapped ? Kernel::kRowBytesA : Kernel::kRowBytesB, Kernel::kTileColumns);
  return error;
}

}  // namespace tilewright::grouped_gemm

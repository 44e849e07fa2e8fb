// The shared memory of a `mixed_gemm` kernel, and the warp that loads its stages.
#pragma once

#include <cstdint>

#include "tilewright/sm90/cluster.hpp"
#include "tilewright/sm90/pipeline.hpp"
#include "tilewright/sm90/producer.hpp"
#include "tilewright/sm90/ptx.hpp"

namespace tilewright::mixed_gemm {

// The packed layout (docs/packed_kernels.md): pieces of 64 rows by 64 of k; two of them, 128 of k, are a unit. Rows of
// pieces consist of whole units. kPieceBytes: bytes of a piece of 4-bit codes.
constexpr int kPieceBytes = 2048, kPieceK = 64, kUnitK = 128;

// A stage has `Pieces` pieces (1 or 2) along k of each of the tile's `Slices` 64-row slices. From an address that is a
// multiple of 1024, shared memory holds
//   activations      `Stages` stages, in boxes of 64 of k in TMA's 128-byte swizzle
//   epilogue         its buffers
//   weights, scales  `Stages` stages, as they lie in global memory
//   mbarriers        `full` and `empty` of each stage
template <class Format, int Slices_, int TileN, int Pieces_, int Stages, int StoreBytes>
struct Layout {
  static constexpr int Slices = Slices_, Pieces = Pieces_;
  static constexpr int kBoxB = TileN * 128, kStageB = Pieces * kBoxB;
  static constexpr int kPieceBytes = mixed_gemm::kPieceBytes * Format::kBits / 4, kUnitBytes = 2 * kPieceBytes;
  static constexpr int kSliceA = Pieces * kPieceBytes, kStageA = Slices * kSliceA;
  // Bytes of a slice's scales: for 64 of k, for a unit of 128 of k, and for a stage. A stage of 64 of k has the scales
  // of its whole unit where both halves of the unit share scales.
  static constexpr int kPieceScales = 64 * Format::kScaleBytes * (Format::kGroup < 64 ? 64 / Format::kGroup : 1);
  static constexpr int kUnitScales = Format::kGroup == kUnitK ? kPieceScales : 2 * kPieceScales;
  static constexpr int kSliceScales = Pieces == 2 ? kUnitScales : kPieceScales;
  static constexpr int kStageScales = Slices * kSliceScales;

  static constexpr int kStoresAt = Stages * kStageB;
  static constexpr int kWeightsAt = kStoresAt + StoreBytes;
  static constexpr int kScalesAt = kWeightsAt + Stages * kStageA;
  static constexpr int kBarriersAt = kScalesAt + Stages * kStageScales;
  static constexpr int kBytes = kBarriersAt + Stages * 16;
  static_assert(Pieces == 1 || Pieces == 2);

  static __device__ __forceinline__ uint32_t activations(uint32_t shared, int stage) {
    return shared + stage * kStageB;
  }
  static __device__ __forceinline__ uint32_t weights(uint32_t shared, int stage, int slice) {
    return shared + kWeightsAt + stage * kStageA + slice * kSliceA;
  }
  static __device__ __forceinline__ uint32_t scales(uint32_t shared, int stage, int slice) {
    return shared + kScalesAt + stage * kStageScales + slice * kSliceScales;
  }
  static __device__ __forceinline__ uint32_t full(uint32_t shared, int stage) {
    return shared + kBarriersAt + stage * 8;
  }
  static __device__ __forceinline__ uint32_t empty(uint32_t shared, int stage) {
    return shared + kBarriersAt + (Stages + stage) * 8;
  }
};

// A packed weight in global memory.
struct PackedWeight {
  char const* elements;
  char const* scales;
  int64_t row_bytes, scale_row_bytes;  // bytes of 64 rows of n
  int slices;                          // rows of pieces: n / 64, rounded up
};

// The loop of the producer's warp that loads: weights and scales by bulk copies, activations by TMA.
template <class Layout, int Stages>
struct Producer {
  uint32_t shared;
  PackedWeight const& weight;
  uint64_t weight_policy;
  int bytes;  // bytes that arrive in a stage
  sm90::Position<Stages> at{};
  int count = 0;  // stages so far, modulo kMostCtas
  bool loads = sm90::elect_one();

  // Loads `stages` stages, starting with stage `first` of k, of a tile that begins at slice `slice` of the weight and
  // at row `row` of the activations. `kShare`: the CTAs of a cluster share activations by multicast. Called by the
  // whole warp; see sm90::Producer::run.
  template <bool kShare>
  __device__ __forceinline__ void run(sm90::Load const& activations, int first, int stages, int slice, int row) {
#pragma unroll 1
    for (int i = first; i < first + stages; ++i) {
      uint32_t const full = Layout::full(shared, at.stage);
      bool const own = !kShare || (count & (activations.period - 1)) == activations.phase;
      sm90::barrier_wait(Layout::empty(shared, at.stage), at.phase ^ 1);
      if (loads) {
        sm90::barrier_expect(full, bytes);
        copy_weights(full, i, slice);
      }
      if (own && loads) {
        copy_activations<kShare>(activations, full, i, row);
      }
      if constexpr (kShare) {
        count = (count + 1) & (sm90::kMostCtas - 1);
      }
      at.next();
    }
  }

  // Waits until all CTAs that share this CTA's loads have read them: until then they arrive at this CTA's barriers.
  __device__ __forceinline__ void drain() {
#pragma unroll 1
    for (int i = 0; i < Stages; ++i) {
      sm90::barrier_wait(Layout::empty(shared, at.stage), at.phase ^ 1);
      at.next();
    }
  }

 private:
  // A slice after the last one of the weight loads the last one instead: its sums are not stored.
  __device__ __forceinline__ void copy_weights(uint32_t full, int stage_of_k, int slice) const {
    int64_t const elements = int64_t(stage_of_k) * Layout::kSliceA;
    int64_t const scales = Layout::kUnitScales == Layout::kPieceScales && Layout::Pieces == 1
                               ? int64_t(stage_of_k / 2) * Layout::kSliceScales
                               : int64_t(stage_of_k) * Layout::kSliceScales;
#pragma unroll
    for (int i = 0; i < Layout::Slices; ++i) {
      int64_t const of_weight = min(slice + i, weight.slices - 1);
      sm90::copy_bytes(Layout::weights(shared, at.stage, i), weight.elements + of_weight * weight.row_bytes + elements,
                       Layout::kSliceA, full, weight_policy);
      sm90::copy_bytes(Layout::scales(shared, at.stage, i), weight.scales + of_weight * weight.scale_row_bytes + scales,
                       Layout::kSliceScales, full, weight_policy);
    }
  }

  template <bool kShare>
  __device__ __forceinline__ void copy_activations(sm90::Load const& load, uint32_t full, int stage_of_k,
                                                   int row) const {
#pragma unroll
    for (int box = 0; box < Layout::Pieces; ++box) {
      uint32_t const to = Layout::activations(shared, at.stage) + box * Layout::kBoxB + load.offset;
      int const byte = (stage_of_k * Layout::Pieces + box) * 128;
      if constexpr (kShare) {
        sm90::copy_box_to(load.sharers, to, load.map, full, byte, row + load.row, 0, load.policy);
      } else {
        sm90::copy_box(to, load.map, full, byte, row + load.row, 0, load.policy);
      }
    }
  }
};

}  // namespace tilewright::mixed_gemm

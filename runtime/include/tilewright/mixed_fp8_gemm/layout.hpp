// The shared memory of a `mixed_fp8_gemm` kernel.
#pragma once

#include <cstdint>

#include "tilewright/mixed_gemm/layout.hpp"

namespace tilewright::mixed_fp8_gemm {

using mixed_gemm::kPieceBytes;
using mixed_gemm::kUnitK;

// A stage has 128 of k; mixed_gemm::Producer fills it. From an address that is a multiple of 1024, shared memory holds
//   activations      `Stages` boxes of 128 of k in TMA's 128-byte swizzle
//   epilogue         its buffers
//   weights, scales  `Stages` stages, as they lie in global memory
//   decoded weights  `Buffers` buffers of 128 of k for each slice: 0 unless decoding_warpgroup.hpp fills them
//   mbarriers        `full` and `empty` of each stage, `decoded` and `taken` of each buffer
template <class Format, int Slices_, int TileN, int Stages, int StoreBytes, int Buffers_>
struct Layout {
  static constexpr int Slices = Slices_, Pieces = 1;  // boxes of activations
  static constexpr int kBoxB = TileN * 128, kStageB = kBoxB;
  static constexpr int kUnitBytes = 2 * kPieceBytes, kSliceA = kUnitBytes, kStageA = Slices * kSliceA;
  static constexpr int kUnitScales = 64 * (kUnitK / Format::kGroup) * Format::kScaleBytes;
  static constexpr int kPieceScales = 0;  // no stage has half a unit
  static constexpr int kSliceScales = kUnitScales, kStageScales = Slices * kSliceScales;

  static constexpr int kStoresAt = Stages * kStageB;
  static constexpr int kWeightsAt = kStoresAt + StoreBytes;
  static constexpr int kScalesAt = kWeightsAt + Stages * kStageA;
  static constexpr int Buffers = Buffers_, kBuffer = 64 * kUnitK, kAllBuffers = Slices * Buffers;
  static constexpr int kBuffersAt = kScalesAt + Stages * kStageScales;
  static constexpr int kBarriersAt = kBuffersAt + kAllBuffers * kBuffer;
  static constexpr int kDecodedAt = kBarriersAt + Stages * 16;  // the buffers' barriers
  static constexpr int kBytes = kDecodedAt + kAllBuffers * 16;

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

  // A buffer of a slice's decoded weights, and its barriers.
  static __device__ __forceinline__ uint32_t buffer(uint32_t shared, int slice, int index) {
    return shared + kBuffersAt + (slice * Buffers + index) * kBuffer;
  }
  static __device__ __forceinline__ uint32_t decoded(uint32_t shared, int slice, int index) {
    return shared + kDecodedAt + (slice * Buffers + index) * 8;
  }
  static __device__ __forceinline__ uint32_t taken(uint32_t shared, int slice, int index) {
    return decoded(shared, slice, index) + kAllBuffers * 8;
  }
};

}  // namespace tilewright::mixed_fp8_gemm

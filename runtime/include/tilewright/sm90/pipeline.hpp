// The ring of stages between the warp that loads and the warpgroups that multiply.
#pragma once

#include <cstdint>

#include "tilewright/sm90/ptx.hpp"

namespace tilewright::sm90 {

// A position in the ring: a stage, and the parity of its barriers' current phase.
template <int Stages>
struct Position {
  int stage = 0;
  uint32_t phase = 0;

  __device__ __forceinline__ void next() {
    if (++stage == Stages) {
      stage = 0;
      phase ^= 1;
    }
  }

  __device__ __forceinline__ void skip(int count) {
    int const sum = stage + count;
    stage = sum % Stages;
    phase ^= sum / Stages & 1;
  }
};

// The shared memory of a kernel, from an address that is a multiple of 1024: the stages of A, the stages of B, the
// epilogue's buffers, the barriers. A stage of an operand is one or more boxes of 128 bytes of k. Each box has all rows
// of the tile, in TMA's 128-byte swizzle.
template <int TileM, int TileN, int Boxes, int Stages, int StoreBytes>
struct Layout {
  static constexpr int kBoxA = TileM * 128, kBoxB = TileN * 128;
  static constexpr int kStageA = Boxes * kBoxA, kStageB = Boxes * kBoxB;
  static constexpr int kStoresAt = Stages * (kStageA + kStageB);
  static constexpr int kBarriersAt = kStoresAt + StoreBytes;
  static constexpr int kBytes = kBarriersAt + Stages * 16;

  static __device__ __forceinline__ uint32_t a(uint32_t shared, int stage) { return shared + stage * kStageA; }
  static __device__ __forceinline__ uint32_t b(uint32_t shared, int stage) {
    return shared + Stages * kStageA + stage * kStageB;
  }
  static __device__ __forceinline__ uint32_t full(uint32_t shared, int stage) {
    return shared + kBarriersAt + stage * 8;
  }
  static __device__ __forceinline__ uint32_t empty(uint32_t shared, int stage) {
    return shared + kBarriersAt + (Stages + stage) * 8;
  }
};

}  // namespace tilewright::sm90

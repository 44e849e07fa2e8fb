// The ring of stages between the warp that loads and the warpgroups that multiply. Each stage has two mbarriers:
//
// | mbarrier | who arrives | who waits |
// |---|---|---|
// | full | the loading warp, which announces the bytes; then TMA, when all of them have arrived | the readers |
// | empty | each reader, in all CTAs that read the data, when its wgmmas are done | the loading warp |
//
// A reader is a consumer warpgroup, or each of its four warps. A barrier goes from phase to phase, and a wait names the
// parity of the phase whose end it waits for. The loading warp begins with the opposite parity, because all stages are
// free at first.
#pragma once

#include <cstdint>

#include "tilewright/sm90/ptx.hpp"

namespace tilewright::sm90 {

// A position in the ring: a stage, and the parity of the phase of its barriers.
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

  // Goes `count` stages on.
  __device__ __forceinline__ void skip(int count) {
    int const sum = stage + count;
    stage = sum % Stages;
    phase ^= sum / Stages & 1;
  }
};

// The shared memory of a kernel, which begins at a multiple of 1024 bytes:
//
//   the stages of A | the stages of B | the epilogue's buffers (`StoreBytes`) | full barriers | empty barriers
//
// A stage of an operand is one or more boxes of 128 bytes of k. Each box has all rows of the tile, in TMA's 128-byte
// swizzle.
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

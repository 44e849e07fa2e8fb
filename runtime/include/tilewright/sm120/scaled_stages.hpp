// Where stages with scale factors lie in shared memory.
#pragma once

#include <cstdint>

namespace tilewright::sm120 {

// The shared memory of a kernel, from an address that is a multiple of 1024: the stages of A, those of B, the
// epilogue's buffers, the stages' scale factors, the barriers. A stage has `StageA` and `StageB` bytes of the operands,
// and `ScalesA` and `ScalesB` of their scale factors, which are multiples of 128: TMA writes to such addresses.
template <int StageA, int StageB, int ScalesA, int ScalesB, int Stages, int StoreBytes>
struct ScaledStages {
  static constexpr int kStageA = StageA, kStageB = StageB, kScalesA = ScalesA, kScalesB = ScalesB;
  static_assert(kScalesA % 128 == 0 && kScalesB % 128 == 0);
  static constexpr int kStoresAt = (Stages * (kStageA + kStageB) + 1023) / 1024 * 1024;
  static constexpr int kScalesAt = kStoresAt + (StoreBytes + 127) / 128 * 128;
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

}  // namespace tilewright::sm120

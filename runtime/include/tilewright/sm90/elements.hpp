// The element types of operands and of D: their PTX names, packing and conversion. CUDA's own headers of 16-bit types
// (cuda_fp16.h, cuda_bf16.h) would take as long to compile as a whole kernel.
//
// | type | kName: in PTX | kAddend: type of a bias and C beside D | to_float | pack: two F32 to one word |
// |---|---|---|---|---|
// | F16, Bf16 | .f16, .bf16 | its own | yes | rounds to nearest even |
// | E4m3, E5m2 | .e4m3, .e5m2 | BF16 | | rounds to nearest even, and saturates |
// | F32, only for D | | F32 | | |
#pragma once

#include <cstdint>

namespace tilewright::sm90 {

// The type of a bias or of C. Usually it is `kAddend` of D's element type; other types are known only at run time.
enum class Addend : int32_t { kF32, kF16, kBf16 };

namespace detail {

// What element types of 16 bits share.
template <class Element>
struct Half {
  static constexpr int kBytes = 2;
  using Stored = uint16_t;

  static __device__ __forceinline__ void store(void* array, int64_t i, float value) {
    static_cast<uint16_t*>(array)[i] = static_cast<uint16_t>(Element::pack(value, 0.0f));
  }
};

// What element types of 8 bits share.
template <class Element>
struct Byte {
  static constexpr int kBytes = 1;
  static constexpr Addend kAddend = Addend::kBf16;

  static __device__ __forceinline__ void store(void* array, int64_t i, float value) {
    static_cast<uint8_t*>(array)[i] = static_cast<uint8_t>(Element::pack(value, 0.0f));
  }
};

}  // namespace detail

struct F16 : detail::Half<F16> {
  static constexpr char kName[] = ".f16";
  static constexpr Addend kAddend = Addend::kF16;

  static __device__ __forceinline__ float to_float(uint16_t bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
  }
  // Packs two elements into one word, `low` in its lower half.
  static __device__ __forceinline__ uint32_t pack(float low, float high) {
    uint32_t pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
  }
};

struct Bf16 : detail::Half<Bf16> {
  static constexpr char kName[] = ".bf16";
  static constexpr Addend kAddend = Addend::kBf16;

  static __device__ __forceinline__ float to_float(uint16_t bits) { return __uint_as_float(uint32_t{bits} << 16); }
  static __device__ __forceinline__ uint32_t pack(float low, float high) {
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
  }
};

// Beyond the largest number of an FP8 type, `pack` returns that number.
struct E4m3 : detail::Byte<E4m3> {
  static constexpr char kName[] = ".e4m3";

  static __device__ __forceinline__ uint32_t pack(float low, float high) {
    uint16_t pair;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
    return pair;
  }
};
struct E5m2 : detail::Byte<E5m2> {
  static constexpr char kName[] = ".e5m2";

  static __device__ __forceinline__ uint32_t pack(float low, float high) {
    uint16_t pair;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
    return pair;
  }
};

// F32, for D alone: F32 operands are rounded to TF32 (wgmma_tf32.hpp).
struct F32 {
  static constexpr int kBytes = 4;
  static constexpr Addend kAddend = Addend::kF32;
  using Stored = float;

  static __device__ __forceinline__ void store(void* array, int64_t i, float value) {
    static_cast<float*>(array)[i] = value;
  }
};

// The value of an element of type `type` with these bits.
__device__ __forceinline__ float value_of(Addend type, uint32_t bits) {
  if (type == Addend::kF32) {
    return __uint_as_float(bits);
  }
  uint16_t const half = static_cast<uint16_t>(bits);
  return type == Addend::kBf16 ? Bf16::to_float(half) : F16::to_float(half);
}

// Loads element `i` of an array of a bias or of C.
__device__ __forceinline__ float load(Addend type, void const* array, int64_t i) {
  return value_of(
      type, type == Addend::kF32 ? static_cast<uint32_t const*>(array)[i] : static_cast<uint16_t const*>(array)[i]);
}

}  // namespace tilewright::sm90

// How a warp of a stream kernel (stream_warp.hpp) multiplies 16 rows of W by activations with mma.sync.
//
// A multiplier has
//   load_scales(address)                       loads the scales of the thread's two rows
//   multiply(words, step, activations, k)      multiplies 16 of k: step `step` of a piece, fragment `k` of a unit
//   finish()                                   returns a word that depends on the loads of scales
#pragma once

#include <cstdint>

#include "tilewright/mixed_gemm/exact_codes.hpp"
#include "tilewright/mixed_gemm/decode.hpp"
#include "tilewright/mixed_gemm/decode8.hpp"
#include "tilewright/mixed_gemm/quick.hpp"

namespace tilewright::mixed_gemm::stream {

constexpr int kUnitK = 128;

// D[16, 8] += A[16, 16] B[8, 16]^T.
template <class Type>
__device__ __forceinline__ void multiply(float (&d)[4], uint32_t const (&a)[4], uint32_t const (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32%10%10.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "C"(Type::kName));
}

// The multiplier of 4-bit codes. Weights become exact numbers. The sums of a group, 16 to 128 of k, are multiplied by
// its scale in FP32 and added to `sums`. To scale weights instead would take an instruction for every two of them.
template <class Type, class Format, int Tiles>
struct Multiplier {
  using Values = mixed_gemm::Values<Format>;
  static constexpr float kFactor = Values::kFactor;  // the epilogue multiplies the sums by it

  float (&sums)[Tiles][4];
  float group[Tiles][4] = {};
  typename Format::Scales scales;

  __device__ __forceinline__ explicit Multiplier(float (&d)[Tiles][4]) : sums(d) {}

  __device__ __forceinline__ void load_scales(uint32_t address) { scales.load(address); }

  __device__ __forceinline__ void multiply(uint32_t const* words, int step, uint32_t const (&activations)[Tiles][8][2],
                                           int k) {
    constexpr int kStepsOfGroup = Format::kGroup / 16;
    uint32_t fragment[4];
    Values::numbers(words[0], scales, step, fragment);
#pragma unroll
    for (int j = 0; j < Tiles; ++j) {
      stream::multiply<Type>(group[j], fragment, activations[j][k]);
    }
    if (k % kStepsOfGroup == kStepsOfGroup - 1) {
      float factors[2];
      Values::factors(scales, step, factors);
#pragma unroll
      for (int j = 0; j < Tiles; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          sums[j][e] = fmaf(group[j][e], factors[e / 2], sums[j][e]);
          group[j][e] = 0.0f;
        }
      }
    }
  }

  // A word that depends on the loads of scales.
  __device__ __forceinline__ uint32_t finish() const { return scales.words[0]; }
};

// The multiplier of 8-bit codes: the sums of their exact values over 128 of k are multiplied by the scale in FP32.
template <class Type, class Values, int Tiles>
struct Multiplier<Type, EightBits<Values, Type>, Tiles> {
  static constexpr float kFactor = 1.0f;  // as above

  float (&sums)[Tiles][4];
  float group[Tiles][4] = {};
  typename EightBits<Values, Type>::Scales scales;

  __device__ __forceinline__ explicit Multiplier(float (&d)[Tiles][4]) : sums(d) {}

  __device__ __forceinline__ void load_scales(uint32_t address) { scales.load(address); }

  __device__ __forceinline__ void multiply(uint32_t const* words, int, uint32_t const (&activations)[Tiles][8][2],
                                           int k) {
    uint32_t fragment[4];
#pragma unroll
    for (int high = 0; high < 2; ++high) {
      uint32_t pairs[2];
      Values::values(words[high], pairs);
      fragment[2 * high] = pairs[0], fragment[2 * high + 1] = pairs[1];
    }
#pragma unroll
    for (int j = 0; j < Tiles; ++j) {
      stream::multiply<Type>(group[j], fragment, activations[j][k]);
    }
    if (k == kUnitK / 16 - 1) {
      float const high = Type::to_float(static_cast<uint16_t>(scales.words[0]));
      float const low = Type::to_float(static_cast<uint16_t>(scales.words[0] >> 16));
#pragma unroll
      for (int j = 0; j < Tiles; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          sums[j][e] = fmaf(group[j][e], e < 2 ? high : low, sums[j][e]);
        }
      }
    }
  }

  __device__ __forceinline__ uint32_t finish() const { return scales.words[0]; }
};

// The multiplier where all scales of a unit are usual ones (quick.hpp). It scales weights, which is exact for E2M1 in
// BF16, and takes fewer instructions than scaling the sums of 16 or 32 of k.
template <class Type, class Format, int Tiles>
struct ScaledMultiplier {
  float (&sums)[Tiles][4];
  typename Format::Scales scales;

  __device__ __forceinline__ explicit ScaledMultiplier(float (&d)[Tiles][4]) : sums(d) {}

  __device__ __forceinline__ void load_scales(uint32_t address) { scales.load(address); }

  __device__ __forceinline__ void multiply(uint32_t const* words, int step, uint32_t const (&activations)[Tiles][8][2],
                                           int k) {
    uint32_t fragment[4];
    detail::Usual<Format>::decode(words[0], scales, step, fragment);
#pragma unroll
    for (int j = 0; j < Tiles; ++j) {
      stream::multiply<Type>(sums[j], fragment, activations[j][k]);
    }
  }

  // A word that depends on the loads of scales.
  __device__ __forceinline__ uint32_t finish() const { return scales.words[0]; }
};

}  // namespace tilewright::mixed_gemm::stream

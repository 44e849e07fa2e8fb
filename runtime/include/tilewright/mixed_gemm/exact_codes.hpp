// Decodes codes of 4 bits to exact numbers without their scales, for stream kernels (stream_multiplier.hpp), which
// multiply the sums of a group by its scale in FP32.
//
// Shifts and masks are most of the work: an SM does half as many of them in a clock as it does multiplications. For
// each format, Values<Format> has
//   kFactor                             the epilogue multiplies by it
//   numbers(word, scales, step, out)    the four pairs of a word, divided by kFactor
//   factors(scales, step, out)          the scales of the thread's two rows
#pragma once

#include <cstdint>

#include "tilewright/mixed_gemm/decode.hpp"

namespace tilewright::mixed_gemm {

namespace detail {

// The zero points of a thread's two rows. `subtracted`: from the pairs in bits 0 to 3, which are row g's. `added`: to
// the pairs in bits 4 to 7, which are row g + 8's.
struct Zeros {
  uint32_t subtracted, added;
};

// Integers. One shift serves the four pairs of a word. Bits 0 to 3 of each half become a number by bits that are set
// above them, and so do bits 4 to 7 in F16. In BF16, bits 4 to 7 reach into the exponent; without bits above them they
// are the code times 2^-129, because subnormal numbers and the smallest normal ones have one spacing. The largest power
// of two in BF16 is 2^127, so BF16's numbers are quarters of the codes.
//
// `raised`: a row's zero point plus the number of Pairs<Type>::kMagic, twice.
template <class Type>
struct Integers;

template <>
struct Integers<Bf16> {
  static constexpr float kFactor = 4.0f;
  static constexpr Zeros kEight = {0x42084208, 0xC000C000};  // 34 and -2
  static constexpr uint32_t kMagic = 0x42004200;             // 32: a quarter of the low bits' integer is added to it

  static __device__ __forceinline__ Zeros zeros(uint32_t raised_g, uint32_t raised_g8) {
    constexpr uint32_t kQuarter = 0x3E803E80, kMinusQuarter = 0xBE80BE80;
    return {Pairs<Bf16>::multiply(raised_g, kQuarter), Pairs<Bf16>::multiply_add(raised_g8, kMinusQuarter, kMagic)};
  }

  static __device__ __forceinline__ uint32_t high(uint32_t word, uint32_t, uint32_t added) {
    constexpr uint32_t kLargest = 0x7F007F00;  // 2^127
    return Pairs<Bf16>::multiply_add(word & 0x00F000F0, kLargest, added);
  }
};

template <>
struct Integers<F16> {
  static constexpr float kFactor = 1.0f;
  static constexpr Zeros kEight = {0x64086408, 0xD480D480};  // 1032 and -72
  static constexpr uint32_t kMagic = Pairs<F16>::kMagic;     // 1024

  static __device__ __forceinline__ Zeros zeros(uint32_t raised_g, uint32_t raised_g8) {
    constexpr uint32_t k960 = 0x63806380;
    return {raised_g, Pairs<F16>::subtract(k960, raised_g8)};
  }

  static __device__ __forceinline__ uint32_t high(uint32_t word, uint32_t magic, uint32_t added) {
    constexpr uint32_t kSixteenth = 0x2C002C00;
    uint32_t result;
    asm("fma.rn.f16x2 %0, %1, %2, %3;"
        : "=r"(result)
        : "r"(masked_or<0x00F000F0>(word, magic)), "r"(kSixteenth), "r"(added));
    return result;
  }
};

}  // namespace detail

template <class Format>
struct Values;

template <class Type, int kGroup, bool kZeros>
struct Values<Int4<Type, kGroup, kZeros>> {
  using Integers = detail::Integers<Type>;
  using Scales = typename Int4<Type, kGroup, kZeros>::Scales;
  static constexpr float kFactor = Integers::kFactor;

  static __device__ __forceinline__ void numbers(uint32_t word, Scales const& scales, int step, uint32_t (&out)[4]) {
    uint32_t magic = Integers::kMagic;
    asm("" : "+r"(magic));  // keeps it in a register
    detail::Zeros zeros = Integers::kEight;
    if constexpr (kZeros) {
      zeros =
          Integers::zeros(detail::high_twice(word_of(scales, step, 0)), detail::high_twice(word_of(scales, step, 1)));
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      uint32_t const codes = word >> (8 * half);
      out[2 * half] = detail::Pairs<Type>::subtract(detail::masked_or<0x000F000F>(codes, magic), zeros.subtracted);
      out[2 * half + 1] = Integers::high(codes, magic, zeros.added);
    }
  }

  static __device__ __forceinline__ void factors(Scales const& scales, int step, float (&out)[2]) {
    out[0] = Type::to_float(static_cast<uint16_t>(word_of(scales, step, 0)));
    out[1] = Type::to_float(static_cast<uint16_t>(word_of(scales, step, 1) >> (kZeros ? 0 : 16)));
  }

 private:
  // The word with a row's scale. With zero points each row has a word of its own.
  static __device__ __forceinline__ uint32_t word_of(Scales const& scales, int step, int row) {
    int const group = kGroup == 32 ? step / 2 : 0;
    return scales.words[kZeros ? group * 2 + row : group];
  }
};

template <>
struct Values<Mxfp4> {
  using Scales = Mxfp4::Scales;
  static constexpr float kFactor = 1.0f;

  static __device__ __forceinline__ void numbers(uint32_t word, Scales const&, int, uint32_t (&out)[4]) {
    constexpr uint32_t kUnbiased = 0x7E807E80;  // 2^126
#pragma unroll
    for (int pair = 0; pair < 4; ++pair) {
      out[pair] = detail::Pairs<Bf16>::multiply(detail::e2m1_as_bf16(word, pair), kUnbiased);
    }
  }

  static __device__ __forceinline__ void factors(Scales const& scales, int step, float (&out)[2]) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      int const byte = step / 2 * 2 + row;
      uint32_t const exponent = (byte == 3 ? scales.words[0] >> 1 : scales.words[0] << (23 - 8 * byte)) & 0x7F800000;
      // 2^(scale - 127). A scale of 0 is the subnormal 2^-127. A scale of 255 becomes infinity here, and NaN below.
      float const power = __uint_as_float(max(exponent, 0x00400000u));
      out[row] = fmaf(power, 0.0f, power);
    }
  }
};

template <class Type>
struct Values<Nvfp4<Type>> {
  using Scales = typename Nvfp4<Type>::Scales;
  static constexpr bool kBf16 = Nvfp4<Type>::kBf16;
  static constexpr float kFactor = 1.0f;

  static __device__ __forceinline__ void numbers(uint32_t word, Scales const&, int, uint32_t (&out)[4]) {
    constexpr uint32_t kUnbiased = kBf16 ? 0x7E807E80 : 0x74007400;  // 2^126, 2^14
#pragma unroll
    for (int pair = 0; pair < 4; ++pair) {
      uint32_t const value = kBf16 ? detail::e2m1_as_bf16(word, pair) : detail::e2m1_as_f16(word, pair);
      out[pair] = detail::Pairs<Type>::multiply(value, kUnbiased);
    }
  }

  static __device__ __forceinline__ void factors(Scales const& scales, int step, float (&out)[2]) {
    uint32_t halves;  // the scales of both rows as F16
    asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %1;\ncvt.rn.f16x2.e4m3x2 %0, low;\n}\n"
        : "=r"(halves)
        : "r"(step % 2 == 0 ? scales.words[step / 2] : scales.words[step / 2] >> 16));
    out[0] = F16::to_float(static_cast<uint16_t>(halves)), out[1] = F16::to_float(static_cast<uint16_t>(halves >> 16));
  }
};

}  // namespace tilewright::mixed_gemm

// Decodes packed 4-bit weights (docs/packed_kernels.md) to operand A of wgmma.m64nNk16 in registers; decode8.hpp has
// the formats of 8 bits.
//
// A thread has 16 bytes of a piece of 64 rows by 64 of k: a word for each step of 16 of k. A word holds 4 pairs of
// elements. Pairs 0 and 2 belong to the thread's row g, pairs 1 and 3 to row g + 8.
//
// A format has
//   kBits        bits of a code
//   kGroup       elements along k that share a scale: 16, 32, 64 or 128
//   kScaleBytes  bytes of a group's scale and zero point
//   kFactor      decoded weights are the weights divided by it; the epilogue multiplies by it
//   Scales       the scales of a thread's two rows for 64 of k, as they lie in shared memory
//   decode(words, scales, step, out)  decodes a step, 16 of k, from its words (8-bit codes have two) to four pairs
#pragma once

#include <cstdint>
#include <type_traits>

#include "tilewright/sm90/e2m1.hpp"
#include "tilewright/sm90/elements.hpp"
#include "tilewright/sm90/ptx.hpp"

namespace tilewright::mixed_gemm {

using sm90::Bf16;
using sm90::F16;

namespace detail {

// Arithmetic of pairs of F16 or BF16 in a word. Subnormals are not flushed to zero.
template <class Type>
struct Pairs;

template <>
struct Pairs<Bf16> {
  static constexpr uint32_t kMagic = 0x43004300;  // 128: with an integer in the low bits, 128 plus the integer
  static constexpr uint32_t kOne = 0x3F803F80;

  static __device__ __forceinline__ uint32_t multiply(uint32_t x, uint32_t y) { return sm90::multiply_bf16(x, y); }
  static __device__ __forceinline__ uint32_t subtract(uint32_t x, uint32_t y) {
    uint32_t difference;
    asm("sub.rn.bf16x2 %0, %1, %2;" : "=r"(difference) : "r"(x), "r"(y));
    return difference;
  }
  static __device__ __forceinline__ uint32_t multiply_add(uint32_t x, uint32_t y, uint32_t z) {
    uint32_t result;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(x), "r"(y), "r"(z));
    return result;
  }
};

template <>
struct Pairs<F16> {
  static constexpr uint32_t kMagic = 0x64006400;  // 1024, as above
  static constexpr uint32_t kOne = 0x3C003C00;

  static __device__ __forceinline__ uint32_t multiply(uint32_t x, uint32_t y) {
    uint32_t product;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(product) : "r"(x), "r"(y));
    return product;
  }
  static __device__ __forceinline__ uint32_t subtract(uint32_t x, uint32_t y) {
    uint32_t difference;
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(difference) : "r"(x), "r"(y));
    return difference;
  }
};

// (x & kMask) | bits in one instruction. The compiler would use two, because an instruction has one immediate.
template <uint32_t kMask>
__device__ __forceinline__ uint32_t masked_or(uint32_t x, uint32_t bits) {
  uint32_t result;
  asm("lop3.b32 %0, %1, %2, %3, 0xEA;" : "=r"(result) : "r"(x), "n"(kMask), "r"(bits));
  return result;
}

// Both halves are the low (high) half of `x`.
__device__ __forceinline__ uint32_t low_twice(uint32_t x) { return __byte_perm(x, 0, 0x1010); }
__device__ __forceinline__ uint32_t high_twice(uint32_t x) { return __byte_perm(x, 0, 0x3232); }

// The scales of a thread's two rows for 64 of k.
template <int kWords>
struct ScaleWords {
  uint32_t words[kWords];

  __device__ __forceinline__ void load(uint32_t address) {
    if constexpr (kWords == 1) {
      words[0] = sm90::load_word(address);
    } else {
      sm90::load_words(address, words);
    }
  }
};

// Pair `pair` of a word of E2M1 as BF16 of 2^-126 times the values.
__device__ __forceinline__ uint32_t e2m1_as_bf16(uint32_t word, int pair) {
  constexpr uint32_t kSigns = 0x80008000, kMagnitudes = 0x01C001C0;
  switch (pair) {
    case 0:
      return word & (kSigns | kMagnitudes);
    case 1:
      return (word << 3) & (kSigns | kMagnitudes);
    case 2:
      return ((word << 2) & kSigns) | ((word << 6) & kMagnitudes);
    default:
      return ((word << 1) & kSigns) | ((word >> 3) & kMagnitudes);
  }
}

// Pair `pair` of a word of E2M1 as F16 of 2^-14 times the values.
__device__ __forceinline__ uint32_t e2m1_as_f16(uint32_t word, int pair) {
  constexpr uint32_t kSigns = 0x80008000, kMagnitudes = 0x0E000E00;
  switch (pair) {
    case 0:
      return (word & kSigns) | ((word << 3) & kMagnitudes);
    case 1:
      return ((word << 3) & kSigns) | ((word << 6) & kMagnitudes);
    case 2:
      return ((word << 2) & kSigns) | ((word << 9) & kMagnitudes);
    default:
      return ((word << 1) & kSigns) | (word & kMagnitudes);
  }
}

}  // namespace detail

// Integers of 4 bits, plus 8, or plus a zero point for each group. A code minus 8 is exact; its product with the scale
// is rounded to Type.
template <class Type, int kGroup_, bool kZeros>
struct Int4 {
  static constexpr int kBits = 4, kGroup = kGroup_, kScaleBytes = kZeros ? 4 : 2;
  static constexpr float kFactor = 1.0f;
  static constexpr int kWordsOfGroup = kScaleBytes / 2;
  using Scales = detail::ScaleWords<kWordsOfGroup*(kGroup == 32 ? 2 : 1)>;
  using Pairs = detail::Pairs<Type>;
  static_assert(kGroup == 32 || kGroup == 64 || kGroup == 128);

  static __device__ __forceinline__ void decode(uint32_t const* words, Scales const& scales, int step,
                                                uint32_t (&out)[4]) {
    uint32_t const word = words[0];
    int const group = kGroup == 32 ? step / 2 : 0;
    uint32_t magic = Pairs::kMagic;
    asm("" : "+r"(magic));  // keeps it in a register
    uint32_t factors[2], zeros[2] = {Pairs::kMagic + 0x00080008, Pairs::kMagic + 0x00080008};
    if constexpr (kZeros) {
#pragma unroll
      for (int row = 0; row < 2; ++row) {  // a word has a row's scale, then its zero point
        uint32_t const pair = scales.words[group * 2 + row];
        factors[row] = detail::low_twice(pair), zeros[row] = detail::high_twice(pair);
      }
    } else {
      factors[0] = detail::low_twice(scales.words[group]), factors[1] = detail::high_twice(scales.words[group]);
    }
#pragma unroll
    for (int pair = 0; pair < 4; ++pair) {
      uint32_t const raised = detail::masked_or<0x000F000F>(word >> (4 * pair), magic);
      out[pair] = Pairs::multiply(Pairs::subtract(raised, zeros[pair % 2]), factors[pair % 2]);
    }
  }
};

// E2M1 with a UE8M0 scale for every 32, in BF16: exact. A value of 2^128 or more becomes infinity.
struct Mxfp4 {
  static constexpr int kBits = 4, kGroup = 32, kScaleBytes = 1;
  static constexpr float kFactor = 1.0f;
  using Scales = detail::ScaleWords<1>;
  using Pairs = detail::Pairs<Bf16>;

  static __device__ __forceinline__ void decode(uint32_t const* words, Scales const& scales, int step,
                                                uint32_t (&out)[4]) {
    uint32_t const word = words[0];
    constexpr uint32_t kUnbiased = 0x7E807E80;  // 2^126
    uint32_t factors[2], nans[2];
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      // The scale's byte in the low byte of each half.
      uint32_t const scale =
          __byte_perm(scales.words[0], 0, step / 2 == 0 ? (row == 0 ? 0x4040 : 0x4141) : (row == 0 ? 0x4242 : 0x4343));
      // 2^(scale - 127): a scale of 0 is the subnormal 2^-127, one of 255 is infinity here.
      asm("max.u16x2 %0, %1, %2;" : "=r"(factors[row]) : "r"(scale << 7), "r"(0x00400040));
      nans[row] = Pairs::multiply(factors[row], 0);  // NaN for infinity, otherwise 0
    }
#pragma unroll
    for (int pair = 0; pair < 4; ++pair) {
      uint32_t const value = Pairs::multiply(detail::e2m1_as_bf16(word, pair), kUnbiased);
      out[pair] = Pairs::multiply_add(value, factors[pair % 2], nans[pair % 2]);
    }
  }
};

// E2M1 with an E4M3 scale for every 16: exact. Decoded values are the weights divided by kFactor, so that the
// intermediate factors stay within the range of the type.
template <class Type>
struct Nvfp4 {
  static constexpr int kBits = 4, kGroup = 16, kScaleBytes = 1;
  static constexpr bool kBf16 = std::is_same<Type, Bf16>::value;
  static constexpr float kFactor = kBf16 ? 256.0f : 128.0f;
  using Scales = detail::ScaleWords<2>;
  using Pairs = detail::Pairs<Type>;

  static __device__ __forceinline__ void decode(uint32_t const* words, Scales const& scales, int step,
                                                uint32_t (&out)[4]) {
    uint32_t const word = words[0];
    uint32_t halves;  // the scales of both rows as F16
    asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %1;\ncvt.rn.f16x2.e4m3x2 %0, low;\n}\n"
        : "=r"(halves)
        : "r"(step % 2 == 0 ? scales.words[step / 2] : scales.words[step / 2] >> 16));
    uint32_t factors[2];
    if constexpr (kBf16) {
      constexpr float kRaise = 0x1p118f;  // 2^126 / kFactor
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        float const factor = F16::to_float(static_cast<uint16_t>(row == 0 ? halves : halves >> 16)) * kRaise;
        factors[row] = Bf16::pack(factor, factor);
      }
    } else {
      uint32_t const raised = Pairs::multiply(halves, 0x58005800);  // 2^14 / kFactor
      factors[0] = detail::low_twice(raised), factors[1] = detail::high_twice(raised);
    }
#pragma unroll
    for (int pair = 0; pair < 4; ++pair) {
      uint32_t const value = kBf16 ? detail::e2m1_as_bf16(word, pair) : detail::e2m1_as_f16(word, pair);
      out[pair] = Pairs::multiply(value, factors[pair % 2]);
    }
  }
};

}  // namespace tilewright::mixed_gemm

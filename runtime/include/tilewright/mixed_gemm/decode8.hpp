// Decodes packed 8-bit weights (docs/packed_kernels.md) to operand A of wgmma.m64nNk16 in registers.
//
// A thread has 32 bytes of a piece of 64 rows by 64 of k: two words for each step of 16 of k. A word holds 2 pairs of
// elements: pair 0 belongs to the thread's row g, pair 1 to row g + 8. The second word is 8 of k after the first.
#pragma once

#include <cstdint>
#include <type_traits>

#include "tilewright/mixed_gemm/decode.hpp"

namespace tilewright::mixed_gemm {

namespace detail {

// (x & mask) ^ bits, in one instruction.
template <uint32_t kMask>
__device__ __forceinline__ uint32_t masked_xor(uint32_t x, uint32_t bits) {
  uint32_t result;
  asm("lop3.b32 %0, %1, %2, %3, 0x6A;" : "=r"(result) : "r"(x), "n"(kMask), "r"(bits));
  return result;
}

// Integers of 8 bits, plus 128.
template <class Type>
struct Int8Values {
  static __device__ __forceinline__ void values(uint32_t word, uint32_t (&out)[2]) {
    constexpr bool kBf16 = std::is_same<Type, Bf16>::value;
    uint32_t magic = Pairs<Type>::kMagic, upper = 0x43804380;  // upper: 256 of BF16
    asm("" : "+r"(magic), "+r"(upper));                        // keeps them in registers
#pragma unroll
    for (int pair = 0; pair < 2; ++pair) {
      uint32_t const codes = word >> (8 * pair);
      if constexpr (kBf16) {
        // The mantissa holds seven bits. The eighth selects what is subtracted: 128 from codes of at least 128, else
        // 256.
        uint32_t const raised = masked_or<0x007F007F>(codes, magic);
        out[pair] = Pairs<Type>::subtract(raised, masked_xor<0x00800080>(codes, upper));
      } else {
        uint32_t const raised = masked_or<0x00FF00FF>(codes, magic);
        out[pair] = Pairs<Type>::subtract(raised, 0x64806480);  // 1024 + 128
      }
    }
  }
};

// E4M3. Its NaN is not decoded: `pack_weight` refuses it.
template <class Type>
struct E4m3Values {
  static __device__ __forceinline__ void values(uint32_t word, uint32_t (&out)[2]) {
    constexpr bool kBf16 = std::is_same<Type, Bf16>::value;
    // As BF16 (F16) the bits are 2^-120 (2^-8) times the values, subnormals too.
    constexpr uint32_t kRaise = kBf16 ? 0x7B807B80 : 0x5C005C00;
    if constexpr (kBf16) {
      out[0] = word & 0x87F087F0;
      out[1] = ((word << 4) & 0x80F080F0) | ((word >> 4) & 0x07000700);
    } else {
      out[0] = (word & 0x80008000) | ((word << 3) & 0x3F803F80);
      out[1] = ((word << 4) & 0x80008000) | ((word << 7) & 0x07800780) | ((word >> 1) & 0x38003800);
    }
    out[0] = Pairs<Type>::multiply(out[0], kRaise);
    out[1] = Pairs<Type>::multiply(out[1], kRaise);
  }
};

}  // namespace detail

// 8 bits, with a scale of the activations' type for every 128 of k. `Values` decodes the two pairs of a word without
// their scale, which is exact. The product with the scale is rounded to Type.
template <class Values, class Type>
struct EightBits : Values {
  static constexpr int kBits = 8, kGroup = 128, kScaleBytes = 2;
  static constexpr float kFactor = 1.0f;
  using Scales = detail::ScaleWords<1>;
  using Pairs = detail::Pairs<Type>;

  static __device__ __forceinline__ void decode(uint32_t const* words, Scales const& scales, int, uint32_t (&out)[4]) {
    uint32_t const factors[2] = {detail::low_twice(scales.words[0]), detail::high_twice(scales.words[0])};
#pragma unroll
    for (int high = 0; high < 2; ++high) {
      uint32_t pairs[2];
      Values::values(words[high], pairs);
      out[2 * high] = Pairs::multiply(pairs[0], factors[0]);
      out[2 * high + 1] = Pairs::multiply(pairs[1], factors[1]);
    }
  }
};

template <class Type>
using Int8 = EightBits<detail::Int8Values<Type>, Type>;
template <class Type>
using E4m3 = EightBits<detail::E4m3Values<Type>, Type>;

}  // namespace tilewright::mixed_gemm

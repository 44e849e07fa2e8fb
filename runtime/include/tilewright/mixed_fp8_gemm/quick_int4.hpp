// Decodes INT4 in groups of 128 to FP8 with 9 instructions for 8 codes, where Int4 (decode.hpp) takes 12.
#pragma once

#include <cstdint>

#include "tilewright/mixed_fp8_gemm/decode.hpp"

namespace tilewright::mixed_fp8_gemm {

// Integers of 4 bits, plus 8, in groups of 128. As bits of E5M2, the magnitudes 0 to 8 are the numbers 0 to 8 * 2^-16,
// some of them subnormal. So a byte of operand A is the absolute difference of a code and 8, with a sign. One
// instruction makes the absolute differences of four bytes.
template <class Type>
struct QuickInt4 : Int4<Type, 128, false> {
  using Base = Int4<Type, 128, false>;
  using Weight = sm90::E5m2;
  static constexpr float kFactor = 65536.0f;

  // As Int4::decode.
  static __device__ __forceinline__ void decode(uint32_t const (&words)[2], typename Base::Scales const&, int, int half,
                                                uint32_t (&out)[2]) {
    constexpr uint32_t kZeros = 0x08080808, kSigns = 0x80808080;
    // A byte has an element of row g in its lower half, and one of row g + 8 in its upper half.
    uint32_t const bytes = __byte_perm(words[0], words[1], half == 0 ? 0x6420 : 0x7531);
    // Upper halves that both operands share cancel in a difference: the codes of row g + 8 in the first one, and in the
    // second one the zero points that the shift moves up, in all bytes but the last.
    uint32_t const zeros = masked_or<0xF0F0F0F0>(bytes, kZeros);
    // Bit 3 of a code is set if the number is not negative.
    out[0] = __vabsdiffu4(bytes, zeros) | (~(bytes << 4) & kSigns);
    out[1] = __vabsdiffu4(zeros >> 4, 0x08888888) | (~bytes & kSigns);
  }
};

}  // namespace tilewright::mixed_fp8_gemm

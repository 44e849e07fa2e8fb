// Decodes INT4 to BF16 in fewer instructions than decode.hpp, where the scales are usual ones (quick.hpp). Kernels
// decode INT4 this way if their source includes this header.
#pragma once

#include <cstdint>

#include "tilewright/mixed_gemm/quick.hpp"

namespace tilewright::mixed_gemm {

namespace detail {

// Usual scales are at least 2^-126 and below 2^-5. A BF16 with a code in its four lowest bits is 2^-133 times the code,
// and with the code in the next four bits it is 2^-129 times the code, because subnormal numbers and the smallest
// normal ones have one spacing. So one multiply-add subtracts 8 and applies the scale; 8 times the scale is exact.
template <int kGroup>
struct Usual<Int4<Bf16, kGroup, false>> {
  using Scales = typename Int4<Bf16, kGroup, false>::Scales;

  static __device__ __forceinline__ bool are_usual(Scales const& scales) {
    uint32_t unusual = 0;
#pragma unroll
    for (uint32_t const pair : scales.words) {
      uint32_t const magnitudes = pair & 0x7FFF7FFF;
      unusual |= (magnitudes + 0x43004300) | ~(magnitudes + 0x7F807F80);  // too large, too small
    }
    return (unusual & 0x80008000) == 0;
  }

  static __device__ __forceinline__ void decode(uint32_t word, Scales const& scales, int step, uint32_t* out) {
    uint32_t const pair = scales.words[kGroup == 32 ? step / 2 : 0];
    uint32_t const of_g = low_twice(pair), of_g8 = high_twice(pair);
    uint32_t const factor_g = of_g + 0x42804280, factor_g8 = of_g8 + 0x40804080;  // 2^133 and 2^129 times the scales
    uint32_t const added_g = Pairs<Bf16>::multiply(of_g, 0xC100C100);             // -8 times the scales
    uint32_t const added_g8 = Pairs<Bf16>::multiply(of_g8, 0xC100C100);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      uint32_t const codes = word >> (8 * half);
      out[2 * half] = Pairs<Bf16>::multiply_add(codes & 0x000F000F, factor_g, added_g);
      out[2 * half + 1] = Pairs<Bf16>::multiply_add(codes & 0x00F000F0, factor_g8, added_g8);
    }
  }
};

}  // namespace detail

template <>
constexpr bool kHasUsualScales<Int4<Bf16, 128, false>> = true;

}  // namespace tilewright::mixed_gemm

// MXFP4 weights whose sums are promoted after each group of 32 along k, which is exact whatever the scales are.
#pragma once

#include <cstdint>

#include "tilewright/mixed_fp8_gemm/decode.hpp"
#include "tilewright/mixed_fp8_gemm/mainloop.hpp"

namespace tilewright::mixed_fp8_gemm {

// MXFP4 where the tensor core sums each group of 32 separately. Elements need no scale, so they are exact and take
// fewer instructions than those of Mxfp4. E5M2 with E2M1's three bits as its lowest bits of the exponent and highest
// bit of the mantissa is 2^-14 times the value, also where E2M1 is subnormal.
struct Mxfp4Groups {
  static constexpr int kBits = 4, kGroup = 32, kBlock = 32, kScaleBytes = 1;
  static constexpr float kFactor = 16384.0f;
  using Weight = sm90::E5m2;

  struct Scales : detail::ScaleWords<1, 2> {
    // 2^(scale - 127). For a scale of 0 it is a subnormal of BF16. A scale of 255 gives NaN, from infinity times 0.
    __device__ __forceinline__ float factor(int block, int row) const {
      uint32_t const pair = __byte_perm(words[block / 2][0], 0, block % 2 == 0 ? 0x4140 : 0x4342);
      uint32_t const powers = Mxfp4::Scales::larger(pair << 7, 0x00400040);
      uint32_t both;
      asm("fma.rn.bf16x2 %0, %1, %2, %1;" : "=r"(both) : "r"(powers), "r"(0));
      return __uint_as_float(row == 0 ? both << 16 : both & 0xFFFF0000);
    }
  };

  static __device__ __forceinline__ void decode(uint32_t const (&words)[2], Scales const&, int, int half,
                                                uint32_t (&out)[2]) {
    constexpr uint32_t kMagnitudes = 0x0E0E0E0E, kSigns = 0x80808080;
    bool const upper = half != 0;
    // As Mxfp4::decode, but magnitudes are shifted to the upper byte of each half, whose lowest bit stays 0.
    uint32_t const magnitude_shifts[2] = {upper ? 1u << 9 : 1u << 3, upper ? 1u : 1u << 6};
    uint32_t const sign_shifts[2] = {upper ? 1u << 2 : 1u, upper ? 1u << 1 : 1u << 3};
    uint32_t const signs = __byte_perm(words[0], words[1], 0x7531);
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      uint32_t const magnitudes =
          __byte_perm(words[0] * magnitude_shifts[row], words[1] * magnitude_shifts[row], 0x7531) & kMagnitudes;
      out[row] = magnitudes | ((signs * sign_shifts[row]) & kSigns);
    }
  }
};

}  // namespace tilewright::mixed_fp8_gemm

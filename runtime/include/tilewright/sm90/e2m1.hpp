// Converts E2M1 (FP4) to BF16, which holds each of E2M1's values times a power of two exactly.
#pragma once

#include <cstdint>

namespace tilewright::sm90 {

constexpr int kE2m1Bias = 126;  // E2M1's bits, moved to their place in BF16, are 2^-126 times the value

// Multiplies two pairs of BF16, without flushing subnormals.
__device__ __forceinline__ uint32_t multiply_bf16(uint32_t x, uint32_t y) {
  uint32_t product;
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(product) : "r"(x), "r"(y));
  return product;
}

// Eight elements, the first in the lowest bits of `word`, as the pairs (0,4) (1,5) (2,6) (3,7), times 2^-kE2m1Bias and
// `factor`, which holds a BF16 twice.
__device__ __forceinline__ void decode_e2m1(uint32_t word, uint32_t factor, uint32_t (&out)[4]) {
  constexpr uint32_t kSigns = 0x80008000, kMagnitudes = 0x01C001C0;
  out[0] = ((word << 12) & kSigns) | ((word << 6) & kMagnitudes);
  out[1] = ((word << 8) & kSigns) | ((word << 2) & kMagnitudes);
  out[2] = ((word << 4) & kSigns) | ((word >> 2) & kMagnitudes);
  out[3] = (word & kSigns) | ((word >> 6) & kMagnitudes);
#pragma unroll
  for (uint32_t& pair : out) {
    pair = multiply_bf16(pair, factor);
  }
}

}  // namespace tilewright::sm90

// Operations on four bytes that take one instruction on the device. They compile for the host, too.
#pragma once

#include <cstdint>

#include "tilewright/quantize/numbers.hpp"

namespace tilewright::quantize {

// Bits of x where the mask has ones, and of y elsewhere. In assembly, because the compiler would emit several
// instructions for a constant mask.
TILEWRIGHT_BOTH uint32_t choose(uint32_t mask, uint32_t x, uint32_t y) {
#ifdef __CUDA_ARCH__
  uint32_t result;
  asm("lop3.b32 %0, %1, %2, %3, 0xCA;" : "=r"(result) : "r"(mask), "r"(x), "r"(y));
  return result;
#else
  return (x & mask) | (y & ~mask);
#endif
}

// The bytes of x (0 to 3) and y (4 to 7) that the selector's digits name, the lowest first.
TILEWRIGHT_BOTH uint32_t permute(uint32_t x, uint32_t y, uint32_t selector) {
#ifdef __CUDA_ARCH__
  return __byte_perm(x, y, selector);
#else
  uint64_t const both = uint64_t(y) << 32 | x;
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    result |= (static_cast<uint32_t>(both >> (selector >> 4 * i & 7) * 8) & 0xFF) << 8 * i;
  }
  return result;
#endif
}

}  // namespace tilewright::quantize

// The largest scale of an MXFP4 weight. With `fast_accum`, elements and sums are relative to it (fast.hpp).
#pragma once

#include <cmath>
#include <cstdint>

namespace tilewright::mixed_fp8_gemm {

// A power of two as a byte of UE8M0.
struct LargestScale {
  int byte;

  explicit LargestScale(float scale) : byte(scale > 0 ? std::ilogb(scale) + 127 : -1) {}
  bool valid() const { return byte >= 0 && byte < 255; }
  // The byte in both halves of a word, as kernels read it (FastParams).
  uint32_t twice() const { return static_cast<uint32_t>(byte) * 0x10001; }
  // Returns alpha times the factor that makes sums absolute. Elements in the kernel are twice their values.
  float factor(float alpha) const { return std::ldexp(alpha, byte - 128); }
};

}  // namespace tilewright::mixed_fp8_gemm

// E2M1 of products of BF16 or F16 values and a power of two, two at a time, for targets without a conversion
// instruction.
//
// Each product is exact, and F16 holds every product that can matter. Let v be the product and p the largest power of
// two that is not above v, but at least 1. The sum 512 * p + v is rounded to a multiple of p / 2, ties to even. These
// multiples are E2M1's grid, whose steps are 1/2 below 2, then 1, then 2. Subtracting 512 * p and multiplying by 2^-14
// moves E2M1's subnormals to those of F16, so that bits 9 to 11 of the result are the code. Infinities and NaN become
// F16's NaN, whose bits 9 to 11 are the code of 6.
#pragma once

#include <cstdint>

#include "tilewright/quantize/numbers.hpp"
#include "tilewright/quantize/words.hpp"

namespace tilewright::quantize {

// Pairs of F16, the first in the low half. The host's versions are for tests, which try every value.
struct Halves {
#ifdef __CUDA_ARCH__
  static __device__ __forceinline__ uint32_t of_floats(float low, float high) {
    uint32_t pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
  }
  // x * y + z.
  static __device__ __forceinline__ uint32_t fma(uint32_t x, uint32_t y, uint32_t z) {
    uint32_t result;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(x), "r"(y), "r"(z));
    return result;
  }
  // The larger magnitudes, with x's signs; y has none.
  static __device__ __forceinline__ uint32_t larger(uint32_t x, uint32_t y) {
    uint32_t result;
    asm("max.xorsign.abs.f16x2 %0, %1, %2;" : "=r"(result) : "r"(x), "r"(y));
    return result;
  }
#else
  static uint32_t of_floats(float low, float high) { return nearest(low) | nearest(high) << 16; }
  static uint32_t fma(uint32_t x, uint32_t y, uint32_t z) {
    return nearest(value(x) * value(y) + value(z)) | nearest(value(x >> 16) * value(y >> 16) + value(z >> 16)) << 16;
  }
  static uint32_t larger(uint32_t x, uint32_t y) {
    auto const larger_half = [](uint32_t x, uint32_t y) { return (x & 0x8000) | ((x & 0x7FFF) > y ? x & 0x7FFF : y); };
    return larger_half(x & 0xFFFF, y & 0xFFFF) | larger_half(x >> 16, y >> 16) << 16;
  }
  static double value(uint32_t half) {
    int const exponent = half >> 10 & 31, fraction = half & 0x3FF;
    if (exponent == 31) {
      return fraction != 0 ? NAN : half & 0x8000 ? -INFINITY : INFINITY;
    }
    double const size = std::ldexp(exponent == 0 ? fraction : fraction + 1024, exponent == 0 ? -24 : exponent - 25);
    return half & 0x8000 ? -size : size;
  }
  // Rounds an infinity, a NaN or a value in F16's range to F16. Doubles hold every sum above exactly.
  static uint32_t nearest(double value) {
    if (!(std::fabs(value) < INFINITY)) {
      return value != value ? 0x7FFF : value < 0 ? 0xFC00 : 0x7C00;
    }
    int exponent;
    std::frexp(value, &exponent);
    exponent = value != 0 && exponent - 11 > -24 ? exponent - 11 : -24;  // of the last bit
    auto const units = static_cast<uint32_t>(std::nearbyint(std::ldexp(std::fabs(value), -exponent)));
    return (std::signbit(value) ? 0x8000 : 0) | (units + (static_cast<uint32_t>(exponent + 24) << 10));
  }
#endif
};

namespace detail {

constexpr uint32_t both(uint32_t half) { return half | half << 16; }

// Rounds two products of floats whose significands have `kSignificand` bits. Each half of the result has a code in bits
// 9 to 11 and the sign in bit 15.
template <int kSignificand>
TILEWRIGHT_BOTH uint32_t round_pair(float low, float high, float factor) {
  static_assert(kSignificand == 8 || kSignificand == 11);
  // Products of 8-bit significands may be scaled first: they are exact down to 1/8 among F16's subnormals, too. Nor
  // need p be a power of two for them: with p = v the sum 513 * v does not reach the next power of two.
  constexpr bool kShort = kSignificand == 8;
  factor = kShort ? multiply(factor, 0x1p-14f) : factor;
  uint32_t const values = Halves::of_floats(multiply(low, factor), multiply(high, factor));
  uint32_t const powers = Halves::larger(kShort ? values : values & both(0xFC00), both(kShort ? 0x0400 : 0x3C00));
  uint32_t const sums = Halves::fma(powers, both(0x6000), values);  // 512
  uint32_t rounded = Halves::fma(powers, both(0xE000), sums);       // -512
  if constexpr (!kShort) {
    rounded = Halves::fma(rounded, both(0x0400), 0);  // 2^-14
  }
  return choose(both(0x8000), powers, rounded);
}

}  // namespace detail

// Eight E2M1 codes of x * factor, the first in the lowest bits. No finite product may be above 6.
template <int kSignificand>
TILEWRIGHT_BOTH uint32_t e2m1_word_of_pairs(float const (&x)[8], float factor) {
  uint32_t nibbles[2];  // of the even elements and of the odd ones: in the upper half of each byte
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    uint32_t const first = detail::round_pair<kSignificand>(x[i], x[i + 2], factor);
    uint32_t const last = detail::round_pair<kSignificand>(x[i + 4], x[i + 6], factor);
    uint32_t const bytes = permute(first, last, 0x7531);  // the upper byte of each half
    nibbles[i] = choose(0x80808080, bytes, bytes << 3);
  }
  return choose(0xF0F0F0F0, nibbles[1], nibbles[0] >> 4);
}

}  // namespace tilewright::quantize

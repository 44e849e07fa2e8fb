// Quantises E4M3 to NVFP4 by comparing bytes.
//
// The largest magnitude of a block is one of 127 codes. It determines the block's scale and factor, and so the smallest
// magnitude that becomes each E2M1 code. A table holds the scale and these thresholds for each code; it is computed
// with the exact arithmetic of numbers.hpp. Quantising then compares four elements at a time, without conversion or
// multiplication.
#pragma once

#include <cstdint>

#include "tilewright/quantize/numbers.hpp"
#include "tilewright/quantize/words.hpp"

namespace tilewright::quantize {

constexpr uint32_t kZeroIsNan = 0x100, kAllIsNan = 0x200;  // flags in Thresholds::scale: what `repair_word` has to do

struct Thresholds {
  uint32_t scale;     // code of the scale, with one of the flags above if needed
  uint32_t least[7];  // least[j]: the smallest magnitude whose E2M1 code is at least j + 1, in each of the four bytes;
                      // 0x80 if there is none
};

// The thresholds of a block whose largest magnitude has the code `amax`, 0 to 0x7F.
TILEWRIGHT_BOTH Thresholds thresholds_of_amax(uint32_t amax, float global_scale) {
  Thresholds result;
  result.scale = nvfp4_scale(decode_e4m3(amax), global_scale);
  float const step = divide(decode_e4m3(result.scale), global_scale), factor = divide(1.0f, step);
  if (amax != 0 && !(bits_of(factor) < kInfinity)) {
    result.scale |= bits_of(factor) == kInfinity ? kZeroIsNan : kAllIsNan;
  }
#pragma unroll
  for (int j = 0; j < 7; ++j) {
    // Halfway between the values of codes j and j + 1. This value itself is rounded to the even code.
    float const bound = j < 4 ? 0.5f * j + 0.25f : j < 6 ? j - 1.5f : 5.0f;
    uint32_t const nearest = encode_e4m3(multiply(bound, step)) & 0x7F;
    float const product = multiply(decode_e4m3(nearest), factor);
    bool const reached = j % 2 == 0 ? product > bound : product >= bound;
    result.least[j] = (amax == 0 ? 0x80 : reached ? nearest : nearest + 1) * 0x01010101;
  }
  return result;
}

namespace detail {

// The larger halves of two or three pairs of 16-bit numbers.
TILEWRIGHT_BOTH uint32_t larger_halves(uint32_t x, uint32_t y) {
#ifdef __CUDA_ARCH__
  return __vmaxu2(x, y);
#else
  uint32_t const low = (x & 0xFFFF) > (y & 0xFFFF) ? x & 0xFFFF : y & 0xFFFF;
  return low | (x >> 16 > y >> 16 ? x >> 16 : y >> 16) << 16;
#endif
}

TILEWRIGHT_BOTH uint32_t larger_halves(uint32_t x, uint32_t y, uint32_t z) {
#ifdef __CUDA_ARCH__
  return __vimax3_u16x2(x, y, z);
#else
  return larger_halves(larger_halves(x, y), z);
#endif
}

// x << 8 by a multiplication. The multiplier is idle here, and the compiler would use the logic unit, which is busy.
TILEWRIGHT_BOTH uint32_t shift_up_a_byte(uint32_t x) {
#ifdef __CUDA_ARCH__
  uint32_t result;
  asm("mul.lo.u32 %0, %1, 256;" : "=r"(result) : "r"(x));
  return result;
#else
  return x << 8;
#endif
}

}  // namespace detail

// Sixteen elements. A word holds those that become the same nibble of four bytes of data: elements 0, 2, 4 and 6, then
// 1, 3, 5 and 7, and in the same order the other eight.
struct SortedE4m3 {
  uint32_t words[4];

  TILEWRIGHT_BOTH explicit SortedE4m3(uint32_t const (&x)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      words[i] = permute(x[i & 2], x[(i & 2) + 1], i % 2 == 0 ? 0x6420 : 0x7531);
    }
  }

  // The code of the largest magnitude. NaN has the largest code.
  TILEWRIGHT_BOTH uint32_t amax() const {
    using detail::larger_halves;
    uint32_t high[4], low[4];  // in each 16 bits, only the upper byte matters
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      high[i] = words[i] | 0x80808080;
      low[i] = detail::shift_up_a_byte(high[i]);
    }
    uint32_t const highs = larger_halves(larger_halves(high[0], high[1], high[2]), high[3]);
    uint32_t const lows = larger_halves(larger_halves(low[0], low[1], low[2]), low[3]);
    uint32_t const both = larger_halves(highs, lows);
    return larger_halves(both, both << 16) >> 24 & 0x7F;
  }

  // E2M1 codes of eight elements, the first in the lowest bits. Bit 7 of a byte is set in the difference to a threshold
  // if the element reaches it. An element reaches all thresholds up to some, and their number is its code.
  TILEWRIGHT_BOTH uint32_t encode(int half, uint32_t const (&least)[7]) const {
    constexpr uint32_t kTops = 0x80808080;
    uint32_t bits[4][2];  // bits of the code, lowest first, then the sign; each in bit 7 of a byte
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      uint32_t const word = words[half * 2 + i], size = word | kTops;
      uint32_t reached[7];
#pragma unroll
      for (int j = 0; j < 7; ++j) {
        reached[j] = size - least[j];
      }
      bits[1][i] = reached[1] ^ reached[3] ^ reached[5];
      bits[0][i] = (reached[0] ^ reached[2] ^ reached[4]) ^ reached[6] ^ bits[1][i];
      bits[2][i] = reached[3];
      bits[3][i] = word;
    }
    uint32_t data = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      uint32_t const bit = choose(kTops, bits[i][1], bits[i][0] >> 4);  // bits 7 and 3 of each byte
      data = i == 0 ? bit : choose(0x88888888, bit, data >> 1);
    }
    return data;
  }
};

}  // namespace tilewright::quantize

// Halves of words, the arithmetic of pairs of them, and loads, as decoders of packed weights use them, on the host.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#define __device__
#define __forceinline__ inline

namespace tilewright::sm90 {

inline float bf16_value(uint32_t bits) {
  bits <<= 16;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

// The nearest BF16, ties to even.
inline uint16_t bf16_bits(double number) {
  if (std::isnan(number)) {
    return 0x7FFF;
  }
  float nearest = float(number);
  if (number != 0 && !std::isinf(number)) {
    double const unit = std::ldexp(1.0, std::max(std::ilogb(number), -126) - 7);
    double const rounded = std::nearbyint(number / unit) * unit;
    nearest = std::fabs(rounded) > 0x1.FEp127 ? std::copysign(INFINITY, float(number)) : float(rounded);
  }
  uint32_t bits;
  std::memcpy(&bits, &nearest, 4);
  return uint16_t(bits >> 16);
}

struct Bf16 {
  static double value(uint32_t bits) { return bf16_value(bits & 0xFFFF); }
  static uint16_t bits(double number) { return bf16_bits(number); }
  static float to_float(uint16_t bits) { return bf16_value(bits); }
  static uint32_t pack(float low, float high) { return bf16_bits(low) | uint32_t(bf16_bits(high)) << 16; }
};

struct F16 {
  static double value(uint32_t bits) {
    uint16_t const half = uint16_t(bits);
    _Float16 number;
    std::memcpy(&number, &half, 2);
    return double(number);
  }
  static uint16_t bits(double number) {
    _Float16 const half = _Float16(number);
    uint16_t result;
    std::memcpy(&result, &half, 2);
    return result;
  }
  static float to_float(uint16_t bits) { return float(value(bits)); }
};

template <class Type, class Function>
uint32_t of_halves(uint32_t x, uint32_t y, Function const& function) {
  uint32_t const low = Type::bits(function(Type::value(x), Type::value(y)));
  return low | uint32_t(Type::bits(function(Type::value(x >> 16), Type::value(y >> 16)))) << 16;
}

// Products and differences of numbers of 8 (11) bits are exact in a double: rounded once.
template <class Type>
uint32_t multiplied(uint32_t x, uint32_t y) {
  return of_halves<Type>(x, y, [](double a, double b) { return a * b; });
}
template <class Type>
uint32_t subtracted(uint32_t x, uint32_t y) {
  return of_halves<Type>(x, y, [](double a, double b) { return a - b; });
}
// x y + z, rounded once: exact in a double, unless the sizes of product and z differ by more than 2^30.
template <class Type>
uint32_t multiplied_added(uint32_t x, uint32_t y, uint32_t z) {
  auto const half = [&](int shift) {
    double const product = Type::value(x >> shift) * Type::value(y >> shift);
    return uint32_t(Type::bits(product + Type::value(z >> shift)));
  };
  return half(0) | half(16) << 16;
}
inline uint32_t multiply_bf16(uint32_t x, uint32_t y) { return multiplied<Bf16>(x, y); }

struct E4m3 {
  static double value(uint32_t byte);
};
struct E5m2 {
  static double value(uint32_t byte) { return F16::value(byte << 8); }
};

// Shared memory, in which addresses count bytes.
inline uint8_t memory[32768];

inline uint32_t load_word(uint32_t address) {
  uint32_t word;
  std::memcpy(&word, memory + address, 4);
  return word;
}
template <int Count>
void load_words(uint32_t address, uint32_t (&words)[Count]) {
  std::memcpy(words, memory + address, 4 * Count);
}

inline double e4m3(uint32_t byte) {
  uint32_t const exponent = byte >> 3 & 15, mantissa = byte & 7;
  double const size = (byte & 0x7F) == 0x7F ? NAN
                      : exponent == 0       ? std::ldexp(mantissa, -9)
                                            : std::ldexp(8 + mantissa, int(exponent) - 10);
  return byte & 0x80 ? -size : size;
}

inline double E4m3::value(uint32_t byte) { return e4m3(byte); }

// The E4M3 of a number that E4M3 holds exactly.
inline uint32_t exact_e4m3(double number) {
  for (uint32_t byte = 0; byte < 256; ++byte) {
    if (e4m3(byte) == number) {
      return byte;
    }
  }
  std::abort();
}

inline uint32_t f16_of_e4m3(uint32_t pair) {
  return F16::bits(e4m3(pair & 0xFF)) | uint32_t(F16::bits(e4m3(pair >> 8 & 0xFF))) << 16;
}

inline uint32_t larger_halves(uint32_t x, uint32_t y) {
  return std::max(x & 0xFFFF, y & 0xFFFF) | std::max(x & 0xFFFF0000, y & 0xFFFF0000);
}

}  // namespace tilewright::sm90

struct {
  uint32_t x;
} threadIdx;

inline float __uint_as_float(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

inline uint32_t __byte_perm(uint32_t a, uint32_t b, uint32_t selector) {
  uint64_t const both = uint64_t(b) << 32 | a;
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    result |= uint32_t(both >> (selector >> i * 4 & 7) * 8 & 0xFF) << i * 8;
  }
  return result;
}

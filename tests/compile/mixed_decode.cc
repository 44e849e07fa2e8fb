// Decodes a packed weight on the host as the threads of a warpgroup do: see test_mixed_decode.py. Reads elements and
// scales of 64 rows by 128 of k from the standard input, writes the weights as 16-bit numbers [64, 128].
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <type_traits>
#include <vector>

#define __device__
#define __forceinline__ inline

namespace tilewright::sm90 {

float bf16_value(uint32_t bits) {
  bits <<= 16;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

// The nearest BF16, ties to even.
uint16_t bf16_bits(double number) {
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
inline uint32_t multiply_bf16(uint32_t x, uint32_t y) { return multiplied<Bf16>(x, y); }

uint32_t load_word(uint32_t) { return 0; }
template <int Count>
void load_words(uint32_t, uint32_t (&)[Count]) {}

double e4m3(uint32_t byte) {
  uint32_t const exponent = byte >> 3 & 15, mantissa = byte & 7;
  double const size = (byte & 0x7F) == 0x7F ? NAN
                      : exponent == 0       ? std::ldexp(mantissa, -9)
                                            : std::ldexp(8 + mantissa, int(exponent) - 10);
  return byte & 0x80 ? -size : size;
}

uint32_t f16_of_e4m3(uint32_t pair) {
  return F16::bits(e4m3(pair & 0xFF)) | uint32_t(F16::bits(e4m3(pair >> 8 & 0xFF))) << 16;
}

uint32_t larger_halves(uint32_t x, uint32_t y) {
  return std::max(x & 0xFFFF, y & 0xFFFF) | std::max(x & 0xFFFF0000, y & 0xFFFF0000);
}

}  // namespace tilewright::sm90

inline uint32_t __byte_perm(uint32_t a, uint32_t b, uint32_t selector) {
  uint64_t const both = uint64_t(b) << 32 | a;
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    result |= uint32_t(both >> (selector >> i * 4 & 7) * 8 & 0xFF) << i * 8;
  }
  return result;
}

#include "tilewright/mixed_gemm/decode.hpp"

using namespace tilewright::mixed_gemm;

namespace {

template <class Format>
int decode() {
  constexpr int kGroups = Format::kGroup < 64 ? 64 / Format::kGroup : 1;
  constexpr int kPieceScales = 64 * Format::kScaleBytes * kGroups;
  constexpr int kUnitScales = Format::kGroup == 128 ? kPieceScales : 2 * kPieceScales;
  static uint8_t elements[4096], scales[kUnitScales];
  static uint16_t weights[64][128];
  if (std::fread(elements, 1, sizeof elements, stdin) != sizeof elements ||
      std::fread(scales, 1, sizeof scales, stdin) != sizeof scales) {
    return 2;
  }
  for (int piece = 0; piece < 2; ++piece) {
    for (int thread = 0; thread < 128; ++thread) {
      uint32_t words[4];
      std::memcpy(words, elements + piece * 2048 + thread * 16, 16);
      typename Format::Scales own;
      int const at = Format::kGroup == 128 ? 0 : piece * kPieceScales;
      std::memcpy(&own, scales + at + thread / 4 * int(sizeof own), sizeof own);
      for (int step = 0; step < 4; ++step) {
        uint32_t fragment[4];
        Format::decode(words[step], own, step, fragment);
        // PTX ISA, "Register fragments for wgmma.mma_async.m64nNk16": a0, a1 and so on of a thread.
        int const warp = thread / 32, g = thread % 32 / 4, c = thread % 4;
        for (int i = 0; i < 8; ++i) {
          int const row = 16 * warp + g + (i % 4 >= 2 ? 8 : 0);
          int const column = piece * 64 + step * 16 + c * 2 + i % 2 + (i >= 4 ? 8 : 0);
          weights[row][column] = uint16_t(fragment[i / 2] >> i % 2 * 16);
        }
      }
    }
  }
  std::fwrite(weights, 1, sizeof weights, stdout);
  return 0;
}

}  // namespace

int main(int, char** arguments) {
  std::vector<std::pair<char const*, int (*)()>> const formats = {
      {"bf16 int4_g128", decode<Int4<Bf16, 128, false>>}, {"bf16 int4_g64", decode<Int4<Bf16, 64, false>>},
      {"bf16 int4_g32", decode<Int4<Bf16, 32, false>>},   {"bf16 int4_zp_g128", decode<Int4<Bf16, 128, true>>},
      {"bf16 int4_zp_g64", decode<Int4<Bf16, 64, true>>}, {"bf16 int4_zp_g32", decode<Int4<Bf16, 32, true>>},
      {"f16 int4_g128", decode<Int4<F16, 128, false>>},   {"f16 int4_zp_g32", decode<Int4<F16, 32, true>>},
      {"bf16 mxfp4", decode<Mxfp4>},                      {"bf16 nvfp4", decode<Nvfp4<Bf16>>},
      {"f16 nvfp4", decode<Nvfp4<F16>>}};
  for (auto const& [name, function] : formats) {
    if (std::strcmp(name, arguments[1]) == 0) {
      return function();
    }
  }
  return 3;
}

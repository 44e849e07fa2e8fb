// Elements and packed weights as the host reads them, in double: each weight is looked up in the packed bytes by its
// row and column, as docs/packed_weights.md says where it lies.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace {

enum Format { kInt4, kInt4Zeros, kMxfp4, kNvfp4, kInt8, kE4m3 };

// Bytes of the codes of 64 rows by 128 of k.
template <Format kFormat>
constexpr int64_t kUnitBytes = kFormat == kInt8 || kFormat == kE4m3 ? 8192 : 4096;

struct Bf16 {
  static double value(uint16_t bits) {
    uint32_t const wide = uint32_t{bits} << 16;
    float out;
    std::memcpy(&out, &wide, sizeof(out));
    return out;
  }
  static uint16_t bits(double value) {
    float const narrow = static_cast<float>(value);
    uint32_t wide;
    std::memcpy(&wide, &narrow, sizeof(wide));
    return static_cast<uint16_t>((wide + 0x7fff + ((wide >> 16) & 1)) >> 16);
  }
};

struct F16 {
  static double value(uint16_t bits) {
    _Float16 half;
    std::memcpy(&half, &bits, sizeof(half));
    return static_cast<double>(half);
  }
  static uint16_t bits(double value) {
    _Float16 const half = static_cast<_Float16>(value);
    uint16_t out;
    std::memcpy(&out, &half, sizeof(out));
    return out;
  }
};

double e4m3(uint8_t byte) {
  int const exponent = byte >> 3 & 15, mantissa = byte & 7;
  double const size = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return (byte & 0x7F) == 0x7F ? std::nan("") : byte & 0x80 ? -size : size;
}

int code(uint8_t const* weight, int units, int row, int column, bool floating) {
  int const warp = row % 64 / 16, h = row % 16 / 8, g = row % 8;
  int const step = column % 64 / 16, high = column % 16 / 8, c = column % 8 / 2, second = column % 2;
  int64_t const piece = (int64_t(row / 64) * units * 2 + column / 64) * 2048;
  uint32_t word;
  std::memcpy(&word, weight + piece + (warp * 32 + g * 4 + c) * 16 + step * 4, sizeof(word));
  uint32_t const half = word >> (16 * second) & 0xFFFF;
  int const pair = high * 2 + h;
  if (!floating) {
    return static_cast<int>(half >> (4 * pair) & 15);
  }
  constexpr int kMagnitudes[] = {6, 3, 0, 9}, kSigns[] = {15, 12, 13, 14};
  return static_cast<int>((half >> kMagnitudes[pair] & 7) | (half >> kSigns[pair] & 1) << 3);
}

// The same of 8 bits.
int code8(uint8_t const* weight, int units, int row, int column, bool floating) {
  int const warp = row % 64 / 16, h = row % 16 / 8, g = row % 8;
  int const step = column % 32 / 16, high = column % 16 / 8, c = column % 8 / 2, second = column % 2;
  int64_t const part = (int64_t(row / 64) * units * 4 + column / 32) * 2048;
  uint32_t word;
  std::memcpy(&word, weight + part + (warp * 32 + g * 4 + c) * 16 + step * 8 + high * 4, sizeof(word));
  uint32_t const half = word >> (16 * second) & 0xFFFF;
  if (!floating) {
    return static_cast<int>(half >> (8 * h) & 0xFF);
  }
  return static_cast<int>(h == 0 ? (half >> 4 & 0x7F) | (half >> 8 & 0x80)
                                 : (half & 0xF) | (half >> 8 & 0x70) | (half >> 4 & 0x80));
}

// Weight (row, column) of the packed weight `elements` with `scales`, which has `k` columns.
template <class Type, Format kFormat, int kGroup>
double exact_weight_at(void const* elements, void const* scales, int k, int row, int column) {
  static constexpr double kE2m1[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  bool const floating = kFormat == kMxfp4 || kFormat == kNvfp4, wide = kFormat == kInt8 || kFormat == kE4m3;
  int const units = (k + 127) / 128, size = floating ? 1 : kFormat == kInt4Zeros ? 4 : 2;
  auto const* const codes = static_cast<uint8_t const*>(elements);
  int const value =
      wide ? code8(codes, units, row, column, kFormat == kE4m3) : code(codes, units, row, column, floating);
  int const groups = kGroup < 64 ? 64 / kGroup : 1, halves = kGroup < 128 ? 2 : 1;
  int const half = kGroup < 128 ? column % 128 / 64 : 0, group = kGroup < 64 ? column % 64 / kGroup : 0;
  int64_t place = (int64_t(row / 64) * units + column / 128) * halves + half;
  place = ((place * 32 + row % 64 / 16 * 8 + row % 8) * groups + group) * 2 + row % 16 / 8;
  uint8_t const* const scale = static_cast<uint8_t const*>(scales) + place * size;
  if (floating) {
    double const element = value & 8 ? -kE2m1[value & 7] : kE2m1[value & 7];
    double const power = *scale == 255 ? std::nan("") : std::ldexp(1.0, *scale - 127);
    return element * (kFormat == kMxfp4 ? power : e4m3(*scale));
  }
  uint16_t words[2] = {};
  std::memcpy(words, scale, static_cast<size_t>(size));
  double const base = Type::value(Type::bits(1.00390625)) == 1.0 ? 128 : 1024;  // BF16 rounds 1 + 2^-8
  double const zero = kFormat == kInt4Zeros ? Type::value(words[1]) - base : wide ? 128 : 8;
  double const element = kFormat == kE4m3 ? e4m3(static_cast<uint8_t>(value)) : value - zero;
  return element * Type::value(words[0]);
}

// The same, rounded to the type of the activations: E2M1 times its scale needs no rounding.
template <class Type, Format kFormat, int kGroup>
double weight_at(void const* elements, void const* scales, int k, int row, int column) {
  double const exact = exact_weight_at<Type, kFormat, kGroup>(elements, scales, k, row, column);
  return kFormat == kMxfp4 || kFormat == kNvfp4 ? exact : Type::value(Type::bits(exact));
}

}  // namespace

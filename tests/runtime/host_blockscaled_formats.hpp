// Formats of block-scaled matrices, scale factors in the 128x4 layout and types of D, as kernels of the host have them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace {

// A binary float of `kExponent` and `kMantissa` bits and a sign, without infinities; subnormals included.
template <int kExponent, int kMantissa, int kBias>
struct Small {
  static constexpr int kCodes = 1 << (kExponent + kMantissa);
  static double decode(int code) {
    int const exponent = (code >> kMantissa) & ((1 << kExponent) - 1), mantissa = code & ((1 << kMantissa) - 1);
    double const size = exponent == 0 ? std::ldexp(mantissa, 1 - kBias - kMantissa)
                                      : std::ldexp(mantissa + (1 << kMantissa), exponent - kBias - kMantissa);
    return code & kCodes ? -size : size;
  }
  // Nearest, ties to the even code; saturating at the code `largest`.
  static int encode(double value, int largest) {
    int best = 0;
    for (int code = 1; code <= largest; ++code) {
      double const now = std::abs(std::abs(value) - decode(code)), before = std::abs(std::abs(value) - decode(best));
      if (now < before || (now == before && code % 2 == 0)) {
        best = code;
      }
    }
    return std::signbit(value) ? best | kCodes : best;
  }
};
using E2m1 = Small<2, 1, 1>;
using E4m3 = Small<4, 3, 7>;
using E5m2 = Small<5, 2, 15>;

int64_t scale_at(int64_t row, int64_t column, int64_t k, int block) {
  int64_t const tiles = ((k + block - 1) / block + 3) / 4;
  return ((row / 128) * tiles + column / 4) * 512 + (row % 32) * 16 + ((row % 128) / 32) * 4 + column % 4;
}
int64_t scales_of_a_matrix(int64_t rows, int64_t k, int block) {
  return (rows + 127) / 128 * 128 * (((k + block - 1) / block + 3) / 4 * 4);
}
double ue8m0(int code) { return code == 255 ? std::nan("") : std::ldexp(1.0, code - 127); }

template <class Element>
double element(void const* data, int64_t at) {
  auto const* bytes = static_cast<uint8_t const*>(data);
  return Element::decode(Element::kCodes == E2m1::kCodes ? bytes[at / 2] >> (at % 2 * 4) & 15 : bytes[at]);
}

struct Nvfp4 {
  using Element = E2m1;
  static constexpr int kBlock = 16, kBits = 4;
  static double scale(int code) { return (code & 0x7F) == 0x7F ? std::nan("") : E4m3::decode(code); }
};
struct Mxfp4 {
  using Element = E2m1;
  static constexpr int kBlock = 32, kBits = 4;
  static double scale(int code) { return ue8m0(code); }
};
struct Mxfp8 {
  using Element = E4m3;
  static constexpr int kBlock = 32, kBits = 8;
  static double scale(int code) { return ue8m0(code); }
};
struct Mxfp8E5m2 : Mxfp8 {
  using Element = E5m2;
};

template <class Format>
double scaled(void const* data, void const* scales, int64_t row, int64_t column, int64_t k, int64_t ld) {
  int const code = static_cast<uint8_t const*>(scales)[scale_at(row, column / Format::kBlock, k, Format::kBlock)];
  return element<typename Format::Element>(data, row * ld + column) * Format::scale(code);
}

struct Bf16 {
  static constexpr int kBlock = 1, kBits = 16;
  uint16_t bits;
  static Bf16 round(double value) {
    float const narrow = static_cast<float>(value);
    uint32_t wide;
    std::memcpy(&wide, &narrow, sizeof(wide));
    return {static_cast<uint16_t>((wide + 0x7fff + ((wide >> 16) & 1)) >> 16)};
  }
  double value() const {
    uint32_t const wide = uint32_t(bits) << 16;
    float out;
    std::memcpy(&out, &wide, sizeof(out));
    return out;
  }
};
struct F32 {
  static constexpr int kBlock = 1, kBits = 32;
  float bits;
  static F32 round(double value) { return {static_cast<float>(value)}; }
  double value() const { return bits; }
};
// FP8 without scale factors, which saturates.
template <class Element, int kLargest>
struct Fp8 {
  static constexpr int kBlock = 1, kBits = 8;
  uint8_t bits;
  static Fp8 round(double value) { return {static_cast<uint8_t>(Element::encode(value, kLargest))}; }
  double value() const { return Element::decode(bits); }
};
using Fp8E4m3 = Fp8<E4m3, 0x7E>;
using Fp8E5m2 = Fp8<E5m2, 0x7B>;

}  // namespace

// Decodes every FP8 element with every scale on the host, as kernels of sm_90a do: see test_decode.py.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <type_traits>

#include "host_wgmma.hpp"

#define __device__
#define __forceinline__ inline

namespace tilewright::sm90 {
struct F16 {};
}  // namespace tilewright::sm90

namespace host {

float value(uint16_t bf16) {
  uint32_t const bits = uint32_t(bf16) << 16;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

// The nearest BF16, ties to even.
float round(double number) {
  if (std::isnan(number) || std::isinf(number) || number == 0) {
    return float(number);
  }
  int const exponent = std::max(std::ilogb(number), -126);
  double const unit = std::ldexp(1.0, exponent - 7);
  double const rounded = std::nearbyint(number / unit) * unit;
  return std::fabs(rounded) > 0x1.FEp127 ? std::copysign(INFINITY, float(number)) : float(rounded);
}

uint16_t multiply_halves(uint16_t x, uint16_t y) {
  float const product = round(double(value(x)) * double(value(y)));
  uint32_t bits;
  std::memcpy(&bits, &product, 4);
  return uint16_t(bits >> 16);
}

uint32_t multiply(uint32_t x, uint32_t y) {
  return multiply_halves(x & 0xFFFF, y & 0xFFFF) | uint32_t(multiply_halves(x >> 16, y >> 16)) << 16;
}

}  // namespace host

inline uint32_t __byte_perm(uint32_t a, uint32_t b, uint32_t selector) {
  uint64_t const both = uint64_t(b) << 32 | a;
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    result |= uint32_t(both >> (selector >> i * 4 & 7) * 8 & 0xFF) << i * 8;
  }
  return result;
}

#include "tilewright/blockscaled_gemm/sm90/decode.hpp"

using namespace tilewright::blockscaled_gemm::sm90;

namespace {

int faults = 0;

double element(Mxfp8, int code) {
  int const magnitude = code & 0x7F, exponent = magnitude >> 3, mantissa = magnitude & 7;
  double const size = magnitude == 0x7F ? NAN
                      : exponent == 0   ? std::ldexp(mantissa, -9)
                                        : std::ldexp(8 + mantissa, exponent - 10);
  return code & 0x80 ? -size : size;
}

double element(Mxfp8E5m2, int code) {
  int const magnitude = code & 0x7F, exponent = magnitude >> 2, mantissa = magnitude & 3;
  double const size = magnitude > 0x7C    ? NAN
                      : magnitude == 0x7C ? INFINITY
                      : exponent == 0     ? std::ldexp(mantissa, -16)
                                          : std::ldexp(4 + mantissa, exponent - 17);
  return code & 0x80 ? -size : size;
}

// Eight elements, of which the one at `place` is `code`, the others are ordinary.
template <class Format, Pairing kPairing>
void check(int code, int place, uint32_t scale) {
  using Decoder = tilewright::blockscaled_gemm::sm90::Decoder<Format>;
  constexpr int kStride2[] = {0, 2, 1, 3, 4, 6, 5, 7}, kStride4[] = {0, 4, 1, 5, 2, 6, 3, 7};
  uint8_t codes[8] = {0x38, 0xB1, 0x00, 0x41, 0x80, 0x2A, 0x53, 0xC6};
  codes[place] = uint8_t(code);
  uint32_t words[2], pairs[4];
  std::memcpy(words, codes, sizeof codes);
  Decoder::template octet<kPairing>(words, Decoder::factor(scale), pairs);
  if (Decoder::words_to_repair(words) != 0 || Decoder::scales_to_repair(scale * 0x01010101) != 0) {
    Decoder::template repair<kPairing>(words, Decoder::second_factor(scale), pairs);
  }
  double const factor = scale == 0xFF ? NAN : std::ldexp(1.0, int(scale) - 127);
  for (int i = 0; i < 8; ++i) {
    float const actual = host::value(uint16_t(pairs[i / 2] >> i % 2 * 16));
    int const from = codes[kPairing == Pairing::kStride2 ? kStride2[i] : kStride4[i]];
    float const expected = host::round(element(Format{}, from) * factor);
    bool const same = std::isnan(expected) ? std::isnan(actual)
                                           : actual == expected && std::signbit(actual) == std::signbit(expected);
    if (!same && ++faults < 10) {
      std::printf("%d bits of exponent, element %02x, scale %u: %g instead of %g\n",
                  std::is_same_v<Format, Mxfp8> ? 4 : 5, from, scale, actual, expected);
    }
  }
}

template <class Format>
void check_all() {
  for (uint32_t scale = 0; scale < 256; ++scale) {
    for (int code = 0; code < 256; ++code) {
      check<Format, Pairing::kStride2>(code, (code + int(scale)) % 8, scale);
      check<Format, Pairing::kStride4>(code, (code + int(scale)) % 8, scale);
    }
  }
}

}  // namespace

int main() {
  check_all<Mxfp8>();
  check_all<Mxfp8E5m2>();
  return faults != 0;
}

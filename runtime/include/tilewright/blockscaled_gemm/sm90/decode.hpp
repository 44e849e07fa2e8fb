// From packed block-scaled elements to the 16-bit floats that Hopper's tensor cores multiply.
//
// Hopper has no FP4 tensor core and none that applies block scales, so elements are decoded in registers.
// The decoded value is exact:
//   NVFP4  in F16.  E2M1 times E4M3 has six significant bits. A constant factor 2^-6 (kFactor, for both
//          operands) is left in, and undone with alpha: every product stays a multiple of 2^-16 below 42.
//   MX     in BF16, which has UE8M0's range. Products beyond BF16's range overflow to infinity and below its
//          smallest subnormal, 2^-133, are rounded: that takes a scale next to 2^127 or 2^-127.
// NaN in a scale (E4M3 0x7F, UE8M0 0xFF), NaN in E4M3 and E5M2 data and E5M2's infinities come out as such;
// `odd` and `repair` do it where it takes more than the common path does.
//
// The unit of decoding is an octet: eight consecutive elements, decoded to four registers of two elements,
// whose order is a permutation of k. It is free as long as both operands' is the same, so each kernel
// chooses one `Pairing` for both.
#pragma once

#include <cstdint>

#include "tilewright/sm90/e2m1.hpp"
#include "tilewright/sm90/elements.hpp"

namespace tilewright::blockscaled_gemm::sm90 {

using namespace tilewright::sm90;

struct Nvfp4 {};      // E2M1, blocks of 16, E4M3 scales
struct Mxfp4 {};      // E2M1, blocks of 32, UE8M0 scales
struct Mxfp8 {};      // E4M3, blocks of 32, UE8M0 scales
struct Mxfp8E5m2 {};  // E5M2, blocks of 32, UE8M0 scales

// Which elements of an octet share a register: (0,2) (4,6) (1,3) (5,7) in an order of the format's own, or
// (0,4) (1,5) (2,6) (3,7).
enum class Pairing { kOwn, kFour };

namespace detail {

constexpr uint32_t kSigns = 0x80008000;

// Both halves of a product of two F16 or BF16 each; subnormals count.
__device__ __forceinline__ uint32_t multiply(F16, uint32_t x, uint32_t y) {
  uint32_t product;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(product) : "r"(x), "r"(y));
  return product;
}

__device__ __forceinline__ uint32_t multiply(Bf16, uint32_t x, uint32_t y) { return multiply_bf16(x, y); }

// Two E4M3 as F16: the low half of `pair`.
__device__ __forceinline__ uint32_t from_e4m3(uint32_t pair) {
  uint32_t result;
  asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %1;\ncvt.rn.f16x2.e4m3x2 %0, low;\n}\n"
      : "=r"(result)
      : "r"(pair));
  return result;
}

// The same of the high half.
__device__ __forceinline__ uint32_t from_e4m3_high(uint32_t pair) {
  uint32_t result;
  asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %1;\ncvt.rn.f16x2.e4m3x2 %0, high;\n}\n"
      : "=r"(result)
      : "r"(pair));
  return result;
}

// 0xFFFF in each half of `x` that equals that of `y`.
__device__ __forceinline__ uint32_t equal_halves(uint32_t x, uint32_t y) {
  uint32_t const difference = x ^ y;
  return ((difference & 0xFFFF) == 0 ? 0xFFFFu : 0u) | ((difference & 0xFFFF0000) == 0 ? 0xFFFF0000u : 0u);
}

// What the MX formats have in common. A decoded element is 2^-kBias of its value before the scale comes in:
// then the factor 2^(scale - 127 + kBias) is a normal BF16 for every scale up to kLast. Beyond it, a second
// factor is wanted, which `repair` multiplies by.
template <int kBias>
struct MxScale {
  using Type = Bf16;
  static constexpr int kBlock = 32;
  static constexpr float kFactor = 1.0f;
  static constexpr uint32_t kLast = 254 - kBias;

  // Nonzero if any of four scale factors wants a second factor, or is NaN. `kLast` is at least 128.
  static __device__ __forceinline__ uint32_t odd_scales(uint32_t scales) {
    constexpr uint32_t kAbove = 0x80 - (kLast + 1 - 0x80);
    return ((scales & 0x7F7F7F7F) + kAbove * 0x01010101) & scales & 0x80808080;
  }

  // The factor for a scale, in both halves.
  static __device__ __forceinline__ uint32_t factor(uint32_t scale) {
    return ((scale < kLast ? scale : kLast) + kBias) * 0x00800080;
  }

  // What is missing from it: 1, but for odd scales.
  static __device__ __forceinline__ uint32_t second_factor(uint32_t scale) {
    return scale == 0xFF ? 0x7FFF7FFF : ((scale > kLast ? scale - kLast : 0) + 127) * 0x00800080;
  }

  // The factors for the 16 elements that begin at element 16 * `part` of 32, whose scale is `scale`.
  static __device__ __forceinline__ uint32_t factor_of_part(uint32_t scale, int) { return factor(scale); }

  // Those for the parts `part` of four such, whose scales are the bytes of a word.
  static __device__ __forceinline__ void factors(uint32_t scales, uint32_t (&factors)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      factors[i] = factor((scales >> (8 * i)) & 0xFF);
    }
  }
};

}  // namespace detail

// How a format is decoded.
template <class Format>
struct Decoder;

template <>
struct Decoder<Nvfp4> {
  using Type = F16;
  static constexpr int kBits = 4, kBlock = 16;
  static constexpr float kFactor = 1.0f / 64;
  static constexpr bool kRepairs = false;

  // E2M1 becomes E4M3 by moving bits (2^-6 of its value, subnormals and all), and E4M3 F16 by conversion.
  template <Pairing kPairing>
  static __device__ __forceinline__ void octet(uint32_t const* words, uint32_t factor, uint32_t (&out)[4]) {
    static_assert(kPairing == Pairing::kOwn, "NVFP4 goes with itself");
    uint32_t const x = words[0];
    uint32_t const even = ((x << 4) & 0x80808080) | ((x << 2) & 0x1C1C1C1C);
    uint32_t const odd = (x & 0x80808080) | ((x >> 2) & 0x1C1C1C1C);
    out[0] = detail::multiply(F16{}, detail::from_e4m3(even), factor);
    out[1] = detail::multiply(F16{}, detail::from_e4m3_high(even), factor);
    out[2] = detail::multiply(F16{}, detail::from_e4m3(odd), factor);
    out[3] = detail::multiply(F16{}, detail::from_e4m3_high(odd), factor);
  }

  // The factors of two neighbouring blocks, whose scales are the bytes of `scales`; `part` is 0 or 1.
  static __device__ __forceinline__ uint32_t factor_of_part(uint32_t scales, int part) {
    return __byte_perm(detail::from_e4m3(scales), 0, part == 0 ? 0x1010 : 0x3232);
  }

  static __device__ __forceinline__ void factors(uint32_t scales, uint32_t (&factors)[4]) {
    uint32_t const low = detail::from_e4m3(scales), high = detail::from_e4m3_high(scales);
    factors[0] = __byte_perm(low, 0, 0x1010);
    factors[1] = __byte_perm(low, 0, 0x3232);
    factors[2] = __byte_perm(high, 0, 0x1010);
    factors[3] = __byte_perm(high, 0, 0x3232);
  }
};

template <>
struct Decoder<Mxfp4> : detail::MxScale<kE2m1Bias> {
  static constexpr int kBits = 4;
  static constexpr bool kRepairs = true;

  template <Pairing kPairing>
  static __device__ __forceinline__ void octet(uint32_t const* words, uint32_t factor, uint32_t (&out)[4]) {
    static_assert(kPairing == Pairing::kFour);
    decode_e2m1(words[0], factor, out);
  }

  // Nonzero if any of the words holds what the common path gets wrong.
  template <int Count>
  static __device__ __forceinline__ uint32_t odd_words(uint32_t const (&)[Count]) {
    return 0;
  }

  // Mends an octet that the common path has decoded.
  template <Pairing kPairing>
  static __device__ __forceinline__ void repair(uint32_t const*, uint32_t second_factor, uint32_t (&out)[4]) {
#pragma unroll
    for (uint32_t& pair : out) {
      pair = detail::multiply(Bf16{}, pair, second_factor);
    }
  }
};

namespace detail {

// E4M3 and E5M2: `kMantissa` bits of mantissa, and magnitudes from `kSpecial` on that are not finite numbers.
template <int kBias, int kMantissa, uint32_t kSpecial>
struct Fp8 : MxScale<kBias> {
  static constexpr int kBits = 8;
  static constexpr bool kRepairs = true;
  static constexpr int kUp = 7 - kMantissa;  // from a byte's place to BF16's, in the low byte of a half
  static constexpr uint32_t kMagnitudes = (0x7Fu << kUp) * 0x00010001;

  // The octet's bytes in the order of the pairs: 0 and 2 of the first word, 1 and 3, then those of the second.
  template <Pairing kPairing>
  static __device__ __forceinline__ uint32_t arrange(uint32_t const* words, int i) {
    if constexpr (kPairing == Pairing::kFour) {
      return __byte_perm(words[0], words[1], i == 0 ? 0x5410 : 0x7632);
    } else {
      return words[i];
    }
  }

  // The pair (0,2) or (1,3) of a word, 2^-kBias of its value.
  static __device__ __forceinline__ uint32_t expand(uint32_t x, int odd) {
    return odd == 0 ? (((x << 8) & kSigns) | ((x << kUp) & kMagnitudes))
                    : ((x & kSigns) | ((x >> (8 - kUp)) & kMagnitudes));
  }

  template <Pairing kPairing>
  static __device__ __forceinline__ void octet(uint32_t const* words, uint32_t factor, uint32_t (&out)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      out[i] = multiply(Bf16{}, expand(arrange<kPairing>(words, i / 2), i % 2), factor);
    }
  }

  template <int Count>
  static __device__ __forceinline__ uint32_t odd_words(uint32_t const (&words)[Count]) {
    uint32_t found = 0;
#pragma unroll
    for (uint32_t word : words) {
      found |= (word & 0x7F7F7F7F) + (0x80 - kSpecial) * 0x01010101;
    }
    return found & 0x80808080;
  }

  template <Pairing kPairing>
  static __device__ __forceinline__ void repair(uint32_t const* words, uint32_t second_factor, uint32_t (&out)[4]) {
    constexpr uint32_t kInfinity = 0x7F807F80;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      uint32_t const magnitudes = expand(arrange<kPairing>(words, i / 2), i % 2) & kMagnitudes;
      uint32_t special, value;
      if constexpr (kMantissa == 3) {  // E4M3: all ones is NaN
        special = equal_halves(magnitudes, kMagnitudes);
        value = kInfinity | 0x00400040;
      } else {  // E5M2: an exponent of all ones, as in BF16
        constexpr uint32_t kExponent = (0x7Cu << kUp) * 0x00010001;
        special = equal_halves(magnitudes & kExponent, kExponent);
        value = kInfinity | (magnitudes & ~kExponent);
      }
      special &= ~kSigns;
      out[i] = multiply(Bf16{}, (out[i] & ~special) | (value & special), second_factor);
    }
  }
};

}  // namespace detail

template <>
struct Decoder<Mxfp8> : detail::Fp8<120, 3, 0x7F> {};

template <>
struct Decoder<Mxfp8E5m2> : detail::Fp8<112, 2, 0x7C> {};

// The pairing that two formats have in common.
template <class FormatA, class FormatB>
inline constexpr Pairing kCommonPairing = Pairing::kFour;
template <>
inline constexpr Pairing kCommonPairing<Nvfp4, Nvfp4> = Pairing::kOwn;
template <>
inline constexpr Pairing kCommonPairing<Mxfp8, Mxfp8> = Pairing::kOwn;
template <>
inline constexpr Pairing kCommonPairing<Mxfp8E5m2, Mxfp8E5m2> = Pairing::kOwn;
template <>
inline constexpr Pairing kCommonPairing<Mxfp8, Mxfp8E5m2> = Pairing::kOwn;
template <>
inline constexpr Pairing kCommonPairing<Mxfp8E5m2, Mxfp8> = Pairing::kOwn;

}  // namespace tilewright::blockscaled_gemm::sm90

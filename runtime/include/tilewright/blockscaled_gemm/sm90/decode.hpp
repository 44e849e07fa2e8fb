// From packed block-scaled elements to the 16-bit floats that Hopper's tensor cores multiply.
//
// Hopper has no FP4 tensor core and none that applies block scales, so elements are decoded in registers.
// The decoded value is exact:
//   NVFP4  in F16.  E2M1 times E4M3 has six significant bits. Decoding leaves in a constant factor of 2^-6
//          (kFactor, for each operand), which the epilogue divides out. Every decoded value is then a multiple of
//          2^-16 below 42, which F16 holds.
//   MX     in BF16, which has UE8M0's range. A decoded value beyond BF16's range becomes infinity, and one below its
//          smallest subnormal, 2^-133, is rounded. Both take a scale close to 2^127 or 2^-127.
// NaN in a scale (E4M3 0x7F, UE8M0 0xFF), NaN in E4M3 and E5M2 data and the infinities of E5M2 are kept. The common
// path gets some of them wrong: `scales_to_repair` and `words_to_repair` find those, and `repair` corrects them.
//
// The unit of decoding is an octet: eight consecutive elements, decoded to four registers of two elements each. The
// order of the elements in these registers is a permutation of k. A product does not change if both operands are
// permuted alike, so each kernel chooses one `Pairing` for both.
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

// Which elements of an octet share a register. kStride2: (0,2) (4,6) (1,3) (5,7), in an order that each format chooses
// for itself. kStride4: (0,4) (1,5) (2,6) (3,7), in this order.
enum class Pairing { kStride2, kStride4 };

namespace detail {

constexpr uint32_t kSigns = 0x80008000;

// Products of two pairs of F16 or BF16. Subnormals are not flushed to zero.
__device__ __forceinline__ uint32_t multiply(F16, uint32_t x, uint32_t y) {
  uint32_t product;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(product) : "r"(x), "r"(y));
  return product;
}

__device__ __forceinline__ uint32_t multiply(Bf16, uint32_t x, uint32_t y) { return multiply_bf16(x, y); }

// Converts the two E4M3 in the low half of `pair` to F16.
__device__ __forceinline__ uint32_t f16_from_low_e4m3(uint32_t pair) {
  uint32_t result;
  asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %1;\ncvt.rn.f16x2.e4m3x2 %0, low;\n}\n"
      : "=r"(result)
      : "r"(pair));
  return result;
}

// Converts the two E4M3 in the high half of `pair` to F16.
__device__ __forceinline__ uint32_t f16_from_high_e4m3(uint32_t pair) {
  uint32_t result;
  asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %1;\ncvt.rn.f16x2.e4m3x2 %0, high;\n}\n"
      : "=r"(result)
      : "r"(pair));
  return result;
}

// A mask with 0xFFFF in each half where `x` equals `y`.
__device__ __forceinline__ uint32_t equal_halves(uint32_t x, uint32_t y) {
  uint32_t const difference = x ^ y;
  return ((difference & 0xFFFF) == 0 ? 0xFFFFu : 0u) | ((difference & 0xFFFF0000) == 0 ? 0xFFFF0000u : 0u);
}

// The scale factors of the MX formats. Before it is scaled, a decoded element is its value times 2^-kBias. The factor
// 2^(scale - 127 + kBias) is then a normal BF16 for every scale up to kLargestScale. A larger scale needs a second
// factor, by which `repair` multiplies.
template <int kBias>
struct MxScale {
  using Type = Bf16;
  static constexpr int kBlock = 32;
  static constexpr float kFactor = 1.0f;
  static constexpr uint32_t kLargestScale = 254 - kBias;

  // Nonzero if any of four scale factors needs a second factor, or is NaN. `kLargestScale` must be at least 128.
  static __device__ __forceinline__ uint32_t scales_to_repair(uint32_t scales) {
    constexpr uint32_t kAbove = 0x80 - (kLargestScale + 1 - 0x80);
    return ((scales & 0x7F7F7F7F) + kAbove * 0x01010101) & scales & 0x80808080;
  }

  // The factor of a scale, as a pair of BF16 that are equal.
  static __device__ __forceinline__ uint32_t factor(uint32_t scale) {
    return ((scale < kLargestScale ? scale : kLargestScale) + kBias) * 0x00800080;
  }

  // What `factor` lacks: 1 for scales up to kLargestScale, NaN for the scale that is NaN.
  static __device__ __forceinline__ uint32_t second_factor(uint32_t scale) {
    return scale == 0xFF ? 0x7FFF7FFF : ((scale > kLargestScale ? scale - kLargestScale : 0) + 127) * 0x00800080;
  }

  // The factor of elements 16 * `half` to 16 * `half` + 15 of a block of 32. Both halves share `scale`.
  static __device__ __forceinline__ uint32_t factor_of_half(uint32_t scale, int) { return factor(scale); }

  // The factors of four blocks, whose scales are the bytes of a word.
  static __device__ __forceinline__ void factors(uint32_t scales, uint32_t (&factors)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      factors[i] = factor((scales >> (8 * i)) & 0xFF);
    }
  }
};

}  // namespace detail

// Decodes octets of a format.
template <class Format>
struct Decoder;

template <>
struct Decoder<Nvfp4> {
  using Type = F16;
  static constexpr int kBits = 4, kBlock = 16;
  static constexpr float kFactor = 1.0f / 64;
  static constexpr bool kRepairs = false;

  // Moving the bits of E2M1 gives E4M3 of 2^-6 times the value, also for subnormals. An instruction converts E4M3 to
  // F16.
  template <Pairing kPairing>
  static __device__ __forceinline__ void octet(uint32_t const* words, uint32_t factor, uint32_t (&out)[4]) {
    static_assert(kPairing == Pairing::kStride2, "NVFP4 is multiplied by NVFP4 only");
    uint32_t const x = words[0];
    uint32_t const even = ((x << 4) & 0x80808080) | ((x << 2) & 0x1C1C1C1C);
    uint32_t const odd = (x & 0x80808080) | ((x >> 2) & 0x1C1C1C1C);
    out[0] = detail::multiply(F16{}, detail::f16_from_low_e4m3(even), factor);
    out[1] = detail::multiply(F16{}, detail::f16_from_high_e4m3(even), factor);
    out[2] = detail::multiply(F16{}, detail::f16_from_low_e4m3(odd), factor);
    out[3] = detail::multiply(F16{}, detail::f16_from_high_e4m3(odd), factor);
  }

  // The factor of block `half` (0 or 1) of two neighbouring blocks, whose scales are the bytes of `scales`.
  static __device__ __forceinline__ uint32_t factor_of_half(uint32_t scales, int half) {
    return __byte_perm(detail::f16_from_low_e4m3(scales), 0, half == 0 ? 0x1010 : 0x3232);
  }

  static __device__ __forceinline__ void factors(uint32_t scales, uint32_t (&factors)[4]) {
    uint32_t const low = detail::f16_from_low_e4m3(scales), high = detail::f16_from_high_e4m3(scales);
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
    static_assert(kPairing == Pairing::kStride4);
    decode_e2m1(words[0], factor, out);
  }

  // Nonzero if any of the words holds an element that `octet` decodes wrongly. E2M1 has none.
  template <int Count>
  static __device__ __forceinline__ uint32_t words_to_repair(uint32_t const (&)[Count]) {
    return 0;
  }

  // Corrects an octet that `octet` has decoded.
  template <Pairing kPairing>
  static __device__ __forceinline__ void repair(uint32_t const*, uint32_t second_factor, uint32_t (&out)[4]) {
#pragma unroll
    for (uint32_t& pair : out) {
      pair = detail::multiply(Bf16{}, pair, second_factor);
    }
  }
};

namespace detail {

// E4M3 and E5M2: `kMantissa` bits of mantissa. Magnitudes starting at `kSpecial` are no finite numbers.
template <int kBias, int kMantissa, uint32_t kSpecial>
struct Fp8 : MxScale<kBias> {
  static constexpr int kBits = 8;
  static constexpr bool kRepairs = true;
  static constexpr int kShift = 7 - kMantissa;  // from the magnitude in the low byte of a half to BF16's
  static constexpr uint32_t kMagnitudes = (0x7Fu << kShift) * 0x00010001;

  // Word `i` of the octet, with its bytes in the order of the pairs: bytes 0 and 2 are one pair, 1 and 3 the next.
  template <Pairing kPairing>
  static __device__ __forceinline__ uint32_t arrange(uint32_t const* words, int i) {
    if constexpr (kPairing == Pairing::kStride4) {
      return __byte_perm(words[0], words[1], i == 0 ? 0x5410 : 0x7632);
    } else {
      return words[i];
    }
  }

  // Bytes 0 and 2 of a word (1 and 3 if `odd`) as BF16 of 2^-kBias times their values.
  static __device__ __forceinline__ uint32_t expand(uint32_t x, int odd) {
    return odd == 0 ? (((x << 8) & kSigns) | ((x << kShift) & kMagnitudes))
                    : ((x & kSigns) | ((x >> (8 - kShift)) & kMagnitudes));
  }

  template <Pairing kPairing>
  static __device__ __forceinline__ void octet(uint32_t const* words, uint32_t factor, uint32_t (&out)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      out[i] = multiply(Bf16{}, expand(arrange<kPairing>(words, i / 2), i % 2), factor);
    }
  }

  template <int Count>
  static __device__ __forceinline__ uint32_t words_to_repair(uint32_t const (&words)[Count]) {
    uint32_t flags = 0;
#pragma unroll
    for (uint32_t word : words) {
      flags |= (word & 0x7F7F7F7F) + (0x80 - kSpecial) * 0x01010101;
    }
    return flags & 0x80808080;
  }

  template <Pairing kPairing>
  static __device__ __forceinline__ void repair(uint32_t const* words, uint32_t second_factor, uint32_t (&out)[4]) {
    constexpr uint32_t kInfinity = 0x7F807F80;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      uint32_t const magnitudes = expand(arrange<kPairing>(words, i / 2), i % 2) & kMagnitudes;
      uint32_t special, value;
      if constexpr (kMantissa == 3) {  // E4M3: a magnitude of all ones is NaN
        special = equal_halves(magnitudes, kMagnitudes);
        value = kInfinity | 0x00400040;
      } else {  // E5M2: an exponent of all ones is infinity or NaN, as in BF16
        constexpr uint32_t kExponent = (0x7Cu << kShift) * 0x00010001;
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

// The pairing for a product of two formats.
template <class FormatA, class FormatB>
inline constexpr Pairing kCommonPairing = Pairing::kStride4;
template <>
inline constexpr Pairing kCommonPairing<Nvfp4, Nvfp4> = Pairing::kStride2;
template <>
inline constexpr Pairing kCommonPairing<Mxfp8, Mxfp8> = Pairing::kStride2;
template <>
inline constexpr Pairing kCommonPairing<Mxfp8E5m2, Mxfp8E5m2> = Pairing::kStride2;
template <>
inline constexpr Pairing kCommonPairing<Mxfp8, Mxfp8E5m2> = Pairing::kStride2;
template <>
inline constexpr Pairing kCommonPairing<Mxfp8E5m2, Mxfp8> = Pairing::kStride2;

}  // namespace tilewright::blockscaled_gemm::sm90

// The scalar arithmetic of quantising. Each function gives the bits of the reference in
// tilewright/reference/{quantization,codes}.py. Functions marked TILEWRIGHT_BOTH compile for the host too, where tests
// try every float.
#pragma once

#include <cuda_runtime_api.h>

#include <cmath>
#include <cstdint>
#include <cstring>

namespace tilewright::quantize {

#define TILEWRIGHT_BOTH __host__ __device__ __forceinline__

constexpr uint32_t kInfinity = 0x7F800000;  // as bits of a float; larger magnitudes are NaN
constexpr uint32_t kE4m3Nan = 0x7F, kUe8m0Nan = 0xFF;

TILEWRIGHT_BOTH uint32_t bits_of(float value) {
#ifdef __CUDA_ARCH__
  return __float_as_uint(value);
#else
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
#endif
}

TILEWRIGHT_BOTH float float_of(uint32_t bits) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(bits);
#else
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
#endif
}

// Arithmetic that the compiler does not fuse: each result is rounded.
TILEWRIGHT_BOTH float multiply(float x, float y) {
#ifdef __CUDA_ARCH__
  return __fmul_rn(x, y);
#else
  return x * y;
#endif
}

TILEWRIGHT_BOTH float add(float x, float y) {
#ifdef __CUDA_ARCH__
  return __fadd_rn(x, y);
#else
  return x + y;
#endif
}

TILEWRIGHT_BOTH float divide(float x, float y) {
#ifdef __CUDA_ARCH__
  return __fdiv_rn(x, y);
#else
  return x / y;
#endif
}

// x * y + z, clamped to [0, 1]; NaN becomes 0. On the device the clamp is a free modifier of the instruction.
TILEWRIGHT_BOTH float saturating_fma(float x, float y, float z) {
#ifdef __CUDA_ARCH__
  float result;
  asm("fma.rn.sat.f32 %0, %1, %2, %3;" : "=f"(result) : "f"(x), "f"(y), "f"(z));
  return result;
#else
  float const sum = std::fma(x, y, z);
  return sum > 0.0f ? (sum < 1.0f ? sum : 1.0f) : 0.0f;
#endif
}

TILEWRIGHT_BOTH float saturating_product(float x, float y) {
#ifdef __CUDA_ARCH__
  float result;
  asm("mul.rn.sat.f32 %0, %1, %2;" : "=f"(result) : "f"(x), "f"(y));
  return result;
#else
  return saturating_fma(x, y, 0.0f);
#endif
}

// amax / kDivisor for an amax so small that the quotient is subnormal. Divides integers, with ties to even.
template <int kDivisor>
TILEWRIGHT_BOTH float subnormal_quotient(float amax) {
  auto const units = static_cast<uint32_t>(multiply(multiply(amax, 0x1p100f), 0x1p49f));
  uint32_t const quotient = units / kDivisor, twice = (units % kDivisor) * 2;
  return float_of(quotient + (twice + (quotient & 1) > kDivisor));
}

// amax / kDivisor, rounded to nearest, for an amax that is not negative. The product with the reciprocal is rounded;
// its remainder is exact and corrects it. For subnormal quotients the remainder does not tell ties, so they are divided
// as integers.
template <int kDivisor>
TILEWRIGHT_BOTH float divide_by(float amax) {
  constexpr float kInverse = 1.0f / kDivisor;
  constexpr float kSmall = kDivisor * 0x1p-126f;
  float const rough = multiply(amax, kInverse);
#ifdef __CUDA_ARCH__
  float quotient = __fmaf_rn(__fmaf_rn(-float(kDivisor), rough, amax), kInverse, rough);
#else
  float quotient = std::fma(std::fma(-float(kDivisor), rough, amax), kInverse, rough);
#endif
  uint32_t const small = bits_of(kSmall);
  if (__builtin_expect(bits_of(amax) - small >= kInfinity - small, 0)) {  // one comparison finds all rare cases
    quotient = bits_of(amax) < small ? subnormal_quotient<kDivisor>(amax) : amax;
  }
  return quotient;
}

// UE8M0, which rounds up, of divide_by<kMax>(amax), without the division. kMax is 6, 448 or 57344: 1.f * 2^e. Let E be
// the exponent of amax. If the significand of amax is at most 1.f, the rounded quotient is at most 2^(E - e), otherwise
// it is larger, so one comparison of significands gives the exponent. The exception is one amax whose subnormal
// quotient is slightly above 2^-127: kZero includes it.
template <int kMax>
TILEWRIGHT_BOTH uint32_t ue8m0_of_amax(uint32_t amax) {
  constexpr int kExponent = kMax == 6 ? 2 : kMax == 448 ? 8 : 15;
  constexpr uint32_t kFraction = kMax == 6 ? 0x400000 : 0x600000;
  static_assert(kMax == 6 || kMax == 448 || kMax == 57344);
  constexpr uint32_t kZero = (uint32_t(kExponent) << 23) + kFraction + 1;  // amax up to this gives byte 0
  uint32_t const byte = ((amax + (0x7FFFFF - kFraction)) >> 23) - kExponent;
  if (amax >= kInfinity) {
    return amax == kInfinity ? 0xFE : kUe8m0Nan;
  }
  return amax <= kZero ? 0 : byte;
}

// The factor by which elements are multiplied for a UE8M0 scale: 2^(127 - byte), or NaN.
TILEWRIGHT_BOTH float ue8m0_factor(uint32_t byte) {
  uint32_t const power = (254 - byte) << 23;
  return float_of(byte >= 254 ? (byte == 254 ? 0x00400000 : 0x7FFFFFFF) : power);
}

TILEWRIGHT_BOTH float decode_ue8m0(uint32_t byte) {
  return float_of(byte == 0 ? 0x00400000 : byte == kUe8m0Nan ? 0x7FFFFFFF : byte << 23);
}

// The float that an E4M3 code stands for.
TILEWRIGHT_BOTH float decode_e4m3(uint32_t code) {
  uint32_t const sign = (code & 0x80) << 24, size = code & 0x7F;
  if (size == kE4m3Nan) {
    return float_of(sign | 0x7FFFFFFF);
  }
  return float_of(bits_of(multiply(float_of(size << 20), 0x1p120f)) |
                  sign);  // the product is exact for subnormals, too
}

TILEWRIGHT_BOTH float decode_e5m2(uint32_t code) {
  uint32_t const sign = (code & 0x80) << 24, size = code & 0x7F;
  if (size >= 0x7C) {
    return float_of(sign | (size == 0x7C ? kInfinity : 0x7FFFFFFF));
  }
  return float_of(bits_of(multiply(float_of(size << 21), 0x1p112f)) | sign);
}

TILEWRIGHT_BOTH float decode_e2m1(uint32_t code) {
  return float_of(bits_of(multiply(float_of((code & 7) << 22), 0x1p126f)) | (code & 8) << 28);
}

// E4M3 (kMantissa 3) or E5M2 (kMantissa 2) of a float: rounds to nearest even and saturates. NaN becomes 0x7F.
template <int kMantissa>
TILEWRIGHT_BOTH uint32_t encode_fp8_in_software(float value) {
  constexpr int kBias = kMantissa == 3 ? 7 : 15;
  constexpr uint32_t kLargest = kMantissa == 3 ? 0x7E : 0x7B;
  constexpr int kDropped = 23 - kMantissa;
  uint32_t const size = bits_of(value) & 0x7FFFFFFF, sign = bits_of(value) >> 31 << 7;
  if (size > kInfinity) {
    return 0x7F;
  }
  constexpr uint32_t kNormal = uint32_t(127 - kBias + 1) << 23;  // the smallest normal number
  uint32_t code;
  if (size < kNormal) {  // adding 2^23 times the smallest subnormal rounds to a multiple of it
    constexpr float kMagic = kMantissa == 3 ? 0x1p14f : 0x1p7f;
    code = bits_of(add(float_of(size), kMagic)) - bits_of(kMagic);
  } else {
    uint32_t const odd = (size >> kDropped) & 1;
    code = ((size + ((1u << (kDropped - 1)) - 1 + odd)) >> kDropped) - (uint32_t(127 - kBias) << kMantissa);
  }
  return (code < kLargest ? code : kLargest) | sign;
}

TILEWRIGHT_BOTH uint32_t encode_e4m3(float value) {
#ifdef __CUDA_ARCH__
  uint16_t pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(value));
  return pair;
#else
  return encode_fp8_in_software<3>(value);
#endif
}

// Four floats as four bytes of FP8. The first is the lowest byte.
template <int kMantissa>
TILEWRIGHT_BOTH uint32_t encode_fp8_word(float a, float b, float c, float d) {
#ifdef __CUDA_ARCH__
  uint32_t word;
  if constexpr (kMantissa == 3) {
    asm("{\n.reg .b16 low, high;\ncvt.rn.satfinite.e4m3x2.f32 low, %2, %1;\n"
        "cvt.rn.satfinite.e4m3x2.f32 high, %4, %3;\nmov.b32 %0, {low, high};\n}\n"
        : "=r"(word)
        : "f"(a), "f"(b), "f"(c), "f"(d));
  } else {
    asm("{\n.reg .b16 low, high;\ncvt.rn.satfinite.e5m2x2.f32 low, %2, %1;\n"
        "cvt.rn.satfinite.e5m2x2.f32 high, %4, %3;\nmov.b32 %0, {low, high};\n}\n"
        : "=r"(word)
        : "f"(a), "f"(b), "f"(c), "f"(d));
  }
  return word;
#else
  return encode_fp8_in_software<kMantissa>(a) | encode_fp8_in_software<kMantissa>(b) << 8 |
         encode_fp8_in_software<kMantissa>(c) << 16 | encode_fp8_in_software<kMantissa>(d) << 24;
#endif
}

// 2^23 plus the E2M1 code of a rounded product x * factor that is not negative. NaN gives code 0.
//
// The code is a sum of three terms. Codes 0 to 4 count steps of 1/2 up to the value 2, codes 4 to 6 steps of 1 from 2
// to 4, and codes 6 to 7 the step of 2 from 4 to 6. Each addition rounds to nearest even. The sum of the earlier terms
// is even wherever a later term is not 0, so ties are rounded as E2M1 demands. Multiply-adds run at full rate,
// comparisons and logic at half of it.
TILEWRIGHT_BOTH float e2m1_sum(float value) {
  float const halves = saturating_product(value, 0.5f);
  float const ones = saturating_fma(value, 0.5f, -1.0f);
  float const twos = saturating_fma(value, 0.5f, -2.0f);
#ifdef __CUDA_ARCH__
  return __fadd_rn(__fmaf_rn(ones, 2.0f, __fmaf_rn(halves, 4.0f, 0x1p23f)), twos);
#else
  return std::fma(ones, 2.0f, std::fma(halves, 4.0f, 0x1p23f)) + twos;
#endif
}

// `word` shifted left by one bit, with the top bit of `next` shifted in. One instruction on the device.
TILEWRIGHT_BOTH uint32_t shift_in(uint32_t word, uint32_t next) {
#ifdef __CUDA_ARCH__
  return __funnelshift_l(next, word, 1);
#else
  return word << 1 | next >> 31;
#endif
}

// Eight E2M1 codes of x * factor, the first in the lowest bits. Unless the factor `is_regular`, `repair_word` must
// correct them.
TILEWRIGHT_BOTH uint32_t e2m1_word_in_software(float const (&x)[8], float factor) {
  uint32_t word = 0;
#pragma unroll
  for (int i = 7; i >= 0; --i) {
    word = shift_in(word, bits_of(x[i]));
    word = (word << 3) + bits_of(e2m1_sum(multiply(std::fabs(x[i]), factor)));
  }
  return word - 0xFB000000;  // the sum of the eight shifted 2^23, modulo 2^32
}

// `e2m1_word_in_software` does not handle products that are NaN, which occur only with a factor of NaN, infinity or 0.
// A factor of 0 comes from an amax of infinity. `nonzero_factor` replaces it by the smallest subnormal: finite products
// still round to 0, and products of infinities, which must become NaN, get a code that `repair_word` recognises.
constexpr uint32_t kNextToZero = 1;

TILEWRIGHT_BOTH float nonzero_factor(float factor) { return factor == 0.0f ? float_of(kNextToZero) : factor; }

TILEWRIGHT_BOTH bool is_regular(float factor) { return bits_of(factor) - 2 < kInfinity - 2; }

// Corrects eight codes that `e2m1_word_in_software` computed with a factor that is not regular. NaN becomes +6.
TILEWRIGHT_BOTH uint32_t repair_word(uint32_t word, float factor) {
  if (bits_of(factor) > kInfinity) {
    return 0x77777777;
  }
  if (bits_of(factor) == kInfinity) {  // zeros give NaN, all other elements 6 or -6
    uint32_t const nonzeros = (word | word >> 1 | word >> 2) & 0x11111111, zeros = nonzeros ^ 0x11111111;
    return (word & nonzeros * 15) | zeros * 7;
  }
  return word & ~((word & 0x11111111) << 3);  // infinities give NaN, all other elements 0 or -0
}

// The E2M1 code of a value, by comparison with the boundaries between codes. Tests compare `e2m1_word_in_software` with
// it.
TILEWRIGHT_BOTH uint32_t encode_e2m1(float value) {
  uint32_t const size = bits_of(value) & 0x7FFFFFFF;
  if (size > kInfinity) {
    return 7;
  }
  float const v = float_of(size);
  uint32_t const code = (v > 0.25f) + (v >= 0.75f) + (v > 1.25f) + (v >= 1.75f) + (v > 2.5f) + (v >= 3.5f) + (v > 5.0f);
  return code | bits_of(value) >> 31 << 3;
}

#ifdef __CUDA_ARCH__
#if __CUDA_ARCH__ >= 1000
#define TILEWRIGHT_CONVERTS_E2M1 1  // all targets starting at sm_100 are family- or architecture-specific
#endif

// Eight E2M1 codes of x * factor by the conversion instruction. Any factor is allowed.
__device__ __forceinline__ uint32_t e2m1_word_by_instruction(float const (&x)[8], float factor) {
  uint32_t word = 0;
#ifdef TILEWRIGHT_CONVERTS_E2M1
  asm("{\n.reg .b8 a, b, c, d;\n"
      "cvt.rn.satfinite.e2m1x2.f32 a, %2, %1;\ncvt.rn.satfinite.e2m1x2.f32 b, %4, %3;\n"
      "cvt.rn.satfinite.e2m1x2.f32 c, %6, %5;\ncvt.rn.satfinite.e2m1x2.f32 d, %8, %7;\n"
      "mov.b32 %0, {a, b, c, d};\n}\n"
      : "=r"(word)
      : "f"(multiply(x[0], factor)), "f"(multiply(x[1], factor)), "f"(multiply(x[2], factor)),
        "f"(multiply(x[3], factor)), "f"(multiply(x[4], factor)), "f"(multiply(x[5], factor)),
        "f"(multiply(x[6], factor)), "f"(multiply(x[7], factor)));
#endif
  return word;
}
#endif

// The E4M3 code of an NVFP4 block's scale.
TILEWRIGHT_BOTH uint32_t nvfp4_scale(float amax, float global_scale) {
  return encode_e4m3(multiply(global_scale, divide_by<6>(amax)));
}

// The factor 1 / (scale / global scale) by which the elements of an NVFP4 block are multiplied. In a block of zeros any
// finite factor gives zeros; its caller handles a factor that is not finite.
TILEWRIGHT_BOTH float nvfp4_factor(uint32_t code, float global_scale) {
  uint32_t const size = code & 0x7F, gs = bits_of(global_scale) & 0x7FFFFFFF;
  if (size == 0 || size == kE4m3Nan) {  // quotients for which the division would take its slow path
    bool const infinite = size == 0 && gs != 0 && gs <= kInfinity;
    return float_of(infinite ? kInfinity | ((code << 24 ^ bits_of(global_scale)) & 0x80000000) : 0x7FFFFFFF);
  }
  return divide(1.0f, divide(decode_e4m3(code), global_scale));
}

// The scale of FP8 in blocks of 128: max(amax, 1e-4) / 448. NaN stays NaN.
TILEWRIGHT_BOTH float fp8_scale(float amax) { return divide_by<448>(amax < 1e-4f ? 1e-4f : amax); }

}  // namespace tilewright::quantize

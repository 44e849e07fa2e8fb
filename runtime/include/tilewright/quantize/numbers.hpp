// The scalar mathematics of quantising, exact: each function is defined by tilewright/reference/{quantization,
// codes}.py, bit for bit. All but what is marked compiles for the host too, where tests ask it about every float.
#pragma once

#include <cuda_runtime_api.h>

#include <cmath>
#include <cstdint>
#include <cstring>

namespace tilewright::quantize {

#define TILEWRIGHT_BOTH __host__ __device__ __forceinline__

constexpr uint32_t kInfinity = 0x7F800000;  // as a float's bits; what is above is NaN
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

// Products and sums that the compiler does not fuse.
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

// x * y + z, limited to [0, 1]; NaN is 0. On the device the limit costs nothing.
TILEWRIGHT_BOTH float limited_fma(float x, float y, float z) {
#ifdef __CUDA_ARCH__
  float result;
  asm("fma.rn.sat.f32 %0, %1, %2, %3;" : "=f"(result) : "f"(x), "f"(y), "f"(z));
  return result;
#else
  float const sum = std::fma(x, y, z);
  return sum > 0.0f ? (sum < 1.0f ? sum : 1.0f) : 0.0f;
#endif
}

TILEWRIGHT_BOTH float limited_product(float x, float y) {
#ifdef __CUDA_ARCH__
  float result;
  asm("mul.rn.sat.f32 %0, %1, %2;" : "=f"(result) : "f"(x), "f"(y));
  return result;
#else
  return limited_fma(x, y, 0.0f);
#endif
}

// amax / kDivisor of an amax so small that the quotient is subnormal: a quotient of integers, ties to even.
template <int kDivisor>
TILEWRIGHT_BOTH float subnormal_share(float amax) {
  auto const units = static_cast<uint32_t>(multiply(multiply(amax, 0x1p100f), 0x1p49f));
  uint32_t const quotient = units / kDivisor, twice = (units % kDivisor) * 2;
  return float_of(quotient + (twice + (quotient & 1) > kDivisor));
}

// amax / kDivisor, rounded to nearest, of an amax that is not negative. The remainder of the rounded product
// with the reciprocal is exact and corrects it, but for subnormal quotients, whose ties it cannot see.
template <int kDivisor>
TILEWRIGHT_BOTH float share(float amax) {
  constexpr float kInverse = 1.0f / kDivisor;
  constexpr float kSmall = kDivisor * 0x1p-126f;
  float const rough = multiply(amax, kInverse);
#ifdef __CUDA_ARCH__
  float quotient = __fmaf_rn(__fmaf_rn(-float(kDivisor), rough, amax), kInverse, rough);
#else
  float quotient = std::fma(std::fma(-float(kDivisor), rough, amax), kInverse, rough);
#endif
  uint32_t const small = bits_of(kSmall);
  if (__builtin_expect(bits_of(amax) - small >= kInfinity - small, 0)) {  // one comparison for all that is rare
    quotient = bits_of(amax) < small ? subnormal_share<kDivisor>(amax) : amax;
  }
  return quotient;
}

// UE8M0 of share<kMax>(amax), for kMax of 6, 448 or 57344, without the division. A quotient by 1.f * 2^e whose
// amax has a significand up to 1.f is at most 2^(E - e) after rounding, and above it beyond: so the exponent
// alone counts. It rounds up, as UE8M0 does, but for one amax whose subnormal quotient is a hair above 2^-127.
template <int kMax>
TILEWRIGHT_BOTH uint32_t ue8m0_of_amax(uint32_t amax) {
  constexpr int kExponent = kMax == 6 ? 2 : kMax == 448 ? 8 : 15;
  constexpr uint32_t kFraction = kMax == 6 ? 0x400000 : 0x600000;
  static_assert(kMax == 6 || kMax == 448 || kMax == 57344);
  constexpr uint32_t kZero = (uint32_t(kExponent) << 23) + kFraction + 1;  // and what is below: byte 0
  uint32_t const byte = ((amax + (0x7FFFFF - kFraction)) >> 23) - kExponent;
  if (amax >= kInfinity) {
    return amax == kInfinity ? 0xFE : kUe8m0Nan;
  }
  return amax <= kZero ? 0 : byte;
}

// The factor of elements for a UE8M0 scale: 2^(127 - byte), or NaN.
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
  return float_of(bits_of(multiply(float_of(size << 20), 0x1p120f)) | sign);  // subnormals too
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

// E4M3 (kMantissa 3) or E5M2 (2) of a float: nearest even, saturating, NaN is 0x7F.
template <int kMantissa>
TILEWRIGHT_BOTH uint32_t encode_fp8_in_software(float value) {
  constexpr int kBias = kMantissa == 3 ? 7 : 15;
  constexpr uint32_t kLargest = kMantissa == 3 ? 0x7E : 0x7B;
  constexpr int kDropped = 23 - kMantissa;
  uint32_t const size = bits_of(value) & 0x7FFFFFFF, sign = bits_of(value) >> 31 << 7;
  if (size > kInfinity) {
    return 0x7F;
  }
  constexpr uint32_t kNormal = uint32_t(127 - kBias + 1) << 23;  // the least normal one
  uint32_t code;
  if (size < kNormal) {  // a multiple of the least subnormal: adding 2^23 of those rounds to one
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

// Four floats as four bytes, the first one lowest.
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

// 2^23 + the E2M1 code of a value that is not negative: of a product x * factor, rounded. Codes 0 to 4 are the
// halves up to 2, rounded to nearest even; 4 to 6 add the ones from 2 to 4, and 6 and 7 the two from 4 to 6.
// What was added before is even wherever the next part is not 0, so that ties go where they should. All of it
// runs at the full rate of multiply-adds; comparisons and logic have half of it. NaN makes 0.
TILEWRIGHT_BOTH float e2m1_sum(float value) {
  float const halves = limited_product(value, 0.5f);
  float const ones = limited_fma(value, 0.5f, -1.0f);
  float const twos = limited_fma(value, 0.5f, -2.0f);
#ifdef __CUDA_ARCH__
  return __fadd_rn(__fmaf_rn(ones, 2.0f, __fmaf_rn(halves, 4.0f, 0x1p23f)), twos);
#else
  return std::fma(ones, 2.0f, std::fma(halves, 4.0f, 0x1p23f)) + twos;
#endif
}

// `word` moved up by a bit, in whose place comes the top one of `next`: one instruction on the device.
TILEWRIGHT_BOTH uint32_t shift_in(uint32_t word, uint32_t next) {
#ifdef __CUDA_ARCH__
  return __funnelshift_l(next, word, 1);
#else
  return word << 1 | next >> 31;
#endif
}

// Eight E2M1 codes of x * factor, the first one lowest. Right for factors of `regular`; others want `mend`.
TILEWRIGHT_BOTH uint32_t e2m1_word_in_software(float const (&x)[8], float factor) {
  uint32_t word = 0;
#pragma unroll
  for (int i = 7; i >= 0; --i) {
    word = shift_in(word, bits_of(x[i]));
    word = (word << 3) + bits_of(e2m1_sum(multiply(std::fabs(x[i]), factor)));
  }
  return word - 0xFB000000;  // what the eight 2^23 amount to, modulo 2^32
}

// `e2m1_word_in_software` sees no NaN: where the factor is NaN, infinite or 0, products may be. For 0, which is
// an amax of infinity, `tame` puts a number so small that all finite products round to 0 like it.
constexpr uint32_t kNextToZero = 1;

TILEWRIGHT_BOTH float tame(float factor) { return factor == 0.0f ? float_of(kNextToZero) : factor; }

TILEWRIGHT_BOTH bool regular(float tamed) { return bits_of(tamed) - 2 < kInfinity - 2; }

// Corrects eight codes that `e2m1_word_in_software` made with an irregular factor. NaN becomes +6.
TILEWRIGHT_BOTH uint32_t mend(uint32_t word, float factor) {
  if (bits_of(factor) > kInfinity) {
    return 0x77777777;
  }
  if (bits_of(factor) == kInfinity) {  // products of zeros are NaN, all others 6 or -6
    uint32_t const other = (word | word >> 1 | word >> 2) & 0x11111111, zero = other ^ 0x11111111;
    return (word & other * 15) | zero * 7;
  }
  return word & ~((word & 0x11111111) << 3);  // those of infinities are NaN, all others 0 or -0
}

// The code of a product, by the boundaries between codes: tests compare `e2m1_word_in_software` with it.
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
#define TILEWRIGHT_CONVERTS_E2M1 1  // every target of ours from sm_100 on is of a family or an architecture
#endif

// Eight codes of x * factor by the conversion instruction, for any factor.
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

// NVFP4: the scale's code, and the factor 1 / (scale / gs) of that code. Where amax is 0 the factor ought to be
// 0; products with it are zeros, but for a factor that is not finite.
TILEWRIGHT_BOTH uint32_t nvfp4_scale(float amax, float global_scale) {
  return encode_e4m3(multiply(global_scale, share<6>(amax)));
}

TILEWRIGHT_BOTH float nvfp4_factor(uint32_t code, float global_scale) {
  uint32_t const size = code & 0x7F, gs = bits_of(global_scale) & 0x7FFFFFFF;
  if (size == 0 || size == kE4m3Nan) {  // quotients that would take the division's long way
    bool const infinite = size == 0 && gs != 0 && gs <= kInfinity;
    return float_of(infinite ? kInfinity | ((code << 24 ^ bits_of(global_scale)) & 0x80000000) : 0x7FFFFFFF);
  }
  return divide(1.0f, divide(decode_e4m3(code), global_scale));
}

// FP8 in blocks of 128: scale = max(amax, 1e-4) / 448; NaN stays NaN.
TILEWRIGHT_BOTH float fp8_scale(float amax) { return share<448>(amax < 1e-4f ? 1e-4f : amax); }

}  // namespace tilewright::quantize

// How the main loop of early.hpp decodes a format. It has all scales of a stage before it decodes, so it can make
// factors of them once for a stage, and look once whether they are usual ones (quick.hpp).
//
// An EarlyFormat has
//   Unusual                             the type of `unusual`
//   kIsQuick                            whether the quick decoder is used where scales are usual ones
//   kOneScale                           whether a row has one scale in a whole stage
//   are_usual(scales)                   whether a thread's scales are usual ones
//   unusual(usual)                      not 0 if a thread of the warp has other scales than usual ones
//   factors(scales)                     what codes are multiplied with, made once for a stage
//   decode(word, factors, step, out)    the four pairs of a step's word, where scales are usual ones
//
//   format                       factors of a stage                       arithmetic for a pair of codes
//   INT4 as BF16, groups of 128  powers of two times the scales, and      one multiply-add
//                                -8 times the scales
//   MXFP4                        the scales; `decode` makes factors       one multiplication (quick.hpp)
//   others                       the scales                               that of Format::decode (decode.hpp)
#pragma once

#include <cstdint>

#include "tilewright/mixed_gemm/quick_int4.hpp"

namespace tilewright::mixed_gemm {

// A format whose factors are its scales.
template <class Format>
struct EarlyFormat {
  using Scales = typename Format::Scales;
  using Unusual = bool;
  static constexpr bool kIsQuick = kHasUsualScales<Format>, kOneScale = false;

  static __device__ __forceinline__ bool unusual(bool usual) { return kIsQuick && __any_sync(0xFFFFFFFF, !usual); }
  static __device__ __forceinline__ bool are_usual(Scales const& scales) {
    if constexpr (kIsQuick) {
      return detail::Usual<Format>::are_usual(scales);
    }
    return true;
  }
  static __device__ __forceinline__ Scales factors(Scales const& scales) { return scales; }
  static __device__ __forceinline__ void decode(uint32_t word, Scales const& scales, int step, uint32_t* out) {
    if constexpr (kIsQuick) {
      detail::Usual<Format>::decode(word, scales, step, out);
    } else {
      uint32_t pairs[4];
      Format::decode(&word, scales, step, pairs);
#pragma unroll
      for (int pair = 0; pair < 4; ++pair) {
        out[pair] = pairs[pair];
      }
    }
  }
};

// INT4 in groups of 128: a row has one scale in a whole stage. Scales below 2^-5 are usual ones, zeros and subnormal
// ones too. As in quick_int4.hpp, one instruction subtracts 8 and applies the scale. The factors take few instructions,
// and none of the pipe of masks and shifts, which the decoder keeps busy.
template <>
struct EarlyFormat<Int4<Bf16, 128, false>> {
  using Scales = typename Int4<Bf16, 128, false>::Scales;
  using Unusual = uint32_t;
  static constexpr bool kIsQuick = true, kOneScale = true;
  // The low half of each word belongs to the thread's row g, the high half to row g + 8. `scales`: 2^133 times the
  // scale of row g, 2^129 times that of row g + 8. `added`: -8 times the scales.
  struct Factors {
    uint32_t scales, added;
  };

  // A mask of the warp's threads that have other scales than usual ones. The compiler would keep a bool as a byte.
  static __device__ __forceinline__ uint32_t unusual(bool usual) { return __ballot_sync(0xFFFFFFFF, !usual); }
  static __device__ __forceinline__ bool are_usual(Scales const& scales) {
    uint32_t usual;
    asm("{\n.reg .pred g, h;\n.reg .b32 magnitudes;\nabs.bf16x2 magnitudes, %1;\n"
        "setp.lt.bf16x2 g|h, magnitudes, %2;\nand.pred g, g, h;\nselp.u32 %0, 1, 0, g;\n}\n"
        : "=r"(usual)
        : "r"(scales.words[0]), "r"(0x3D003D00));
    return usual != 0;
  }
  static __device__ __forceinline__ Factors factors(Scales const& scales) {
    using Pairs = detail::Pairs<Bf16>;
    uint32_t const raised = Pairs::multiply(scales.words[0], 0x60806080);  // 2^66 times the scales
    return {Pairs::multiply(raised, 0x5F006100), Pairs::multiply(scales.words[0], 0xC100C100)};
  }
  static __device__ __forceinline__ void decode(uint32_t word, Factors const& factors, int, uint32_t* out) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      uint32_t const codes = word >> (8 * half);
      out[2 * half] = scaled_by_low(codes & 0x000F000F, factors);
      out[2 * half + 1] = scaled_by_high(codes & 0x00F000F0, factors);
    }
  }

 private:
  // Both codes of a pair belong to one row, so both are multiplied by the low (the high) half of both factors. The
  // instruction reads that half of a register twice, so no instruction copies it.
  static __device__ __forceinline__ uint32_t scaled_by_low(uint32_t codes, Factors const& factors) {
    uint32_t result;
    asm("{\n.reg .b16 s, t, a, b;\n.reg .b32 scale, added;\nmov.b32 {s, t}, %2;\nmov.b32 {a, b}, %3;\n"
        "mov.b32 scale, {s, s};\nmov.b32 added, {a, a};\nfma.rn.bf16x2 %0, %1, scale, added;\n}\n"
        : "=r"(result)
        : "r"(codes), "r"(factors.scales), "r"(factors.added));
    return result;
  }
  static __device__ __forceinline__ uint32_t scaled_by_high(uint32_t codes, Factors const& factors) {
    uint32_t result;
    asm("{\n.reg .b16 s, t, a, b;\n.reg .b32 scale, added;\nmov.b32 {s, t}, %2;\nmov.b32 {a, b}, %3;\n"
        "mov.b32 scale, {t, t};\nmov.b32 added, {b, b};\nfma.rn.bf16x2 %0, %1, scale, added;\n}\n"
        : "=r"(result)
        : "r"(codes), "r"(factors.scales), "r"(factors.added));
    return result;
  }
};

}  // namespace tilewright::mixed_gemm

// How kernels that load a stage early (early.hpp) decode it.
#pragma once

#include <cstdint>

#include "tilewright/mixed_gemm/quick_int4.hpp"

namespace tilewright::mixed_gemm {

// What a warpgroup multiplies the codes of a stage with: a format's scales, or what is made of them once for a stage.
// See Usual (quick.hpp).
template <class Format>
struct EarlyFormat {
  using Scales = typename Format::Scales;
  using Unusual = bool;
  static constexpr bool kIsQuick = kHasUsualScales<Format>, kOneScale = false;

  // Whether a thread of the warp has other scales than usual ones.
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

// All of a stage has one scale. Usual ones are below 2^-5, also zeros and subnormal ones. As in quick_int4.hpp, one
// instruction subtracts 8 and applies the scale. Few instructions make the factors, and none for the units that mask
// and shift, which the decoder keeps busy.
template <>
struct EarlyFormat<Int4<Bf16, 128, false>> {
  using Scales = typename Int4<Bf16, 128, false>::Scales;
  using Unusual = uint32_t;
  static constexpr bool kIsQuick = true, kOneScale = true;
  // Of rows g and g + 8: 2^133 and 2^129 times the scales, and -8 times the scales.
  struct Factors {
    uint32_t scales, added;
  };

  // The warp's threads that have other scales than usual ones. A bool would be kept as a byte.
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
  // The low or the high half of both factors serves both codes of a pair. The instruction takes it from there.
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

// The formats. A format turns an amax into a scale and a factor, and encodes values times this factor.
#pragma once

#include <cstdint>

#include "tilewright/quantize/elements.hpp"
#include "tilewright/quantize/half_pairs.hpp"
#include "tilewright/quantize/numbers.hpp"
#include "tilewright/quantize/thresholds.hpp"

namespace tilewright::quantize {

namespace detail {

template <int kMantissa>
struct Fp8Data {
  static constexpr int kBits = 8;

  template <int kWords, class Values>
  static __device__ __forceinline__ void encode(Values const& values, float factor, uint32_t (&words)[kWords]) {
#pragma unroll
    for (int part = 0; part < kWords / 2; ++part) {
      float x[8];
      values.floats(part, x);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        words[part * 2 + i] =
            encode_fp8_word<kMantissa>(multiply(x[4 * i], factor), multiply(x[4 * i + 1], factor),
                                       multiply(x[4 * i + 2], factor), multiply(x[4 * i + 3], factor));
      }
    }
  }
};

struct Fp4Data {
  static constexpr int kBits = 4;

  // `factor` must come from `nonzero_factor`. With `all_zero` the amax is 0, and the factor may be anything.
  template <int kWords, class Values>
  static __device__ __forceinline__ void encode(Values const& values, float factor, uint32_t (&words)[kWords],
                                                bool all_zero = false) {
#ifdef TILEWRIGHT_CONVERTS_E2M1
    factor = all_zero ? 0.0f : factor;
#endif
#pragma unroll
    for (int part = 0; part < kWords; ++part) {
      float x[8];
      values.floats(part, x);
#ifdef TILEWRIGHT_CONVERTS_E2M1
      words[part] = e2m1_word_by_instruction(x, factor);
#else
      words[part] = e2m1_word_in_software(x, factor);
#endif
    }
#ifndef TILEWRIGHT_CONVERTS_E2M1
    if (__builtin_expect(!is_regular(factor), 0)) {
#pragma unroll
      for (int part = 0; part < kWords; ++part) {
        words[part] = all_zero ? words[part] : repair_word(words[part], factor);
      }
    }
#endif
  }
};

// E2M1 data for factors that are powers of two or NaN.
struct Fp4DataByPowers : Fp4Data {
  using Fp4Data::encode;

#ifndef TILEWRIGHT_CONVERTS_E2M1
  template <int kWords, class Type, int kCount>
  static __device__ __forceinline__ void encode(Pairs<Type, kCount> const& values, float factor,
                                                uint32_t (&words)[kWords]) {
#pragma unroll
    for (int part = 0; part < kWords; ++part) {
      float x[8];
      values.floats(part, x);
      words[part] = e2m1_word_of_pairs<Type::kSignificand>(x, factor);
    }
  }
#endif
};

}  // namespace detail

// A format has kBits (of an element), kBlock (elements that share a scale), kByteScales (scales are bytes, otherwise
// floats) and `Scales`. A thread constructs one `Scales`, which computes a block's scale from its amax and encodes the
// block. A format with `kGlobal` also has `ScalesPerRow`, for launches with a global scale per row.

// NVFP4: E2M1 in blocks of 16 with E4M3 scales and a global scale. With one global scale for all rows there are only
// 128 factors, which a table in shared memory holds. If not `kExact`, reciprocals may be a few units in the last place
// off.
template <bool kExact>
struct Nvfp4 {
  static constexpr int kBits = 4, kBlock = 16;
  static constexpr bool kByteScales = true, kGlobal = true;
  static constexpr int kSharedBytes = kExact ? 256 * 4 : 0;

  struct ScalesPerRow {
    template <class Params>
    __device__ __forceinline__ ScalesPerRow(Params const&, char*) {}

    template <int kThreads, class Params>
    __device__ __forceinline__ void prepare(Params const&) {}

    template <class Params>
    __device__ __forceinline__ float global_scale_of(Params const& params, int64_t row, bool counts) const {
      return counts ? params.global_scale[row] : 1.0f;
    }

    template <int kWords, class Values>
    __device__ __forceinline__ uint32_t encode(Values const& values, float amax, float global_scale,
                                               uint32_t (&words)[kWords]) const {
      uint32_t const code = code_of(amax, global_scale);
      float const factor =
          kExact ? nonzero_factor(nvfp4_factor(code, global_scale)) : approximate_factor(code, global_scale);
      detail::Fp4Data::encode(values, factor, words, amax == 0.0f);
      return code;
    }
  };

  struct Scales {
    float const* table;
    float global;

    template <class Params>
    __device__ __forceinline__ Scales(Params const&, char* memory)
        : table(reinterpret_cast<float const*>(memory)), global(1.0f) {}

    // Computes the table. Called by the first `kThreads` threads of the block, which are all that use scales.
    template <int kThreads, class Params>
    __device__ __forceinline__ void prepare(Params const& params) {
      if (params.global_scale != nullptr) {
        global = *params.global_scale;
      }
      if constexpr (kExact) {
        static_assert(kThreads >= 128);
        if (threadIdx.x < 128) {  // a negative scale has a negative global scale, so the quotient is the same
          float const factor = nonzero_factor(nvfp4_factor(threadIdx.x, fabsf(global)));
          const_cast<float*>(table)[threadIdx.x] = factor;
          const_cast<float*>(table)[threadIdx.x + 128] = factor;
        }
        asm volatile("bar.sync 1, %0;" ::"n"(kThreads) : "memory");
      }
    }

    template <class Params>
    __device__ __forceinline__ float global_scale_of(Params const&, int64_t, bool) const {
      return global;
    }

    template <int kWords, class Values>
    __device__ __forceinline__ uint32_t encode(Values const& values, float amax, float global_scale,
                                               uint32_t (&words)[kWords]) const {
      uint32_t const code = code_of(amax, global_scale);
      float const factor = kExact ? table[code] : approximate_factor(code, global_scale);
      detail::Fp4Data::encode(values, factor, words, amax == 0.0f);
      return code;
    }
  };

 private:
  static __device__ __forceinline__ uint32_t code_of(float amax, float global_scale) {
    return kExact ? nvfp4_scale(amax, global_scale) : encode_e4m3(multiply(global_scale, multiply(amax, 1.0f / 6)));
  }

  static __device__ __forceinline__ float approximate_factor(uint32_t code, float global_scale) {
    float reciprocal;
    asm("rcp.approx.f32 %0, %1;" : "=f"(reciprocal) : "f"(decode_e4m3(code)));
    return nonzero_factor(multiply(global_scale, reciprocal));
  }
};

// NVFP4 of E4M3 elements, for targets without an instruction that converts to E2M1. With one global scale for all rows,
// the table holds scales and thresholds.
struct Nvfp4OfE4m3 : Nvfp4<true> {
  static constexpr int kSharedBytes = 128 * sizeof(Thresholds);

  struct Scales {
    uint4* table;

    template <class Params>
    __device__ __forceinline__ Scales(Params const&, char* memory) : table(reinterpret_cast<uint4*>(memory)) {}

    // Computes the table, under the same conditions as Nvfp4.
    template <int kThreads, class Params>
    __device__ __forceinline__ void prepare(Params const& params) {
      static_assert(kThreads >= 128);
      if (threadIdx.x < 128) {
        float const global = params.global_scale != nullptr ? *params.global_scale : 1.0f;
        Thresholds const thresholds = thresholds_of_amax(threadIdx.x, global);
        table[2 * threadIdx.x] =
            make_uint4(thresholds.scale, thresholds.least[0], thresholds.least[1], thresholds.least[2]);
        table[2 * threadIdx.x + 1] =
            make_uint4(thresholds.least[3], thresholds.least[4], thresholds.least[5], thresholds.least[6]);
      }
      asm volatile("bar.sync 1, %0;" ::"n"(kThreads) : "memory");
    }

    template <class Params>
    __device__ __forceinline__ float global_scale_of(Params const&, int64_t, bool) const {
      return 1.0f;  // the table includes the global scale
    }

    template <int kWords>
    __device__ __forceinline__ uint32_t encode(E4m3Words const& values, float, float, uint32_t (&words)[kWords]) const {
      SortedE4m3 const sorted(values.words);
      uint32_t const row = 2 * sorted.amax();
      uint4 const first = table[row], second = table[row + 1];
      uint32_t const least[] = {first.y, first.z, first.w, second.x, second.y, second.z, second.w};
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        words[half] = sorted.encode(half, least);
      }
      if (__builtin_expect(first.x >= kZeroIsNan, 0)) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          words[half] = repair_word(words[half], float_of(first.x >= kAllIsNan ? 0x7FFFFFFF : kInfinity));
        }
      }
      return first.x;  // the caller stores its lowest byte
    }
  };
};

// The base of formats without a global scale.
struct NoGlobalScale {
  template <class Params>
  __device__ __forceinline__ NoGlobalScale(Params const&, char*) {}

  template <int kThreads, class Params>
  __device__ __forceinline__ void prepare(Params const&) {}

  template <class Params>
  __device__ __forceinline__ float global_scale_of(Params const&, int64_t, bool) const {
    return 1.0f;
  }
};

// MX: blocks of 32 with UE8M0 scales. `Data` encodes E2M1, E4M3 or E5M2.
template <class Data, int kMax>
struct Mx {
  static constexpr int kBits = Data::kBits, kBlock = 32;
  static constexpr bool kByteScales = true, kGlobal = false;
  static constexpr int kSharedBytes = 0;

  struct Scales : NoGlobalScale {
    using NoGlobalScale::NoGlobalScale;

    template <int kWords, class Values>
    __device__ __forceinline__ uint32_t encode(Values const& values, float amax, float,
                                               uint32_t (&words)[kWords]) const {
      uint32_t const scale = ue8m0_of_amax<kMax>(bits_of(amax));
      Data::encode(values, ue8m0_factor(scale), words);
      return scale;
    }
  };
};

using Mxfp4 = Mx<detail::Fp4DataByPowers, 6>;
using Mxfp8 = Mx<detail::Fp8Data<3>, 448>;
using Mxfp8E5m2 = Mx<detail::Fp8Data<2>, 57344>;

// E4M3 in blocks of 128 columns and one row or 128 rows. A scale is the float max(amax, 1e-4) / 448 or, in packed
// layouts, this number rounded up to a power of two, as UE8M0. The layout is a run-time argument.
struct Fp8 {
  static constexpr int kBits = 8, kBlock = 128;
  static constexpr bool kByteScales = false, kGlobal = false;
  static constexpr int kSharedBytes = 0;

  struct Scales : NoGlobalScale {
    bool packed;

    template <class Params>
    __device__ __forceinline__ Scales(Params const& params, char* memory)
        : NoGlobalScale(params, memory), packed(params.packed) {}

    // Returns the scale: the bits of a float, or a byte.
    template <int kWords, class Values>
    __device__ __forceinline__ uint32_t encode(Values const& values, float amax, float,
                                               uint32_t (&words)[kWords]) const {
      uint32_t scale;
      float factor;
      if (packed) {
        scale = ue8m0_of_amax<448>(bits_of(amax < 1e-4f ? 1e-4f : amax));
        factor = ue8m0_factor(scale);
      } else {
        float const value = fp8_scale(amax);
        scale = bits_of(value);
        factor = divide(1.0f, value);
      }
      detail::Fp8Data<3>::encode(values, factor, words);
      return scale;
    }
  };
};

}  // namespace tilewright::quantize

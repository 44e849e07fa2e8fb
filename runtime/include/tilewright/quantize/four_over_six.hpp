// NVFP4 whose blocks have the better of two scales: one makes a block's amax 6, the other makes it 4 (J. Cook et al.,
// "Four Over Six", arXiv 2512.02010). E2M1 has no number between 4 and 6, so that elements a little below the amax are
// often nearer to a multiple of the second scale.
#pragma once

#include <cstdint>

#include "tilewright/quantize/kernel.hpp"

namespace tilewright::quantize {

enum class BlockError { kMse, kMae };  // the sum of squares, or of magnitudes

template <BlockError kError>
struct FourOverSix : Nvfp4<true> {
 private:
  using Base = Nvfp4<true>;

  // Scales of which `encode` takes the one with the smaller error, that of 6 if they are equal or not comparable.
  template <class OfSix>
  struct Better : OfSix {
    using OfSix::OfSix;

    template <int kWords, class Values>
    __device__ __forceinline__ uint32_t encode(Values const& values, float amax, float global_scale,
                                               uint32_t (&words)[kWords]) const {
      uint32_t const six = OfSix::encode(values, amax, global_scale, words);
      uint32_t const four = encode_e4m3(multiply(global_scale, multiply(amax, 0.25f)));
      uint32_t others[kWords];
      detail::Fp4Data::encode(values, factor_of(*this, four, global_scale), others, amax == 0.0f);
      if (!(error(values, others, four, global_scale) < error(values, words, six, global_scale))) {
        return six;
      }
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
        words[i] = others[i];
      }
      return four;
    }
  };

  static __device__ __forceinline__ float factor_of(Base::Scales const& scales, uint32_t code, float) {
    return scales.table[code];
  }

  static __device__ __forceinline__ float factor_of(Base::ScalesPerRow const&, uint32_t code, float global_scale) {
    return nonzero_factor(nvfp4_factor(code, global_scale));
  }

  // The error of a block, times the global scale or its square. Added up in the order of k, each operation rounded.
  template <int kWords, class Values>
  static __device__ __forceinline__ float error(Values const& values, uint32_t const (&words)[kWords], uint32_t code,
                                                float global_scale) {
    static_assert(kWords == 2, "a thread has a whole block");
    float const scale = decode_e4m3(code);
    float sum = 0.0f;
#pragma unroll
    for (int part = 0; part < kWords; ++part) {
      float x[8];
      values.floats(part, x);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        float const element = decode_e2m1(words[part] >> 4 * i & 15);
        float const off = add(multiply(element, scale), -multiply(x[i], global_scale));
        sum = add(sum, kError == BlockError::kMse ? multiply(off, off) : fabsf(off));
      }
    }
    return sum;
  }

 public:
  using Scales = Better<Base::Scales>;
  using ScalesPerRow = Better<Base::ScalesPerRow>;
};

}  // namespace tilewright::quantize

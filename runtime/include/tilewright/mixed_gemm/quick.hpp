// The quick decoder: decodes MXFP4 to BF16 in fewer instructions than decode.hpp, where the scales are *usual* ones.
// The weights are the same numbers.
//
// Decoding bounds products of few rows: an SM issues at most four instructions in a clock. A scale is usual if it is
// neither very large nor NaN (the limits stand at each format). Then a number of BF16 holds the scale times the power
// of two that a code's bits lack, so that one instruction applies both. A thread decodes a piece on the assumption that
// its scales are usual, and looks at them. Where a thread of the warp has another scale, the warp decodes the piece
// again, as decode.hpp does.
#pragma once

#include <cstdint>
#include <type_traits>

#include "tilewright/mixed_gemm/decode.hpp"

namespace tilewright::mixed_gemm {

namespace detail {

// The four pairs of a word of E2M1 as BF16 of 2^-126 times the values.
__device__ __forceinline__ void e2m1_as_bf16(uint32_t word, uint32_t (&out)[4]) {
  constexpr uint32_t kSigns = 0x80008000, kMagnitudes = 0x01C001C0;
  out[0] = word & (kSigns | kMagnitudes);
  out[1] = (word << 3) & (kSigns | kMagnitudes);
  // One multiplication moves the signs by 2 bits and the magnitudes by 6. What it leaves elsewhere lies in bits 2 to 5,
  // which the mask clears.
  out[2] = ((word & 0x20072007) * 68) & (kSigns | kMagnitudes);
  out[3] = ((word << 1) & kSigns) | ((word >> 3) & kMagnitudes);
}

// Multiplies the pairs of a word of E2M1 by the factors of the thread's two rows.
__device__ __forceinline__ void scaled_e2m1(uint32_t word, uint32_t const (&factors)[2], uint32_t* out) {
  uint32_t pairs[4];
  e2m1_as_bf16(word, pairs);
#pragma unroll
  for (int pair = 0; pair < 4; ++pair) {
    out[pair] = Pairs<Bf16>::multiply(pairs[pair], factors[pair % 2]);
  }
}

// Byte `byte` of a word in the low byte of both halves.
__device__ __forceinline__ uint32_t byte_twice(uint32_t word, int byte) {
  return __byte_perm(word, 0, 0x4040 + 0x0101 * byte);
}

// The quick decoder of a format:
//   are_usual(scales)                whether all scales of a thread's two rows and 64 of k are usual ones
//   decode(word, scales, step, out)  the four pairs of a step's word, if so
template <class Format>
struct Usual;

// Usual scales are at most 1.
template <>
struct Usual<Mxfp4> {
  static __device__ __forceinline__ bool are_usual(Mxfp4::Scales const& scales) {
    return (scales.words[0] & 0x80808080) == 0;
  }

  static __device__ __forceinline__ void decode(uint32_t word, Mxfp4::Scales const& scales, int step, uint32_t* out) {
    uint32_t factors[2];
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      // 2^126 times the scale, also of a subnormal scale.
      factors[row] = byte_twice(scales.words[0], step / 2 * 2 + row) * 128 + 0x3F003F00;
    }
    scaled_e2m1(word, factors, out);
  }
};

}  // namespace detail

// Whether kernels decode a format quickly. quick_int4.hpp sets it for INT4.
template <class Format>
constexpr bool kHasUsualScales = std::is_same<Format, Mxfp4>::value;

// Decodes `kSteps` steps of a piece, starting at step `first`, to four registers a step.
template <class Format, int kSteps>
__device__ __forceinline__ void decode_quickly(uint32_t const (&words)[4], typename Format::Scales const& scales,
                                               int first, uint32_t (&out)[kSteps * 4]) {
  using Usual = detail::Usual<Format>;
#pragma unroll
  for (int i = 0; i < kSteps; ++i) {
    Usual::decode(words[first + i], scales, first + i, out + i * 4);
  }
  // Keeps the quick decoding before the branch. The compiler would move it after the branch, and so after the caller's
  // next wait for wgmmas.
#pragma unroll
  for (uint32_t& pair : out) {
    asm volatile("" : "+r"(pair));
  }
  if (__builtin_expect(__any_sync(0xFFFFFFFF, !Usual::are_usual(scales)), 0)) {
    typename Format::Scales unusual = scales;
#pragma unroll
    for (uint32_t& word : unusual.words) {
      asm volatile("" : "+r"(word));  // hides that both decoders have the same scales: they share no instructions
    }
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      uint32_t pairs[4];
      Format::decode(words + first + i, unusual, first + i, pairs);
#pragma unroll
      for (int pair = 0; pair < 4; ++pair) {
        out[i * 4 + pair] = pairs[pair];
      }
    }
  }
}

}  // namespace tilewright::mixed_gemm

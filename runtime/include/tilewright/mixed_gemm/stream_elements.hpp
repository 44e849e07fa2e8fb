// How a stream kernel makes elements of D from the sums of its tile: each from one sum, or, in gated kernels, from a
// sum of gate and one of up.
#pragma once

#include <cstdint>

#include "tilewright/mixed_gemm/stream_warp.hpp"
#include "tilewright/sm90/silu_mul.hpp"

namespace tilewright::mixed_gemm::stream {

// An element of D is one sum. `Layout`: the layout of shared memory (stream_warp.hpp), which says where sums lie.
template <class Layout>
struct Elements {
  static constexpr int kSums = 1, kColumns = Layout::kColumns;  // sums of an element; columns of D in a tile
  static constexpr int kApart = 0;                              // floats from one sum of an element to its next sum

  // The float, among a warp's sums, of the first sum of an element of the tile.
  static __device__ __forceinline__ int place_of(int row, int column) { return row * Layout::kSumPitch + column; }

  static __device__ __forceinline__ float value_of(float const (&sums)[1]) { return sums[0]; }
};

// An element of D is silu(gate) * up. A gated weight has 8 rows of gate and 8 of up in turn (docs/packed_kernels.md).
template <class Layout>
struct GatedElements {
  static constexpr int kSums = 2, kColumns = Layout::kColumns / 2, kApart = 8;

  static __device__ __forceinline__ int place_of(int row, int column) {
    return row * Layout::kSumPitch + column / 8 * 16 + column % 8;
  }

  static __device__ __forceinline__ float value_of(float const (&sums)[2]) { return sm90::silu_mul(sums[0], sums[1]); }
};

// Makes an element from its sums, each multiplied by `factor` and then added to its bias. The bias has `n` columns for
// each sum of an element, one sum after the other; those of the first sum begin at element `row_of_bias`.
template <class Elements, class ElementD>
__device__ __forceinline__ float finish(float (&sums)[Elements::kSums], float factor, void const* bias,
                                        int64_t row_of_bias, int n, int column) {
#pragma unroll
  for (float& sum : sums) {
    sum *= factor;
  }
  if (bias != nullptr) {
#pragma unroll
    for (int i = 0; i < Elements::kSums; ++i) {
      sums[i] += sm90::load(ElementD::kAddend, bias, row_of_bias + i * n + column);
    }
  }
  return Elements::value_of(sums);
}

}  // namespace tilewright::mixed_gemm::stream

// Products of 128 keys with (query, head) rows by the tensor core of sm_100, and their layout in tensor memory. Names
// with `Emulated` are the same in software.
#pragma once

#include <cstdint>

#include "tilewright/mqa_logits/products.hpp"
#include "tilewright/mqa_logits/reduction.hpp"
#include "tilewright/mqa_logits/tcgen05.hpp"
#include "tilewright/mqa_logits/tcgen05_emulated.hpp"

namespace tilewright::mqa_logits {

// FP8, and FP4 with its scale factors. 32 bytes of a row are a step of k, 2 in descriptors.
template <class Core_, int HeadDim>
struct TensorFp8 : Fp8 {
  using Core = Core_;
  static constexpr int kRowBytes = HeadDim;

  template <int Columns>
  static __device__ __forceinline__ void multiply(Core const& core, uint32_t products, uint32_t keys, uint32_t queries,
                                                  uint32_t, uint32_t) {
    uint64_t const a = tcgen05::shared_descriptor<kRowBytes>(keys), b = tcgen05::shared_descriptor<kRowBytes>(queries);
#pragma unroll
    for (int k = 0; k < kRowBytes / 32; ++k) {
      core.multiply(products, a + k * 2, b + k * 2, tcgen05::fp8_instruction<Columns>(), k > 0);
    }
  }
};

template <class Core_, int HeadDim>
struct TensorFp4 {
  using Core = Core_;
  static constexpr bool kQueryScales = true, kBounded = false;
  static constexpr int kRowBytes = HeadDim / 2, kDecodedBytes = 0;

  static __device__ __forceinline__ float factor(uint32_t) { return 1.0f; }

  template <int Columns>
  static __device__ __forceinline__ void multiply(Core const& core, uint32_t products, uint32_t keys, uint32_t queries,
                                                  uint32_t key_scales, uint32_t query_scales) {
    uint64_t const a = tcgen05::shared_descriptor<kRowBytes>(keys), b = tcgen05::shared_descriptor<kRowBytes>(queries);
#pragma unroll
    for (int k = 0; k < kRowBytes / 32; ++k) {
      core.multiply(products, a + k * 2, b + k * 2, tcgen05::fp4_instruction<Columns>(k * 2), k > 0, key_scales,
                    query_scales);
    }
  }
};

template <int HeadDim>
using Tcgen05 = TensorFp8<tcgen05::Native, HeadDim>;
template <int HeadDim>
using Tcgen05Fp4 = TensorFp4<tcgen05::Native, HeadDim>;
template <int HeadDim>
using EmulatedTcgen05 = TensorFp8<tcgen05::Emulated, HeadDim>;
template <int HeadDim>
using EmulatedTcgen05Fp4 = TensorFp4<tcgen05::Emulated, HeadDim>;

// The heads of a query follow each other; a thread has all heads of all queries.
template <int Heads, int Queries, bool kBounded_>
struct RowReduction : Relu<kBounded_> {
  static constexpr int kHeads = Heads, kQueries = Queries, kColumns = Heads * Queries;
  static constexpr int kTurn = Heads, kSets = 1, kSetQueries = Queries;
};

}  // namespace tilewright::mqa_logits

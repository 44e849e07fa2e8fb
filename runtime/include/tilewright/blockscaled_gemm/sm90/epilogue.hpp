// The epilogue: from the F32 accumulators of a CTA, or of the CTAs of a cluster that split k, to rows of D.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "tilewright/sm90/element_epilogue.hpp"
#include "tilewright/sm90/ptx.hpp"

namespace tilewright::blockscaled_gemm::sm90 {

using namespace tilewright::sm90;

template <class Element>
__device__ __forceinline__ Element from_float(float value) {
  if constexpr (sizeof(Element) == 4) {
    return value;
  } else {
    return Element(value);  // rounds to nearest even
  }
}

struct EpilogueParams {
  void const* c;
  void* d;
  float const* alpha;
  int64_t ld_c, ld_d;  // elements
  int64_t batch_stride_c, batch_stride_d;
  float beta;
  int m, n;
  bool aligned_c, aligned_d;  // all rows begin at multiples of 16 bytes
};

// The parameters of kernels that add a bias and apply the activation that a call names.
struct BiasedEpilogueParams : EpilogueParams {
  void const* bias;  // n elements of D's type, or null
  Activation activation;
  bool aligned_bias;  // it begins at a multiple of 16 bytes
};

// `TileM` is along n and `TileN` along m, so the rows of the accumulators are columns of D. They go through shared
// memory, in F32, to become rows of D. From there the CTAs of a cluster add their sums in a fixed order, and stores
// are coalesced and 16 bytes wide.
template <class ElementD, int TileM, int TileN, int kThreads, bool kWithC, bool kWithBias = false>
struct Epilogue {
  using Params = std::conditional_t<kWithBias, BiasedEpilogueParams, EpilogueParams>;
  static constexpr int kPitch = TileM + 4;  // in floats; padded against bank conflicts of `store_accumulators`
  static constexpr int kBytes = TileN * kPitch * 4;
  static constexpr int kVector = 16 / sizeof(ElementD);  // elements that a thread stores at once

  // Stores a thread's accumulators to the tile in shared memory at `tile`. `row` is the first of the thread's two
  // rows; the second is row + 8.
  static __device__ __forceinline__ void store_accumulators(uint32_t tile, float const (&accumulators)[TileN / 2],
                                                            int row, int pair) {
    uint32_t const address = tile + (pair * 2 * kPitch + row) * 4;
#pragma unroll
    for (int i = 0; i < TileN / 2; ++i) {
      int const column = i / 4 * 8 + i % 2, down = i % 4 / 2 * 8;
      store_float(address + (column * kPitch + down) * 4, accumulators[i]);
    }
  }

  // Adds up the tiles of the cluster's `splits` CTAs, scales the sums and stores them to D. Each CTA does so for its
  // share of the tile.
  static __device__ __forceinline__ void store(Params const& params, uint32_t tile, float factor, int thread, int rank,
                                               int splits, int batch, int m0, int n0) {
    float const alpha = params.alpha != nullptr ? *params.alpha : 1.0f;
    auto const* const c = static_cast<ElementD const*>(params.c) + batch * params.batch_stride_c;
    auto* const d = static_cast<ElementD*>(params.d) + batch * params.batch_stride_d;
    int const rows = min(TileN, params.m - m0);
    for (int i = thread + rank * kThreads; i < rows * (TileM / kVector); i += kThreads * splits) {
      int const row = i / (TileM / kVector), column = i % (TileM / kVector) * kVector;
      int const remaining = params.n - (n0 + column);
      if (remaining <= 0) {
        continue;
      }
      float sum[kVector];
      add(sum, tile + (row * kPitch + column) * 4, splits);
#pragma unroll
      for (float& value : sum) {
        value = value * factor * alpha;
      }
      if constexpr (kWithBias) {
        if (params.bias != nullptr) {
          auto const* const bias = static_cast<ElementD const*>(params.bias) + n0 + column;
          add_c(sum, bias, 1.0f, params.aligned_bias, remaining);
        }
      }
      if constexpr (kWithC) {
        if (params.beta != 0.0f) {
          add_c(sum, c + (m0 + row) * params.ld_c + n0 + column, params.beta, params.aligned_c, remaining);
        }
      }
      if constexpr (kWithBias) {
        activate<Activation::kGiven>(sum, params.activation);
      }
      write(d + (m0 + row) * params.ld_d + n0 + column, sum, params.aligned_d, remaining);
    }
  }

 private:
  static __device__ __forceinline__ void add(float (&sum)[kVector], uint32_t address, int splits) {
#pragma unroll
    for (float& value : sum) {
      value = 0.0f;
    }
#pragma unroll 4
    for (int rank = 0; rank < splits; ++rank) {
      uint32_t const remote = cluster_address(address, rank);
#pragma unroll
      for (int i = 0; i < kVector; i += 4) {
        float4 const values = load_cluster(remote + i * 4);
        sum[i] += values.x, sum[i + 1] += values.y, sum[i + 2] += values.z, sum[i + 3] += values.w;
      }
    }
  }

  static __device__ __forceinline__ void add_c(float (&sum)[kVector], ElementD const* source, float beta, bool aligned,
                                               int remaining) {
    if (aligned && remaining >= kVector) {
      alignas(16) ElementD values[kVector];
      *reinterpret_cast<uint4*>(values) = *reinterpret_cast<uint4 const*>(source);
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
        sum[i] += beta * static_cast<float>(values[i]);
      }
      return;
    }
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      if (i < remaining) {
        sum[i] += beta * static_cast<float>(source[i]);
      }
    }
  }

  static __device__ __forceinline__ void write(ElementD* target, float const (&sum)[kVector], bool aligned,
                                               int remaining) {
    alignas(16) ElementD values[kVector];
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      values[i] = from_float<ElementD>(sum[i]);
    }
    if (aligned && remaining >= kVector) {
      *reinterpret_cast<uint4*>(target) = *reinterpret_cast<uint4 const*>(values);
      return;
    }
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      if (i < remaining) {
        target[i] = values[i];
      }
    }
  }
};

}  // namespace tilewright::blockscaled_gemm::sm90

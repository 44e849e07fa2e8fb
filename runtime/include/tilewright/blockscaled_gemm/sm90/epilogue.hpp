// From the F32 accumulators of a CTA, or of the CTAs that share a tile along k, to rows of D.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "tilewright/sm90/ptx.hpp"

namespace tilewright::blockscaled_gemm::sm90 {

using namespace tilewright::sm90;

template <class Element>
__device__ __forceinline__ Element from_float(float value) {
  if constexpr (sizeof(Element) == 4) {
    return value;
  } else {
    return Element(value);  // to nearest even
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
  bool wide_c, wide_d;  // rows are aligned to 16 bytes
};

// `TileM` is along n, `TileN` along m: the accumulators' rows are columns of D. Through shared memory they
// become rows, in F32, so that the CTAs of a cluster can add theirs in a fixed order, and so that stores are
// wide and coalesced.
template <class ElementD, int TileM, int TileN, int kThreads, bool kWithC>
struct Epilogue {
  static constexpr int kPitch = TileM + 4;  // floats; keeps the accumulators' stores off each other's banks
  static constexpr int kBytes = TileN * kPitch * 4;
  static constexpr int kVector = 16 / sizeof(ElementD);  // elements a thread stores at once

  // Lays the accumulators of a thread down at `tile`. `row` is the first of its two rows (the other is 8 on).
  static __device__ __forceinline__ void lay_down(uint32_t tile, float const (&accumulators)[TileN / 2], int row,
                                                  int pair) {
    uint32_t const own = tile + (pair * 2 * kPitch + row) * 4;
#pragma unroll
    for (int i = 0; i < TileN / 2; ++i) {
      int const column = i / 4 * 8 + i % 2, down = i % 4 / 2 * 8;
      store_float(own + (column * kPitch + down) * 4, accumulators[i]);
    }
  }

  // Adds the `splits` tiles of the cluster, scales and stores this CTA's share of the sum.
  static __device__ __forceinline__ void store(EpilogueParams const& params, uint32_t tile, float factor, int thread,
                                               int rank, int splits, int batch, int m0, int n0) {
    float const alpha = params.alpha != nullptr ? *params.alpha : 1.0f;
    auto const* const c = static_cast<ElementD const*>(params.c) + batch * params.batch_stride_c;
    auto* const d = static_cast<ElementD*>(params.d) + batch * params.batch_stride_d;
    int const rows = min(TileN, params.m - m0);
    for (int i = thread + rank * kThreads; i < rows * (TileM / kVector); i += kThreads * splits) {
      int const row = i / (TileM / kVector), column = i % (TileM / kVector) * kVector;
      int const left = params.n - (n0 + column);
      if (left <= 0) {
        continue;
      }
      float sum[kVector];
      add(sum, tile + (row * kPitch + column) * 4, splits);
#pragma unroll
      for (float& value : sum) {
        value = value * factor * alpha;
      }
      if constexpr (kWithC) {
        if (params.beta != 0.0f) {
          add_c(sum, c + (m0 + row) * params.ld_c + n0 + column, params.beta, params.wide_c, left);
        }
      }
      write(d + (m0 + row) * params.ld_d + n0 + column, sum, params.wide_d, left);
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
        float4 const part = load_cluster(remote + i * 4);
        sum[i] += part.x, sum[i + 1] += part.y, sum[i + 2] += part.z, sum[i + 3] += part.w;
      }
    }
  }

  static __device__ __forceinline__ void add_c(float (&sum)[kVector], ElementD const* source, float beta, bool wide,
                                               int left) {
    if (wide && left >= kVector) {
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
      if (i < left) {
        sum[i] += beta * static_cast<float>(source[i]);
      }
    }
  }

  static __device__ __forceinline__ void write(ElementD* target, float const (&sum)[kVector], bool wide, int left) {
    alignas(16) ElementD values[kVector];
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      values[i] = from_float<ElementD>(sum[i]);
    }
    if (wide && left >= kVector) {
      *reinterpret_cast<uint4*>(target) = *reinterpret_cast<uint4 const*>(values);
      return;
    }
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      if (i < left) {
        target[i] = values[i];
      }
    }
  }
};

}  // namespace tilewright::blockscaled_gemm::sm90

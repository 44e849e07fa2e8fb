// Products of 64 keys with N (query, head) rows, both FP8 in shared memory as TMA's swizzle of `HeadDim` bytes lays
// them out: by wgmma on sm_90a, by mma.sync elsewhere. Both leave a thread the same elements.
#pragma once

#include <cstdint>

#include "tilewright/sm90/elements.hpp"
#include "tilewright/sm90/ptx.hpp"
#include "tilewright/sm90/wgmma.hpp"

namespace tilewright::mqa_logits {

template <int HeadDim>
struct Wgmma {
  static constexpr bool kAsynchronous = true;

  // Begins a group; `wait` ends it.
  template <int N>
  static __device__ __forceinline__ void multiply(float (&products)[N / 2], uint32_t keys, uint32_t queries) {
    uint64_t const a = sm90::swizzled_descriptor<HeadDim>(keys), b = sm90::swizzled_descriptor<HeadDim>(queries);
    sm90::wgmma_fence();
#pragma unroll
    for (int k = 0; k < HeadDim / 32; ++k) {
      sm90::wgmma<sm90::E4m3, sm90::E4m3, N>(products, a + k * 2, b + k * 2, k > 0);  // 32 bytes in units of 16
    }
    sm90::wgmma_commit();
  }

  template <int Pending, int Count>
  static __device__ __forceinline__ void wait(float (&products)[Count]) {
    sm90::wgmma_wait<Pending>();
    sm90::hold(products);
  }
};

template <int HeadDim>
struct MmaSync {
  static constexpr bool kAsynchronous = false;
  static constexpr int kSteps = HeadDim / 32;

  template <int N>
  static __device__ __forceinline__ void multiply(float (&products)[N / 2], uint32_t keys, uint32_t queries) {
    int const lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    uint32_t a[kSteps][4];
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      // Matrices of 8 rows of 16 bytes: rows 0 to 7 and 8 to 15 of the first 16 bytes, then of the next.
      load_matrices(keys + warp * 16 * HeadDim + swizzled(lane % 16 * HeadDim + k * 32 + lane / 16 * 16), a[k]);
    }
    uint32_t b_at[(kSteps + 1) / 2];  // of 8 rows, for two steps of k; or for one, twice
#pragma unroll
    for (int k = 0; k < kSteps; k += 2) {
      b_at[k / 2] = queries + swizzled(lane % 8 * HeadDim + k * 32 + lane / 8 % (kSteps == 1 ? 2 : 4) * 16);
    }
#pragma unroll
    for (int n = 0; n < N / 8; ++n) {
      float d[4] = {};
#pragma unroll
      for (int k = 0; k < kSteps; k += 2) {
        uint32_t b[4];
        load_matrices(b_at[k / 2] + n * 8 * HeadDim, b);
        mma(d, a[k], b[0], b[1]);
        if constexpr (kSteps > 1) {
          mma(d, a[k + 1], b[2], b[3]);
        }
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        products[n * 4 + i] = d[i];
      }
    }
  }

  template <int Pending, int Count>
  static __device__ __forceinline__ void wait(float (&)[Count]) {}

 private:
  // As TMA does it: the 16-byte column of a row of 128 (64, 32) bytes changes with the row's number.
  static __device__ __forceinline__ uint32_t swizzled(uint32_t offset) {
    return offset ^ (offset >> 3 & (HeadDim - 16));
  }

  static __device__ __forceinline__ void load_matrices(uint32_t row, uint32_t (&words)[4]) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(row)
                 : "memory");
  }

  static __device__ __forceinline__ void mma(float (&d)[4], uint32_t const (&a)[4], uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
};

}  // namespace tilewright::mqa_logits

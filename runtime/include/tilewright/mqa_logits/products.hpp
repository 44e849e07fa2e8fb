// Products of 64 keys with N (query, head) rows in shared memory: by wgmma on sm_90a, by mma.sync on sm_120f. All leave
// a thread the same elements.
//
// A product policy defines
//   kRowBytes      bytes of a loaded row
//   kQueryScales   whether queries have words of scale factors
//   kDecodedBytes  bytes of a decoded row of queries; 0 if they are not decoded
//   Keys           what a thread keeps of a tile of keys
//   factor         the factor of a key
//   kBounded       whether products are less than 2^25
#pragma once

#include <cstdint>

#include "tilewright/sm90/elements.hpp"
#include "tilewright/sm90/ptx.hpp"
#include "tilewright/sm90/wgmma.hpp"

namespace tilewright::mqa_logits {

// FP8: each key has a float as its scale.
struct Fp8 {
  static constexpr bool kQueryScales = false;
  static constexpr bool kBounded = true;  // 128 products of at most 448 each
  static constexpr int kDecodedBytes = 0;

  static __device__ __forceinline__ float factor(uint32_t scale) { return sm90::load_float(scale); }
};

// By wgmma. Both operands lie in TMA's swizzle of `HeadDim` bytes.
template <int HeadDim>
struct Wgmma : Fp8 {
  static constexpr bool kAsynchronous = true;
  static constexpr int kRowBytes = HeadDim;

  struct Keys {
    uint32_t at;

    __device__ __forceinline__ Keys(uint32_t keys, uint32_t) : at(keys) {}
  };

  // Issues a group of wgmmas; `wait` waits for it.
  template <int N, int>
  static __device__ __forceinline__ void multiply(float (&products)[N / 2], Keys const& keys, uint32_t queries,
                                                  uint32_t const*) {
    uint64_t const a = sm90::swizzled_descriptor<HeadDim>(keys.at), b = sm90::swizzled_descriptor<HeadDim>(queries);
    sm90::wgmma_fence();
#pragma unroll
    for (int k = 0; k < HeadDim / 32; ++k) {
      sm90::wgmma<sm90::E4m3, sm90::E4m3, N>(products, a + k * 2, b + k * 2, k > 0);  // 32 bytes in units of 16
    }
    sm90::wgmma_commit();
  }

  template <int Pending, int Count>
  static __device__ __forceinline__ void wait(float (&products)[Count], Keys&) {
    sm90::wgmma_wait<Pending>();
    sm90::hold(products);
  }
};

// By mma.sync. Rows lie in TMA's swizzle of `RowBytes`; 32 bytes of a row are one step of `Instruction`.
template <int RowBytes, class Instruction>
struct Synchronous : Instruction {
  static constexpr bool kAsynchronous = false;
  static constexpr int kRowBytes = RowBytes, kSteps = RowBytes / 32;

  struct Keys {
    uint32_t elements[kSteps][4];
    uint32_t scales;

    __device__ __forceinline__ Keys(uint32_t keys, uint32_t words) : scales(Instruction::key_scales(words)) {
      int const lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
#pragma unroll
      for (int k = 0; k < kSteps; ++k) {
        // The first 16 bytes of rows 0 to 7 and of rows 8 to 15, then the next 16 bytes of both.
        sm90::load_matrices(keys + warp * 16 * RowBytes + swizzled(lane % 16 * RowBytes + k * 32 + lane / 16 * 16),
                            elements[k]);
      }
    }
  };

  // `scales`: the queries', a word for every 8 columns.
  template <int N, int>
  static __device__ __forceinline__ void multiply(float (&products)[N / 2], Keys const& keys, uint32_t queries,
                                                  uint32_t const* scales) {
    int const lane = threadIdx.x % 32;
    uint32_t b_at[(kSteps + 1) / 2];  // of 8 rows, for two steps of k; or for one, twice
#pragma unroll
    for (int k = 0; k < kSteps; k += 2) {
      b_at[k / 2] = queries + swizzled(lane % 8 * RowBytes + k * 32 + lane / 8 % (kSteps == 1 ? 2 : 4) * 16);
    }
#pragma unroll
    for (int n = 0; n < N / 8; ++n) {
      uint32_t const column_scales = Instruction::kQueryScales ? scales[n] : 0;
      float d[4] = {};
#pragma unroll
      for (int k = 0; k < kSteps; k += 2) {
        uint32_t b[4];
        sm90::load_matrices(b_at[k / 2] + n * 8 * RowBytes, b);
        Instruction::template run<0>(d, keys.elements[k], b[0], b[1], keys.scales, column_scales);
        if constexpr (kSteps > 1) {
          Instruction::template run<1>(d, keys.elements[k + 1], b[2], b[3], keys.scales, column_scales);
        }
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        products[n * 4 + i] = d[i];
      }
    }
  }

  template <int Pending, int Count>
  static __device__ __forceinline__ void wait(float (&)[Count], Keys&) {}

 private:
  // TMA's swizzle: XORs the 16-byte column in a row of 128 (64, 32) bytes with bits of the row's number.
  static __device__ __forceinline__ uint32_t swizzled(uint32_t offset) {
    return offset ^ (offset >> 3 & (RowBytes - 16));
  }
};

struct Fp8Mma : Fp8 {
  static __device__ __forceinline__ uint32_t key_scales(uint32_t) { return 0; }

  template <int Step>
  static __device__ __forceinline__ void run(float (&d)[4], uint32_t const (&a)[4], uint32_t b0, uint32_t b1, uint32_t,
                                             uint32_t) {
    asm("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
};

template <int HeadDim>
using MmaSync = Synchronous<HeadDim, Fp8Mma>;

}  // namespace tilewright::mqa_logits

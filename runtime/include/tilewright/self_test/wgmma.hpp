// wgmma: 64 rows of A, in shared memory or registers, by 16 rows of B in shared memory.
#pragma once

#include "tilewright/self_test/kernel.hpp"
#include "tilewright/sm90/wgmma.hpp"
#include "tilewright/sm90/wgmma_registers.hpp"
#include "tilewright/sm90/wgmma_tf32.hpp"

namespace tilewright::self_test {

using sm90::Bf16;
using sm90::E4m3;
using sm90::E5m2;
using sm90::F16;

constexpr int kColumns = 16, kSums = kColumns / 2;
constexpr int kStep = 1;  // which 32 bytes of a row of 128 are multiplied

// Sums of a thread to words, and back.
__device__ __forceinline__ void load_sums(float (&d)[kSums], uint32_t const* words) {
#pragma unroll
  for (int i = 0; i < kSums; ++i) {
    d[i] = __uint_as_float(words[threadIdx.x * kSums + i]);
  }
}

__device__ __forceinline__ void finish(float (&d)[kSums], uint32_t* results) {
  sm90::wgmma_commit();
  sm90::wgmma_wait<0>();
  sm90::hold(d);
#pragma unroll
  for (int i = 0; i < kSums; ++i) {
    results[threadIdx.x * kSums + i] = __float_as_uint(d[i]);
  }
}

// Operands: the image of A (64 rows of 128 bytes, swizzled), of B (16 such rows), and [128 threads][8] sums.
template <class A, class B>
struct WgmmaShared {
  static constexpr int kThreads = 128, kImage = (64 + kColumns) * 32, kSharedBytes = kImage * 4;
  static constexpr int kOperandWords = kImage + kThreads * kSums, kResultWords = kThreads * kSums;

  static __device__ __forceinline__ void run(uint32_t const* operands, uint32_t* results, uint32_t shared) {
    copy_image(shared, operands, kImage, kThreads);
    sm90::fence_async_proxy();
    __syncthreads();
    float d[kSums];
    load_sums(d, operands + kImage);
    sm90::wgmma_fence();
    sm90::wgmma<A, B, kColumns>(d, sm90::swizzled_descriptor(shared) + kStep * 2,
                                sm90::swizzled_descriptor(shared + 64 * 128) + kStep * 2, 1);
    finish(d, results);
  }
};

// A in registers. Operands: [128 threads][4] words of A, the image of B, the sums. `Multiply::run(d, a, b)` multiplies.
template <class Multiply>
struct WgmmaRegisters {
  static constexpr int kThreads = 128, kImage = kColumns * 32, kSharedBytes = kImage * 4;
  static constexpr int kOperandWords = kThreads * 4 + kImage + kThreads * kSums, kResultWords = kThreads * kSums;

  static __device__ __forceinline__ void run(uint32_t const* operands, uint32_t* results, uint32_t shared) {
    copy_image(shared, operands + kThreads * 4, kImage, kThreads);
    sm90::fence_async_proxy();
    __syncthreads();
    float d[kSums];
    load_sums(d, operands + kThreads * 4 + kImage);
    uint32_t a[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      a[i] = operands[threadIdx.x * 4 + i];
    }
    sm90::hold(a);
    sm90::wgmma_fence();
    Multiply::run(d, a, sm90::swizzled_descriptor(shared) + kStep * 2);
    finish(d, results);
  }
};

template <class Type>
struct Half {
  static __device__ __forceinline__ void run(float (&d)[kSums], uint32_t const (&a)[4], uint64_t b) {
    sm90::WgmmaRegisters<Type, kColumns>::run(d, a, b);
  }
};

struct Tf32 {
  static __device__ __forceinline__ void run(float (&d)[kSums], uint32_t const (&a)[4], uint64_t b) {
    sm90::wgmma_tf32<kColumns>(d, a, b);
  }
};

}  // namespace tilewright::self_test

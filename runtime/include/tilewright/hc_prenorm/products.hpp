// How a warp multiplies a stage: 64 of k, A in BF16 and B in F32, both in rows of 128 bytes under TMA's 128-byte
// swizzle, by the tensor core in TF32. A is widened in registers, which is exact, and squared there;
// B is rounded to TF32 already.
//
// Of its 16 rows of A, a warp's thread t of quad g holds those of g and g+8; of D, as mma and wgmma have it, columns
// that `column` says, in sums[4j], sums[4j+1] (row g) and sums[4j+2], sums[4j+3] (row g+8).
#pragma once

#include <cstdint>

#include "tilewright/sm90/ptx.hpp"
#include "tilewright/sm90/wgmma_tf32.hpp"

namespace tilewright::hc_prenorm {

constexpr int kBlockK = 64;  // of k, in a stage: one box of 128 bytes of A, two of B

// Sums of squares of one row of a group of 16: two chains, so that an addition need not wait for the one before it.
struct Squares {
  float even[2] = {0.0f, 0.0f}, odd[2] = {0.0f, 0.0f};

  __device__ __forceinline__ void add(int row, uint32_t even_bits, uint32_t odd_bits) {
    float const x = __uint_as_float(even_bits), y = __uint_as_float(odd_bits);
    even[row] = fmaf(x, x, even[row]);
    odd[row] = fmaf(y, y, odd[row]);
  }

  // The row's sum over the quad, in each of its threads.
  __device__ __forceinline__ float total(int row) const {
    float sum = even[row] + odd[row];
    sum += __shfl_xor_sync(~0u, sum, 1);
    return sum + __shfl_xor_sync(~0u, sum, 2);
  }
};

// By wgmma: a warpgroup multiplies 64 rows of A, which it has in registers, by B from shared memory.
template <int N>
struct Wgmma {
  static constexpr int kGroups = 1;               // of 16 rows, of a warp
  static constexpr int kSteps = kBlockK / 2 / 8;  // of a box of B, half a stage

  uint32_t at;  // of this thread's elements in a stage of A
  uint32_t chunk;

  __device__ __forceinline__ Wgmma(int warp, int lane)
      : at((warp * 16 + lane / 4) * 128 + lane % 4 * 2), chunk(lane / 4 * 16) {}

  static __device__ __forceinline__ int column(int lane) { return lane % 4 * 2; }

  // Adds `count` stages. The sums of an earlier half of a stage are at work while the next half is loaded.
  template <class Stages>
  __device__ __forceinline__ void run(Stages& stages, int count, float (&sums)[kGroups][N / 2],
                                      Squares (&squares)[kGroups]) const {
    uint32_t first[kSteps][4], second[kSteps][4];
    for (int i = 0; i < count; ++i) {
      stages.wait();
      load(stages.a(), 0, first, squares[0]);
      sm90::wgmma_wait<0>();
      sm90::hold(sums[0]);
      multiply(stages.b(), first, sums[0]);
      if (i > 0) {
        stages.release();  // of the stage before; behind the instructions for which `first` must have arrived
      }
      load(stages.a(), 1, second, squares[0]);
      sm90::wgmma_wait<0>();
      sm90::hold(sums[0]);
      multiply(stages.b() + N * 128, second, sums[0]);
      stages.next();
    }
    sm90::wgmma_wait<0>();
    sm90::hold(sums[0]);
    if (count > 0) {
      stages.release();
    }
  }

 private:
  static __device__ __forceinline__ void multiply(uint32_t box, uint32_t const (&fragments)[kSteps][4],
                                                  float (&sums)[N / 2]) {
    uint64_t const b = sm90::swizzled_descriptor(box);
    sm90::wgmma_fence();
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      sm90::wgmma_tf32<N>(sums, fragments[k], b + k * 2);
    }
    sm90::wgmma_commit();
  }

  __device__ __forceinline__ void load(uint32_t a, int half, uint32_t (&fragments)[kSteps][4], Squares& squares) const {
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      uint32_t const address = a + at + ((half * kSteps + k) * 16 ^ chunk);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        fragments[k][i] = sm90::load_short(address + i % 2 * 1024 + i / 2 * 8) << 16;
      }
      squares.add(0, fragments[k][0], fragments[k][2]);
      squares.add(1, fragments[k][1], fragments[k][3]);
    }
  }
};

// By mma.sync, which every architecture from sm_80 on has.
//
// A product of 8 of k takes them in any order that is the same for A and B. ldmatrix gives a thread two neighbours in
// a word; the even ones of 16 make one product, the odd ones the next, and B's two neighbours are one load. So that
// those loads of half a warp fill all banks, quad g reads row 2g of B's 8, or 2g-7.
template <int N, int kGroups_>
struct MmaSync {
  static constexpr int kGroups = kGroups_;

  uint32_t a_at, a_chunk, b_at, b_chunk;

  __device__ __forceinline__ MmaSync(int warp, int lane) {
    a_at = (warp * kGroups * 16 + lane % 16) * 128;
    a_chunk = (lane / 16 ^ lane % 8) * 16;
    int const row = lane < 16 ? lane / 4 * 2 : lane / 4 * 2 - 7;
    b_at = row * 128 + lane % 2 * 8;
    b_chunk = (lane % 4 / 2 ^ row) * 16;
  }

  // As `exchange` leaves them.
  static __device__ __forceinline__ int column(int lane) { return lane % 2 * 4 + lane % 4 / 2 * 2; }

  template <class Stages>
  __device__ __forceinline__ void run(Stages& stages, int count, float (&sums)[kGroups][N / 2],
                                      Squares (&squares)[kGroups]) const {
    for (int i = 0; i < count; ++i) {
      stages.wait();
      uint32_t const loaded = multiply(stages.a(), stages.b(), sums, squares);
      stages.next();
      stages.release(loaded);
    }
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
#pragma unroll
      for (int j = 0; j < N / 4; ++j) {
        exchange(sums[group][j * 2], sums[group][j * 2 + 1]);
      }
    }
  }

 private:
  // Adds a stage. Returns words of the last step's loads, those that may not have returned when a warp has issued all.
  __device__ __forceinline__ uint32_t multiply(uint32_t a, uint32_t b, float (&sums)[kGroups][N / 2],
                                               Squares (&squares)[kGroups]) const {
    uint32_t loaded = 0;
#pragma unroll
    for (int k = 0; k < kBlockK / 16; ++k) {
      uint32_t even[kGroups][4], odd[kGroups][4];
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
        uint32_t words[4];
        sm90::load_matrices(a + a_at + group * 16 * 128 + (k * 32 ^ a_chunk), words);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          even[group][i] = words[i] << 16;
          odd[group][i] = words[i] & 0xFFFF0000;
          squares[group].add(i % 2, even[group][i], odd[group][i]);
        }
      }
      uint32_t const box = b + k / 2 * (N * 128) + b_at;
#pragma unroll
      for (int j = 0; j < N / 8; ++j) {
        uint32_t low[2], high[2];
        sm90::load_words(box + j * 1024 + (k % 2 * 64 ^ b_chunk), low);
        sm90::load_words(box + j * 1024 + ((k % 2 * 64 + 32) ^ b_chunk), high);
        loaded |= k == kBlockK / 16 - 1 ? low[0] | high[0] : 0;
#pragma unroll
        for (int group = 0; group < kGroups; ++group) {
          mma(sums[group] + j * 4, even[group], low[0], high[0]);
        }
#pragma unroll
        for (int group = 0; group < kGroups; ++group) {
          mma(sums[group] + j * 4, odd[group], low[1], high[1]);
        }
      }
    }
    return loaded;
  }

  static __device__ __forceinline__ void mma(float* d, uint32_t const (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }

  // A thread has two columns that are not neighbours, its partner those beside them.
  static __device__ __forceinline__ void exchange(float& first, float& second) {
    bool const lower = threadIdx.x % 4 < 2;
    float const other = __shfl_xor_sync(~0u, lower ? second : first, 2);
    first = lower ? first : other;
    second = lower ? other : second;
  }
};

}  // namespace tilewright::hc_prenorm

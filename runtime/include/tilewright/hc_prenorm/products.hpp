// Multiplies a stage in TF32, and adds up the squares of A. A stage holds 64 of k: A in BF16 and B in F32, both in rows
// of 128 bytes with TMA's 128-byte swizzle. A is widened in registers, which is exact, and squared there. TMA has
// already rounded B to TF32.
//
// Of a warp's 16 rows of A, thread t of quad g holds rows g and g+8. In the accumulators of mma and wgmma, sums[4j] and
// sums[4j+1] belong to row g, sums[4j+2] and sums[4j+3] to row g+8. `column` returns the thread's first column of D.
#pragma once

#include <cstdint>

#include "tilewright/sm90/ptx.hpp"
#include "tilewright/sm90/wgmma_tf32.hpp"

namespace tilewright::hc_prenorm {

constexpr int kBlockK = 64;  // of k in a stage: one box of 128 bytes of A, two of B

// Sums of squares of a thread's two rows in a group of 16. Each row has two chains of additions, so that an addition
// need not wait for the previous one.
struct Squares {
  float even[2] = {0.0f, 0.0f}, odd[2] = {0.0f, 0.0f};

  __device__ __forceinline__ void add(int row, uint32_t even_bits, uint32_t odd_bits) {
    float const x = __uint_as_float(even_bits), y = __uint_as_float(odd_bits);
    even[row] = fmaf(x, x, even[row]);
    odd[row] = fmaf(y, y, odd[row]);
  }

  // The sum of a row over the quad's threads. Every thread of the quad gets it.
  __device__ __forceinline__ float total(int row) const {
    float sum = even[row] + odd[row];
    sum += __shfl_xor_sync(~0u, sum, 1);
    return sum + __shfl_xor_sync(~0u, sum, 2);
  }
};

// Multiplies by wgmma: a warpgroup multiplies 64 rows of A in its registers by B in shared memory.
template <int N>
struct Wgmma {
  static constexpr int kGroups = 1;               // groups of 16 rows of a warp
  static constexpr int kSteps = kBlockK / 2 / 8;  // of 8 of k in a box of B, which is half a stage

  uint32_t a_offset;  // of the thread's first element in a stage of A
  uint32_t a_swizzle;

  __device__ __forceinline__ Wgmma(int warp, int lane)
      : a_offset((warp * 16 + lane / 4) * 128 + lane % 4 * 2), a_swizzle(lane / 4 * 16) {}

  static __device__ __forceinline__ int column(int lane) { return lane % 4 * 2; }

  // Adds the products of `count` stages. wgmma multiplies one half of a stage while threads load the next half.
  template <class Stages>
  __device__ __forceinline__ void run(Stages& stages, int count, float (&sums)[kGroups][N / 2],
                                      Squares (&squares)[kGroups]) const {
    uint32_t lower_half[kSteps][4], upper_half[kSteps][4];
    for (int i = 0; i < count; ++i) {
      stages.wait();
      load_a(stages.a(), 0, lower_half, squares[0]);
      sm90::wgmma_wait<0>();
      sm90::hold(sums[0]);
      multiply(stages.b(), lower_half, sums[0]);
      if (i > 0) {
        stages.release();  // the previous stage: wgmma reads `lower_half`, so all earlier loads have returned
      }
      load_a(stages.a(), 1, upper_half, squares[0]);
      sm90::wgmma_wait<0>();
      sm90::hold(sums[0]);
      multiply(stages.b() + N * 128, upper_half, sums[0]);
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

  __device__ __forceinline__ void load_a(uint32_t a, int half, uint32_t (&fragments)[kSteps][4],
                                         Squares& squares) const {
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      uint32_t const address = a + a_offset + ((half * kSteps + k) * 16 ^ a_swizzle);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        fragments[k][i] = sm90::load_short(address + i % 2 * 1024 + i / 2 * 8) << 16;
      }
      squares.add(0, fragments[k][0], fragments[k][2]);
      squares.add(1, fragments[k][1], fragments[k][3]);
    }
  }
};

// Multiplies by mma.sync, which every architecture starting at sm_80 has.
//
// The order of the 8 elements of k in an mma does not matter if it is the same for A and B. ldmatrix gives a thread
// words of two neighbours along k. Of 16 elements of k, the even ones go to one mma and the odd ones to the next, so a
// thread loads B's two neighbours at once. Quad g reads row 2g of B's 8 rows, or 2g-7 in the upper half of the warp, so
// that the loads of half a warp use all banks.
template <int N, int kGroups_>
struct MmaSync {
  static constexpr int kGroups = kGroups_;

  uint32_t a_offset, a_swizzle, b_offset, b_swizzle;

  __device__ __forceinline__ MmaSync(int warp, int lane) {
    a_offset = (warp * kGroups * 16 + lane % 16) * 128;
    a_swizzle = (lane / 16 ^ lane % 8) * 16;
    int const row = lane < 16 ? lane / 4 * 2 : lane / 4 * 2 - 7;
    b_offset = row * 128 + lane % 2 * 8;
    b_swizzle = (lane % 4 / 2 ^ row) * 16;
  }

  // The first column, after `make_adjacent`.
  static __device__ __forceinline__ int column(int lane) { return lane % 2 * 4 + lane % 4 / 2 * 2; }

  template <class Stages>
  __device__ __forceinline__ void run(Stages& stages, int count, float (&sums)[kGroups][N / 2],
                                      Squares (&squares)[kGroups]) const {
    for (int i = 0; i < count; ++i) {
      stages.wait();
      uint32_t const last_loads = multiply(stages.a(), stages.b(), sums, squares);
      stages.next();
      stages.release(last_loads);
    }
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
#pragma unroll
      for (int j = 0; j < N / 4; ++j) {
        make_adjacent(sums[group][j * 2], sums[group][j * 2 + 1]);
      }
    }
  }

 private:
  // Adds the products of a stage. Returns a word that depends on the loads of the last step. These may still be in
  // flight when the warp has issued all its instructions, and the stage must not be released before they return.
  __device__ __forceinline__ uint32_t multiply(uint32_t a, uint32_t b, float (&sums)[kGroups][N / 2],
                                               Squares (&squares)[kGroups]) const {
    uint32_t last_loads = 0;
#pragma unroll
    for (int k = 0; k < kBlockK / 16; ++k) {
      uint32_t even[kGroups][4], odd[kGroups][4];
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
        uint32_t words[4];
        sm90::load_matrices(a + a_offset + group * 16 * 128 + (k * 32 ^ a_swizzle), words);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          even[group][i] = words[i] << 16;
          odd[group][i] = words[i] & 0xFFFF0000;
          squares[group].add(i % 2, even[group][i], odd[group][i]);
        }
      }
      uint32_t const box = b + k / 2 * (N * 128) + b_offset;
#pragma unroll
      for (int j = 0; j < N / 8; ++j) {
        uint32_t low[2], high[2];
        sm90::load_words(box + j * 1024 + (k % 2 * 64 ^ b_swizzle), low);
        sm90::load_words(box + j * 1024 + ((k % 2 * 64 + 32) ^ b_swizzle), high);
        last_loads |= k == kBlockK / 16 - 1 ? low[0] | high[0] : 0;
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
    return last_loads;
  }

  static __device__ __forceinline__ void mma(float* d, uint32_t const (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }

  // Exchanges sums with the thread that has the neighbouring columns, so that each thread has two adjacent columns.
  static __device__ __forceinline__ void make_adjacent(float& first_sum, float& second_sum) {
    bool const lower = threadIdx.x % 4 < 2;
    float const received = __shfl_xor_sync(~0u, lower ? second_sum : first_sum, 2);
    first_sum = lower ? first_sum : received;
    second_sum = lower ? received : second_sum;
  }
};

}  // namespace tilewright::hc_prenorm

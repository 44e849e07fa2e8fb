// mma.sync and ldmatrix: registers of a warp.
#pragma once

#include "tilewright/self_test/kernel.hpp"
#include "tilewright/sm120/mma.hpp"

namespace tilewright::self_test {

using sm120::E2m1;
using sm90::Bf16;
using sm90::E4m3;
using sm90::E5m2;
using sm90::F16;

// The bytes and threads that hold scale factors of A and B, which are immediates of an instruction.
template <int kByteA, int kByteB, int kThreadA, int kThreadB>
struct Selection {
  template <class Form>
  static __device__ __forceinline__ void mma(float (&d)[4], uint32_t const (&a)[4], uint32_t const (&b)[2],
                                             uint32_t const* scales) {
    Form::template mma<kByteA, kByteB, kThreadA, kThreadB>(d, a, b, scales[0], scales[32]);
  }
};

// Operands: [32 lanes][4] words of A, [32][2] of B, [32][4] sums, then [32] words of scale factors of A, [32] of B, and
// which of `Selections` the probe is for, 32 times. Results: [32][4] sums.
template <class Form, class... Selections>
struct MmaSync {
  static constexpr int kThreads = 32, kSharedBytes = 0, kOperandWords = 32 * 13, kResultWords = 32 * 4;

  static __device__ __forceinline__ void run(uint32_t const* operands, uint32_t* results, uint32_t) {
    int const lane = threadIdx.x;
    uint32_t a[4], b[2];
    typename Form::Sum d[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      a[i] = operands[lane * 4 + i];
      from_word(d[i], operands[32 * 6 + lane * 4 + i]);
    }
    b[0] = operands[32 * 4 + lane * 2];
    b[1] = operands[32 * 4 + lane * 2 + 1];
    if constexpr (Form::kBlocks == 0) {
      Form::mma(d, a, b);
    } else {
      uint32_t index = 0;
      uint32_t const selection = operands[32 * 12];
      ((index++ == selection ? Selections::template mma<Form>(d, a, b, operands + 32 * 10 + lane) : void()), ...);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      results[lane * 4 + i] = to_word(d[i]);
    }
  }
};

// ldmatrix: four matrices of 8 rows of 16 bytes, as they are or transposed.
template <bool kTransposed>
struct LoadRows {
  static constexpr int kRowBytes = 16;

  static __device__ __forceinline__ void load(uint32_t row, uint32_t (&words)[4]) {
    if constexpr (kTransposed) {
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                   : "r"(row)
                   : "memory");
    } else {
      sm90::load_matrices(row, words);
    }
  }
};

// ldmatrix of E2M1 to bytes: rows of 16 elements, in 8 bytes of every 16. An element arrives in the lower half of a
// byte.
struct LoadE2m1Rows {
  static __device__ __forceinline__ void load(uint32_t row, uint32_t (&words)[4]) {
    asm volatile("ldmatrix.sync.aligned.m8n16.x4.shared.b8x16.b4x16_p64 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(row)
                 : "memory");
  }
};

// Operands: 32 rows of 16 bytes, of which lane i gives the address of row i. Results: [32][4] words.
template <class Load>
struct LoadMatrices {
  static constexpr int kThreads = 32, kSharedBytes = 512, kOperandWords = 128, kResultWords = 128;

  static __device__ __forceinline__ void run(uint32_t const* operands, uint32_t* results, uint32_t shared) {
    copy_image(shared, operands, kOperandWords, kThreads);
    __syncwarp();
    uint32_t words[4];
    Load::load(shared + threadIdx.x * 16, words);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      results[threadIdx.x * 4 + i] = words[i];
    }
  }
};

}  // namespace tilewright::self_test

// Products of FP4 keys with FP4 queries: E2M1, and for each row a word of UE8M0 exponents, one for every 32 elements,
// the first in the lowest byte.
//
// `BlockScaled` multiplies them as they are (sm_120f). On sm_90a they are decoded to BF16, exactly: an element times
// 2^(its block's exponent - the row's largest), so that any exponents will do whose blocks lie within 2^132 of the
// row's largest; a row's largest is a factor of its sums, in FP32. Keys are decoded in registers, tile by tile,
// queries once, to shared memory.
#pragma once

#include <cstdint>

#include "tilewright/mqa_logits/products.hpp"
#include "tilewright/sm90/e2m1.hpp"
#include "tilewright/sm90/wgmma_registers.hpp"

namespace tilewright::mqa_logits {

// The exponents of rows of `HeadDim` elements.
template <int HeadDim>
struct Exponents {
  static __device__ __forceinline__ uint32_t largest(uint32_t word) {
    uint32_t exponent = max(word & 0xFF, word >> 8 & 0xFF);
    if constexpr (HeadDim == 128) {
      exponent = max(exponent, max(word >> 16 & 0xFF, word >> 24));
    }
    return exponent;
  }

  // 2^largest; 0 stands for 2^-127, and 255 for NaN.
  static __device__ __forceinline__ float factor(uint32_t word) {
    uint32_t const exponent = largest(word);
    return __uint_as_float(exponent == 0 ? 0x00400000 : exponent == 0xFF ? 0x7FFFFFFF : exponent << 23);
  }

  // The factor of a block, for `decode_e2m1`.
  static __device__ __forceinline__ uint32_t of_block(uint32_t word, int block) {
    int const exponent = static_cast<int>((word >> 8 * block & 0xFF) - largest(word)) + sm90::kE2m1Bias + 127;
    return max(exponent, 0) * 0x00800080;
  }
};

// Thread t of a quad decodes a quarter of the elements of keys g and g + 8, starting at element HeadDim / 4 * t. A step
// of 16 along k uses four of them per row. The elements of queries are permuted to the same order.
template <int HeadDim>
struct Decoded {
  static_assert(HeadDim == 64 || HeadDim == 128);
  static constexpr bool kQueryScales = true, kBounded = false;
  static constexpr int kRowBytes = HeadDim / 2, kDecodedBytes = HeadDim * 2;
  static constexpr int kSteps = HeadDim / 16, kWords = HeadDim / 32;  // words: of a thread's elements of a row
  using Scales = Exponents<HeadDim>;

  static __device__ __forceinline__ float factor(uint32_t scale) { return Scales::factor(sm90::load_word(scale)); }
  static __device__ __forceinline__ float query_factor(uint32_t word) { return Scales::factor(word); }

  // Offset of a 16-byte unit of a decoded row; a swizzled box has 8 units of each row.
  template <int Columns>
  static __device__ __forceinline__ uint32_t chunk(int column, int i) {
    return (i / 8 * Columns + column) * 128 + ((i ^ column) % 8) * 16;
  }

  // Thread `part` of four decodes a row of queries.
  template <int Columns>
  static __device__ __forceinline__ void decode_query(uint32_t decoded, uint32_t row, int column, int part,
                                                      uint32_t word) {
    uint32_t elements[kWords];
    sm90::load_words(row + part * kWords * 4, elements);
    uint32_t const factor = Scales::of_block(word, part * HeadDim / 128);
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      uint32_t pairs[4];
      sm90::decode_e2m1(elements[w], factor, pairs);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        sm90::store_word(decoded + chunk<Columns>(column, w * 4 + i) + part * 4, pairs[i]);
      }
    }
  }

  struct Keys {
    uint32_t elements[kSteps][4];

    __device__ __forceinline__ Keys(uint32_t keys, uint32_t scales) {
      int const lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        int const row = warp * 16 + lane / 4 + r * 8;
        uint32_t words[kWords];
        sm90::load_words(keys + row * kRowBytes + lane % 4 * kWords * 4, words);
        uint32_t const factor = Scales::of_block(sm90::load_word(scales + row * 4), lane % 4 * HeadDim / 128);
#pragma unroll
        for (int w = 0; w < kWords; ++w) {
          uint32_t pairs[4];
          sm90::decode_e2m1(words[w], factor, pairs);
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            elements[w * 2 + i / 2][i % 2 * 2 + r] = pairs[i];
          }
        }
      }
#pragma unroll
      for (int k = 0; k < kSteps; ++k) {
        sm90::hold(elements[k]);  // written before wgmma's fence, not after it
      }
    }
  };
};

template <int HeadDim>
struct DecodedWgmma : Decoded<HeadDim> {
  static constexpr bool kAsynchronous = true;
  using Base = Decoded<HeadDim>;
  using Keys = typename Base::Keys;

  // `queries`: where the first query's decoded row begins.
  template <int N, int Columns>
  static __device__ __forceinline__ void multiply(float (&products)[N / 2], Keys const& keys, uint32_t queries,
                                                  uint32_t const*) {
    sm90::wgmma_fence();
#pragma unroll
    for (int k = 0; k < Base::kSteps; ++k) {
      uint64_t const b = sm90::swizzled_descriptor(queries + k / 4 * Columns * 128) + k % 4 * 2;
      sm90::WgmmaRegisters<sm90::Bf16, N>::run(products, keys.elements[k], b, k > 0);
    }
    sm90::wgmma_commit();
  }

  template <int Pending, int Count>
  static __device__ __forceinline__ void wait(float (&products)[Count], Keys& keys) {
    sm90::wgmma_wait<Pending>();
    sm90::hold(products);
#pragma unroll
    for (int k = 0; k < Base::kSteps && Pending == 0; ++k) {
      sm90::hold(keys.elements[k]);
    }
  }
};

__device__ __forceinline__ void mma_bf16(float (&d)[4], uint32_t const (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// 16 x 8 x 64 FP4 with their scale factors, of which step k takes bytes 2k and 2k + 1 of each word. Lane 4g of a warp
// (and 4g + 2) has the word of row g, lane 4g + 1 (4g + 3) that of row g + 8, lanes 4g to 4g + 3 that of column g.
struct Mxf4Mma {
  static constexpr bool kQueryScales = true, kBounded = false;
  static constexpr int kDecodedBytes = 0;

  static __device__ __forceinline__ float factor(uint32_t) { return 1.0f; }
  static __device__ __forceinline__ float query_factor(uint32_t) { return 1.0f; }
  static __device__ __forceinline__ uint32_t key_scales(uint32_t words) {
    int const lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    return sm90::load_word(words + (warp * 16 + lane / 4 + lane % 2 * 8) * 4);
  }

  template <int Step>
  static __device__ __forceinline__ void run(float (&d)[4], uint32_t const (&a)[4], uint32_t b0, uint32_t b1,
                                             uint32_t row_scales, uint32_t column_scales) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 1200
    asm("mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}, {%10}, {%12, %13}, {%11}, {%12, %13};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(row_scales), "r"(column_scales),
          "n"(Step * 2), "n"(0));
#else
    emulate<Step>(d, a, b0, b1, row_scales, column_scales);
#endif
  }

 private:
  // The same from the same registers, for GPUs that lack the instruction, to test the rest of the kernel there.
  // Exponents are at most 254 - kE2m1Bias, a scale of 2.
  template <int Step>
  static __device__ __forceinline__ void emulate(float (&d)[4], uint32_t const (&a)[4], uint32_t b0, uint32_t b1,
                                                 uint32_t row_scales, uint32_t column_scales) {
    int const first = threadIdx.x % 32 / 4 * 4;
#pragma unroll
    for (int block = 0; block < 2; ++block) {
      uint32_t pairs[3][4];  // of row g, row g + 8 and column g, eight elements of the block
#pragma unroll
      for (int i = 0; i < 3; ++i) {
        uint32_t const word = i == 2 ? column_scales : __shfl_sync(~0u, row_scales, first + i);
        uint32_t const exponent = word >> (Step * 2 + block) * 8 & 0xFF;
        uint32_t const elements = i == 2 ? block == 0 ? b0 : b1 : a[block * 2 + i];
        sm90::decode_e2m1(elements, (exponent + sm90::kE2m1Bias) * 0x00800080, pairs[i]);
      }
#pragma unroll
      for (int i = 0; i < 4; i += 2) {
        mma_bf16(d, {pairs[0][i], pairs[1][i], pairs[0][i + 1], pairs[1][i + 1]}, pairs[2][i], pairs[2][i + 1]);
      }
    }
  }
};

template <int HeadDim>
using BlockScaled = Synchronous<HeadDim / 2, Mxf4Mma>;

}  // namespace tilewright::mqa_logits

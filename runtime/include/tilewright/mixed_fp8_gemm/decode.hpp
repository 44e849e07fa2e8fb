// Decodes packed 4-bit weights (docs/packed_kernels.md) to operand A of FP8's wgmma.m64nNk32 in registers.
//
// The packed layout follows the fragments of 16-bit products: a thread's word has two neighbouring elements of each 8
// along k. A fragment of 8 bits has four neighbours of each 16. So a thread reads the words of two threads of its quad
// (four lanes), and takes from both the elements of one half of each 16 of k: thread 2h + w of a quad takes half h of
// the words of threads 2w and 2w + 1, which are columns 8h + 4w to 8h + 4w + 3.
//
// A format has
//   kBits        bits of a code
//   kGroup       elements along k that share a scale
//   kScaleBytes  bytes of a group's scale and zero point
//   Weight       the type that codes become: E5M2, or E4M3
//   kBlock       elements of k that the tensor core sums before the sums are promoted, which is to multiply them by the
//                block's factors and to add them to F32 registers
//   kFactor      the epilogue multiplies the promoted sums by it
//   Scales       what a thread needs of the scales of its two rows for 128 of k
//   decode(words, scales, chunk, half, out)  see Int4::decode
#pragma once

#include <cstdint>
#include <type_traits>

#include "tilewright/mixed_gemm/decode.hpp"
#include "tilewright/sm90/elements.hpp"
#include "tilewright/sm90/ptx.hpp"

namespace tilewright::mixed_fp8_gemm {

using mixed_gemm::detail::high_twice;
using mixed_gemm::detail::low_twice;
using mixed_gemm::detail::masked_or;
using F16Pairs = mixed_gemm::detail::Pairs<sm90::F16>;

// The calling thread's quad in its warpgroup, 0 to 31, and the half of each 16 of k that the thread multiplies.
__device__ __forceinline__ int own_quad() { return static_cast<int>(threadIdx.x) % 128 / 4; }
__device__ __forceinline__ int own_half() { return static_cast<int>(threadIdx.x) / 2 % 2; }

// The packed elements of a piece, 64 of k, that the calling thread decodes: all words of threads 2w and 2w + 1. Loads
// of 16 bytes have no bank conflicts; loads of 8 bytes would have them. Shared memory's bandwidth, which operand B
// needs too, bounded products of many rows.
struct Elements {
  uint32_t words[2][4];

  // `unit`: the shared-memory address of 64 rows by 128 of k; `piece`: which 64 of the 128.
  __device__ __forceinline__ void load(uint32_t unit, int piece) {
    uint32_t const thread = threadIdx.x % 128, first = thread / 4 * 4 + thread % 2 * 2;
    load(unit + piece * 2048 + first * 16);
  }

  // `address`: that of the thread's words.
  __device__ __forceinline__ void load(uint32_t address) {
    sm90::load_words(address, words[0]);
    sm90::load_words(address + 16, words[1]);
  }

  // Decodes chunk `chunk` (16 of k) of the piece, which is number `piece` of the 128 of k. `fragments` gets two
  // registers of operand A. `half`: which half of each 16 of k they hold.
  template <class Format>
  __device__ __forceinline__ void decode(typename Format::Scales const& scales, int piece, int chunk, int half,
                                         uint32_t* fragments) const {
    uint32_t const both[2] = {words[0][chunk], words[1][chunk]};
    uint32_t out[2];
    Format::decode(both, scales, piece * 4 + chunk, half, out);
    fragments[0] = out[0], fragments[1] = out[1];
  }
};

// Returns `value`, and keeps the compiler from computing it anew.
__device__ __forceinline__ uint32_t kept(uint32_t value) {
  asm volatile("" : "+r"(value));
  return value;
}

namespace detail {

__device__ __forceinline__ uint32_t multiply_add(uint32_t x, uint32_t y, uint32_t z) {
  uint32_t result;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(x), "r"(y), "r"(z));
  return result;
}

// Four numbers of F16 as E5M2, which is the upper byte of F16. The bits of the lower byte are cut off.
__device__ __forceinline__ uint32_t e5m2_of(uint32_t first, uint32_t second) {
  return __byte_perm(first, second, 0x7531);
}

// Four numbers of F16 as E4M3, rounded to nearest even.
__device__ __forceinline__ uint32_t e4m3_of(uint32_t first, uint32_t second) {
  uint32_t result;
  asm("{\n.reg .b16 low, high;\ncvt.rn.satfinite.e4m3x2.f16x2 low, %1;\ncvt.rn.satfinite.e4m3x2.f16x2 high, %2;\n"
      "mov.b32 %0, {low, high};\n}\n"
      : "=r"(result)
      : "r"(first), "r"(second));
  return result;
}

// The scales of a thread's two rows for 128 of k as they lie in shared memory: `kHalves` records of `kOfHalf` words.
template <int kOfHalf, int kHalves>
struct ScaleWords {
  uint32_t words[kHalves][kOfHalf];

  // `quad`: own_quad(). A quad's threads have the same rows.
  __device__ __forceinline__ void load(uint32_t address, int quad) {
    uint32_t const own = address + quad * kOfHalf * 4;
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      if constexpr (kOfHalf == 1) {
        words[half][0] = sm90::load_word(own + half * 32 * kOfHalf * 4);
      } else {
        sm90::load_words(own + half * 32 * kOfHalf * 4, words[half]);
      }
    }
  }
  // A word that depends on all loads.
  __device__ __forceinline__ uint32_t any() const { return words[0][0] | words[kHalves - 1][0]; }
};

}  // namespace detail

// Integers of 4 bits, plus 8, or plus a zero point for each group; scales are of `Type`. Codes minus 8 or minus a zero
// point are exact: minus 8 they have three significant bits, as E5M2 has; minus a zero point four, as E4M3 has.
template <class Type, int kGroup_, bool kZeros>
struct Int4 {
  static constexpr int kBits = 4, kGroup = kGroup_, kBlock = kGroup_, kScaleBytes = kZeros ? 4 : 2;
  static constexpr float kFactor = 1.0f;
  using Weight = std::conditional_t<kZeros, sm90::E4m3, sm90::E5m2>;
  static constexpr int kOfGroup = kZeros ? 2 : 1, kGroupsOfHalf = kGroup == 32 ? 2 : 1;
  static_assert(kGroup == 32 || kGroup == 64 || kGroup == 128);

  struct Scales : detail::ScaleWords<kOfGroup * kGroupsOfHalf, kGroup == 128 ? 1 : 2> {
    // The word with a row's scale. With zero points each row has a word of its own.
    __device__ __forceinline__ uint32_t word(int group, int row) const {
      return this->words[group / kGroupsOfHalf][group % kGroupsOfHalf * kOfGroup + (kZeros ? row : 0)];
    }
    __device__ __forceinline__ float factor(int block, int row) const {
      uint32_t const both = word(block, row);
      return Type::to_float(static_cast<uint16_t>(kZeros || row == 0 ? both : both >> 16));
    }
  };

  // Decodes one half of the 16 of k of a chunk. `words`: those of two threads. `chunk`: which 16 of the 128 of k.
  // `half`: own_half(). out[0] gets the elements of row g, out[1] those of row g + 8.
  static __device__ __forceinline__ void decode(uint32_t const (&words)[2], Scales const& scales, int chunk, int half,
                                                uint32_t (&out)[2]) {
    // F16's 1024 with a code n in its lowest bits is 1024 + n; with the code 4 bits higher it is 1024 + 16 n.
    uint32_t magic = F16Pairs::kMagic;
    asm("" : "+r"(magic));  // keeps it in a register
    constexpr uint32_t kSixteenth = 0x2C002C00;
    uint32_t first = magic + 0x00080008, second = 0xD480D480;  // 1024 + 8 and -(64 + 8)
    if constexpr (kZeros) {
      int const group = chunk * 16 / kGroup;
      first = masked_or<0x000F000F>(high_twice(scales.word(group, 0)), magic);
      second = (high_twice(scales.word(group, 1)) << 4 & 0x00F000F0) | 0xD400D400;
    }
    uint32_t numbers[2][2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      uint32_t const codes = words[i] >> (8 * half);
      numbers[0][i] = F16Pairs::subtract(masked_or<0x000F000F>(codes, magic), first);
      numbers[1][i] = detail::multiply_add(masked_or<0x00F000F0>(codes, magic), kSixteenth, second);
    }
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      out[row] = kZeros ? detail::e4m3_of(numbers[row][0], numbers[row][1])
                        : detail::e5m2_of(numbers[row][0], numbers[row][1]);
    }
  }
};

// E2M1 with a UE8M0 scale for every 32. The scales of a row in 128 of k become powers of two relative to the row's
// largest scale there. Multiplied by these, E2M1 becomes E5M2, which is exact where a scale is at least 2^-16 of the
// largest. With smaller scales, bits are cut off that are less than 2^-17 of the largest.
struct Mxfp4 {
  static constexpr int kBits = 4, kGroup = 32, kBlock = 128, kScaleBytes = 1;
  static constexpr float kFactor = 1.0f;
  using Weight = sm90::E5m2;

  struct Scales {
    detail::ScaleWords<1, 2> raw;
    uint32_t largest;  // the largest scale of both rows, one in each half

    __device__ __forceinline__ void load(uint32_t address, int quad) {
      raw.load(address, quad);
      largest = larger(larger(pair(0), pair(1)), larger(pair(2), pair(3)));
    }
    // The scales of both rows, one in each half, for a group of 32 of the 128.
    __device__ __forceinline__ uint32_t pair(int group) const {
      return __byte_perm(raw.words[group / 2][0], 0, group % 2 == 0 ? 0x4140 : 0x4342);
    }
    // F16 of both rows: 2^15 where a group's scale is the largest.
    __device__ __forceinline__ uint32_t powers(int group) const {
      // F16's exponent is 15 for 2^0. 0x8000 in both halves keeps the subtraction from borrowing.
      uint32_t const exponents = larger(pair(group) + 0x801E801E - largest, 0x80008000);
      return (exponents & 0x001F001F) << 10;
    }
    __device__ __forceinline__ uint32_t any() const { return largest; }
    // 2^(scale - 128), because the numbers are 2 times E2M1: scales of 0 and 1 give subnormals, one of 255 gives NaN.
    __device__ __forceinline__ float factor(int, int row) const {
      uint32_t const scale = row == 0 ? largest & 0xFF : largest >> 16;
      uint32_t const bits = scale < 2 ? 0x00200000 << scale : (scale - 1) << 23;
      return __uint_as_float(scale == 255 ? 0x7FC00000 : bits);
    }

    static __device__ __forceinline__ uint32_t larger(uint32_t x, uint32_t y) {
      uint32_t result;
      asm("max.u16x2 %0, %1, %2;" : "=r"(result) : "r"(x), "r"(y));
      return result;
    }
  };

  // `AnyScales` has `powers`.
  template <class AnyScales>
  static __device__ __forceinline__ void decode(uint32_t const (&words)[2], AnyScales const& scales, int chunk,
                                                int half, uint32_t (&out)[2]) {
    // The signs of all elements lie in the upper bytes of each half. Magnitudes are shifted to where F16 has its two
    // lowest bits of the exponent and its highest bit of the mantissa: 2^-14 times the value.
    constexpr uint32_t kMagnitudes = 0x0E000E00, kSigns = 0x80808080;
    bool const upper = half != 0;
    // Shifts are multiplications: the pipe of shifts and logic is busier than that of IMAD.
    uint32_t const magnitude_shifts[2] = {upper ? 1u << 9 : 1u << 3, upper ? 1u : 1u << 6};
    uint32_t const sign_shifts[2] = {upper ? 1u << 2 : 1u, upper ? 1u << 1 : 1u << 3};
    uint32_t const signs = __byte_perm(words[0], words[1], 0x7531), powers = scales.powers(chunk / 2);
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      uint32_t const factor = row == 0 ? low_twice(powers) : high_twice(powers);
      uint32_t numbers[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        numbers[i] = F16Pairs::multiply((words[i] * magnitude_shifts[row]) & kMagnitudes, factor);
      }
      out[row] = detail::e5m2_of(numbers[0], numbers[1]) | ((signs * sign_shifts[row]) & kSigns);
    }
  }
};

}  // namespace tilewright::mixed_fp8_gemm

// The tensor core of sm_100 in software, for tests on GPUs that lack it and on the host. A warp decodes descriptors and
// addresses by the PTX ISA's tables and computes the product. It traps on values that the tables forbid. Tensor memory
// is emulated in shared memory, with one word for each lane and column.
#pragma once

#include <cstdint>

#include "tilewright/sm90/ptx.hpp"

namespace tilewright::mqa_logits::tcgen05 {

struct Emulated {
  static constexpr int kSharedBytes = 128 * 4;  // for a column of tensor memory
  // Every thread arrives for itself: compute-sanitizer's racecheck reports a race if one arrives for a synchronised
  // warp.
  static constexpr int kArrivals = 32;
  static constexpr bool kShared = false;  // each thread block has a tensor memory of its own

  uint32_t memory;

  __device__ __forceinline__ explicit Emulated(uint32_t address) : memory(address) {}

  static __device__ __forceinline__ bool issues_instructions() { return true; }  // all threads of a warp

  template <int Columns>
  __device__ __forceinline__ void allocate(uint32_t slot) const {
    if (threadIdx.x % 32 == 0) {
      sm90::store_word(slot, 0);
    }
  }
  template <int Columns>
  __device__ __forceinline__ void free(uint32_t) const {}

  __device__ __forceinline__ void copy_scales(uint32_t to, uint64_t from) const {
    int const lane = threadIdx.x % 32;
    uint32_t words[4];
    sm90::load_words(chunk_at(from, lane, 0), words);
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      sm90::store_word(word_address(to, i / 4 * 32 + lane, i % 4), words[i % 4]);
    }
    __syncwarp();
  }

  __device__ __forceinline__ void multiply(uint32_t products, uint64_t a, uint64_t b, uint32_t instruction,
                                           bool add) const {
    // Requires: dense, sums in F32, E4M3 by E4M3, neither negated nor transposed, 128 rows, no shift.
    require((instruction & 0xFF81FFFF) == 0x08000010);
    multiply_blocks<4>(
        products, a, b, instruction, add, [](uint32_t word, int i) { return e4m3(word >> i * 8); },
        [](int, int, int) { return 1.0f; });
  }

  __device__ __forceinline__ void multiply(uint32_t products, uint64_t a, uint64_t b, uint32_t instruction, bool add,
                                           uint32_t a_scales, uint32_t b_scales) const {
    // Requires: dense, E2M1 by E2M1, UE8M0 scale factors, 128 rows, 64 of k. Scale factors start at byte 0 or 2.
    require((instruction & 0xBF81FFDF) == 0x08800480);
    int const a_first = instruction >> 29 & 3, b_first = instruction >> 4 & 3;
    multiply_blocks<8>(
        products, a, b, instruction, add, [](uint32_t word, int i) { return e2m1(word >> i * 4); },
        [&](int row, int column, int block) {
          int const quarter = row / 32 * 32;
          uint32_t const x = sm90::load_word(word_address(a_scales, quarter + row % 32, row / 32));
          uint32_t const y = sm90::load_word(word_address(b_scales, quarter + column % 32, column / 32));
          return ue8m0(x >> (a_first + block) * 8) * ue8m0(y >> (b_first + block) * 8);
        });
  }

  __device__ __forceinline__ void commit(uint32_t barrier) const { sm90::barrier_arrive(barrier); }

  template <int Count>
  __device__ __forceinline__ void load(uint32_t from, float (&to)[Count]) const {
    require(from >> 16 == threadIdx.x / 32 % 4 * 32);  // a warp may read its own quarter only
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      to[i] = sm90::load_float(word_address(from, threadIdx.x % 32, i));
    }
  }
  // The fence waits until the loads have returned. Without it, loads whose results are not used would still be in
  // flight when the slot is released.
  __device__ __forceinline__ void wait_for_loads() const { __threadfence_block(); }
  __device__ __forceinline__ void before_barrier() const {}
  __device__ __forceinline__ void after_barrier() const {}

 private:
  static __device__ __forceinline__ void require(bool holds) {
    if (!holds) {
      __trap();
    }
  }

  static __device__ __forceinline__ float e4m3(uint32_t byte) {
    uint32_t const magnitude = byte & 0x7F;  // F32's exponent bias is 120 larger
    float const value = __uint_as_float((byte & 0x80) << 24 | magnitude << 20) * 0x1p120f;
    return magnitude == 0x7F ? __uint_as_float(0x7FFFFFFF) : value;
  }
  static __device__ __forceinline__ float e2m1(uint32_t nibble) {
    return __uint_as_float((nibble & 8) << 28 | (nibble & 7) << 22) * 0x1p126f;
  }
  static __device__ __forceinline__ float ue8m0(uint32_t byte) {
    uint32_t const exponent = byte & 0xFF;
    return __uint_as_float(exponent == 0 ? 0x00400000 : exponent == 0xFF ? 0x7FFFFFFF : exponent << 23);
  }

  __device__ __forceinline__ uint32_t word_address(uint32_t address, int lane, int column) const {
    return memory + (((address & 0xFFFF) + column) * 128 + (address >> 16) + lane) * 4;
  }

  // The address of 16 bytes of a row. The swizzle XORs bits 4 to 6 of the address (or fewer) with bits 7 to 9.
  static __device__ __forceinline__ uint32_t chunk_at(uint64_t descriptor, int row, int chunk) {
    int const mode = static_cast<int>(descriptor >> 61), width = mode == 2 ? 128 : mode == 4 ? 64 : mode == 6 ? 32 : 16;
    uint32_t const start = (descriptor & 0x3FFF) << 4, stride = (descriptor >> 32 & 0x3FFF) << 4;
    // Requires: the fixed bits 0b001, no base offset (the swizzle's pattern begins with the rows), reserved bits 0.
    require((descriptor & 0x1FFFC000C000C000) == uint64_t{1} << 46 && mode % 2 == 0 && start % (8 * width) < width);
    uint32_t const address = start + row / 8 * stride + row % 8 * width + chunk * 16;
    return address ^ (address >> 3 & (width - 16));
  }

  // Multiplies 32 bytes of k, as two blocks of 16 bytes, each with a scale factor. A word has `Elements` elements.
  template <int Elements, class Decode, class Scale>
  __device__ __forceinline__ void multiply_blocks(uint32_t products, uint64_t a, uint64_t b, uint32_t instruction,
                                                  bool add, Decode const& decode, Scale const& scale) const {
    int const columns = (instruction >> 17 & 0x3F) * 8;
#pragma unroll 1
    for (int row = threadIdx.x % 32; row < 128; row += 32) {
#pragma unroll 1
      for (int column = 0; column < columns; ++column) {
        uint32_t const sum_address = word_address(products, row, column);
        float sum = add ? sm90::load_float(sum_address) : 0.0f;
#pragma unroll 1
        for (int block = 0; block < 2; ++block) {
          uint32_t x[4], y[4];
          sm90::load_words(chunk_at(a, row, block), x);
          sm90::load_words(chunk_at(b, column, block), y);
          float dot = 0.0f;
#pragma unroll
          for (int i = 0; i < 4; ++i) {
#pragma unroll
            for (int j = 0; j < Elements; ++j) {
              dot += decode(x[i], j) * decode(y[i], j);
            }
          }
          sum += dot * scale(row, column, block);
        }
        sm90::store_float(sum_address, sum);
      }
    }
  }
};

}  // namespace tilewright::mqa_logits::tcgen05

// Fragments of mma.sync (fragments.hpp) from boxes whose rows have 64 bytes, in the 64-byte swizzle. It exchanges the
// 16-byte units of a row by bits 1 and 2 of the row's number.
//
// | fragments | elements | bytes of a row in a step |
// |---|---|---|
// | NarrowFragments | as they lie in the box | 32 |
// | UnpackedFragments | FP4 beside FP8: each of 32 takes a byte of a register, as kind::mxf8f6f4 expects | 16 |
#pragma once

#include <cstdint>

#include "tilewright/sm90/ptx.hpp"
#include "tilewright/sm90/subtile.hpp"

namespace tilewright::sm120 {

constexpr int kNarrowRowBytes = 64;

// The 16-byte unit `unit` of a row of 64 bytes, as bytes in the row, under the swizzle.
__device__ __forceinline__ uint32_t narrow_unit(int row, int unit) { return (unit ^ (row >> 1 & 3)) << 4; }

// A warp's fragments of A: 16 rows of each of `Rows` 64-row slices.
template <int Rows>
struct NarrowFragmentsA {
  uint32_t at;  // bytes from a box to the 16 that this lane addresses, in the first slice and step

  // `first_row`: where the warpgroup's part begins in the tile, a multiple of 64.
  __device__ __forceinline__ explicit NarrowFragmentsA(int first_row) {
    int const lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, in_matrix = lane % 8;
    int const low = lane / 8 % 2, next = lane / 16;  // matrices: rows 8 to 15; the next 16 bytes of k
    at = (first_row + warp * 16 + low * 8 + in_matrix) * kNarrowRowBytes + narrow_unit(in_matrix, next);
  }

  // Loads the fragments of step `step` of the box at `box`.
  __device__ __forceinline__ void load(uint32_t box, int step, uint32_t (&a)[Rows][4]) const {
    uint32_t const from = box + (at ^ step << 5);
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
      sm90::load_matrices<false>(from + r * 64 * kNarrowRowBytes, a[r][0], a[r][1], a[r][2], a[r][3]);
    }
  }
};

// A warpgroup's fragments of B, `Columns` columns. Every warp has all of them.
template <int Columns>
struct NarrowFragmentsB {
  uint32_t at;

  // `first_column`: where the warpgroup's part begins in the tile, a multiple of 8.
  __device__ __forceinline__ explicit NarrowFragmentsB(int first_column) {
    int const lane = threadIdx.x % 32, in_matrix = lane % 8;
    int const next = lane / 8 % 2, right = lane / 16;  // matrices: the next 16 bytes of k; the next 8 columns
    at = (first_column + right * 8 + in_matrix) * kNarrowRowBytes + narrow_unit(in_matrix, next);
  }

  // Loads the fragments of step `step` of the box at `box`, of up to `Count` 8-column groups that begin at group
  // `first`. `first` and `Count` are even, unless B has one group.
  template <int Count>
  __device__ __forceinline__ void load(uint32_t box, int step, int first, uint32_t (&b)[Count][2]) const {
    uint32_t const from = box + (at ^ step << 5) + first * 8 * kNarrowRowBytes;
#pragma unroll
    for (int i = 0; i < Count; i += 2) {
      int const left = Columns / 8 - first - i;
      if (left > 1) {
        uint32_t (&second)[2] = b[Count > 1 ? i + 1 : 0];
        sm90::load_matrices<false>(from + i * 8 * kNarrowRowBytes, b[i][0], b[i][1], second[0], second[1]);
      } else if (left == 1) {
        sm90::load_matrices<false>(from + i * 8 * kNarrowRowBytes, b[i][0], b[i][1]);
      }
    }
  }
};

// Unpacks four elements of FP4 from the lower or the upper half of a word to four bytes, each element in bits 2 to 5.
// `half`: the selector of __byte_perm that takes each byte of that half twice.
__device__ __forceinline__ uint32_t unpack_fp4(uint32_t word, uint32_t half) {
  uint32_t const pairs = __byte_perm(word, 0, half);
  return (pairs << 2 & 0x003C003C) | (pairs >> 2 & 0x3C003C00);
}

// Loads and unpacks a thread's part of one row's step. Thread t of a quad multiplies elements 4t to 4t + 3 of each 16
// of k, which are 2 bytes of each 8. Threads 2t and 2t + 1 load the same word.
struct UnpackedRow {
  uint32_t at, half;

  __device__ __forceinline__ explicit UnpackedRow(int first_row) {
    int const lane = threadIdx.x % 32, in_quad = lane % 4;
    at = (first_row + lane / 4) * kNarrowRowBytes + narrow_unit(lane / 4, 0) + in_quad / 2 * 4;
    half = in_quad % 2 == 0 ? 0x1100 : 0x3322;
  }

  // Loads the word of the first 16 of k of the step, and that of the next 16.
  __device__ __forceinline__ void load(uint32_t from, int step, uint32_t& first, uint32_t& next) const {
    uint32_t const row = from + (at ^ step << 4);
    first = unpack_fp4(sm90::load_word(row), half);
    next = unpack_fp4(sm90::load_word(row + 8), half);
  }
};

template <int Rows>
struct UnpackedFragmentsA {
  UnpackedRow rows;

  __device__ __forceinline__ explicit UnpackedFragmentsA(int first_row) : rows(first_row + threadIdx.x / 32 % 4 * 16) {}

  __device__ __forceinline__ void load(uint32_t box, int step, uint32_t (&a)[Rows][4]) const {
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
      rows.load(box + r * 64 * kNarrowRowBytes, step, a[r][0], a[r][2]);
      rows.load(box + (r * 64 + 8) * kNarrowRowBytes, step, a[r][1], a[r][3]);
    }
  }
};

template <int Columns>
struct UnpackedFragmentsB {
  UnpackedRow rows;

  __device__ __forceinline__ explicit UnpackedFragmentsB(int first_column) : rows(first_column) {}

  template <int Count>
  __device__ __forceinline__ void load(uint32_t box, int step, int first, uint32_t (&b)[Count][2]) const {
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      if (first + i < Columns / 8) {
        rows.load(box + (first + i) * 8 * kNarrowRowBytes, step, b[i][0], b[i][1]);
      }
    }
  }
};

}  // namespace tilewright::sm120

// Fragments of mma.sync, loaded by ldmatrix from stages that TMA has filled: boxes of rows of 128 bytes in the 128-byte
// swizzle, which exchanges the 16-byte units of a row by the lowest three bits of its number. A step is the k of one
// instruction: 32 bytes.
//
// A box is K-major or MN-major:
//
// | box | a row of the box is | along the row lie |
// |---|---|---|
// | K-major | a row of the operand | 128 bytes of k |
// | MN-major, elements of 16 bits | one of 64 of k | 64 rows of the operand, which ldmatrix transposes |
//
// In both, a lane's address is a base with a few bits exchanged, which choose the unit along the row, plus a constant,
// which chooses the row.
//
// A fragment of A is 16 rows of a step, in four 8x8 matrices of 16-bit elements: rows 0 to 7 and 8 to 15 of the first
// 16 bytes of k, then of the next 16. A fragment of B is 8 columns of a step, in two matrices: the first 16 bytes of k,
// and the next 16.
#pragma once

#include <cstdint>

#include "tilewright/sm90/subtile.hpp"

namespace tilewright::sm120 {

constexpr int kBoxRowBytes = 128, kMnBoxRows = 64, kMnBoxBytes = kMnBoxRows * kBoxRowBytes;
constexpr int kSteps = kBoxRowBytes / 32;  // of a box

// The 16-byte unit `unit` of a row, as bytes in the row, under the swizzle.
__device__ __forceinline__ uint32_t swizzled_unit(int row, int unit) { return (unit ^ (row & 7)) << 4; }

// A warp's fragments of A: 16 rows of each of `Rows` 64-row slices. `kMn`: A is MN-major.
template <int Rows, bool kMn>
struct FragmentsA {
  uint32_t at;  // bytes from a box to the 16 that this lane addresses, in the first slice and step

  // `first_row`: where the warpgroup's part begins in the tile, a multiple of 64.
  __device__ __forceinline__ explicit FragmentsA(int first_row) {
    int const lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, in_matrix = lane % 8;
    int const low = lane / 8 % 2, next = lane / 16;  // matrices: rows 8 to 15; the next 16 bytes of k
    if constexpr (kMn) {
      at = first_row / kMnBoxRows * kMnBoxBytes + (next * 8 + in_matrix) * kBoxRowBytes +
           swizzled_unit(in_matrix, warp * 2 + low);
    } else {
      at = (first_row + warp * 16 + low * 8 + in_matrix) * kBoxRowBytes + swizzled_unit(in_matrix, next);
    }
  }

  // Loads the fragments of step `step` of the box at `box`.
  __device__ __forceinline__ void load(uint32_t box, int step, uint32_t (&a)[Rows][4]) const {
    uint32_t const from = kMn ? box + at + step * 16 * kBoxRowBytes : box + (at ^ step << 5);
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
      sm90::load_matrices<kMn>(from + r * (kMn ? kMnBoxBytes : 64 * kBoxRowBytes), a[r][0], a[r][1], a[r][2], a[r][3]);
    }
  }
};

// A warpgroup's fragments of B, `Columns` columns. Every warp has all of them. `kMn`: B is MN-major.
template <int Columns, bool kMn>
struct FragmentsB {
  static_assert(!kMn || Columns == 32 || Columns % kMnBoxRows == 0);

  uint32_t at;

  // `first_column`: where the warpgroup's part begins in the tile, a multiple of 8. If B is MN-major, of `Columns`.
  __device__ __forceinline__ explicit FragmentsB(int first_column) {
    int const lane = threadIdx.x % 32, in_matrix = lane % 8;
    int const next = lane / 8 % 2, right = lane / 16;  // matrices: the next 16 bytes of k; the next 8 columns
    if constexpr (kMn) {
      at = first_column / kMnBoxRows * kMnBoxBytes + (next * 8 + in_matrix) * kBoxRowBytes +
           swizzled_unit(in_matrix, first_column % kMnBoxRows / 8 + right);
    } else {
      at = (first_column + right * 8 + in_matrix) * kBoxRowBytes + swizzled_unit(in_matrix, next);
    }
  }

  // Loads the fragments of step `step` of the box at `box`, of up to `Count` 8-column groups that begin at group
  // `first`. `first` and `Count` are even, unless B has one group.
  template <int Count>
  __device__ __forceinline__ void load(uint32_t box, int step, int first, uint32_t (&b)[Count][2]) const {
#pragma unroll
    for (int i = 0; i < Count; i += 2) {
      uint32_t const from = address(box, step, first + i);
      int const left = Columns / 8 - first - i;
      if (left > 1) {
        uint32_t (&second)[2] = b[Count > 1 ? i + 1 : 0];
        sm90::load_matrices<kMn>(from, b[i][0], b[i][1], second[0], second[1]);
      } else if (left == 1) {
        sm90::load_matrices<kMn>(from, b[i][0], b[i][1]);
      }
    }
  }

 private:
  __device__ __forceinline__ uint32_t address(uint32_t box, int step, int group) const {
    if constexpr (kMn) {
      return box + (at ^ (group % 8) << 4) + group / 8 * kMnBoxBytes + step * 16 * kBoxRowBytes;
    } else {
      return box + (at ^ step << 5) + group * 8 * kBoxRowBytes;
    }
  }
};

}  // namespace tilewright::sm120

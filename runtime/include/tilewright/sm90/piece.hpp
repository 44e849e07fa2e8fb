// How a piece of a tile goes from the accumulators of wgmma into a box: the shared memory from which one TMA store
// takes it. Four threads hold 8 neighbouring columns of a row, two each, and of the row 8 below: 4 accumulators of
// a thread are a *quad*, wgmma's unit of 8 columns.
#pragma once

#include <cstdint>

#include "tilewright/sm90/ptx.hpp"

namespace tilewright::sm90 {

// Four, or two, 8x8 matrices of 16-bit elements, from where `store_matrices` lays them.
template <bool kTransposed>
__device__ __forceinline__ void load_matrices(uint32_t row, uint32_t& x, uint32_t& y, uint32_t& z, uint32_t& w) {
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x), "=r"(y), "=r"(z), "=r"(w)
                 : "r"(row)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x), "=r"(y), "=r"(z), "=r"(w)
                 : "r"(row)
                 : "memory");
  }
}

template <bool kTransposed>
__device__ __forceinline__ void load_matrices(uint32_t row, uint32_t& x, uint32_t& y) {
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(x), "=r"(y)
                 : "r"(row)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(x), "=r"(y) : "r"(row) : "memory");
  }
}

// Columns of accumulators that are stored at a time, for D of 16 bits and more. Of 8 bits, see `Epilogue::kColumns`.
//
// Rows of a piece lie so that stmatrix fills shared memory's banks evenly: 64, 32 or 16 elements under the swizzle of
// that width, else an odd number of 16-byte units. Swapped, its rows have the 64 elements of a warpgroup, and it is
// about 32 rows high, so that the CTAs of a split k have a piece each.
constexpr int piece_columns(int n, bool swapped) {
  if (swapped) {
    for (int quads : {4, 3, 5, 2, 6, 7}) {
      if (n / 8 % quads == 0) {
        return quads * 8;
      }
    }
    return n;
  }
  if (n % 32 == 0) {
    return n % 64 == 0 ? 64 : 32;
  }
  int units = 15;
  while (n / 8 % units != 0) {
    units -= 2;
  }
  return units > 1 ? units * 8 : n % 16 == 0 ? 16 : 8;
}

// The same where the CTAs of a split k share the pieces out: finer, so that all of them have one, and as many.
constexpr int shared_piece_columns(int n, bool swapped, bool eight_bits) {
  if (eight_bits && !swapped) {
    return 32;
  }
  for (int columns : {swapped ? 16 : 32, 24, 16}) {
    if (n > columns && n % columns == 0) {
      return columns;
    }
  }
  return 8;
}

// A piece of `Columns` columns of 64 rows, one warpgroup's. Swapped: the accumulators' rows are D's columns.
// `kTogether`: the four warps fill one box together; else each fills one with its own 16 rows.
template <class ElementD, int Columns, bool kSwapped, bool kTogether>
struct Piece {
  static constexpr bool kEightBits = ElementD::kBytes == 1;
  static_assert(kTogether || !kSwapped, "16 of D's columns would make short rows");
  static_assert(!kEightBits || kSwapped || Columns % 32 == 0, "rows of 32 or 64 bytes are swizzled");
  static constexpr int kQuads = Columns / 8, kCount = kQuads * 4;                 // accumulators of a thread
  static constexpr int kBoxBytes = (kSwapped ? 64 : Columns) * ElementD::kBytes;  // of a row
  static constexpr int kBoxRows = kSwapped ? Columns : kTogether ? 64 : 16;
  static constexpr int kBytes = kBoxBytes * kBoxRows;
  static constexpr CUtensorMapSwizzle kSwizzle = kBoxBytes == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
                                                 : kBoxBytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
                                                 : kBoxBytes == 32 ? CU_TENSOR_MAP_SWIZZLE_32B
                                                                   : CU_TENSOR_MAP_SWIZZLE_NONE;

  // D's row and column of accumulator `e` (0 to 3) of quad `quad` of a thread whose first is at (row, column).
  static __device__ __forceinline__ int row_of(int row, int column, int quad, int e) {
    return kSwapped ? column + quad * 8 + e % 2 : row + e / 2 * 8;
  }
  static __device__ __forceinline__ int column_of(int row, int column, int quad, int e) {
    return kSwapped ? row + e / 2 * 8 : column + quad * 8 + e % 2;
  }

  // Of a warp that fills a box with others, its rows in the box; of one that does not, the box's in the 64.
  static __device__ __forceinline__ int own_rows(int warp) { return kTogether && !kSwapped ? warp * 16 : 0; }
  static __device__ __forceinline__ int first_row_of(int warp) { return kTogether ? 0 : warp * 16; }

  // Where a box has 16-byte unit `unit` of row `row`, under the swizzle that goes with the row's length.
  static __device__ __forceinline__ int place(int row, int unit) {
    if constexpr (kBoxBytes == 128) {
      return row * 128 + ((unit ^ (row & 7)) << 4);
    } else if constexpr (kBoxBytes == 64) {
      return row * 64 + ((unit ^ (row >> 1 & 3)) << 4);
    } else if constexpr (kBoxBytes == 32) {
      return row * 32 + ((unit ^ (row >> 2 & 1)) << 4);
    } else {
      return row * kBoxBytes + unit * 16;
    }
  }

  // Those of a thread's sums that piece number `piece` of 64 rows has.
  template <int Count>
  static __device__ __forceinline__ void take(float const (&sums)[Count], int piece, float (&values)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      values[i] = sums[piece * kCount + i];
    }
  }

  // The sums, as elements of D, into the box.
  static __device__ __forceinline__ void lay(float const (&values)[kCount], uint32_t box, int warp, int lane) {
    if constexpr (kEightBits) {
      lay_bytes(values, box, warp, lane);
    } else {
      lay_halves(values, box, warp, lane);
    }
  }

  // Adds the box's elements of 16 bits, which lie as `lay` lays them, times `factor`.
  static __device__ __forceinline__ void add(float (&values)[kCount], uint32_t box, float const& factor, int warp,
                                             int lane) {
    int const half = lane / 8 % 2, next = lane / 16, in_matrix = lane % 8;
#pragma unroll
    for (int quad = 0; quad < kQuads; quad += 2) {
      uint32_t const from = box + (kSwapped ? place((quad + next) * 8 + in_matrix, warp * 2 + half)
                                            : place(own_rows(warp) + half * 8 + in_matrix, quad + next));
      uint32_t pairs[4];
      if (quad + 1 < kQuads) {
        load_matrices<kSwapped>(from, pairs[0], pairs[1], pairs[2], pairs[3]);
      } else {
        load_matrices<kSwapped>(from, pairs[0], pairs[1]);
      }
#pragma unroll
      for (int i = 0; i < (quad + 1 < kQuads ? 8 : 4); ++i) {
        values[quad * 4 + i] += factor * ElementD::to_float(static_cast<uint16_t>(pairs[i / 2] >> i % 2 * 16));
      }
    }
  }

 private:
  // A piece of 16-bit elements into its box.
  static __device__ __forceinline__ void lay_halves(float const (&values)[kCount], uint32_t box, int warp, int lane) {
    // Lane l gives the address of row l % 8 of matrix l / 8 of the four that one instruction stores: those of the
    // upper 8 rows and the lower 8 of one quad, then those of the next.
    int const half = lane / 8 % 2, next = lane / 16, in_matrix = lane % 8;
#pragma unroll
    for (int quad = 0; quad < kQuads; quad += 2) {
      uint32_t const to = box + (kSwapped ? place((quad + next) * 8 + in_matrix, warp * 2 + half)
                                          : place(own_rows(warp) + half * 8 + in_matrix, quad + next));
      uint32_t const x = ElementD::pack(values[quad * 4], values[quad * 4 + 1]);
      uint32_t const y = ElementD::pack(values[quad * 4 + 2], values[quad * 4 + 3]);
      if (quad + 1 < kQuads) {
        constexpr int kLast = kQuads * 4 - 1;
        int const i = quad * 4 + 4 < kLast ? quad * 4 + 4 : 0;
        store_matrices<kSwapped>(to, x, y, ElementD::pack(values[i], values[i + 1]),
                                 ElementD::pack(values[i + 2], values[i + 3]));
      } else {
        store_matrices<kSwapped>(to, x, y);
      }
    }
  }

  // A piece of 8-bit elements, pairs of which go to a box without conflicts of banks: 8 rows by 8 bytes.
  static __device__ __forceinline__ void lay_bytes(float const (&values)[kCount], uint32_t box, int warp, int lane) {
    int const group = lane / 4, t = lane % 4;
#pragma unroll
    for (int quad = 0; quad < kQuads; ++quad) {
      float const* const v = values + quad * 4;
      if constexpr (kSwapped) {
        // Neighbours in D lie in lanes that are 4 apart. Of two such, the even one takes the pairs of D's row 2t, the
        // odd one those of 2t + 1.
        uint32_t const own = ElementD::pack(v[0], v[1]) | ElementD::pack(v[2], v[3]) << 16;
        uint32_t const other = __shfl_xor_sync(~0u, own, 4);
        uint32_t const pairs = group % 2 == 0 ? __byte_perm(own, other, 0x6240) : __byte_perm(other, own, 0x7351);
        int const row = quad * 8 + t * 2 + group % 2, byte = group / 2 * 2;
        store_short(box + place(row, warp) + byte, pairs & 0xFFFF);
        store_short(box + place(row, warp) + byte + 8, pairs >> 16);
      } else {
        int const byte = quad % 2 * 8 + t * 2;
        int const row = own_rows(warp) + group;
        store_short(box + place(row, quad / 2) + byte, ElementD::pack(v[0], v[1]));
        store_short(box + place(row + 8, quad / 2) + byte, ElementD::pack(v[2], v[3]));
      }
    }
  }
};

}  // namespace tilewright::sm90

// How an epilogue subtile goes from the accumulators of wgmma into a box: the shared memory that one TMA store reads.
//
// The accumulators' unit is the column group: 64 rows by 8 columns, wgmma's unit of N, 4 accumulators of each thread of
// the warpgroup. Thread t of a warp holds two neighbours in each of two rows of the warp's 16:
//
// | accumulator of a column group | row of the warp's 16 | column |
// |---|---|---|
// | 0, 1 | t / 4 | t % 4 * 2, t % 4 * 2 + 1 |
// | 2, 3 | t / 4 + 8 | the same |
#pragma once

#include <cstdint>

#include "tilewright/sm90/ptx.hpp"

namespace tilewright::sm90 {

// Loads four (or two) 8x8 matrices of 16-bit elements, whose rows lie where `store_matrices` (ptx.hpp) stores them.
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

// Columns of accumulators in a subtile, of sums that go from registers to a box. `n`: the warpgroup's columns.
//
// The length of the box's rows decides whether stmatrix fills shared memory's banks evenly. It does with 64, 32 or 16
// elements of 16 bits under the swizzle of that width, and with an odd number of 16-byte units. If operands are
// swapped, a row always has the 64 elements of a warpgroup's rows, and a subtile is about 32 rows high, so that each
// CTA of a split k has a subtile.
constexpr int subtile_columns(int n, bool swapped) {
  if (swapped) {
    for (int column_groups : {4, 3, 5, 2, 6, 7}) {
      if (n / 8 % column_groups == 0) {
        return column_groups * 8;
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

// The same for sums that go through shared memory, where the CTAs of a split k divide the subtiles among them: smaller,
// so that the CTAs have about equally many.
constexpr int shared_subtile_columns(int n, bool swapped, bool eight_bits) {
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

// A subtile: 64 rows by `Columns` columns of one warpgroup's accumulators. `kSwapped`: the accumulators' rows are D's
// columns. `kTogether`: the four warps fill one box together; else each warp fills a box with its own 16 rows.
template <class ElementD, int Columns, bool kSwapped, bool kTogether>
struct Subtile {
  static constexpr bool kEightBits = ElementD::kBytes == 1;
  static_assert(kTogether || !kSwapped, "16 of D's columns would make short rows");
  static_assert(!kEightBits || kSwapped || Columns % 32 == 0, "rows of 32 or 64 bytes are swizzled");
  static constexpr int kColumnGroups = Columns / 8, kCount = kColumnGroups * 4;   // kCount: accumulators of a thread
  static constexpr int kBoxBytes = (kSwapped ? 64 : Columns) * ElementD::kBytes;  // of a row
  static constexpr int kBoxRows = kSwapped ? Columns : kTogether ? 64 : 16;
  static constexpr int kBytes = kBoxBytes * kBoxRows;
  static constexpr CUtensorMapSwizzle kSwizzle = kBoxBytes == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
                                                 : kBoxBytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
                                                 : kBoxBytes == 32 ? CU_TENSOR_MAP_SWIZZLE_32B
                                                                   : CU_TENSOR_MAP_SWIZZLE_NONE;

  // D's row and column of accumulator `e` (0 to 3) of a column group, for a thread whose first accumulator is at
  // (row, column).
  static __device__ __forceinline__ int row_of(int row, int column, int column_group, int e) {
    return kSwapped ? column + column_group * 8 + e % 2 : row + e / 2 * 8;
  }
  static __device__ __forceinline__ int column_of(int row, int column, int column_group, int e) {
    return kSwapped ? row + e / 2 * 8 : column + column_group * 8 + e % 2;
  }

  // own_rows: the first row, in the box, of what a warp fills. first_row_of: the first row of the warp's box in the 64.
  static __device__ __forceinline__ int own_rows(int warp) { return kTogether && !kSwapped ? warp * 16 : 0; }
  static __device__ __forceinline__ int first_row_of(int warp) { return kTogether ? 0 : warp * 16; }

  // Offset, in a box, of 16-byte unit `unit` of row `row`, under the swizzle kSwizzle.
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

  // Copies a thread's sums of subtile number `subtile` from those of its 64 rows.
  template <int Count>
  static __device__ __forceinline__ void take(float const (&sums)[Count], int subtile, float (&values)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      values[i] = sums[subtile * kCount + i];
    }
  }

  // Stores the sums to the box, as elements of D.
  static __device__ __forceinline__ void store_to_box(float const (&values)[kCount], uint32_t box, int warp, int lane) {
    if constexpr (kEightBits) {
      store_bytes(values, box, warp, lane);
    } else {
      store_halves(values, box, warp, lane);
    }
  }

  // Adds `factor` times the box's elements of C, of 16 bits, which lie as `store_to_box` stores D's.
  static __device__ __forceinline__ void add(float (&values)[kCount], uint32_t box, float const& factor, int warp,
                                             int lane) {
    int const half = lane / 8 % 2, next = lane / 16, in_matrix = lane % 8;
#pragma unroll
    for (int column_group = 0; column_group < kColumnGroups; column_group += 2) {
      uint32_t const from = box + (kSwapped ? place((column_group + next) * 8 + in_matrix, warp * 2 + half)
                                            : place(own_rows(warp) + half * 8 + in_matrix, column_group + next));
      uint32_t pairs[4];
      if (column_group + 1 < kColumnGroups) {
        load_matrices<kSwapped>(from, pairs[0], pairs[1], pairs[2], pairs[3]);
      } else {
        load_matrices<kSwapped>(from, pairs[0], pairs[1]);
      }
#pragma unroll
      for (int i = 0; i < (column_group + 1 < kColumnGroups ? 8 : 4); ++i) {
        values[column_group * 4 + i] += factor * ElementD::to_float(static_cast<uint16_t>(pairs[i / 2] >> i % 2 * 16));
      }
    }
  }

 private:
  // Stores 16-bit elements to the box.
  static __device__ __forceinline__ void store_halves(float const (&values)[kCount], uint32_t box, int warp, int lane) {
    // One instruction stores four 8x8 matrices: the upper 8 rows and the lower 8 of one column group, then those of the
    // next. Lane l gives the address of row l % 8 of matrix l / 8.
    int const half = lane / 8 % 2, next = lane / 16, in_matrix = lane % 8;
#pragma unroll
    for (int column_group = 0; column_group < kColumnGroups; column_group += 2) {
      uint32_t const to = box + (kSwapped ? place((column_group + next) * 8 + in_matrix, warp * 2 + half)
                                          : place(own_rows(warp) + half * 8 + in_matrix, column_group + next));
      uint32_t const x = ElementD::pack(values[column_group * 4], values[column_group * 4 + 1]);
      uint32_t const y = ElementD::pack(values[column_group * 4 + 2], values[column_group * 4 + 3]);
      if (column_group + 1 < kColumnGroups) {
        constexpr int kLast = kColumnGroups * 4 - 1;
        int const i = column_group * 4 + 4 < kLast ? column_group * 4 + 4 : 0;
        store_matrices<kSwapped>(to, x, y, ElementD::pack(values[i], values[i + 1]),
                                 ElementD::pack(values[i + 2], values[i + 3]));
      } else {
        store_matrices<kSwapped>(to, x, y);
      }
    }
  }

  // Stores 8-bit elements to the box in pairs. A warp stores 8 rows by 8 bytes at once, without bank conflicts.
  static __device__ __forceinline__ void store_bytes(float const (&values)[kCount], uint32_t box, int warp, int lane) {
    int const group = lane / 4, t = lane % 4;
#pragma unroll
    for (int column_group = 0; column_group < kColumnGroups; ++column_group) {
      float const* const v = values + column_group * 4;
      if constexpr (kSwapped) {
        // Neighbours in a row of D lie in lanes that are 4 apart. Two such lanes exchange their elements. The lane of
        // the even group then has the pairs of D's row 2t, that of the odd group those of row 2t + 1.
        uint32_t const own_pair = ElementD::pack(v[0], v[1]) | ElementD::pack(v[2], v[3]) << 16;
        uint32_t const peer_pair = __shfl_xor_sync(~0u, own_pair, 4);
        uint32_t const pairs =
            group % 2 == 0 ? __byte_perm(own_pair, peer_pair, 0x6240) : __byte_perm(peer_pair, own_pair, 0x7351);
        int const row = column_group * 8 + t * 2 + group % 2, byte = group / 2 * 2;
        store_short(box + place(row, warp) + byte, pairs & 0xFFFF);
        store_short(box + place(row, warp) + byte + 8, pairs >> 16);
      } else {
        int const byte = column_group % 2 * 8 + t * 2;
        int const row = own_rows(warp) + group;
        store_short(box + place(row, column_group / 2) + byte, ElementD::pack(v[0], v[1]));
        store_short(box + place(row + 8, column_group / 2) + byte, ElementD::pack(v[2], v[3]));
      }
    }
  }
};

}  // namespace tilewright::sm90

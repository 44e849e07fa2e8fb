// From the F32 accumulators of wgmma to D:
//
//   D = activation(alpha * scale_a * scale_b * sum + bias + beta * C)
//
// A tile goes a piece of some columns at a time: registers, then 16-bit elements in shared memory, then a TMA store
// that runs while the next piece is computed. Where TMA cannot store (D's rows are not aligned to 16 bytes) or has no
// advantage (F32), threads store what they hold.
#pragma once

#include <cstdint>

#include "tilewright/sm90/elements.hpp"
#include "tilewright/sm90/ptx.hpp"

namespace tilewright::sm90 {

enum class Activation { kNone, kRelu, kGelu, kSilu };

template <Activation kActivation>
__device__ __forceinline__ float activate(float x) {
  if constexpr (kActivation == Activation::kRelu) {
    return x > 0.0f || x != x ? x : 0.0f;  // NaN stays
  } else if constexpr (kActivation == Activation::kGelu) {
    return 0.5f * x * (1.0f + erff(x * 0.70710678f));
  } else if constexpr (kActivation == Activation::kSilu) {
    return x / (1.0f + __expf(-x));
  } else {
    return x;
  }
}

struct EpilogueParams {
  void const* c;  // null where beta is 0
  void* d;
  void const* bias;  // along n, or null
  float const* scale_a;
  float const* scale_b;
  int64_t ld_c, ld_d;  // elements
  int64_t batch_stride_c, batch_stride_d;
  float alpha, beta;
  int m, n;
  bool boxes;  // TMA stores; D is aligned for them
};

// Columns of accumulators that are stored at a time.
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

// Of the tile of a warpgroup: 64 * Rows rows, N columns. Swapped: the accumulators' rows are D's columns.
template <class ElementD, int Rows, int N, bool kSwapped, Activation kActivation>
struct Epilogue {
  static constexpr int kColumns = piece_columns(N, kSwapped);
  static constexpr int kPieces = N / kColumns;
  static constexpr int kQuads = kColumns / 8;  // of accumulators, in a piece
  static constexpr bool kBoxes = ElementD::kBytes == 2;
  static constexpr int kBuffers = Rows * kPieces > 1 && (!kSwapped || kColumns <= 56) ? 2 : 1;
  // Each warp stores its 16 rows; swapped, a warpgroup its 64 columns together, since 16 would make short rows.
  static constexpr int kBoxBytes = kSwapped ? 128 : kColumns * 2;
  static constexpr int kBoxRows = kSwapped ? kColumns : 16;
  static constexpr int kBufferBytes = kBoxBytes * kBoxRows;
  static constexpr int kBytes = kBoxes ? kBuffers * kBufferBytes * (kSwapped ? 1 : 4) : 0;  // of a warpgroup
  static constexpr CUtensorMapSwizzle kSwizzle = kBoxBytes == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
                                                 : kBoxBytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
                                                 : kBoxBytes == 32 ? CU_TENSOR_MAP_SWIZZLE_32B
                                                                   : CU_TENSOR_MAP_SWIZZLE_NONE;

  EpilogueParams const& params;
  CUtensorMap const* map;
  uint32_t buffers;  // shared memory of the warp, or (swapped) of the warpgroup
  int warpgroup;     // names its barrier
  float factor;
  bool leader;  // issues the stores
  int used = 0;

  __device__ __forceinline__ Epilogue(EpilogueParams const& epilogue, CUtensorMap const* d, uint32_t shared,
                                      int consumer)
      : params(epilogue), map(d), warpgroup(consumer) {
    int const warp = threadIdx.x / 32 % 4;
    buffers = shared + consumer * kBytes + (kSwapped ? 0 : warp * kBuffers * kBufferBytes);
    leader = (!kSwapped || warp == 0) && elect_one();
    float const a = params.scale_a != nullptr ? *params.scale_a : 1.0f;
    float const b = params.scale_b != nullptr ? *params.scale_b : 1.0f;
    factor = params.alpha * a * b;
  }

  // All of a warpgroup's sums. Its first row and column in the kernel's own plane are `row` and `column`.
  __device__ __forceinline__ void store(float const (&sums)[Rows][N / 2], int row, int column, int matrix) {
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
#pragma unroll
      for (int piece = 0; piece < kPieces; ++piece) {
        float values[kQuads * 4];
#pragma unroll
        for (int i = 0; i < kQuads * 4; ++i) {
          values[i] = sums[r][piece * kQuads * 4 + i];
        }
        store_piece(values, row + r * 64, column + piece * kColumns, matrix);
      }
    }
  }

  // A piece, 64 rows and kColumns columns, that TMA stores and to which no C is added.
  __device__ __forceinline__ void store_piece(float (&values)[kQuads * 4], int row, int column, int matrix) {
    int const lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    scale(values, row + warp * 16 + lane / 4, column + lane % 4 * 2);
    activate_all(values);
    store_box_of(values, row, column, matrix, warp, lane);
  }

  // Any piece.
  __device__ __forceinline__ void store_any(float (&values)[kQuads * 4], int row, int column, int matrix) {
    int const lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    int const own_row = row + warp * 16 + lane / 4, own_column = column + lane % 4 * 2;
    scale(values, own_row, own_column);
    if (params.c != nullptr) {
      add_c(values, own_row, own_column, matrix);
    }
    activate_all(values);
    if constexpr (kBoxes) {
      if (params.boxes) {
        store_box_of(values, row, column, matrix, warp, lane);
        return;
      }
    }
    store_directly(values, own_row, own_column, matrix);
  }

  // Before the CTA ends: TMA still reads the shared memory of the last pieces.
  __device__ __forceinline__ void drain() const {
    if (kBoxes && leader) {
      wait_for_stores<0>();
    }
  }

 private:
  // D's row and column of accumulator `e` (0 to 3) of quad `quad` of a thread whose first is at (row, column).
  static __device__ __forceinline__ int row_of(int row, int column, int quad, int e) {
    return kSwapped ? column + quad * 8 + e % 2 : row + e / 2 * 8;
  }
  static __device__ __forceinline__ int column_of(int row, int column, int quad, int e) {
    return kSwapped ? row + e / 2 * 8 : column + quad * 8 + e % 2;
  }

  __device__ __forceinline__ void scale(float (&values)[kQuads * 4], int row, int column) const {
#pragma unroll
    for (float& value : values) {
      value *= factor;
    }
    if (params.bias != nullptr) {
#pragma unroll
      for (int i = 0; i < kQuads * 4; ++i) {
        int const at = column_of(row, column, i / 4, i % 4);
        values[i] += at < params.n ? ElementD::load(params.bias, at) : 0.0f;
      }
    }
  }

  __device__ __forceinline__ void add_c(float (&values)[kQuads * 4], int row, int column, int matrix) const {
    int64_t const first = matrix * params.batch_stride_c;
#pragma unroll
    for (int i = 0; i < kQuads * 4; ++i) {
      int const m = row_of(row, column, i / 4, i % 4), n = column_of(row, column, i / 4, i % 4);
      if (m < params.m && n < params.n) {
        values[i] += params.beta * ElementD::load(params.c, first + m * params.ld_c + n);
      }
    }
  }

  static __device__ __forceinline__ void activate_all(float (&values)[kQuads * 4]) {
    if constexpr (kActivation != Activation::kNone) {
#pragma unroll
      for (float& value : values) {
        value = activate<kActivation>(value);
      }
    }
  }

  __device__ __forceinline__ void store_directly(float const (&values)[kQuads * 4], int row, int column,
                                                 int matrix) const {
    int64_t const first = matrix * params.batch_stride_d;
#pragma unroll
    for (int i = 0; i < kQuads * 4; ++i) {
      int const m = row_of(row, column, i / 4, i % 4), n = column_of(row, column, i / 4, i % 4);
      if (m < params.m && n < params.n) {
        ElementD::store(params.d, first + m * params.ld_d + n, values[i]);
      }
    }
  }

  __device__ __forceinline__ void store_box_of(float const (&values)[kQuads * 4], int row, int column, int matrix,
                                               int warp, int lane) {
    static_assert(kBoxes);
    uint32_t const buffer = buffers + used * kBufferBytes;
    used = kBuffers == 1 ? 0 : used ^ 1;
    if (leader) {
      wait_for_stores<kBuffers - 1>();  // the last that read this buffer has
    }
    gather();
    // Lane l gives the address of row l % 8 of matrix l / 8 of the four that one instruction stores: those of the
    // upper 8 rows and the lower 8 of one quad, then those of the next.
    int const half = lane / 8 % 2, next = lane / 16, in_matrix = lane % 8;
#pragma unroll
    for (int quad = 0; quad < kQuads; quad += 2) {
      uint32_t const to = buffer + (kSwapped ? place((quad + next) * 8 + in_matrix, warp * 2 + half)
                                             : place(half * 8 + in_matrix, quad + next));
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
    fence_async_proxy();
    gather();
    if (leader) {
      if constexpr (kSwapped) {
        store_box(buffer, map, row * 2, column, matrix);
      } else {
        store_box(buffer, map, column * 2, row + warp * 16, matrix);
      }
      commit_stores();
    }
  }

  // The threads that fill a buffer together meet.
  __device__ __forceinline__ void gather() const {
    if constexpr (kSwapped) {
      meet(1 + warpgroup, 128);
    } else {
      __syncwarp();
    }
  }

  // Where a box has 16-byte unit `unit` of row `row`.
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
};

}  // namespace tilewright::sm90

// The epilogue of a gated activation (gated.hpp), in the place of epilogue.hpp's:
//
//   D = silu(factor * gate + bias of gate) * (factor * up + bias of up)
//
// Two sums make one element of D, so D has half as many columns as the product. D has 16 bits, and there is no C. In
// `EpilogueParams`, n counts D's columns. The bias has 2n elements: those of the gate, then those of up.
#pragma once

#include <cstdint>

#include "tilewright/sm90/element_epilogue.hpp"
#include "tilewright/sm90/elements.hpp"
#include "tilewright/sm90/epilogue.hpp"
#include "tilewright/sm90/gated.hpp"
#include "tilewright/sm90/ptx.hpp"
#include "tilewright/sm90/row_fate.hpp"
#include "tilewright/sm90/silu_mul.hpp"
#include "tilewright/sm90/subtile.hpp"

namespace tilewright::sm90 {

// A subtile: 64 rows by `Columns` columns of one warpgroup's accumulators, and the elements of D that they make, which
// are half as many.
//
// | | a thread holds gate and up of an element | who fills a box | the box |
// |---|---|---|---|
// | not swapped | in column groups 2i and 2i + 1 | each warp its own | 16 rows by Columns / 2 columns of D |
// | kSwapped | in rows r and r + 8 of a column group | the four warps | Columns rows by 32 columns, 8 of each warp |
template <class ElementD, int Columns, bool kSwapped>
struct GatedSubtile {
  static_assert(ElementD::kBytes == 2 && (kSwapped || Columns % kPairedRows == 0));
  // Straight: the box if operands are not swapped. ShortRows: a box with rows of 64 bytes, whose swizzle a swapped box
  // has.
  using Straight = Subtile<ElementD, kSwapped ? 8 : Columns / 2, false, false>;
  using ShortRows = Subtile<ElementD, 32, false, false>;
  static constexpr int kColumnGroups = Columns / 8;                    // of accumulators
  static constexpr int kSums = kColumnGroups * 4, kCount = kSums / 2;  // of a thread: accumulators, elements of D
  static constexpr int kBoxBytes = kSwapped ? ShortRows::kBoxBytes : Straight::kBoxBytes;  // of a row
  static constexpr int kBoxRows = kSwapped ? Columns : Straight::kBoxRows;
  static constexpr int kBytes = kBoxBytes * kBoxRows;
  static constexpr CUtensorMapSwizzle kSwizzle = kSwapped ? ShortRows::kSwizzle : Straight::kSwizzle;

  // Which of the thread's sums are gate and up of its element `i` of D.
  static __device__ __forceinline__ int gate_of(int i) { return kSwapped ? i / 2 * 4 + i % 2 : i / 4 * 8 + i % 4; }
  static __device__ __forceinline__ int up_of(int i) { return gate_of(i) + (kSwapped ? 2 : 4); }

  // Row and column of D of the thread's element `i`. (row, column): where the subtile begins in the kernel's own plane.
  static __device__ __forceinline__ int row_of(int row, int column, int i) {
    int const lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    return kSwapped ? column + i / 2 * 8 + lane % 4 * 2 + i % 2 : row + warp * 16 + lane / 4 + i % 4 / 2 * 8;
  }
  static __device__ __forceinline__ int column_of(int row, int column, int i) {
    int const lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    return kSwapped ? row / 2 + warp * 8 + lane / 4 : column / 2 + i / 4 * 8 + lane % 4 * 2 + i % 2;
  }

  // Stores the elements to the box. Called by all threads that fill it.
  static __device__ __forceinline__ void store_to_box(float const (&values)[kCount], uint32_t box) {
    int const lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    if constexpr (kSwapped) {
      // A matrix of 8x8 elements for each column group, four or two with one instruction. An instruction that has more
      // matrices than there are groups left stores the last group's again.
#pragma unroll
      for (int first = 0; first < kColumnGroups; first += 4) {
        constexpr int kLast = kColumnGroups - 1;
        auto const group = [first](int i) { return first + i < kLast ? first + i : kLast; };
        auto const pair = [&values, &group](int i) {
          return ElementD::pack(values[group(i) * 2], values[group(i) * 2 + 1]);
        };
        uint32_t const to = box + ShortRows::place(group(lane / 8) * 8 + lane % 8, warp);
        if (first + 2 < kColumnGroups) {
          store_matrices<true>(to, pair(0), pair(1), pair(2), pair(3));
        } else {
          store_matrices<true>(to, pair(0), pair(1));
        }
      }
    } else {
      Straight::store_to_box(values, box, warp, lane);
    }
  }
};

// `Epilogue` with a gated activation: the members that such kernels use.
template <class ElementD, int Rows, int N, bool kSwapped, int kMostBuffers, int SubtileColumns, bool kTogether>
struct Epilogue<ElementD, Rows, N, kSwapped, kSiluMul, kMostBuffers, SubtileColumns, kTogether> {
  static_assert(kTogether == kSwapped);
  // Columns of accumulators in a subtile. If operands are not swapped: for sums from registers, twice the columns that
  // Epilogue's subtile of N / 2 columns has; for sums that go through shared memory, 32 or 16.
  static constexpr bool kFromRegisters = SubtileColumns == subtile_columns(N, kSwapped);
  static constexpr int kColumns = kSwapped         ? SubtileColumns
                                  : kFromRegisters ? 2 * subtile_columns(N / 2, false)
                                  : N % 32 == 0    ? 32
                                                   : 16;
  using Subtile = GatedSubtile<ElementD, kColumns, kSwapped>;
  static constexpr int kSubtiles = N / kColumns, kColumnGroups = Subtile::kColumnGroups;
  static constexpr bool kBoxes = true;
  static constexpr int kMost = !kSwapped || kColumns <= 56 ? kMostBuffers : 1;
  static constexpr int kBuffers = Rows * kSubtiles < kMost ? Rows * kSubtiles : kMost;
  static_assert(kBuffers <= 2 && N % kColumns == 0);
  static constexpr int kBoxBytes = Subtile::kBoxBytes, kBoxRows = Subtile::kBoxRows, kBufferBytes = Subtile::kBytes;
  static constexpr int kBytes = kBuffers * kBufferBytes * (kSwapped ? 1 : 4);  // of a warpgroup
  static constexpr int kBarriers = 0;                                          // no C arrives
  static constexpr CUtensorMapSwizzle kSwizzle = Subtile::kSwizzle;

  // Stands for the elements of C that a thread loads: there are none.
  struct Addends {
    __device__ __forceinline__ void load_all(EpilogueParams const&, int, int, int) const {}
  };

  EpilogueParams const& params;
  CUtensorMap const* map;
  uint32_t buffers;  // shared memory of the warp; swapped, of the warpgroup
  int warpgroup;     // its named barrier is 1 + warpgroup
  float factor;
  bool leader;   // whether this thread issues the TMA stores
  int used = 0;  // buffer of the next subtile

  __device__ __forceinline__ Epilogue(EpilogueParams const& epilogue, CUtensorMap const* d, uint32_t shared,
                                      int consumer, AddendBoxes const& = {})
      : params(epilogue), map(d), warpgroup(consumer), factor(factor_of(epilogue)) {
    int const warp = threadIdx.x / 32 % 4;
    buffers = shared + consumer * kBytes + (kSwapped ? 0 : warp * kBuffers * kBufferBytes);
    leader = elect_one() && (!kSwapped || warp == 0);  // as in `Epilogue`
  }

  __device__ __forceinline__ void prefetch_c(int, int, int) const {}

  // Stores all of a warpgroup's sums, which begin at (`row`, `column`) of the kernel's own plane, by TMA. The bias has
  // D's type.
  __device__ __forceinline__ void store(float const (&sums)[Rows][N / 2], int row, int column, int matrix) {
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
#pragma unroll
      for (int subtile = 0; subtile < kSubtiles; ++subtile) {
        float results[Subtile::kCount];
        int const subtile_row = row + r * 64, subtile_column = column + subtile * kColumns;
        multiply(sums[r] + subtile * Subtile::kSums, subtile_row, subtile_column, ElementD::kAddend, results);
        store_box_of(results, subtile_row, subtile_column, matrix);
      }
    }
  }

  // Stores one subtile, with a bias of any type and any alignment of D.
  __device__ __forceinline__ void store_any(float (&values)[Subtile::kSums], Addends const&, int row, int column,
                                            int matrix) {
    float results[Subtile::kCount];
    multiply(values, row, column, params.type_bias, results);
    if (params.n_boxes > 0) {
      store_box_of(results, row, column, matrix);
    }
    if (params.n_boxes < params.n) {
      store_directly(results, row, column, matrix);
    }
  }

  // Stores silu(gate) * up of sums that are scaled and biased already. `rows` says what happens to each of D's rows,
  // which may belong to groups. Operands are swapped.
  template <class RowFates>
  __device__ __forceinline__ void store_rows(float const (&sums)[Rows][N / 2], int row, int column, int matrix,
                                             RowFates const& rows) {
    static_assert(kSwapped);
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
#pragma unroll
      for (int subtile = 0; subtile < kSubtiles; ++subtile) {
        float const* const own = sums[r] + subtile * Subtile::kSums;
        float results[Subtile::kCount];
#pragma unroll
        for (int i = 0; i < Subtile::kCount; ++i) {
          results[i] = silu_mul(own[Subtile::gate_of(i)], own[Subtile::up_of(i)]);
        }
        int const subtile_row = row + r * 64, subtile_column = column + subtile * kColumns;
        if (!rows.every()) {
#pragma unroll
          for (int i = 0; i < Subtile::kCount; ++i) {  // selects instead of multiplying by 0: values may be NaN
            results[i] = rows(Subtile::row_of(subtile_row, subtile_column, i)) == RowFate::kStored ? results[i] : 0.0f;
          }
        }
        store_box_of(results, subtile_row, subtile_column, matrix, rows);
      }
    }
  }

  // Finish: waits until TMA has read the shared memory of the last subtiles, because the CTA's end frees it. Called by
  // all threads of the warp.
  __device__ __forceinline__ void drain() const {
    if (leader) {
      wait_for_stores<0>();
    }
  }

 private:
  // Computes D's elements of a subtile from its sums, a few columns at a time: if the bias of all columns were in
  // flight together, sums would spill.
  __device__ __forceinline__ void multiply(float const* sums, int row, int column, Addend type_bias,
                                           float (&results)[Subtile::kCount]) const {
    // A thread's elements that have the bias of one column of D: all of them if operands are swapped, otherwise
    // elements i and i + 2 of four.
    constexpr int kAtOnce = kSwapped                          ? Subtile::kCount
                            : Rows * N > 288 || kColumns > 96 ? 8
                                                              : 16,
                  kInColumn = kSwapped ? Subtile::kCount : 4;
    constexpr int kDifferent = kSwapped ? 1 : 2;  // columns of kInColumn elements
#pragma unroll
    for (int begin = 0; begin < Subtile::kCount; begin += kAtOnce) {
      constexpr int kAll = Subtile::kCount;
      int const end = begin + kAtOnce < kAll ? begin + kAtOnce : kAll;
      float gates[kAtOnce], ups[kAtOnce];
#pragma unroll
      for (int i = begin; i < end; ++i) {
        gates[i - begin] = sums[Subtile::gate_of(i)] * factor;
        ups[i - begin] = sums[Subtile::up_of(i)] * factor;
      }
      if (params.bias != nullptr) {
#pragma unroll
        for (int first = begin; first < end; first += kInColumn) {
#pragma unroll
          for (int i = 0; i < kDifferent; ++i) {
            int const at = Subtile::column_of(row, column, first + i);
            bool const exists = at < params.n;
            float const of_gate = exists ? load(type_bias, params.bias, at) : 0.0f;
            float const of_up = exists ? load(type_bias, params.bias, params.n + at) : 0.0f;
#pragma unroll
            for (int j = first + i - begin; j < first + kInColumn - begin; j += kDifferent) {
              gates[j] += of_gate;
              ups[j] += of_up;
            }
          }
        }
      }
#pragma unroll
      for (int i = begin; i < end; ++i) {
        results[i] = silu_mul(gates[i - begin], ups[i - begin]);
      }
    }
  }

  // Stores the columns that TMA does not store.
  __device__ __forceinline__ void store_directly(float const (&values)[Subtile::kCount], int row, int column,
                                                 int matrix) const {
    int64_t const first = matrix * params.batch_stride_d;
#pragma unroll
    for (int i = 0; i < Subtile::kCount; ++i) {
      int const m = Subtile::row_of(row, column, i), n = Subtile::column_of(row, column, i);
      if (m < params.m && n >= params.n_boxes && n < params.n) {
        ElementD::store(params.d, first + m * params.ld_d + n, values[i]);
      }
    }
  }

  // Stores a subtile by way of the next buffer, in the steps of `Epilogue::store_box_of`. There are one or two buffers,
  // and every subtile commits one bulk group, an empty one where threads copy its rows: at most kBuffers - 1 groups
  // stay pending.
  template <class RowFates = EveryRow>
  __device__ __forceinline__ void store_box_of(float const (&values)[Subtile::kCount], int row, int column, int matrix,
                                               RowFates const& rows = {}) {
    uint32_t const buffer = buffers + used * kBufferBytes;
    used ^= kBuffers - 1;
    if (leader) {
      wait_for_stores<kBuffers - 1>();
    }
    sync_writers();
    Subtile::store_to_box(values, buffer);
    if (!rows.none_left()) {
      sync_writers();
      copy_rows(buffer, column, row / 2, matrix, rows);
      if (leader) {
        commit_stores();
      }
      return;
    }
    fence_async_proxy();
    sync_writers();
    if (leader) {
      int const warp = threadIdx.x / 32 % 4;
      if constexpr (kSwapped) {
        store_box(buffer, map, row / 2 * ElementD::kBytes, column, matrix);
      } else {
        store_box(buffer, map, column / 2 * ElementD::kBytes, row + warp * 16, matrix);
      }
      commit_stores();
    }
  }

  // Stores a buffer's rows to D, except the rows that are left, as `Epilogue::copy_rows`. The buffer's first element is
  // D's at (row, column).
  template <class RowFates>
  __device__ __forceinline__ void copy_rows(uint32_t buffer, int row, int column, int matrix,
                                            RowFates const& rows) const {
    constexpr int kUnits = kBoxBytes / 16, kElements = 16 / ElementD::kBytes;
#pragma unroll 1
    for (int i = threadIdx.x % 128; i < kBoxRows * kUnits; i += 128) {
      int const m = row + i / kUnits, n = column + i % kUnits * kElements;
      if (m < params.m && n < params.n && rows(m) != RowFate::kLeft) {
        uint32_t words[4];
        load_words(buffer + Subtile::ShortRows::place(i / kUnits, i % kUnits), words);
        char* const to =
            static_cast<char*>(params.d) + (matrix * params.batch_stride_d + m * params.ld_d + n) * ElementD::kBytes;
        *reinterpret_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
      }
    }
  }

  // Synchronises the threads that fill a buffer together.
  __device__ __forceinline__ void sync_writers() const {
    if constexpr (kSwapped) {
      named_barrier_sync(1 + warpgroup, 128);
    } else {
      __syncwarp();
    }
  }
};

}  // namespace tilewright::sm90

// The store policy of a gated activation where rows of D may be left or cleared, as where each belongs to a group: what
// `Epilogue::store_rows` is for kernels that are not gated. Operands are swapped, and D has 16 bits.
#pragma once

#include <cstdint>

#include "tilewright/sm90/epilogue_params.hpp"
#include "tilewright/sm90/gated_epilogue.hpp"
#include "tilewright/sm90/ptx.hpp"
#include "tilewright/sm90/row_fate.hpp"
#include "tilewright/sm90/silu_mul.hpp"
#include "tilewright/sm90/subtile.hpp"

namespace tilewright::sm90 {

// Stores what follows from a warpgroup's sums: 64 * Rows rows of gate and up in turn (gated.hpp), and N columns.
template <class ElementD, int Rows, int N>
struct GatedRows {
  static constexpr int kColumns = subtile_columns(N, true), kSubtiles = N / kColumns;
  using Subtile = GatedSubtile<ElementD, kColumns, true>;
  static constexpr int kBuffers = kColumns <= 56 && Rows * kSubtiles > 1 ? 2 : 1;
  static constexpr int kBoxBytes = Subtile::kBoxBytes, kBoxRows = Subtile::kBoxRows, kBufferBytes = Subtile::kBytes;
  static constexpr int kBytes = kBuffers * kBufferBytes;  // of a warpgroup
  static constexpr CUtensorMapSwizzle kSwizzle = Subtile::kSwizzle;

  EpilogueParams const& params;  // its n counts D's columns
  CUtensorMap const* map;
  uint32_t buffers;  // shared memory of the warpgroup
  int warpgroup;     // its named barrier is 1 + warpgroup
  bool leader;       // whether this thread issues the TMA stores
  int used = 0;      // buffer of the next subtile

  __device__ __forceinline__ GatedRows(EpilogueParams const& epilogue, CUtensorMap const* d, uint32_t shared,
                                       int consumer)
      : params(epilogue), map(d), buffers(shared + consumer * kBytes), warpgroup(consumer) {
    leader = elect_one() && threadIdx.x / 32 % 4 == 0;  // as in `Epilogue`
  }

  // Stores silu(gate) * up of sums that are scaled and biased, the first of which is at (`row`, `column`) of the
  // kernel's own plane. `rows` says what happens to each of D's rows.
  template <class RowFates>
  __device__ __forceinline__ void store_rows(float const (&sums)[Rows][N / 2], int row, int column, int matrix,
                                             RowFates const& rows) {
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
        store_box_of(results, row + r * 64, column + subtile * kColumns, matrix, rows);
      }
    }
  }

  // Finish: waits until TMA has read the shared memory of the last subtiles. Called by all threads of the warp.
  __device__ __forceinline__ void drain() const {
    if (leader) {
      wait_for_stores<0>();
    }
  }

 private:
  // Stores a subtile by way of the next buffer. Subtiles use the buffers round robin, and each commits one group, an
  // empty one where threads copy its rows: at most kBuffers - 1 groups stay pending (`Epilogue::store_box_of`).
  template <class RowFates>
  __device__ __forceinline__ void store_box_of(float (&values)[Subtile::kCount], int row, int column, int matrix,
                                               RowFates const& rows) {
    if (!rows.every()) {
#pragma unroll
      for (int i = 0; i < Subtile::kCount; ++i) {  // it selects, because they may be NaN
        values[i] = rows(Subtile::row_of(row, column, i)) == RowFate::kStored ? values[i] : 0.0f;
      }
    }
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
    } else {
      fence_async_proxy();
      sync_writers();
      if (leader) {
        store_box(buffer, map, row / 2 * ElementD::kBytes, column, matrix);
      }
    }
    if (leader) {
      commit_stores();
    }
  }

  // Stores what TMA would store of a buffer, except the rows that are left. The buffer's first element is D's at
  // (row, column).
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
  __device__ __forceinline__ void sync_writers() const { named_barrier_sync(1 + warpgroup, 128); }
};

}  // namespace tilewright::sm90

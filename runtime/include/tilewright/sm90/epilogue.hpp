// The epilogue: from the F32 accumulators of wgmma to D, by the arithmetic of element_epilogue.hpp.
//
// A warpgroup stores its tile in subtiles of some columns (subtile.hpp), by way of one or more buffers in shared
// memory. The threads that fill a buffer together are its writers: the four warps of the warpgroup, or one warp. One of
// them, the leader, issues TMA's stores:
//
// | step | writers | leader |
// |---|---|---|
// | 1 | compute D's elements | waits until TMA has read what this buffer held last (`wait_for_stores`) |
// | 2 | `sync_writers`: the buffer may be written | |
// | 3 | write the buffer (stmatrix), and fence it for TMA | |
// | 4 | `sync_writers`: the buffer is complete | |
// | 5 | go on to the next subtile | issues the TMA store, and commits it as a bulk group |
//
// TMA stores whole 16 bytes to addresses that are multiples of 16. Threads store their accumulators directly where D's
// rows are not aligned so, in the columns after a row's last whole 16 bytes, and to an F32 D, for which TMA has no
// advantage.
#pragma once

#include <cstdint>

#include "tilewright/sm90/addends.hpp"
#include "tilewright/sm90/element_epilogue.hpp"
#include "tilewright/sm90/elements.hpp"
#include "tilewright/sm90/epilogue_params.hpp"
#include "tilewright/sm90/subtile.hpp"
#include "tilewright/sm90/ptx.hpp"
#include "tilewright/sm90/row_fate.hpp"

namespace tilewright::sm90 {

// How TMA loads C, if it has D's own 16-bit type and is aligned for TMA: into the buffers from which D is stored.
struct AddendBoxes {
  CUtensorMap const* map = nullptr;
  uint32_t barriers = 0;   // mbarriers, one for each of this epilogue's buffers
  bool present = false;    // TMA loads C; otherwise threads load it, or there is no C
  bool broadcast = false;  // one matrix of C serves every batch
};

// Stores a warpgroup's sums, 64 * Rows rows and N columns, `SubtileColumns` columns at a time. `kSwapped`, `kTogether`:
// Subtile's. `kMostBuffers`: the most buffers that take turns.
//
// A kernel stores by one of three functions:
//
// | function | stores | D |
// |---|---|---|
// | store | a tile, from the accumulators | whole formula; TMA stores D and loads C |
// | store_rows | a tile, from the accumulators, except rows that are left or cleared | sum; F32: sum + C |
// | store_any | one subtile that went through shared memory | whole formula; any C, bias and alignment |
template <class ElementD, int Rows, int N, bool kSwapped, Activation kActivation, int kMostBuffers = 2,
          int SubtileColumns = subtile_columns(N, kSwapped), bool kTogether = kSwapped>
struct Epilogue {
  using Subtile = sm90::Subtile<ElementD, SubtileColumns, kSwapped, kTogether>;
  using Addends = sm90::Addends<Subtile>;
  static constexpr int kColumns = SubtileColumns, kSubtiles = N / kColumns, kColumnGroups = Subtile::kColumnGroups;
  static constexpr bool kBoxes = ElementD::kBytes <= 2;
  static constexpr int kMost = !kSwapped || kColumns <= 56 ? kMostBuffers : 1;
  static constexpr int kBuffers = Rows * kSubtiles < kMost ? Rows * kSubtiles : kMost;
  static constexpr int kBoxBytes = Subtile::kBoxBytes, kBoxRows = Subtile::kBoxRows, kBufferBytes = Subtile::kBytes;
  static constexpr int kBytes = kBoxes ? kBuffers * kBufferBytes * (kTogether ? 1 : 4) : 0;  // of a warpgroup
  static constexpr CUtensorMapSwizzle kSwizzle = Subtile::kSwizzle;

  EpilogueParams const& params;
  CUtensorMap const* map;
  uint32_t buffers;  // shared memory of the warp; with kTogether, of the warpgroup
  int warpgroup;     // its named barrier is 1 + warpgroup
  float factor;      // of the sums
  float result_factor = 1.0f;
  uint32_t largest = 0;  // largest magnitude so far, as the bits of a float
  bool leader;           // whether this thread issues the TMA stores
  int used = 0;          // buffer of the next subtile
  AddendBoxes addends;
  uint32_t phases = 0;  // phase bits of the buffers' barriers

  // mbarriers of a warpgroup, at which TMA reports that boxes of C have arrived.
  static constexpr int kBarriers = ElementD::kBytes == 2 ? kBuffers * (kTogether ? 1 : 4) : 0;

  __device__ __forceinline__ Epilogue(EpilogueParams const& epilogue, CUtensorMap const* d, uint32_t shared,
                                      int consumer, AddendBoxes const& c = {})
      : params(epilogue), map(d), warpgroup(consumer), addends(c) {
    addends.barriers +=
        (consumer * kBarriers + (kTogether ? 0 : static_cast<int>(threadIdx.x) / 32 % 4 * kBuffers)) * 8;
    int const warp = threadIdx.x / 32 % 4;
    buffers = shared + consumer * kBytes + (kTogether ? 0 : warp * kBuffers * kBufferBytes);
    // Elected outside of a branch: after an election in a branch, ptxas would treat the warp as divergent.
    leader = elect_one() && (!kTogether || warp == 0);
    factor = factor_of(params);
    if constexpr (Subtile::kEightBits) {
      result_factor = params.scale_result != nullptr ? *params.scale_result : 1.0f;
    }
  }

  // Stores all of a warpgroup's sums, which begin at (`row`, `column`) of the kernel's own plane.
  __device__ __forceinline__ void store(float const (&sums)[Rows][N / 2], int row, int column, int matrix) {
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
#pragma unroll
      for (int subtile = 0; subtile < kSubtiles; ++subtile) {
        float values[kColumnGroups * 4];
        Subtile::take(sums[r], subtile, values);
        store_subtile(values, row, column, r * kSubtiles + subtile, matrix);
      }
    }
  }

  // Issues the TMA loads of C for the first subtiles, one to each buffer. Called before the main loop, by whole warps.
  __device__ __forceinline__ void load_first_c(int row, int column, int matrix) {
    if (leader) {
      wait_for_stores<0>();
#pragma unroll
      for (int i = 0; i < kBuffers; ++i) {
        load_c(row, column, i, matrix, used ^ i);
      }
    }
    __syncwarp();
  }

  // Stores subtile number `subtile`, 64 rows by kColumns columns, by TMA. Adds a bias of the type ElementD::kAddend,
  // and a C only if TMA loads it. Afterwards, TMA loads the C of a later subtile into a buffer whose store is done.
  __device__ __forceinline__ void store_subtile(float (&values)[kColumnGroups * 4], int tile_row, int tile_column,
                                                int subtile, int matrix) {
    int const lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    int const row = tile_row + subtile / kSubtiles * 64, column = tile_column + subtile % kSubtiles * kColumns;
    int const own_row = row + warp * 16 + lane / 4, own_column = column + lane % 4 * 2;
    scale(values, own_row, own_column, ElementD::kAddend);
    if constexpr (kBarriers > 0) {
      if (addends.present) {
        barrier_wait(addends.barriers + used * 8, phases >> used & 1);
        phases ^= 1u << used;
        Subtile::add(values, buffers + used * kBufferBytes, params.beta, warp, lane);
      }
    }
    activate<kActivation>(values, params.activation);
    scale_result(values, own_row, own_column);
    store_box_of(values, row, column, matrix, warp, lane);
    if constexpr (kBarriers > 0 && Rows * kSubtiles > kBuffers) {
      if (addends.present && subtile + kBuffers < Rows * kSubtiles) {
        if (leader) {
          wait_for_stores<0>();
          load_c(tile_row, tile_column, subtile + kBuffers, matrix, kBuffers == 1 ? 0 : used ^ 1);
        }
        __syncwarp();
      }
    }
  }

  // Stores sums without scale and bias. `rows` says what happens to each of D's rows. TMA stores a D of 16 bits.
  // Threads store a D of F32, and add C if there is one; they need an even number of columns and even row strides.
  template <class RowFates>
  __device__ __forceinline__ void store_rows(float (&sums)[Rows][N / 2], int row, int column, int matrix,
                                             RowFates const& rows) {
    int const lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    if (!rows.every()) {
#pragma unroll
      for (int r = 0; r < Rows; ++r) {
        clear(sums[r], row + r * 64 + warp * 16 + lane / 4, column + lane % 4 * 2, rows);
      }
    }
    if constexpr (ElementD::kBytes == 2 && Rows * kSubtiles == kBuffers && kBuffers > 1) {
      if (leader) {
        wait_for_stores<0>();
      }
      if (rows.none_left()) {
        store_at_once(sums, row, column, matrix, warp, lane);
        return;
      }
    }
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
#pragma unroll
      for (int subtile = 0; subtile < kSubtiles; ++subtile) {
        float values[kColumnGroups * 4];
        Subtile::take(sums[r], subtile, values);
        int const subtile_row = row + r * 64, subtile_column = column + subtile * kColumns;
        if constexpr (kBoxes) {
          store_box_of(values, subtile_row, subtile_column, matrix, warp, lane, rows);
        } else {
          store_floats_of(values, subtile_row + warp * 16 + lane / 4, subtile_column + lane % 4 * 2, matrix, rows);
        }
      }
    }
  }

  // Prefetches the C of all of a warpgroup's sums to L2. Called before the main loop, long before threads load C.
  __device__ __forceinline__ void prefetch_c(int row, int column, int matrix) const {
    constexpr int kHigh = kSwapped ? N : Rows * 64, kWide = kSwapped ? Rows * 64 : N;  // of D
    prefetch_addends<kHigh, kWide>(params, kSwapped ? column : row, kSwapped ? row : column, matrix);
  }

  // Stores one subtile at (`row`, `column`), with any C, bias and alignment. `rows` says what happens to each of D's
  // rows.
  template <class RowFates = EveryRow>
  __device__ __forceinline__ void store_any(float (&values)[kColumnGroups * 4], int row, int column, int matrix,
                                            RowFates const& rows = {}) {
    int const lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    int const own_row = row + warp * 16 + lane / 4, own_column = column + lane % 4 * 2;
    scale(values, own_row, own_column, params.type_bias);
    if (params.c != nullptr) {
      add_addends<Subtile>(params, values, own_row, own_column, matrix);
    }
    store_finished(values, row, column, matrix, rows);
  }

  // The same, with the elements of C that the thread has loaded before (addends.hpp).
  template <class RowFates = EveryRow>
  __device__ __forceinline__ void store_any(float (&values)[kColumnGroups * 4], Addends const& c, int row, int column,
                                            int matrix, RowFates const& rows = {}) {
    int const lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    scale(values, row + warp * 16 + lane / 4, column + lane % 4 * 2, params.type_bias);
    if (params.c != nullptr) {
      c.add(params, values);
    }
    store_finished(values, row, column, matrix, rows);
  }

  // Finish: waits until TMA has read the shared memory of the last subtiles, because the CTA's end frees it. Called by
  // all threads of the warp.
  __device__ __forceinline__ void drain() const {
    if constexpr (Subtile::kEightBits) {
      if (params.amax != nullptr) {
        raise(params.amax, largest);
      }
    }
    if (kBoxes && leader) {
      wait_for_stores<0>();
    }
  }

 private:
  // Multiplies the sums by `factor`, and adds the bias. (row, column): the thread's first accumulator.
  __device__ __forceinline__ void scale(float (&values)[kColumnGroups * 4], int row, int column,
                                        Addend type_bias) const {
#pragma unroll
    for (float& value : values) {
      value *= factor;
    }
    if (params.bias != nullptr) {
#pragma unroll
      for (int column_group = 0; column_group < kColumnGroups; column_group += kSwapped ? kColumnGroups : 1) {
        float bias[2];  // of the thread's two columns of D, which all column groups share if operands are swapped
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          int const at = Subtile::column_of(row, column, column_group, kSwapped ? i * 2 : i);
          bias[i] = at < params.n ? load(type_bias, params.bias, at) : 0.0f;
        }
#pragma unroll
        for (int i = 0; i < (kSwapped ? kColumnGroups : 1) * 4; ++i) {
          values[column_group * 4 + i] += bias[kSwapped ? i / 2 % 2 : i % 2];
        }
      }
    }
  }

  // Issues the TMA load of a subtile's C into a buffer that no store reads any more.
  __device__ __forceinline__ void load_c(int tile_row, int tile_column, int subtile, int matrix, int buffer) const {
    int const warp = threadIdx.x / 32 % 4;
    int const row = tile_row + subtile / kSubtiles * 64, column = tile_column + subtile % kSubtiles * kColumns;
    uint32_t const barrier = addends.barriers + buffer * 8;
    barrier_expect(barrier, kBufferBytes);
    copy_box(buffers + buffer * kBufferBytes, addends.map, barrier, (kSwapped ? row : column) * ElementD::kBytes,
             kSwapped ? column : row + Subtile::first_row_of(warp), addends.broadcast ? 0 : matrix, kEvictFirst);
  }

  // Activates, scales and stores values that include bias and C.
  template <class RowFates>
  __device__ __forceinline__ void store_finished(float (&values)[kColumnGroups * 4], int row, int column, int matrix,
                                                 RowFates const& rows) {
    int const lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    int const own_row = row + warp * 16 + lane / 4, own_column = column + lane % 4 * 2;
    activate<kActivation>(values, params.activation);
    if (!rows.every()) {
      clear(values, own_row, own_column, rows);
    }
    scale_result(values, own_row, own_column);
    if constexpr (kBoxes) {
      if (params.n_boxes > 0) {
        store_box_of(values, row, column, matrix, warp, lane, rows);
      }
    }
    if (params.n_boxes < params.n && params.n_boxes < (kSwapped ? row + 64 : column + kColumns)) {
      store_directly(values, own_row, own_column, matrix, rows);
    }
  }

  // For a D of FP8: raises `largest`, and multiplies by scale_result. (row, column): the thread's first accumulator.
  __device__ __forceinline__ void scale_result(float (&values)[kColumnGroups * 4], int row, int column) {
    if constexpr (Subtile::kEightBits) {
      if (params.amax != nullptr) {
#pragma unroll
        for (int i = 0; i < kColumnGroups * 4; ++i) {
          // Accumulators outside of D may hold a bias: they do not count.
          if (Subtile::row_of(row, column, i / 4, i % 4) < params.m &&
              Subtile::column_of(row, column, i / 4, i % 4) < params.n) {
            largest = max(largest, __float_as_uint(values[i]) & 0x7FFFFFFFu);
          }
        }
      }
#pragma unroll
      for (float& value : values) {
        value *= result_factor;
      }
    }
  }

  // Zeroes values of rows that are not stored. Selects instead of multiplying by 0, because the values may be NaN.
  template <int Count, class RowFates>
  static __device__ __forceinline__ void clear(float (&values)[Count], int row, int column, RowFates const& rows) {
    bool stored[2] = {rows(Subtile::row_of(row, column, 0, 0)) == RowFate::kStored,
                      rows(Subtile::row_of(row, column, 0, 3)) == RowFate::kStored};
#pragma unroll
    for (int column_group = 0; column_group < Count / 4; ++column_group) {
      if (kSwapped && column_group > 0) {
        stored[0] = rows(Subtile::row_of(row, column, column_group, 0)) == RowFate::kStored;
        stored[1] = rows(Subtile::row_of(row, column, column_group, 1)) == RowFate::kStored;
      }
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        float& value = values[column_group * 4 + e];
        value = stored[kSwapped ? e % 2 : e / 2] ? value : 0.0f;
      }
    }
  }

  // Stores the columns that TMA does not store.
  template <class RowFates>
  __device__ __forceinline__ void store_directly(float const (&values)[kColumnGroups * 4], int row, int column,
                                                 int matrix, RowFates const& rows) const {
    int64_t const first = matrix * params.batch_stride_d;
#pragma unroll
    for (int i = 0; i < kColumnGroups * 4; ++i) {
      int const m = Subtile::row_of(row, column, i / 4, i % 4), n = Subtile::column_of(row, column, i / 4, i % 4);
      if (m < params.m && n >= params.n_boxes && n < params.n && (rows.none_left() || rows(m) != RowFate::kLeft)) {
        ElementD::store(params.d, first + m * params.ld_d + n, values[i]);
      }
    }
  }

  // Stores F32, two neighbours at a time unless operands are swapped. Adds C, if there is one, in rows that are stored;
  // rows that are cleared get zeros.
  template <class RowFates>
  __device__ __forceinline__ void store_floats_of(float const (&values)[kColumnGroups * 4], int row, int column,
                                                  int matrix, RowFates const& rows) const {
    float* const d = static_cast<float*>(params.d) + matrix * params.batch_stride_d;
    float const* const c = static_cast<float const*>(params.c) + matrix * params.batch_stride_c;
#pragma unroll
    for (int i = 0; i < kColumnGroups * 4; i += kSwapped ? 1 : 2) {
      int const m = Subtile::row_of(row, column, i / 4, i % 4), n = Subtile::column_of(row, column, i / 4, i % 4);
      RowFate const fate = rows.every() ? RowFate::kStored : rows(m);
      if (m >= params.m || n >= params.n || fate == RowFate::kLeft) {
        continue;
      }
      bool const adds = params.c != nullptr && fate == RowFate::kStored;
      if constexpr (kSwapped) {
        d[m * params.ld_d + n] = values[i] + (adds ? c[m * params.ld_c + n] : 0.0f);
      } else {
        float2 const more = adds ? *reinterpret_cast<float2 const*>(c + m * params.ld_c + n) : make_float2(0.0f, 0.0f);
        store_pair(d + m * params.ld_d + n, values[i] + more.x, values[i + 1] + more.y);
      }
    }
  }

  // Stores a subtile by way of the next buffer, in the steps at this header's top. If rows of the subtile are left, the
  // writers copy the other rows from the buffer to D instead of TMA (`copy_rows`).
  template <class RowFates = EveryRow>
  __device__ __forceinline__ void store_box_of(float const (&values)[kColumnGroups * 4], int row, int column,
                                               int matrix, int warp, int lane, RowFates const& rows = {}) {
    static_assert(kBoxes);
    uint32_t const buffer = buffers + used * kBufferBytes;
    used = next_buffer(used);
    // Subtiles use the buffers round robin, so that the last store that reads this buffer was issued kBuffers subtiles
    // ago. At most kBuffers - 1 bulk groups stay pending, which are those of the subtiles since then. Valid only
    // because every subtile commits exactly one group, an empty one where the threads copy its rows. (store_at_once
    // commits one group for all buffers: store_rows waits for all groups before every tile that may be stored so.)
    if (leader) {
      wait_for_stores<kBuffers - 1>();
    }
    sync_writers();
    Subtile::store_to_box(values, buffer, warp, lane);
    if (!rows.none_left()) {
      sync_writers();
      copy_rows(buffer, kSwapped ? column : row + Subtile::first_row_of(warp), kSwapped ? row : column, matrix, rows);
      if (kBuffers > 1 && leader) {
        commit_stores();  // an empty group; with one buffer, the wait is for all groups and needs no count
      }
      return;  // step 2 of the next subtile in this buffer comes after these reads
    }
    fence_async_proxy();
    sync_writers();
    if (leader) {
      if constexpr (kSwapped) {
        store_box(buffer, map, row * ElementD::kBytes, column, matrix);
      } else {
        store_box(buffer, map, column * ElementD::kBytes, row + Subtile::first_row_of(warp), matrix);
      }
      commit_stores();
    }
  }

  // The buffer after `buffer`. For two buffers this is an XOR, which takes fewer instructions than a comparison.
  static __device__ __forceinline__ int next_buffer(int buffer) {
    if constexpr (kBuffers <= 2) {
      return buffer ^ (kBuffers - 1);
    } else {
      return buffer + 1 < kBuffers ? buffer + 1 : 0;
    }
  }

  // Stores a tile of which each subtile has a buffer of its own, which no store reads any more: fills all buffers, then
  // issues all stores as one group. So writers synchronise twice for a tile, not for a subtile.
  __device__ __forceinline__ void store_at_once(float const (&sums)[Rows][N / 2], int row, int column, int matrix,
                                                int warp, int lane) const {
    sync_writers();
#pragma unroll
    for (int i = 0; i < kBuffers; ++i) {
      float values[kColumnGroups * 4];
      Subtile::take(sums[i / kSubtiles], i % kSubtiles, values);
      Subtile::store_to_box(values, buffers + i * kBufferBytes, warp, lane);
    }
    fence_async_proxy();
    sync_writers();
    if (leader) {
#pragma unroll
      for (int i = 0; i < kBuffers; ++i) {
        int const subtile_row = row + i / kSubtiles * 64, subtile_column = column + i % kSubtiles * kColumns;
        store_box(buffers + i * kBufferBytes, map, (kSwapped ? subtile_row : subtile_column) * ElementD::kBytes,
                  kSwapped ? subtile_column : subtile_row + Subtile::first_row_of(warp), matrix);
      }
      commit_stores();
    }
  }

  // Stores a buffer's rows to D, except the rows that are left: 16 bytes a thread at a time. The buffer's first element
  // is the product's at (row, column).
  template <class RowFates>
  __device__ __forceinline__ void copy_rows(uint32_t buffer, int row, int column, int matrix,
                                            RowFates const& rows) const {
    constexpr int kUnits = kBoxBytes / 16, kElements = 16 / ElementD::kBytes;
    constexpr int kThreads = kTogether ? 128 : 32;
#pragma unroll 1
    for (int i = threadIdx.x % kThreads; i < kBoxRows * kUnits; i += kThreads) {
      int const m = row + i / kUnits, n = column + i % kUnits * kElements;
      if (m < params.m && n < params.n && rows(m) != RowFate::kLeft) {
        uint32_t words[4];
        load_words(buffer + Subtile::place(i / kUnits, i % kUnits), words);
        char* const to = static_cast<char*>(params.d) +
                         (matrix * params.batch_stride_d + m * params.ld_d + rows.column(n)) * ElementD::kBytes;
        *reinterpret_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
      }
    }
  }

  // Synchronises the threads that fill a buffer together.
  __device__ __forceinline__ void sync_writers() const {
    if constexpr (kTogether) {
      named_barrier_sync(1 + warpgroup, 128);
    } else {
      __syncwarp();
    }
  }
};

}  // namespace tilewright::sm90

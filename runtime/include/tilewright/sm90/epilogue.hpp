// From the F32 accumulators of wgmma to D, each element as element_epilogue.hpp says.
//
// A tile goes a piece of some columns at a time (piece.hpp): registers, then D's elements in shared memory, then a TMA
// store that runs while the next piece is computed. TMA stores whole 16 bytes, from addresses that are multiples of
// them: threads store what they hold where D's rows are not aligned so, the columns behind a row's last whole 16 bytes,
// and F32, for which TMA has no advantage.
#pragma once

#include <cstdint>

#include "tilewright/sm90/addends.hpp"
#include "tilewright/sm90/element_epilogue.hpp"
#include "tilewright/sm90/elements.hpp"
#include "tilewright/sm90/epilogue_params.hpp"
#include "tilewright/sm90/piece.hpp"
#include "tilewright/sm90/ptx.hpp"
#include "tilewright/sm90/row_fate.hpp"

namespace tilewright::sm90 {

// C, of D's own 16 bits, as TMA brings it into the buffers from which D is stored.
struct AddendBoxes {
  CUtensorMap const* map = nullptr;
  uint32_t barriers = 0;  // of this epilogue's buffers
  bool there = false;     // else C comes another way, or there is none
  bool one = false;       // matrix for every batch
};

// Of the tile of a warpgroup: 64 * Rows rows, N columns, `PieceColumns` at a time. `kSwapped` and `kTogether`: Piece.
//
// Three ways from sums to D, by what a kernel has: `store`, all pieces of a tile at once, from the accumulators, as far
// as TMA can store D and bring C; `store_rows`, the same where rows may be left or cleared, for D = sum + C;
// `store_any`, one piece that went through shared memory, with whatever C, bias and alignment.
template <class ElementD, int Rows, int N, bool kSwapped, Activation kActivation, int kMostBuffers = 2,
          int PieceColumns = piece_columns(N, kSwapped), bool kTogether = kSwapped>
struct Epilogue {
  using Piece = sm90::Piece<ElementD, PieceColumns, kSwapped, kTogether>;
  using Addends = sm90::Addends<Piece>;
  static constexpr int kColumns = PieceColumns, kPieces = N / kColumns, kQuads = Piece::kQuads;
  static constexpr bool kBoxes = ElementD::kBytes <= 2;
  static constexpr int kMost = !kSwapped || kColumns <= 56 ? kMostBuffers : 1;
  static constexpr int kBuffers = Rows * kPieces < kMost ? Rows * kPieces : kMost;
  static constexpr int kBoxBytes = Piece::kBoxBytes, kBoxRows = Piece::kBoxRows, kBufferBytes = Piece::kBytes;
  static constexpr int kBytes = kBoxes ? kBuffers * kBufferBytes * (kTogether ? 1 : 4) : 0;  // of a warpgroup
  static constexpr CUtensorMapSwizzle kSwizzle = Piece::kSwizzle;

  EpilogueParams const& params;
  CUtensorMap const* map;
  uint32_t buffers;  // shared memory of the warp, or (together) of the warpgroup
  int warpgroup;     // names its barrier
  float factor;
  float result_factor = 1.0f;
  uint32_t largest = 0;  // magnitude so far, as the bits of a float
  bool leader;           // issues the stores
  int used = 0;          // the buffer that the next piece goes to
  AddendBoxes addends;
  uint32_t phases = 0;  // of the buffers' barriers, a bit each

  // Barriers of C's boxes, of a warpgroup.
  static constexpr int kBarriers = ElementD::kBytes == 2 ? kBuffers * (kTogether ? 1 : 4) : 0;

  __device__ __forceinline__ Epilogue(EpilogueParams const& epilogue, CUtensorMap const* d, uint32_t shared,
                                      int consumer, AddendBoxes const& c = {})
      : params(epilogue), map(d), warpgroup(consumer), addends(c) {
    addends.barriers +=
        (consumer * kBarriers + (kTogether ? 0 : static_cast<int>(threadIdx.x) / 32 % 4 * kBuffers)) * 8;
    int const warp = threadIdx.x / 32 % 4;
    buffers = shared + consumer * kBytes + (kTogether ? 0 : warp * kBuffers * kBufferBytes);
    leader = elect_one() && (!kTogether || warp == 0);  // elected in a branch, warps would count as split ever after
    factor = factor_of(params);
    if constexpr (Piece::kEightBits) {
      result_factor = params.scale_result != nullptr ? *params.scale_result : 1.0f;
    }
  }

  // All of a warpgroup's sums. Its first row and column in the kernel's own plane are `row` and `column`.
  __device__ __forceinline__ void store(float const (&sums)[Rows][N / 2], int row, int column, int matrix) {
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
#pragma unroll
      for (int piece = 0; piece < kPieces; ++piece) {
        float values[kQuads * 4];
        Piece::take(sums[r], piece, values);
        store_piece(values, row, column, r * kPieces + piece, matrix);
      }
    }
  }

  // Before the main loop: asks for C of the first pieces. By whole warps.
  __device__ __forceinline__ void ask_for_c(int row, int column, int matrix) {
    if (leader) {
      wait_for_stores<0>();
#pragma unroll
      for (int i = 0; i < kBuffers; ++i) {
        load_c(row, column, i, matrix, used ^ i);
      }
    }
    __syncwarp();
  }

  // A piece, 64 rows and kColumns columns, that TMA stores, with a bias of the type that goes with D's. C of D's type
  // may come in boxes; no other C is added.
  __device__ __forceinline__ void store_piece(float (&values)[kQuads * 4], int tile_row, int tile_column, int piece,
                                              int matrix) {
    int const lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    int const row = tile_row + piece / kPieces * 64, column = tile_column + piece % kPieces * kColumns;
    int const own_row = row + warp * 16 + lane / 4, own_column = column + lane % 4 * 2;
    scale(values, own_row, own_column, ElementD::kAddend);
    if constexpr (kBarriers > 0) {
      if (addends.there) {
        barrier_wait(addends.barriers + used * 8, phases >> used & 1);
        phases ^= 1u << used;
        Piece::add(values, buffers + used * kBufferBytes, params.beta, warp, lane);
      }
    }
    activate<kActivation>(values, params.activation);
    scale_result(values, own_row, own_column);
    store_box_of(values, row, column, matrix, warp, lane);
    if constexpr (kBarriers > 0 && Rows * kPieces > kBuffers) {
      if (addends.there && piece + kBuffers < Rows * kPieces) {
        if (leader) {
          wait_for_stores<0>();
          load_c(tile_row, tile_column, piece + kBuffers, matrix, kBuffers == 1 ? 0 : used ^ 1);
        }
        __syncwarp();
      }
    }
  }

  // Sums as they are, where `rows` says what becomes of D's rows: pieces that TMA stores; or F32, to which C is added
  // if there is one, and of whose rows there are an even number of columns at even distances.
  template <class RowsOf>
  __device__ __forceinline__ void store_rows(float (&sums)[Rows][N / 2], int row, int column, int matrix,
                                             RowsOf const& rows) {
    int const lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    if (!rows.every()) {
#pragma unroll
      for (int r = 0; r < Rows; ++r) {
        clear(sums[r], row + r * 64 + warp * 16 + lane / 4, column + lane % 4 * 2, rows);
      }
    }
    if constexpr (ElementD::kBytes == 2 && Rows * kPieces == kBuffers && kBuffers > 1) {
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
      for (int piece = 0; piece < kPieces; ++piece) {
        float values[kQuads * 4];
        Piece::take(sums[r], piece, values);
        int const piece_row = row + r * 64, piece_column = column + piece * kColumns;
        if constexpr (kBoxes) {
          store_box_of(values, piece_row, piece_column, matrix, warp, lane, rows);
        } else {
          store_floats_of(values, piece_row + warp * 16 + lane / 4, piece_column + lane % 4 * 2, matrix, rows);
        }
      }
    }
  }

  // Asks L2 for the C of all of a warpgroup's sums, long before it is fetched.
  __device__ __forceinline__ void prefetch_c(int row, int column, int matrix) const {
    constexpr int kHigh = kSwapped ? N : Rows * 64, kWide = kSwapped ? Rows * 64 : N;  // of D
    prefetch_addends<kHigh, kWide>(params, kSwapped ? column : row, kSwapped ? row : column, matrix);
  }

  // Any piece. `rows` says what becomes of D's rows.
  template <class RowsOf = EveryRow>
  __device__ __forceinline__ void store_any(float (&values)[kQuads * 4], int row, int column, int matrix,
                                            RowsOf const& rows = {}) {
    int const lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    int const own_row = row + warp * 16 + lane / 4, own_column = column + lane % 4 * 2;
    scale(values, own_row, own_column, params.type_bias);
    if (params.c != nullptr) {
      add_addends<Piece>(params, values, own_row, own_column, matrix);
    }
    store_finished(values, row, column, matrix, rows);
  }

  // The same, with a C that is fetched.
  template <class RowsOf = EveryRow>
  __device__ __forceinline__ void store_any(float (&values)[kQuads * 4], Addends const& c, int row, int column,
                                            int matrix, RowsOf const& rows = {}) {
    int const lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    scale(values, row + warp * 16 + lane / 4, column + lane % 4 * 2, params.type_bias);
    if (params.c != nullptr) {
      c.add(params, values);
    }
    store_finished(values, row, column, matrix, rows);
  }

  // Before the CTA ends: TMA still reads the shared memory of the last pieces. By all threads of the warp.
  __device__ __forceinline__ void drain() const {
    if constexpr (Piece::kEightBits) {
      if (params.amax != nullptr) {
        raise(params.amax, largest);
      }
    }
    if (kBoxes && leader) {
      wait_for_stores<0>();
    }
  }

 private:
  __device__ __forceinline__ void scale(float (&values)[kQuads * 4], int row, int column, Addend type_bias) const {
#pragma unroll
    for (float& value : values) {
      value *= factor;
    }
    if (params.bias != nullptr) {
#pragma unroll
      for (int quad = 0; quad < kQuads; quad += kSwapped ? kQuads : 1) {
        float bias[2];  // of the two columns of D that a thread has in a quad; swapped, in all of them
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          int const at = Piece::column_of(row, column, quad, kSwapped ? i * 2 : i);
          bias[i] = at < params.n ? load(type_bias, params.bias, at) : 0.0f;
        }
#pragma unroll
        for (int i = 0; i < (kSwapped ? kQuads : 1) * 4; ++i) {
          values[quad * 4 + i] += bias[kSwapped ? i / 2 % 2 : i % 2];
        }
      }
    }
  }

  // A piece's C, by TMA, to a buffer that no store reads any more.
  __device__ __forceinline__ void load_c(int tile_row, int tile_column, int piece, int matrix, int buffer) const {
    int const warp = threadIdx.x / 32 % 4;
    int const row = tile_row + piece / kPieces * 64, column = tile_column + piece % kPieces * kColumns;
    uint32_t const barrier = addends.barriers + buffer * 8;
    barrier_expect(barrier, kBufferBytes);
    copy_box(buffers + buffer * kBufferBytes, addends.map, barrier, (kSwapped ? row : column) * ElementD::kBytes,
             kSwapped ? column : row + Piece::first_row_of(warp), addends.one ? 0 : matrix, kEvictFirst);
  }

  // What follows once all is added.
  template <class RowsOf>
  __device__ __forceinline__ void store_finished(float (&values)[kQuads * 4], int row, int column, int matrix,
                                                 RowsOf const& rows) {
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

  __device__ __forceinline__ void scale_result(float (&values)[kQuads * 4], int row, int column) {
    if constexpr (Piece::kEightBits) {
      if (params.amax != nullptr) {
#pragma unroll
        for (int i = 0; i < kQuads * 4; ++i) {
          // Beyond D there may be a bias.
          if (Piece::row_of(row, column, i / 4, i % 4) < params.m &&
              Piece::column_of(row, column, i / 4, i % 4) < params.n) {
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

  // A selection, because what is cleared may be NaN.
  template <int Count, class RowsOf>
  static __device__ __forceinline__ void clear(float (&values)[Count], int row, int column, RowsOf const& rows) {
    bool stored[2] = {rows(Piece::row_of(row, column, 0, 0)) == RowFate::kStored,
                      rows(Piece::row_of(row, column, 0, 3)) == RowFate::kStored};
#pragma unroll
    for (int quad = 0; quad < Count / 4; ++quad) {
      if (kSwapped && quad > 0) {
        stored[0] = rows(Piece::row_of(row, column, quad, 0)) == RowFate::kStored;
        stored[1] = rows(Piece::row_of(row, column, quad, 1)) == RowFate::kStored;
      }
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        float& value = values[quad * 4 + e];
        value = stored[kSwapped ? e % 2 : e / 2] ? value : 0.0f;
      }
    }
  }

  // What TMA does not store.
  template <class RowsOf>
  __device__ __forceinline__ void store_directly(float const (&values)[kQuads * 4], int row, int column, int matrix,
                                                 RowsOf const& rows) const {
    int64_t const first = matrix * params.batch_stride_d;
#pragma unroll
    for (int i = 0; i < kQuads * 4; ++i) {
      int const m = Piece::row_of(row, column, i / 4, i % 4), n = Piece::column_of(row, column, i / 4, i % 4);
      if (m < params.m && n >= params.n_boxes && n < params.n && (rows.none_left() || rows(m) != RowFate::kLeft)) {
        ElementD::store(params.d, first + m * params.ld_d + n, values[i]);
      }
    }
  }

  // F32, to which C is added if there is one and the row is stored; two neighbours at a time, where D's columns are the
  // accumulators'.
  template <class RowsOf>
  __device__ __forceinline__ void store_floats_of(float const (&values)[kQuads * 4], int row, int column, int matrix,
                                                  RowsOf const& rows) const {
    float* const d = static_cast<float*>(params.d) + matrix * params.batch_stride_d;
    float const* const c = static_cast<float const*>(params.c) + matrix * params.batch_stride_c;
#pragma unroll
    for (int i = 0; i < kQuads * 4; i += kSwapped ? 1 : 2) {
      int const m = Piece::row_of(row, column, i / 4, i % 4), n = Piece::column_of(row, column, i / 4, i % 4);
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

  template <class RowsOf = EveryRow>
  __device__ __forceinline__ void store_box_of(float const (&values)[kQuads * 4], int row, int column, int matrix,
                                               int warp, int lane, RowsOf const& rows = {}) {
    static_assert(kBoxes);
    uint32_t const buffer = buffers + used * kBufferBytes;
    used = next_buffer(used);
    // Subtiles take the buffers in turn, so that the last store that reads this buffer was issued kBuffers subtiles
    // ago. At most kBuffers - 1 bulk groups stay pending, which are those of the subtiles since then. Valid only
    // because every subtile commits exactly one group, an empty one where the threads copy its rows. (store_at_once
    // commits one group for all buffers: store_rows waits for all groups before every tile that may be stored so.)
    if (leader) {
      wait_for_stores<kBuffers - 1>();
    }
    gather();
    Piece::lay(values, buffer, warp, lane);
    if (!rows.none_left()) {
      gather();
      copy_rows(buffer, kSwapped ? column : row + Piece::first_row_of(warp), kSwapped ? row : column, matrix, rows);
      if (kBuffers > 1 && leader) {
        commit_stores();  // an empty group; with one buffer, the wait is for all groups and needs no count
      }
      return;  // the next subtile in this buffer is written after a gather(), that is after these reads
    }
    fence_async_proxy();
    gather();
    if (leader) {
      if constexpr (kSwapped) {
        store_box(buffer, map, row * ElementD::kBytes, column, matrix);
      } else {
        store_box(buffer, map, column * ElementD::kBytes, row + Piece::first_row_of(warp), matrix);
      }
      commit_stores();
    }
  }

  // The buffer after `buffer`. Of two buffers written as XOR, which takes fewer instructions than a comparison.
  static __device__ __forceinline__ int next_buffer(int buffer) {
    if constexpr (kBuffers <= 2) {
      return buffer ^ (kBuffers - 1);
    } else {
      return buffer + 1 < kBuffers ? buffer + 1 : 0;
    }
  }

  // Where each piece has a buffer of its own, none of which is read any more: all are laid down before TMA is told.
  __device__ __forceinline__ void store_at_once(float const (&sums)[Rows][N / 2], int row, int column, int matrix,
                                                int warp, int lane) const {
    gather();
#pragma unroll
    for (int i = 0; i < kBuffers; ++i) {
      float values[kQuads * 4];
      Piece::take(sums[i / kPieces], i % kPieces, values);
      Piece::lay(values, buffers + i * kBufferBytes, warp, lane);
    }
    fence_async_proxy();
    gather();
    if (leader) {
#pragma unroll
      for (int i = 0; i < kBuffers; ++i) {
        int const piece_row = row + i / kPieces * 64, piece_column = column + i % kPieces * kColumns;
        store_box(buffers + i * kBufferBytes, map, (kSwapped ? piece_row : piece_column) * ElementD::kBytes,
                  kSwapped ? piece_column : piece_row + Piece::first_row_of(warp), matrix);
      }
      commit_stores();
    }
  }

  // What TMA would store of a buffer, whose first element is D's at (row, column), but for the rows that are left.
  template <class RowsOf>
  __device__ __forceinline__ void copy_rows(uint32_t buffer, int row, int column, int matrix,
                                            RowsOf const& rows) const {
    constexpr int kUnits = kBoxBytes / 16, kElements = 16 / ElementD::kBytes;
    constexpr int kThreads = kTogether ? 128 : 32;
#pragma unroll 1
    for (int i = threadIdx.x % kThreads; i < kBoxRows * kUnits; i += kThreads) {
      int const m = row + i / kUnits, n = column + i % kUnits * kElements;
      if (m < params.m && n < params.n && rows(m) != RowFate::kLeft) {
        uint32_t words[4];
        load_words(buffer + Piece::place(i / kUnits, i % kUnits), words);
        char* const to = static_cast<char*>(params.d) +
                         (matrix * params.batch_stride_d + m * params.ld_d + rows.column(n)) * ElementD::kBytes;
        *reinterpret_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
      }
    }
  }

  // The threads that fill a buffer together meet.
  __device__ __forceinline__ void gather() const {
    if constexpr (kTogether) {
      meet(1 + warpgroup, 128);
    } else {
      __syncwarp();
    }
  }
};

}  // namespace tilewright::sm90

// From the F32 accumulators of wgmma to D:
//
//   D = scale_result * activation(alpha * scale_a * scale_b * sum + bias + beta * C)
//
// where scale_result, and the largest magnitude before it (amax), are FP8's alone.
//
// A tile goes a piece of some columns at a time: registers, then D's elements in shared memory, then a TMA store
// that runs while the next piece is computed. TMA stores whole 16 bytes, from addresses that are multiples of them:
// threads store what they hold where D's rows are not aligned so, the columns behind a row's last whole 16 bytes, and
// F32, for which TMA has no advantage.
#pragma once

#include <cstdint>

#include "tilewright/sm90/elements.hpp"
#include "tilewright/sm90/epilogue_params.hpp"
#include "tilewright/sm90/ptx.hpp"

namespace tilewright::sm90 {

// Activates values by the one that all threads are given: a loop for each, not a choice for each value.
template <Activation kActivation, int Count>
__device__ __forceinline__ void activate(float (&values)[Count], Activation given) {
  static_assert(kActivation == Activation::kNone || kActivation == Activation::kGiven);
  auto const each = [&values](auto const& one) {
#pragma unroll
    for (float& value : values) {
      value = one(value);
    }
  };
  if constexpr (kActivation == Activation::kGiven) {
    if (given == Activation::kRelu) {
      each([](float x) { return x > 0.0f || x != x ? x : 0.0f; });  // NaN stays
    } else if (given == Activation::kGelu) {
      each([](float x) { return 0.5f * x * (1.0f + erff(x * 0.70710678f)); });
    } else if (given == Activation::kSilu) {
      each([](float x) { return x / (1.0f + __expf(-x)); });
    }
  }
}

// What a tile does to a row of D: its sums are stored, or zeros, or nothing is.
enum class RowFate { kStored, kCleared, kLeft };

// A tile whose rows all are stored, as far as D has them.
struct EveryRow {
  __device__ __forceinline__ bool every() const { return true; }      // none is cleared
  __device__ __forceinline__ bool none_left() const { return true; }  // all can go to D by TMA
  __device__ __forceinline__ RowFate operator()(int) const { return RowFate::kStored; }
  __device__ __forceinline__ int column(int n) const { return n; }  // of D, in which a column of the product lies
};

// Raises a float to the largest of a warp's magnitudes, which are the bits of floats: in their order, NaN above all.
__device__ __forceinline__ void raise(float* amax, uint32_t magnitude) {
  uint32_t const largest = __reduce_max_sync(~0u, magnitude);
  if (threadIdx.x % 32 == 0) {
    atomicMax(reinterpret_cast<uint32_t*>(amax), largest);
  }
}

// What the sums are multiplied by.
__device__ __forceinline__ float factor_of(EpilogueParams const& params) {
  float const a = params.scale_a != nullptr ? *params.scale_a : 1.0f;
  float const b = params.scale_b != nullptr ? *params.scale_b : 1.0f;
  return params.alpha * a * b;
}

// One element of D, of a warp whose threads all call.
template <class ElementD, Activation kActivation>
__device__ __forceinline__ void store_element(EpilogueParams const& params, float sum, int row, int column,
                                              int matrix) {
  bool const there = row < params.m && column < params.n;
  float value = sum * factor_of(params);
  if (there && params.bias != nullptr) {
    value += load(params.type_bias, params.bias, column);
  }
  if (there && params.c != nullptr) {
    value += params.beta * load(params.type_c, params.c, matrix * params.batch_stride_c + row * params.ld_c + column);
  }
  float one[1] = {value};
  activate<kActivation>(one, params.activation);
  value = one[0];
  if constexpr (ElementD::kBytes == 1) {
    if (params.amax != nullptr) {
      raise(params.amax, there ? __float_as_uint(value) & 0x7FFFFFFFu : 0);
    }
    value *= params.scale_result != nullptr ? *params.scale_result : 1.0f;
  }
  if (there) {
    ElementD::store(params.d, matrix * params.batch_stride_d + row * params.ld_d + column, value);
  }
}

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

// C, of D's own 16 bits, as TMA brings it into the buffers from which D is stored.
struct AddendBoxes {
  CUtensorMap const* map = nullptr;
  uint32_t barriers = 0;  // of this epilogue's buffers
  bool there = false;     // else C comes another way, or there is none
  bool one = false;       // matrix for every batch
};

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

// Of the tile of a warpgroup: 64 * Rows rows, N columns, `PieceColumns` at a time. Swapped: the accumulators' rows are
// D's columns. `kTogether`: the warpgroup's warps meet for each piece, which is one box of TMA's; else each warp stores
// its own 16 rows.
template <class ElementD, int Rows, int N, bool kSwapped, Activation kActivation, int kMostBuffers = 2,
          int PieceColumns = piece_columns(N, kSwapped), bool kTogether = kSwapped>
struct Epilogue {
  static_assert(kTogether || !kSwapped, "16 of D's columns would make short rows");
  static constexpr bool kEightBits = ElementD::kBytes == 1;
  static constexpr int kColumns = PieceColumns;
  static_assert(!kEightBits || kSwapped || kColumns % 32 == 0, "rows of 32 or 64 bytes are swizzled");
  static constexpr int kPieces = N / kColumns;
  static constexpr int kQuads = kColumns / 8;  // of accumulators, in a piece
  static constexpr bool kBoxes = ElementD::kBytes <= 2;
  static constexpr int kMost = !kSwapped || kColumns <= 56 ? kMostBuffers : 1;
  static constexpr int kBuffers = Rows * kPieces < kMost ? Rows * kPieces : kMost;
  static constexpr int kBoxBytes = (kSwapped ? 64 : kColumns) * ElementD::kBytes;
  static constexpr int kBoxRows = kSwapped ? kColumns : kTogether ? 64 : 16;
  static constexpr int kBufferBytes = kBoxBytes * kBoxRows;
  static constexpr int kBytes = kBoxes ? kBuffers * kBufferBytes * (kTogether ? 1 : 4) : 0;  // of a warpgroup
  static constexpr CUtensorMapSwizzle kSwizzle = kBoxBytes == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
                                                 : kBoxBytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
                                                 : kBoxBytes == 32 ? CU_TENSOR_MAP_SWIZZLE_32B
                                                                   : CU_TENSOR_MAP_SWIZZLE_NONE;

  EpilogueParams const& params;
  CUtensorMap const* map;
  uint32_t buffers;  // shared memory of the warp, or (together) of the warpgroup
  int warpgroup;     // names its barrier
  float factor;
  float result_factor = 1.0f;
  uint32_t largest = 0;  // magnitude so far, as the bits of a float
  bool leader;           // issues the stores
  int used = 0;
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
    if constexpr (kEightBits) {
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
#pragma unroll
        for (int i = 0; i < kQuads * 4; ++i) {
          values[i] = sums[r][piece * kQuads * 4 + i];
        }
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

  // A piece, 64 rows and kColumns columns, that TMA stores, with a bias of the type that goes with D's and no C.
  // C of D's type may come in boxes.
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
        add_box(values, buffers + used * kBufferBytes, warp, lane);
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
#pragma unroll
        for (int i = 0; i < kQuads * 4; ++i) {
          values[i] = sums[r][piece * kQuads * 4 + i];
        }
        int const piece_row = row + r * 64, piece_column = column + piece * kColumns;
        if constexpr (kBoxes) {
          store_box_of(values, piece_row, piece_column, matrix, warp, lane, rows);
        } else {
          store_floats_of(values, piece_row + warp * 16 + lane / 4, piece_column + lane % 4 * 2, matrix, rows);
        }
      }
    }
  }

  // A thread's elements of C in a piece, as they come from memory.
  struct Addends {
    uint32_t bits[kQuads * 4];
  };

  // Asks L2 for the C of all of a warpgroup's sums, long before it is fetched.
  __device__ __forceinline__ void prefetch_c(int row, int column, int matrix) const {
    if (params.c == nullptr) {
      return;
    }
    constexpr int kHigh = kSwapped ? N : Rows * 64, kWide = kSwapped ? Rows * 64 : N;  // of D
    int const size = params.type_c == Addend::kF32 ? 4 : 2, lines = (kWide * size + 127) / 128;
    int const m = kSwapped ? column : row, n = kSwapped ? row : column;
    for (int i = threadIdx.x % 128; i < kHigh * lines; i += 128) {
      int const line_m = m + i / lines, line_n = n + i % lines * 128 / size;
      if (line_m < params.m && line_n < params.n) {
        int64_t const at = matrix * params.batch_stride_c + line_m * params.ld_c + line_n;
        prefetch_line(static_cast<char const*>(params.c) + at * size);
      }
    }
  }

  // All of a piece's loads are on their way at once.
  __device__ __forceinline__ void fetch_c(Addends& c, int row, int column, int matrix) const {
    if (params.c == nullptr) {
      return;
    }
    int const lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    int const own_row = row + warp * 16 + lane / 4, own_column = column + lane % 4 * 2;
    bool const wide = params.type_c == Addend::kF32;
    char const* const first = static_cast<char const*>(params.c) + ((matrix * params.batch_stride_c) << (wide ? 2 : 1));
#pragma unroll
    for (int i = 0; i < kQuads * 4; ++i) {
      int const m = row_of(own_row, own_column, i / 4, i % 4), n = column_of(own_row, own_column, i / 4, i % 4);
      char const* const from = first + ((m * params.ld_c + n) << (wide ? 2 : 1));
      c.bits[i] = 0;  // where there is no D
      if (m < params.m && n < params.n) {
        c.bits[i] = wide ? *reinterpret_cast<uint32_t const*>(from) : *reinterpret_cast<uint16_t const*>(from);
      }
    }
  }

  // Any piece. `rows` says what becomes of D's rows.
  template <class RowsOf = EveryRow>
  __device__ __forceinline__ void store_any(float (&values)[kQuads * 4], int row, int column, int matrix,
                                            RowsOf const& rows = {}) {
    int const lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    int const own_row = row + warp * 16 + lane / 4, own_column = column + lane % 4 * 2;
    scale(values, own_row, own_column, params.type_bias);
    if (params.c != nullptr) {
      add_c(values, own_row, own_column, matrix);
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
#pragma unroll
      for (int i = 0; i < kQuads * 4; ++i) {
        values[i] += params.beta * value_of(params.type_c, c.bits[i]);
      }
    }
    store_finished(values, row, column, matrix, rows);
  }

  // Before the CTA ends: TMA still reads the shared memory of the last pieces. By all threads of the warp.
  __device__ __forceinline__ void drain() const {
    if constexpr (kEightBits) {
      if (params.amax != nullptr) {
        raise(params.amax, largest);
      }
    }
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
          int const at = column_of(row, column, quad, kSwapped ? i * 2 : i);
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
             kSwapped ? column : row + first_row_of(warp), addends.one ? 0 : matrix, kEvictFirst);
  }

  // Adds the C of a piece, which lies as D will.
  __device__ __forceinline__ void add_box(float (&values)[kQuads * 4], uint32_t buffer, int warp, int lane) const {
    int const half = lane / 8 % 2, next = lane / 16, in_matrix = lane % 8;
#pragma unroll
    for (int quad = 0; quad < kQuads; quad += 2) {
      uint32_t const from = buffer + (kSwapped ? place((quad + next) * 8 + in_matrix, warp * 2 + half)
                                               : place(own_rows(warp) + half * 8 + in_matrix, quad + next));
      uint32_t pairs[4];
      if (quad + 1 < kQuads) {
        load_matrices<kSwapped>(from, pairs[0], pairs[1], pairs[2], pairs[3]);
      } else {
        load_matrices<kSwapped>(from, pairs[0], pairs[1]);
      }
#pragma unroll
      for (int i = 0; i < (quad + 1 < kQuads ? 8 : 4); ++i) {
        values[quad * 4 + i] += params.beta * ElementD::to_float(static_cast<uint16_t>(pairs[i / 2] >> i % 2 * 16));
      }
    }
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

  __device__ __forceinline__ void add_c(float (&values)[kQuads * 4], int row, int column, int matrix) const {
    int64_t const first = matrix * params.batch_stride_c;
#pragma unroll
    for (int i = 0; i < kQuads * 4; ++i) {
      int const m = row_of(row, column, i / 4, i % 4), n = column_of(row, column, i / 4, i % 4);
      if (m < params.m && n < params.n) {
        values[i] += params.beta * load(params.type_c, params.c, first + m * params.ld_c + n);
      }
    }
  }

  __device__ __forceinline__ void scale_result(float (&values)[kQuads * 4], int row, int column) {
    if constexpr (kEightBits) {
      if (params.amax != nullptr) {
#pragma unroll
        for (int i = 0; i < kQuads * 4; ++i) {
          // Beyond D there may be a bias.
          if (row_of(row, column, i / 4, i % 4) < params.m && column_of(row, column, i / 4, i % 4) < params.n) {
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
    bool stored[2] = {rows(row_of(row, column, 0, 0)) == RowFate::kStored,
                      rows(row_of(row, column, 0, 3)) == RowFate::kStored};
#pragma unroll
    for (int quad = 0; quad < Count / 4; ++quad) {
      if (kSwapped && quad > 0) {
        stored[0] = rows(row_of(row, column, quad, 0)) == RowFate::kStored;
        stored[1] = rows(row_of(row, column, quad, 1)) == RowFate::kStored;
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
      int const m = row_of(row, column, i / 4, i % 4), n = column_of(row, column, i / 4, i % 4);
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
      int const m = row_of(row, column, i / 4, i % 4), n = column_of(row, column, i / 4, i % 4);
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
    used = kBuffers <= 2 ? used ^ (kBuffers - 1) : used + 1 < kBuffers ? used + 1 : 0;
    if (leader) {
      wait_for_stores<kBuffers - 1>();  // the last that read this buffer has
    }
    gather();
    if constexpr (kEightBits) {
      lay_bytes(values, buffer, warp, lane);
    } else {
      lay_halves(values, buffer, warp, lane);
    }
    if (!rows.none_left()) {
      gather();
      copy_rows(buffer, kSwapped ? column : row + first_row_of(warp), kSwapped ? row : column, matrix, rows);
      return;  // nobody writes to the buffer again before all have gathered
    }
    fence_async_proxy();
    gather();
    if (leader) {
      if constexpr (kSwapped) {
        store_box(buffer, map, row * ElementD::kBytes, column, matrix);
      } else {
        store_box(buffer, map, column * ElementD::kBytes, row + first_row_of(warp), matrix);
      }
      commit_stores();
    }
  }

  // Where each piece has a buffer of its own, none of which is read any more: all are laid down before TMA is told.
  __device__ __forceinline__ void store_at_once(float const (&sums)[Rows][N / 2], int row, int column, int matrix,
                                                int warp, int lane) const {
    gather();
#pragma unroll
    for (int i = 0; i < kBuffers; ++i) {
      float values[kQuads * 4];
#pragma unroll
      for (int j = 0; j < kQuads * 4; ++j) {
        values[j] = sums[i / kPieces][i % kPieces * kQuads * 4 + j];
      }
      lay_halves(values, buffers + i * kBufferBytes, warp, lane);
    }
    fence_async_proxy();
    gather();
    if (leader) {
#pragma unroll
      for (int i = 0; i < kBuffers; ++i) {
        int const piece_row = row + i / kPieces * 64, piece_column = column + i % kPieces * kColumns;
        store_box(buffers + i * kBufferBytes, map, (kSwapped ? piece_row : piece_column) * ElementD::kBytes,
                  kSwapped ? piece_column : piece_row + first_row_of(warp), matrix);
      }
      commit_stores();
    }
  }

  // A piece of 16-bit elements into its box.
  static __device__ __forceinline__ void lay_halves(float const (&values)[kQuads * 4], uint32_t buffer, int warp,
                                                    int lane) {
    // Lane l gives the address of row l % 8 of matrix l / 8 of the four that one instruction stores: those of the
    // upper 8 rows and the lower 8 of one quad, then those of the next.
    int const half = lane / 8 % 2, next = lane / 16, in_matrix = lane % 8;
#pragma unroll
    for (int quad = 0; quad < kQuads; quad += 2) {
      uint32_t const to = buffer + (kSwapped ? place((quad + next) * 8 + in_matrix, warp * 2 + half)
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
  static __device__ __forceinline__ void lay_bytes(float const (&values)[kQuads * 4], uint32_t buffer, int warp,
                                                   int lane) {
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
        store_short(buffer + place(row, warp) + byte, pairs & 0xFFFF);
        store_short(buffer + place(row, warp) + byte + 8, pairs >> 16);
      } else {
        int const byte = quad % 2 * 8 + t * 2;
        int const row = own_rows(warp) + group;
        store_short(buffer + place(row, quad / 2) + byte, ElementD::pack(v[0], v[1]));
        store_short(buffer + place(row + 8, quad / 2) + byte, ElementD::pack(v[2], v[3]));
      }
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
        load_words(buffer + place(i / kUnits, i % kUnits), words);
        char* const to = static_cast<char*>(params.d) +
                         (matrix * params.batch_stride_d + m * params.ld_d + rows.column(n)) * ElementD::kBytes;
        *reinterpret_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
      }
    }
  }

  // Of a warp that fills a box with others, its rows in the box; of one that does not, the box's in the 64.
  static __device__ __forceinline__ int own_rows(int warp) { return kTogether && !kSwapped ? warp * 16 : 0; }
  static __device__ __forceinline__ int first_row_of(int warp) { return kTogether ? 0 : warp * 16; }

  // The threads that fill a buffer together meet.
  __device__ __forceinline__ void gather() const {
    if constexpr (kTogether) {
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

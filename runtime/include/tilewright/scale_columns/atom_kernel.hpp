// The header of `scale_columns` kernels that write UE8M0 scales in the 128x4 layout, which block-scaled tensor cores
// read. An atom of that layout, 512 bytes, holds the scales of 128 rows and of four blocks of 32 along k: row r's word
// of four bytes is word (r%32)*4 + r/32 of the atom.
//
// Scales come as floats, or as words of four exponents (DeepGEMM's packed scales), for 32 or 128 of k and for a row or
// for 128 rows. A scale of 128 of k becomes four equal bytes.
//
// A thread block converts 128 rows and 16 columns of scales, through shared memory, so that loads and stores are
// coalesced however scales lie. A warp writes whole atoms: a lane has the words of rows lane, lane + 32, lane + 64 and
// lane + 96, which are 16 consecutive bytes.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "tilewright/adapter.hpp"
#include "tilewright/scale_columns/args.h"
#include "tilewright/sm90/ptx.hpp"

namespace tilewright::scale_columns {

struct AtomParams {
  uint32_t const* scales;  // the bits of floats, or words
  uint4* out;
  int64_t row_step, column_step, batch_step;  // of scales, in elements
  int rows;                                   // of the matrix whose scales they are
  int columns;                                // of scales
  int row_tiles, column_tiles, atoms;         // of a matrix; `atoms` along k
  int atoms_of_tile;                          // along k, that the columns of a thread block yield
  bool words;                                 // an element of scales holds four exponents
  bool repeated;                              // a scale is of 128 of k, hence four bytes
  bool shared_by_rows;                        // a row of scales is of 128 rows
  bool turned;                                // columns are contiguous: neighbouring threads load along them
};

template <bool kPdl>
struct AtomKernel {
  using Args = tilewright_scale_columns_args;
  using Params = AtomParams;
  static constexpr int kThreads = 128;
  static constexpr int kSharedBytes = 0;
  static constexpr int kWarps = kThreads / 32;
  static constexpr int kRows = 128, kColumns = 16;  // of a tile of scales
  static constexpr int kAtomColumns = 4;            // blocks of 32 along k, one byte each
  static constexpr int kBlock = 32;                 // elements of k that a byte scales
  static constexpr uint32_t kNan = 0xff;            // as UE8M0

  static bool can_implement(Args const& args) {
    bool const sizes = args.m > 0 && args.columns > 0 && args.lines > 0 && args.batch > 0;
    bool const scaled = args.block == kBlock || args.block == kAtomColumns * kBlock;
    bool const rows = args.m == args.lines || args.m == ceil_div(args.lines, kRows);
    bool const out = args.ld_out > 0 && args.ld_out % kAtomColumns == 0;
    return sizes && scaled && rows && out && args.grouping == TILEWRIGHT_SCALE_GROUPS_NONE && blocks(args) < INT32_MAX;
  }

  static cudaError_t make_params(Args const& args, Params& params, LaunchShape& shape) {
    bool const row_major = args.row_major != 0, shared_by_rows = args.m != args.lines;
    params = {
        reinterpret_cast<uint32_t const*>(args.scales),
        static_cast<uint4*>(args.out),
        row_major ? args.ld_scales : 1,
        row_major ? 1 : args.ld_scales,
        args.batch_stride_scales,
        args.lines,
        args.columns,
        static_cast<int>(ceil_div(args.lines, kRows)),
        static_cast<int>(column_tiles(args)),
        static_cast<int>(args.ld_out / kAtomColumns),
        atoms_of_tile(args),
        args.packed != 0,
        args.block != kBlock,
        shared_by_rows,
        row_major && !shared_by_rows,
    };
    shape.grid = dim3(static_cast<unsigned>(blocks(args)));
    return cudaSuccess;
  }

  __device__ __forceinline__ void operator()(Params const& params, char*) const {
    __shared__ uint32_t tile[kRows][kColumns + 1];
    int const lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int const tiles = params.row_tiles * params.column_tiles;
    int const matrix = blockIdx.x / tiles, within = blockIdx.x % tiles;
    int const row_tile = within % params.row_tiles, column_tile = within / params.row_tiles;
    uint32_t const* const scales = params.scales + matrix * params.batch_step;
    if constexpr (kPdl) {
      sm90::wait_for_previous_kernel();
      sm90::allow_next_kernel();
    }
    // A thread loads kColumns scales at once: of its own row, or, where columns are contiguous, of each 8th row. They
    // stay in registers until all are asked for, because a store to shared memory orders the loads behind it.
    constexpr int kRowsAtOnce = kThreads / kColumns;
    int const row = params.turned ? threadIdx.x / kColumns : threadIdx.x;
    int const column = params.turned ? threadIdx.x % kColumns : 0;
    Loads const loads = loads_of(params, scales, row_tile * kRows + row, column_tile * kColumns + column);
    uint32_t loaded[kColumns];
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      loaded[i] = i < loads.count ? loads.first[i * loads.step] : 0;
    }
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      tile[row + (params.turned ? i * kRowsAtOnce : 0)][column + (params.turned ? 0 : i)] = loaded[i];
    }
    __syncthreads();
    uint4* const out = params.out + (static_cast<int64_t>(matrix) * params.row_tiles + row_tile) * params.atoms * 32;
    int const first = column_tile * params.atoms_of_tile, count = min(params.atoms_of_tile, params.atoms - first);
#pragma unroll 1
    for (int atom = warp; atom < count; atom += kWarps) {
      out[static_cast<int64_t>(first + atom) * 32 + lane] = {
          word(params, atom, tile[lane]), word(params, atom, tile[lane + 32]), word(params, atom, tile[lane + 64]),
          word(params, atom, tile[lane + 96])};
    }
  }

 private:
  static int64_t ceil_div(int64_t x, int64_t y) { return (x + y - 1) / y; }
  static int atoms_of_tile(Args const& args) {
    int const bytes = kColumns * (args.packed ? kAtomColumns : 1) * (args.block / kBlock);
    return bytes / kAtomColumns;
  }
  static int64_t column_tiles(Args const& args) { return ceil_div(args.ld_out / kAtomColumns, atoms_of_tile(args)); }
  static int64_t blocks(Args const& args) { return ceil_div(args.lines, kRows) * column_tiles(args) * args.batch; }

  // The scales that a thread loads. Those beyond the last row and column are 0, which is padding.
  struct Loads {
    uint32_t const* first;
    int64_t step;
    int count;
  };

  static __device__ __forceinline__ Loads loads_of(Params const& params, uint32_t const* scales, int row, int column) {
    constexpr int kRowsAtOnce = kThreads / kColumns;
    int const line = params.shared_by_rows ? row / kRows : row;
    uint32_t const* const first = scales + line * params.row_step + column * params.column_step;
    int const rows = params.rows - row, columns = params.columns - column;  // that are left
    if (rows <= 0 || columns <= 0) {
      return {first, 0, 0};
    }
    return params.turned ? Loads{first, kRowsAtOnce * params.row_step, (rows + kRowsAtOnce - 1) / kRowsAtOnce}
                         : Loads{first, params.column_step, columns};
  }

  // The UE8M0 byte of a float. A scale that is no power of two becomes NaN, so that no product is wrong unnoticed. 0
  // becomes 2^-127, the least scale, as its exponent says.
  static __device__ __forceinline__ uint32_t byte_of(uint32_t bits) {
    constexpr uint32_t kMantissa = 0x7fffff, kLeast = 0x400000;  // 2^-127, which is subnormal
    if (bits == kLeast) {
      return 0;
    }
    return (bits & (kMantissa | 1u << 31)) == 0 ? bits >> 23 : kNan;
  }

  // A row's four bytes in an atom of the tile.
  static __device__ __forceinline__ uint32_t word(Params const& params, int atom, uint32_t const* scales) {
    constexpr uint32_t kFourTimes = 0x01010101;
    if (params.words && params.repeated) {
      return (scales[atom / 4] >> 8 * (atom % 4) & 0xff) * kFourTimes;
    }
    if (params.words) {
      return scales[atom];
    }
    if (params.repeated) {
      return byte_of(scales[atom]) * kFourTimes;
    }
    uint32_t value = 0;
#pragma unroll
    for (int i = 0; i < kAtomColumns; ++i) {
      value |= byte_of(scales[atom * kAtomColumns + i]) << 8 * i;
    }
    return value;
  }
};

}  // namespace tilewright::scale_columns

#define TILEWRIGHT_SCALE_ATOMS_KERNEL(NAME) \
  TILEWRIGHT_KERNEL(NAME, tilewright::NAME::ScaleColumns, tilewright::LaunchedOnce, 1, 16)

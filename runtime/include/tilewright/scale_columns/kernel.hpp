// The header of generated `scale_columns` kernels, which convert FP32 scales [m, columns] to lines that TMA reads. A
// line has one column, or words of the exponents of four columns, for all m rows. Zeros pad it to a multiple of 4 rows.
//
// A thread block converts 64 rows and 32 columns, so that a thread has eight loads in flight. Row-major scales go
// through shared memory, so that both loads and stores are coalesced.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "tilewright/adapter.hpp"
#include "tilewright/scale_columns/args.h"
#include "tilewright/sm90/ptx.hpp"

namespace tilewright::scale_columns {

struct Params {
  float const* scales;
  uint32_t* out;
  int32_t const* groups;
  int64_t row_step, column_step, batch_step;  // of scales, in elements
  int64_t line_step, batch_line_step;         // of out
  int m, padded, columns, lines;              // rows, up to a multiple of 4
  int row_tiles, line_tiles;                  // of a matrix
  int group_count, grouping, alignment, block;
  bool packed;
  bool turned;  // rows are contiguous, and columns of words follow each other
};

template <bool kPdl>
struct Kernel {
  using Args = tilewright_scale_columns_args;
  using Params = scale_columns::Params;
  static constexpr int kThreads = 256;
  static constexpr int kSharedBytes = 0;
  static constexpr int kWarps = kThreads / 32;
  static constexpr int kRows = 64, kColumns = 32;  // of a tile
  static constexpr int kWordColumns = 4;           // that a word holds

  static bool can_implement(Args const& args) {
    bool const sizes = args.m > 0 && args.columns > 0 && args.lines > 0 && args.batch > 0;
    bool const grouped = args.grouping == TILEWRIGHT_SCALE_GROUPS_NONE ||
                         (args.group_count > 0 && args.alignment > 0 && args.block > 0 && args.batch == 1);
    return sizes && grouped && (!along_k(args) || args.packed) && blocks(args) < INT32_MAX;
  }

  static cudaError_t make_params(Args const& args, Params& params, LaunchShape& shape) {
    bool const row_major = args.row_major != 0;
    params = {
        args.scales,
        static_cast<uint32_t*>(args.out),
        args.groups,
        row_major ? args.ld_scales : 1,
        row_major ? 1 : args.ld_scales,
        args.batch_stride_scales,
        args.ld_out,
        args.batch_stride_out,
        args.m,
        (args.m + 3) / 4 * 4,
        args.columns,
        args.lines,
        static_cast<int>(row_tiles(args)),
        static_cast<int>(line_tiles(args)),
        args.group_count,
        args.grouping,
        args.alignment,
        args.block,
        args.packed != 0,
        row_major && !along_k(args),
    };
    shape.grid = dim3(static_cast<unsigned>(blocks(args)));
    return cudaSuccess;
  }

  __device__ __forceinline__ void operator()(Params const& params, char*) const {
    __shared__ float tile[kRows][kColumns + 1];
    int const lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int const matrix = blockIdx.x / (params.row_tiles * params.line_tiles);
    int const within = blockIdx.x % (params.row_tiles * params.line_tiles);
    int const first_row = within % params.row_tiles * kRows, line_tile = within / params.row_tiles;
    float const* const scales = params.scales + matrix * params.batch_step;
    uint32_t* const out = params.out + matrix * params.batch_line_step;
    if constexpr (kPdl) {
      sm90::wait_for_previous_kernel();
      sm90::allow_next_kernel();
    }
    if (params.turned) {
      int const column = line_tile * kColumns + lane;
#pragma unroll
      for (int i = 0; i < kRows; i += kWarps) {
        int const from = first_row + i + warp;
        bool const counts = from < params.m && column < params.columns;
        tile[i + warp][lane] = counts ? scales[from * params.row_step + column * params.column_step] : 0.0f;
      }
      __syncthreads();
    }
    bool counts[kRows / 32];
#pragma unroll
    for (int i = 0; i < kRows / 32; ++i) {
      int const row = first_row + i * 32 + lane;
      counts[i] = row < params.m && in_group(params, row);
    }
    int const tile_lines = params.packed ? kColumns / kWordColumns : kColumns;
    for (int line = line_tile * tile_lines + warp; line < min((line_tile + 1) * tile_lines, params.lines);
         line += kWarps) {
      Columns const from = columns_of(params, line, lane);
#pragma unroll
      for (int i = 0; i < kRows / 32; ++i) {
        int const within = i * 32 + lane, row = first_row + within;
        uint32_t value = 0;
        for (int j = 0; j < from.count; ++j) {
          int const column = from.first + j;
          float scale = 0.0f;
          if (counts[i]) {
            scale = params.turned ? tile[within][column % kColumns]
                                  : scales[row * params.row_step + column * params.column_step];
          }
          uint32_t const bits = __float_as_uint(scale);
          value = params.packed ? value | (bits >> 23 & 0xff) << 8 * j : bits;
        }
        if (row < params.padded) {
          out[line * params.line_step + row] = value;
        }
      }
    }
  }

 private:
  static int64_t ceil_div(int64_t x, int64_t y) { return (x + y - 1) / y; }
  static int64_t row_tiles(Args const& args) { return ceil_div(args.m, kRows); }
  static int64_t line_tiles(Args const& args) {
    return ceil_div(args.lines, args.packed ? kColumns / kWordColumns : kColumns);
  }
  static int64_t blocks(Args const& args) { return row_tiles(args) * line_tiles(args) * args.batch; }
  static bool along_k(Args const& args) {
    return args.grouping == TILEWRIGHT_SCALE_GROUPS_K_SIZES || args.grouping == TILEWRIGHT_SCALE_GROUPS_K_ENDS;
  }

  // The columns of which a line is made.
  struct Columns {
    int first, count;
  };

  // The first row of the group that follows one that ends at `end`. Unsigned, because rounding up may exceed an int.
  static __device__ __forceinline__ uint32_t begin_after(Params const& params, int end) {
    uint32_t const multiple = params.alignment;
    return (static_cast<uint32_t>(max(end, 0)) + multiple - 1) / multiple * multiple;
  }

  // Whether a row belongs to a group, and not to the padding between groups.
  static __device__ __forceinline__ bool in_group(Params const& params, int row) {
    if (params.grouping != TILEWRIGHT_SCALE_GROUPS_ROW_ENDS) {
      return true;
    }
    int low = 0, high = params.group_count;  // searches for the first group whose successor begins after the row
    while (low < high) {
      int const middle = (low + high) / 2;
      if (begin_after(params, params.groups[middle]) > static_cast<uint32_t>(row)) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low < params.group_count && row < params.groups[low];
  }

  // The number of a group's columns, from its size or its end along k.
  static __device__ __forceinline__ int group_columns(Params const& params, int group) {
    uint32_t size = max(params.groups[group], 0), begin = 0;
    if (params.grouping == TILEWRIGHT_SCALE_GROUPS_K_ENDS && group > 0) {
      begin = begin_after(params, params.groups[group - 1]);
    }
    size = size > begin ? size - begin : 0;
    return size > 0 ? (size - 1) / static_cast<uint32_t>(params.block) + 1 : 0;
  }

  // The columns of a line. Called by all threads of a warp with the same line.
  static __device__ __forceinline__ Columns columns_of(Params const& params, int line, int lane) {
    if (!params.packed) {
      return {line, 1};
    }
    if (params.grouping != TILEWRIGHT_SCALE_GROUPS_K_SIZES && params.grouping != TILEWRIGHT_SCALE_GROUPS_K_ENDS) {
      int const first = line * kWordColumns, left = params.columns - first;
      return {first, left < kWordColumns ? left : kWordColumns};
    }
    int words_before = 0, columns_before = 0;  // of the groups before the 32 that the warp looks at
    for (int base = 0; base < params.group_count; base += 32) {
      // Sizes may add up to more than the matrix has, and to more than an int holds. They are clamped to what is left.
      int const rest = max(params.columns - columns_before, 0);
      int const own = base + lane < params.group_count ? min(group_columns(params, base + lane), rest) : 0;
      int columns = own, words = (own + kWordColumns - 1) / kWordColumns;
#pragma unroll
      for (int step = 1; step < 32; step *= 2) {  // prefix sums, including the lane's own group
        int const more_columns = __shfl_up_sync(~0u, columns, step), more_words = __shfl_up_sync(~0u, words, step);
        columns += lane >= step ? more_columns : 0;
        words += lane >= step ? more_words : 0;
      }
      unsigned const later_groups = __ballot_sync(~0u, words_before + words > line);
      if (later_groups != 0) {
        int const group_lane = __ffs(later_groups) - 1;
        int const size = __shfl_sync(~0u, own, group_lane);
        int const first_column = columns_before + __shfl_sync(~0u, columns, group_lane) - size;
        int const first_word =
            words_before + __shfl_sync(~0u, words, group_lane) - (size + kWordColumns - 1) / kWordColumns;
        int const taken = (line - first_word) * kWordColumns;
        int const left = min(size - taken, params.columns - first_column - taken);
        return {first_column + taken, left < 0 ? 0 : left < kWordColumns ? left : kWordColumns};
      }
      words_before += __shfl_sync(~0u, words, 31);
      columns_before += __shfl_sync(~0u, columns, 31);
    }
    return {0, 0};  // the line follows the last group
  }
};

}  // namespace tilewright::scale_columns

#define TILEWRIGHT_SCALE_COLUMNS_KERNEL(NAME) \
  TILEWRIGHT_KERNEL(NAME, tilewright::NAME::ScaleColumns, tilewright::LaunchedOnce, 1, 16)

// Which elements a warp quantises, and where it stores their scales, for every format and layout.
//
// A warp quantises a quad of four rows at a time; along each row, its 32 threads have neighbouring elements. The rows
// of a quad are those whose scales are neighbours in the layout: 32 apart for 128x4, adjacent for the others. So the
// scales of four columns for each of the four rows are 16 bytes of one layout tile. A quad of threads transposes its
// scales by shuffles and stores these 16 bytes together.
#pragma once

#include <cstdint>

#include "tilewright/alignment.hpp"
#include "tilewright/quantize/args.h"
#include "tilewright/quantize/elements.hpp"

namespace tilewright::quantize {

constexpr int kRows = 4;  // of a quad

struct Params {
  char* x;
  char* data;
  char* scales;
  char const* weight;
  float const* global_scale;
  int32_t const* rows_valid;
  int64_t row_x, row_data;                       // bytes between rows
  int64_t group_x, group_data, group_scales;     // bytes between groups
  int64_t tile_scales, row_scales, word_scales;  // bytes between tiles of rows, rows of a tile, words of 4 columns
  int64_t ld_scales;                             // of floats and packed bytes: between columns
  int m, k, groups;
  int columns, padded_columns, padded_rows;  // of scales
  int quads;                                 // of a group, padding included
  int row_tasks, column_tasks;               // of a group: blocks of rows, and of columns, that a thread block takes
  int total_row_tasks;                       // of all groups
  int stretches;                             // of a row, where a thread block takes whole ones
  int chunks;                                // of a thread's elements, along a row, in a task
  int row_step, column_step;                 // by which a thread block goes on: the grid in tasks
  int quad_bits;                             // 2^this quads are a tile
  int quad_scales;                           // bytes between the quads of a tile
  float epsilon;
  bool interleaved;  // rows of a quad are 32 apart
  bool whole_words;  // four scales of a row may be stored at once
  bool scale_per_row, packed, m_major;
};

constexpr int64_t ceil_div(int64_t x, int64_t y) { return (x + y - 1) / y; }
constexpr int64_t round_up(int64_t x, int64_t y) { return ceil_div(x, y) * y; }

// A thread block's unit of work: `kWarps` quads of rows of a group, and a stretch of columns.
template <int kWarps>
struct Task {
  int row_task, column_task, group;

  __device__ __forceinline__ Task(Params const& params, uint32_t index)
      : row_task(index / params.column_tasks), column_task(index % params.column_tasks), group(0) {
    find_group(params);
  }

  // Advances to the next task; false if there is none.
  __device__ __forceinline__ bool next(Params const& params) {
    column_task += params.column_step;
    row_task += params.row_step;
    if (column_task >= params.column_tasks) {
      column_task -= params.column_tasks;
      ++row_task;
    }
    find_group(params);
    return row_task < params.total_row_tasks;
  }

  __device__ __forceinline__ void find_group(Params const& params) {
    if (params.groups > 1) {
      group = row_task / params.row_tasks;
    }
  }

  __device__ __forceinline__ int quad(Params const& params, int warp) const {
    return (row_task - group * params.row_tasks) * kWarps + warp;
  }
};

// A quad of rows of a group.
struct Quad {
  int number, first, step;  // `step` rows from one to the next
  int limit;                // rows of the group that count
  bool exists;

  __device__ __forceinline__ Quad(Params const& params, int group, int quad)
      : number(quad), step(params.interleaved ? 32 : 1), limit(params.m), exists(quad < params.quads) {
    first = params.interleaved ? (quad & ~31) * 4 + (quad & 31) : quad * 4;
    if (params.rows_valid != nullptr) {
      int const valid = params.rows_valid[group];
      limit = valid < limit ? (valid > 0 ? valid : 0) : limit;
    }
  }

  __device__ __forceinline__ int row(int i) const { return first + i * step; }
  __device__ __forceinline__ bool counts(int i) const { return exists && row(i) < limit; }
};

namespace detail {

__device__ __forceinline__ uint32_t exchange(uint32_t value, int lanes) { return __shfl_xor_sync(~0u, value, lanes); }

}  // namespace detail

// The largest amax of `kLanes` neighbouring threads.
template <int kLanes>
__device__ __forceinline__ float amax_of_lanes(float amax) {
#pragma unroll
  for (int lanes = 1; lanes < kLanes; lanes *= 2) {
    amax = larger(amax, __shfl_xor_sync(~0u, amax, lanes));
  }
  return amax;
}

// Stores a quad's scales that are bytes. `codes` are those of the thread's elements for the four rows, the first
// one lowest; `kLanes` threads share a block, whose number is `column`.
template <int kLanes>
__device__ __forceinline__ void store_bytes(Params const& params, int group, Quad const& quad, int column, int lane,
                                            uint32_t codes) {
  int const place = lane / kLanes % 4;
  uint32_t partner_codes = detail::exchange(codes, kLanes);
  codes = __byte_perm(codes, partner_codes, place & 1 ? 0x3715 : 0x6240);
  partner_codes = detail::exchange(codes, 2 * kLanes);
  codes = __byte_perm(codes, partner_codes, place & 2 ? 0x3276 : 0x5410);
  // Now the four bytes are of row `place`, in the order of columns.
  auto const first = static_cast<uint32_t>(column - place);
  bool const stores =
      lane % kLanes == 0 && quad.exists && int(first) < params.padded_columns && quad.row(place) < params.padded_rows;
  if (!stores) {
    return;
  }
  int const in_tile = quad.number & ((1 << params.quad_bits) - 1);
  char* const target = params.scales + group * params.group_scales +
                       (quad.number >> params.quad_bits) * params.tile_scales + in_tile * params.quad_scales +
                       place * params.row_scales + first / 4 * params.word_scales;
  if (params.whole_words) {
    *reinterpret_cast<uint32_t*>(target) = codes;
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (int(first) + i < params.columns) {
        target[i] = static_cast<char>(codes >> (8 * i));
      }
    }
  }
}

// Stores a quad's scales that are floats, or packed bytes in a float's place. Every thread of `kLanes` has them.
template <int kLanes>
__device__ __forceinline__ void store_floats(Params const& params, int group, Quad const& quad, int column, int lane,
                                             uint32_t const (&scales)[kRows]) {
  if (lane % kLanes != 0 || !quad.exists || column >= params.padded_columns) {
    return;
  }
  char* const base = params.scales + group * params.group_scales;
  if (params.m_major && !params.packed) {  // four rows side by side, padding included
    *reinterpret_cast<uint4*>(base + (column * params.ld_scales + quad.first) * 4) =
        make_uint4(scales[0], scales[1], scales[2], scales[3]);
    return;
  }
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    int const row = quad.row(i);
    if (row >= params.padded_rows) {
      continue;
    }
    if (params.packed) {
      base[(column / 4 * params.ld_scales + row) * 4 + column % 4] = static_cast<char>(scales[i]);
    } else {
      reinterpret_cast<uint32_t*>(base)[int64_t(row) * params.columns + column] = scales[i];
    }
  }
}

// The parameters that all kernels share. A thread block takes
// `warps` quads of rows and a stretch of columns; `block_rows` rows share a scale.
inline void set_params(tilewright_quantize_args const& args, Params& params, int x_bits, int data_bits, int block,
                       bool byte_scales, int warps, int stretch, int block_rows = 1) {
  params.x = static_cast<char*>(args.x);
  params.data = static_cast<char*>(args.data);
  params.scales = static_cast<char*>(args.scales);
  params.weight = static_cast<char const*>(args.weight);
  params.global_scale = args.global_scale;
  params.rows_valid = args.rows_valid;
  params.row_x = args.ld_x * x_bits / 8;
  params.row_data = args.ld_data * data_bits / 8;
  params.group_x = args.batch_stride_x * x_bits / 8;
  params.group_data = args.batch_stride_data * data_bits / 8;
  params.m = args.m;
  params.k = args.k;
  params.groups = args.groups;
  params.epsilon = args.epsilon;
  params.scale_per_row = args.scale_per_row != 0 && args.global_scale != nullptr;
  params.packed = args.layout == TILEWRIGHT_SCALES_PACKED;
  params.m_major = args.layout == TILEWRIGHT_SCALES_M_MAJOR || params.packed;
  params.interleaved = args.layout == TILEWRIGHT_SCALES_128X4;
  params.columns = static_cast<int>(ceil_div(args.k, block));
  params.ld_scales = args.ld_scales;

  bool const tiled = params.interleaved || args.layout == TILEWRIGHT_SCALES_8X4;
  int const tile_rows = params.interleaved ? 128 : tiled ? 8 : params.m_major ? 4 : 1;
  params.padded_rows = static_cast<int>(round_up(args.m, tile_rows));
  params.padded_columns = static_cast<int>(tiled || params.packed ? round_up(params.columns, 4) : params.columns);
  params.quads = static_cast<int>(ceil_div(params.padded_rows, kRows));
  params.quad_bits = params.interleaved ? 5 : tiled ? 1 : 0;
  params.quad_scales = tiled ? 16 : 0;
  params.row_scales = tiled ? 4 : params.columns;
  params.word_scales = tiled ? tile_rows * 4 : 4;
  params.tile_scales = tiled ? int64_t(tile_rows) * params.padded_columns : int64_t(kRows) * params.columns;
  params.whole_words = tiled || params.columns % 4 == 0;
  if (byte_scales) {
    params.group_scales = int64_t(params.padded_rows) * params.padded_columns;
  } else if (params.m_major) {
    params.group_scales = (params.packed ? ceil_div(params.columns, 4) : params.columns) * args.ld_scales * 4;
  } else {
    params.group_scales = ceil_div(args.m, block_rows) * params.columns * 4;
  }
  params.row_tasks = static_cast<int>(ceil_div(params.quads, warps));
  params.total_row_tasks = params.row_tasks * params.groups;
  params.column_tasks = static_cast<int>(ceil_div(int64_t(params.padded_columns) * block, stretch));
}

// If there are many tasks, merges them into tasks of several chunks, so that the work per task is done less often.
inline void lengthen_tasks(tilewright_quantize_args const& args, Params& params) {
  constexpr int kMost = 8,
                kTasks = 12;  // chunks of a task at most; tasks of an SM at least (measured: fewer leave SMs idle)
  int64_t const rows = params.total_row_tasks, tasks = rows * params.column_tasks;
  params.chunks = 1;
  while (params.chunks < kMost && params.chunks * 2 <= params.column_tasks &&
         tasks >= int64_t(kTasks) * 2 * params.chunks * args.tactic.sm_count) {
    params.chunks *= 2;
  }
  int const across = static_cast<int>(ceil_div(params.column_tasks, params.chunks));
  params.chunks = static_cast<int>(ceil_div(params.column_tasks, across));  // chunks of tasks differ by little
  params.column_tasks = across;
}

// Sets the steps by which thread blocks advance. Returns the size of the grid: one thread block per task, or fewer if
// the tactic limits them.
inline unsigned set_grid(tilewright_quantize_args const& args, Params& params) {
  int64_t const tasks = int64_t(params.total_row_tasks) * params.column_tasks;
  int64_t const most = args.tactic.blocks > 0 ? int64_t(args.tactic.blocks) * args.tactic.sm_count : int64_t(1) << 30;
  auto const grid = static_cast<unsigned>(tasks < most ? tasks : most);
  params.row_step = static_cast<int>(grid / params.column_tasks);
  params.column_step = static_cast<int>(grid % params.column_tasks);
  return grid;
}

// Whether these kernels can compute a problem.
inline bool takes(tilewright_quantize_args const& args, int x_bits, int data_bits, int data_bytes, bool byte_scales,
                  int block_rows = 1, int parts = 1) {
  constexpr int kMost = 1 << 30;  // of m and k: their rounded-up values and the columns of a row must fit an int, too
  bool const sizes = args.m > 0 && args.k > 0 && args.groups > 0 && args.m <= kMost && args.k <= kMost &&
                     args.k % 16 == 0 && (args.x_parts == 0 || args.x_parts == parts);
  bool const bytes = args.layout >= TILEWRIGHT_SCALES_128X4 && args.layout <= TILEWRIGHT_SCALES_LINEAR;
  bool const floats = args.layout == TILEWRIGHT_SCALES_ROW_MAJOR || args.layout == TILEWRIGHT_SCALES_PACKED ||
                      (args.layout == TILEWRIGHT_SCALES_M_MAJOR && block_rows == 1);
  int64_t const rows = int64_t(args.m) + 127;
  bool const counted = rows / kRows * args.groups <= INT32_MAX;
  auto const aligned = [](int64_t elements, int bits, int bytes) { return elements * bits / 8 % bytes == 0; };
  bool const strides = aligned(args.ld_x, x_bits, 16) && aligned(args.batch_stride_x, x_bits, 16) &&
                       aligned(args.ld_data, data_bits, data_bytes) &&
                       aligned(args.batch_stride_data, data_bits, data_bytes);
  bool const addresses = is_aligned(args.x, 16) && is_aligned(args.weight, 16) && is_aligned(args.scales, 16) &&
                         is_aligned(args.data, data_bytes);
  bool const m_major = args.layout == TILEWRIGHT_SCALES_M_MAJOR || args.layout == TILEWRIGHT_SCALES_PACKED;
  return sizes && (byte_scales ? bytes : floats) && counted && strides && addresses &&
         (!m_major || (args.ld_scales >= args.m && args.ld_scales % 4 == 0)) && args.tactic.blocks >= 0 &&
         (args.tactic.blocks == 0 || args.tactic.sm_count > 0);
}

}  // namespace tilewright::quantize

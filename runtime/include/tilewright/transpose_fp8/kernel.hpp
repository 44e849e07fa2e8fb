// The header of generated `transpose_fp8` kernels: out[column, row] = x[row, column], of bytes.
//
// A thread block transposes 128 rows and 128 columns through shared memory. A thread loads 16 columns of four rows,
// transposes them in registers into words of four rows of a column, and stores 16 rows of a column. Loads and stores
// access 128 contiguous bytes, without bank conflicts in shared memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "tilewright/adapter.hpp"
#include "tilewright/sm90/ptx.hpp"
#include "tilewright/transpose_fp8/args.h"

namespace tilewright::transpose_fp8 {

struct Params {
  char const* x;
  char* out;
  int32_t const* group_rows;
  int64_t row_step, batch_step;         // of x, in bytes
  int64_t column_step, batch_out_step;  // of out
  int rows, columns, groups;
  int row_tiles, column_tiles;
};

template <bool kPdl>
struct Kernel {
  using Args = tilewright_transpose_fp8_args;
  using Params = transpose_fp8::Params;
  static constexpr int kThreads = 256;
  static constexpr int kSharedBytes = 0;
  static constexpr int kSide = 128;  // of a tile
  static constexpr int kUnit = 16;   // bytes that a thread loads and stores at once
  static constexpr int kUnits = kSide / kUnit;
  static constexpr int kStrip = 4;  // tiles below each other that thread blocks take one after the other: their stores
                                    // are neighbours

  static bool can_implement(Args const& args) {
    bool const sizes = args.rows > 0 && args.columns > 0 && args.batch > 0 && args.groups >= 0;
    bool const grouped = args.groups == 0 || (args.batch == 1 && (args.ld_out == args.rows || args.columns == 1));
    return sizes && grouped && blocks(args) < INT32_MAX;
  }

  static cudaError_t make_params(Args const& args, Params& params, LaunchShape& shape) {
    params = {
        static_cast<char const*>(args.x),
        static_cast<char*>(args.out),
        args.groups > 0 ? args.group_rows : nullptr,
        args.ld_x,
        args.batch_stride_x,
        args.ld_out,
        args.batch_stride_out,
        args.rows,
        args.columns,
        args.groups,
        static_cast<int>(tiles(args.rows)),
        static_cast<int>(tiles(args.columns)),
    };
    shape.grid = dim3(static_cast<unsigned>(blocks(args)));
    return cudaSuccess;
  }

  __device__ __forceinline__ void operator()(Params const& params, char*) const {
    __shared__ uint4 tile[kSide * kUnits];  // 128 rows of each column
    int const matrix = blockIdx.x / (params.row_tiles * params.column_tiles);
    int const within = blockIdx.x % (params.row_tiles * params.column_tiles);
    int const strip = within / (kStrip * params.column_tiles), in_strip = within % (kStrip * params.column_tiles);
    int const high = min(kStrip, params.row_tiles - strip * kStrip);
    int const first_row = (strip * kStrip + in_strip % high) * kSide, first_column = in_strip / high * kSide;
    if constexpr (kPdl) {
      sm90::wait_for_previous_kernel();
      sm90::allow_next_kernel();
    }
    Part const part = params.group_rows != nullptr ? part_of(params, first_row) : whole(params, matrix);
    if (first_row >= part.end) {
      return;  // these rows belong to no group
    }
    char const* const x = params.x + matrix * params.batch_step;
    bool const wide = aligned(reinterpret_cast<uintptr_t>(x), params.row_step);
    int const unit = threadIdx.x % kUnits, quad = threadIdx.x / kUnits;
    int const column = first_column + unit * kUnit, row = first_row + quad * 4;
    uint32_t words[4][4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      int const left = row + i < part.end ? params.columns - column : 0;
      load(x + (row + i) * params.row_step + column, left, wide, words[i]);
    }
    auto* const lines = reinterpret_cast<uint32_t*>(tile);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      uint32_t turned[4];
      turn(words[0][j], words[1][j], words[2][j], words[3][j], turned);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        // Words that a warp stores at once are of eight units: each goes to banks of its own.
        lines[(unit * kUnit + j * 4 + i) * (kSide / 4) + (quad ^ unit * 4)] = turned[i];
      }
    }
    __syncthreads();
    char* const out = part.out + (first_row - part.begin);
    bool const wide_out = aligned(reinterpret_cast<uintptr_t>(out), part.column_step);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      int const own = threadIdx.x / kUnits + i * (kThreads / kUnits);
      if (first_column + own < params.columns) {
        store(out + (first_column + own) * part.column_step + unit * kUnit, part.end - first_row - unit * kUnit,
              wide_out, tile[own * kUnits + (unit ^ own / kUnit)]);
      }
    }
  }

 private:
  // Rows that become one matrix of the output.
  struct Part {
    char* out;
    int64_t column_step;
    int begin, end;
  };

  static int64_t tiles(int64_t extent) { return (extent + kSide - 1) / kSide; }
  static int64_t blocks(Args const& args) { return tiles(args.rows) * tiles(args.columns) * args.batch; }

  static __device__ __forceinline__ bool aligned(uintptr_t address, int64_t step) {
    return (address | static_cast<uint64_t>(step)) % kUnit == 0;
  }

  static __device__ __forceinline__ Part whole(Params const& params, int matrix) {
    return {params.out + matrix * params.batch_out_step, params.column_step, 0, params.rows};
  }

  // The group of a row. Called by all threads of a warp with the same row.
  static __device__ __forceinline__ Part part_of(Params const& params, int row) {
    int const lane = threadIdx.x % 32;
    int before = 0;  // rows of the groups before the 32 that the warp looks at
    for (int base = 0; base < params.groups; base += 32) {
      // Sizes may add up to more than the matrix has, and to more than an int holds. They are clamped to the rows left.
      uint32_t const left = params.rows - before;
      uint32_t end = base + lane < params.groups ? max(params.group_rows[base + lane], 0) : 0;
      end = min(end, left);
#pragma unroll
      for (int step = 1; step < 32; step *= 2) {
        uint32_t const more = __shfl_up_sync(~0u, end, step);
        end = lane >= step ? min(end + more, left) : end;
      }
      unsigned const later_groups = __ballot_sync(~0u, before + static_cast<int>(end) > row);
      if (later_groups != 0) {
        int const group_lane = __ffs(later_groups) - 1, last = before + __shfl_sync(~0u, end, group_lane);
        int const first = __shfl_sync(~0u, end, group_lane > 0 ? group_lane - 1 : 0),
                  begin = before + (group_lane > 0 ? first : 0);
        return {params.out + int64_t(begin) * params.columns, last - begin, begin, last};
      }
      before += __shfl_sync(~0u, end, 31);
    }
    return {params.out, 0, 0, 0};
  }

  // Loads 16 columns, as far as the matrix has them; the others are 0.
  static __device__ __forceinline__ void load(char const* from, int left, bool wide, uint32_t (&words)[4]) {
    if (wide && left >= kUnit) {
      uint4 const all = *reinterpret_cast<uint4 const*>(from);
      words[0] = all.x, words[1] = all.y, words[2] = all.z, words[3] = all.w;
      return;
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      words[j] = 0;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (j * 4 + i < left) {
          words[j] |= static_cast<uint32_t>(static_cast<uint8_t>(from[j * 4 + i])) << (8 * i);
        }
      }
    }
  }

  // Stores 16 rows, as far as the matrix has them.
  static __device__ __forceinline__ void store(char* to, int left, bool wide, uint4 const& all) {
    if (wide && left >= kUnit) {
      *reinterpret_cast<uint4*>(to) = all;
      return;
    }
    uint32_t const words[4] = {all.x, all.y, all.z, all.w};
#pragma unroll
    for (int i = 0; i < kUnit; ++i) {
      if (i < left) {
        to[i] = static_cast<char>(words[i / 4] >> (i % 4 * 8));
      }
    }
  }

  // Transposes four words, each four bytes of a row, to four words, each four rows of a column.
  static __device__ __forceinline__ void turn(uint32_t a, uint32_t b, uint32_t c, uint32_t d, uint32_t (&columns)[4]) {
    uint32_t const low_ab = __byte_perm(a, b, 0x5140), low_cd = __byte_perm(c, d, 0x5140);
    uint32_t const high_ab = __byte_perm(a, b, 0x7362), high_cd = __byte_perm(c, d, 0x7362);
    columns[0] = __byte_perm(low_ab, low_cd, 0x5410);
    columns[1] = __byte_perm(low_ab, low_cd, 0x7632);
    columns[2] = __byte_perm(high_ab, high_cd, 0x5410);
    columns[3] = __byte_perm(high_ab, high_cd, 0x7632);
  }
};

}  // namespace tilewright::transpose_fp8

#define TILEWRIGHT_TRANSPOSE_FP8_KERNEL(NAME) \
  TILEWRIGHT_KERNEL(NAME, tilewright::NAME::Transpose, tilewright::LaunchedOnce, 1, 16)

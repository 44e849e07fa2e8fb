// C, as the threads of an epilogue load it from global memory: of any type, and with any alignment of its rows.
#pragma once

#include <cstdint>

#include "tilewright/sm90/elements.hpp"
#include "tilewright/sm90/epilogue_params.hpp"
#include "tilewright/sm90/ptx.hpp"

namespace tilewright::sm90 {

// Prefetches kHigh rows by kWide columns of C to L2, starting at row `m` and column `n`. Called by a warpgroup.
template <int kHigh, int kWide>
__device__ __forceinline__ void prefetch_addends(EpilogueParams const& params, int m, int n, int matrix) {
  if (params.c == nullptr) {
    return;
  }
  int const size = params.type_c == Addend::kF32 ? 4 : 2, lines = (kWide * size + 127) / 128;
  for (int i = threadIdx.x % 128; i < kHigh * lines; i += 128) {
    int const line_m = m + i / lines, line_n = n + i % lines * 128 / size;
    if (line_m < params.m && line_n < params.n) {
      int64_t const at = matrix * params.batch_stride_c + line_m * params.ld_c + line_n;
      prefetch_line(static_cast<char const*>(params.c) + at * size);
    }
  }
}

// A thread's elements of C in a subtile (subtile.hpp), in C's own type, so that all loads are under way before the
// first element is used.
template <class Subtile>
struct Addends {
  uint32_t bits[Subtile::kCount];

  // Issues the loads of all elements of a subtile, whose first is at (`row`, `column`) of the kernel's own plane.
  __device__ __forceinline__ void load_all(EpilogueParams const& params, int row, int column, int matrix) {
    if (params.c == nullptr) {
      return;
    }
    int const lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    int const own_row = row + warp * 16 + lane / 4, own_column = column + lane % 4 * 2;
    bool const wide = params.type_c == Addend::kF32;
    char const* const first = static_cast<char const*>(params.c) + ((matrix * params.batch_stride_c) << (wide ? 2 : 1));
#pragma unroll
    for (int i = 0; i < Subtile::kCount; ++i) {
      int const m = Subtile::row_of(own_row, own_column, i / 4, i % 4);
      int const n = Subtile::column_of(own_row, own_column, i / 4, i % 4);
      char const* const from = first + ((m * params.ld_c + n) << (wide ? 2 : 1));
      bits[i] = 0;  // outside of D
      if (m < params.m && n < params.n) {
        bits[i] = wide ? *reinterpret_cast<uint32_t const*>(from) : *reinterpret_cast<uint16_t const*>(from);
      }
    }
  }

  __device__ __forceinline__ void add(EpilogueParams const& params, float (&values)[Subtile::kCount]) const {
#pragma unroll
    for (int i = 0; i < Subtile::kCount; ++i) {
      values[i] += params.beta * value_of(params.type_c, bits[i]);
    }
  }
};

// Loads C and adds it, one element after another, without registers for all of them. (row, column): the thread's first
// element.
template <class Subtile>
__device__ __forceinline__ void add_addends(EpilogueParams const& params, float (&values)[Subtile::kCount], int row,
                                            int column, int matrix) {
  int64_t const first = matrix * params.batch_stride_c;
#pragma unroll
  for (int i = 0; i < Subtile::kCount; ++i) {
    int const m = Subtile::row_of(row, column, i / 4, i % 4), n = Subtile::column_of(row, column, i / 4, i % 4);
    if (m < params.m && n < params.n) {
      values[i] += params.beta * load(params.type_c, params.c, first + m * params.ld_c + n);
    }
  }
}

}  // namespace tilewright::sm90

// C, as an epilogue's threads read it from memory: of any type, and however its rows are aligned.
#pragma once

#include <cstdint>

#include "tilewright/sm90/elements.hpp"
#include "tilewright/sm90/epilogue_params.hpp"
#include "tilewright/sm90/ptx.hpp"

namespace tilewright::sm90 {

// By a warpgroup: asks L2 for kHigh rows of kWide columns of C, from row `m` and column `n` on.
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

// A thread's elements of C in a piece (piece.hpp), as they come from memory.
template <class Piece>
struct Addends {
  uint32_t bits[Piece::kCount];

  // All loads of a piece, whose first element is in the kernel's own row and column, are on their way at once.
  __device__ __forceinline__ void fetch(EpilogueParams const& params, int row, int column, int matrix) {
    if (params.c == nullptr) {
      return;
    }
    int const lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    int const own_row = row + warp * 16 + lane / 4, own_column = column + lane % 4 * 2;
    bool const wide = params.type_c == Addend::kF32;
    char const* const first = static_cast<char const*>(params.c) + ((matrix * params.batch_stride_c) << (wide ? 2 : 1));
#pragma unroll
    for (int i = 0; i < Piece::kCount; ++i) {
      int const m = Piece::row_of(own_row, own_column, i / 4, i % 4);
      int const n = Piece::column_of(own_row, own_column, i / 4, i % 4);
      char const* const from = first + ((m * params.ld_c + n) << (wide ? 2 : 1));
      bits[i] = 0;  // where there is no D
      if (m < params.m && n < params.n) {
        bits[i] = wide ? *reinterpret_cast<uint32_t const*>(from) : *reinterpret_cast<uint16_t const*>(from);
      }
    }
  }

  __device__ __forceinline__ void add(EpilogueParams const& params, float (&values)[Piece::kCount]) const {
#pragma unroll
    for (int i = 0; i < Piece::kCount; ++i) {
      values[i] += params.beta * value_of(params.type_c, bits[i]);
    }
  }
};

// The same where it need not be on its way before it is added. (row, column): of the thread's first element.
template <class Piece>
__device__ __forceinline__ void add_addends(EpilogueParams const& params, float (&values)[Piece::kCount], int row,
                                            int column, int matrix) {
  int64_t const first = matrix * params.batch_stride_c;
#pragma unroll
  for (int i = 0; i < Piece::kCount; ++i) {
    int const m = Piece::row_of(row, column, i / 4, i % 4), n = Piece::column_of(row, column, i / 4, i % 4);
    if (m < params.m && n < params.n) {
      values[i] += params.beta * load(params.type_c, params.c, first + m * params.ld_c + n);
    }
  }
}

}  // namespace tilewright::sm90

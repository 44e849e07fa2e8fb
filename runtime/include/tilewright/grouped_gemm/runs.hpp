// Which rows of A and D a group has, and where its scale factors lie in the 128x4 layout: what `tcgen05.hpp` reads of
// the groups. It needs no CUDA, so that the host can test it.
#pragma once

#include <cstdint>

#include "tilewright/grouped_gemm/args.h"

#ifdef __CUDACC__
#define TILEWRIGHT_RUNS_FUNCTION __host__ __device__ inline
#else
#define TILEWRIGHT_RUNS_FUNCTION inline
#endif

namespace tilewright::grouped_gemm {

constexpr int kScaleRows = 128;  // rows of an atom of the 128x4 layout: the rows of a run begin with an atom
constexpr int kAtomBytes = 512;  // 128 rows of four scale factors
constexpr int kBlockOfMma = 32;  // elements of k that share a factor, by which tcgen05.mma multiplies

// Rows that one product computes, by the B of `group`. `begin` counts rows within matrix `matrix` of A and D.
struct Run {
  int32_t matrix, begin, rows, group;
};

// The rows behind a run, up to `end`, that are zeroed.
struct Padding {
  int32_t begin, end;
};

TILEWRIGHT_RUNS_FUNCTION int64_t round_up_to(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

TILEWRIGHT_RUNS_FUNCTION int32_t at_most(int64_t value, int32_t most) {
  return static_cast<int32_t>(value < 0 ? 0 : value < most ? value : most);
}

// How many runs there are: one for each group, or for each 128 rows where every row has the index of its group.
TILEWRIGHT_RUNS_FUNCTION int32_t runs_of(tilewright_grouped_gemm_args const& args) {
  bool const by_row = args.grouping == TILEWRIGHT_GROUPING_ROW_INDEX;
  return by_row ? (args.m + kScaleRows - 1) / kScaleRows : args.groups;
}

// Matrices of A: each group has one, or they share one.
TILEWRIGHT_RUNS_FUNCTION int32_t matrices_a(tilewright_grouped_gemm_args const& args) {
  bool const own = args.grouping == TILEWRIGHT_GROUPING_ROWS_VALID || args.grouping == TILEWRIGHT_GROUPING_NONE;
  return own ? args.groups : 1;
}

// Run `index` where the groups, not the rows, are listed; and its padding.
TILEWRIGHT_RUNS_FUNCTION Run run_of_group(tilewright_grouped_gemm_args const& args, int32_t index, Padding& padding) {
  bool const whole = args.zero_padding != 0;
  if (args.grouping == TILEWRIGHT_GROUPING_ENDS) {
    int64_t const before = index == 0 ? 0 : args.group_ends[index - 1];
    int32_t const begin = at_most(round_up_to(before < 0 ? 0 : before, args.row_alignment), args.m);
    int32_t const stop = at_most(args.group_ends[index], args.m), end = stop > begin ? stop : begin;
    bool const last = index + 1 == args.groups;
    int64_t const next = !whole ? round_up_to(end, kScaleRows)
                         : last ? args.m
                                : round_up_to(args.group_ends[index], args.row_alignment);
    padding = {end, at_most(next, args.m)};
    return {0, begin, end - begin, index};
  }
  int32_t const rows =
      args.grouping == TILEWRIGHT_GROUPING_ROWS_VALID ? at_most(args.rows_valid[index], args.m) : args.m;
  padding = {rows, whole ? args.m : at_most(round_up_to(rows, kScaleRows), args.m)};
  return {index, 0, rows, index};
}

// Bytes of the scale factors of `rows` rows of `k` columns in the 128x4 layout.
TILEWRIGHT_RUNS_FUNCTION int64_t scale_bytes(int64_t rows, int64_t k) {
  int64_t const columns = (k + kBlockOfMma - 1) / kBlockOfMma;
  return (rows + kScaleRows - 1) / kScaleRows * ((columns + 3) / 4) * kAtomBytes;
}

// The place of the four factors of row `row` in an atom, in bytes.
TILEWRIGHT_RUNS_FUNCTION int32_t place_in_atom(int32_t row) { return row % 32 * 16 + row % kScaleRows / 32 * 4; }

// The four factors of atom `atom` for a row whose words begin at `words`, `ld` apart. A word has four factors, each of
// `block` elements of k: one of 128 stands for four of an atom. Factors beyond `columns` are 0.
TILEWRIGHT_RUNS_FUNCTION uint32_t factors_of_atom(uint32_t const* words, int64_t ld, int atom, int columns, int block) {
  int const left = columns - atom * 4;
  uint32_t const mask = left < 4 ? (1u << left * 8) - 1 : ~0u;
  if (block == kBlockOfMma) {
    return words[atom * ld] & mask;
  }
  return (words[atom / 4 * ld] >> atom % 4 * 8 & 0xFF) * 0x01010101u & mask;
}

}  // namespace tilewright::grouped_gemm

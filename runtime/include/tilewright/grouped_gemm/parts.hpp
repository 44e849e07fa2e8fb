// Which range of k a group has, and where its scale factors lie in the 128x4 layout, where groups divide k: what
// `tcgen05_parts.hpp` reads of the groups. It needs no CUDA, so that the host can test it.
#pragma once

#include <cstdint>

#include "tilewright/grouped_gemm/args.h"
#include "tilewright/grouped_gemm/runs.hpp"

namespace tilewright::grouped_gemm {

constexpr int kPartUnit = 128;  // elements of k, of which each part is a multiple: an atom of factors, a word of them

// A group's part of k, in units.
struct Part {
  int32_t begin, units;
};

TILEWRIGHT_RUNS_FUNCTION int32_t units_of(tilewright_grouped_gemm_args const& args) { return args.k / kPartUnit; }

// The part of the group after the parts before `begin`. What exceeds k is left out.
TILEWRIGHT_RUNS_FUNCTION Part part_from(tilewright_grouped_gemm_args const& args, int32_t group, int32_t begin) {
  return {begin, at_most(args.group_k[group] / kPartUnit, units_of(args) - begin)};
}

TILEWRIGHT_RUNS_FUNCTION Part part_of(tilewright_grouped_gemm_args const& args, int32_t group) {
  Part part = part_from(args, 0, 0);
  for (int32_t next = 1; next <= group; ++next) {
    part = part_from(args, next, part.begin + part.units);
  }
  return part;
}

TILEWRIGHT_RUNS_FUNCTION int32_t row_tiles(int32_t rows) { return (rows + kScaleRows - 1) / kScaleRows; }

// Where the factors of a group's part of a matrix of `rows` rows begin, in bytes.
TILEWRIGHT_RUNS_FUNCTION int64_t factors_of_part(int32_t rows, Part part) {
  return int64_t(row_tiles(rows)) * part.begin * kAtomBytes;
}

// Where the atom of rows `tile` and unit `unit` lies, which counts the units of all groups.
TILEWRIGHT_RUNS_FUNCTION int64_t place_of_atom(int32_t rows, int32_t tile, Part part, int32_t unit) {
  return factors_of_part(rows, part) + (int64_t(tile) * part.units + unit - part.begin) * kAtomBytes;
}

}  // namespace tilewright::grouped_gemm

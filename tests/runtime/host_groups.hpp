// Which group the rows of a call of packed weights of groups belong to, as the host computes it.
#pragma once

#include <cstdint>

namespace {

// Codes of groupings (mixed_grouped_gemm/scheduler.hpp).
constexpr int kRowIndex = 0, kRowsValid = 2;

template <class Args>
int aligned(Args const& args, int row) {
  return (row + args.row_alignment - 1) / args.row_alignment * args.row_alignment;
}

// The group of a row of a matrix; -1 if it is padding.
template <class Args>
int group_of(Args const& args, int matrix, int row) {
  if (args.grouping == kRowsValid) {
    return row < args.rows_valid[matrix] ? matrix : -1;
  }
  if (args.grouping == kRowIndex) {
    int const group = args.group_of_row[row];
    return group >= 0 && group < args.groups ? group : -1;
  }
  for (int group = 0; group < args.groups; ++group) {
    int const start = group == 0 ? 0 : aligned(args, args.group_ends[group - 1]);
    if (row >= start && row < args.group_ends[group]) {
      return group;
    }
  }
  return -1;
}

// Whether a row stays as it is: one of 8 that all are padding.
template <class Args>
bool stays(Args const& args, int matrix, int row) {
  bool counts = false;
  for (int other = row / 8 * 8; other < row / 8 * 8 + 8 && other < args.m; ++other) {
    counts = counts || group_of(args, matrix, other) >= 0;
  }
  return !counts;
}

}  // namespace

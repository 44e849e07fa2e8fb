// The forms of a kernel: copies of its code, each of which serves one kind of launches.
#pragma once

namespace tilewright::grouped_gemm {

// Form::kAny is a kernel's general code. The others are called its forms.
//
// A launch on cold code waits for every line of instructions and parameters that it is the first to read. A form leaves
// out what its launches do not need: splits of k, an addend, and other groupings. In a form, each warp that loads finds
// the first tile itself, while mbarriers are initialised. benchmarks/results/scaled_start.md has the measurements.
//
// Each form has two copies: one for launches in clusters, and one for launches without, because on an H200 CTAs that
// are clusters of one begin 90 to 250 ns later than CTAs without clusters.
enum class Form {
  kAny,     // every tactic and grouping
  kDense,   // TILEWRIGHT_GROUPING_NONE
  kRows,    // TILEWRIGHT_GROUPING_ROW_INDEX
  kCounts,  // TILEWRIGHT_GROUPING_ROWS_VALID and TILEWRIGHT_GROUPING_ENDS
};

}  // namespace tilewright::grouped_gemm

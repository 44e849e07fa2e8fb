// A call of `blockscaled_grouped_gemm` as the lists of groups read it (grouped_gemm/tcgen05_groups.hpp), and where the
// scale factors of a run begin. It needs no CUDA, so that the host can test it.
#pragma once

#include <cstdint>

#include "tilewright/blockscaled_grouped_gemm/args.h"
#include "tilewright/grouped_gemm/args.h"
#include "tilewright/grouped_gemm/runs.hpp"

namespace tilewright::blockscaled_grouped_gemm {

using grouped_gemm::kAtomBytes;
using grouped_gemm::kScaleRows;
using Call = tilewright_blockscaled_grouped_gemm_args;

// What the lists of groups do not know of a call: addresses of the caller's.
struct Caller {
  uint8_t const* scale_a;
  uint8_t const* scale_b;
  float const* alpha;           // or null
  int32_t const* scale_begins;  // or null
};

inline Caller caller(Call const& args) {
  return {static_cast<uint8_t const*>(args.scale_a), static_cast<uint8_t const*>(args.scale_b), args.alpha,
          args.scale_begins};
}

// Groups that begin at multiples of fewer than 128 rows follow each other closely: rows behind a group's last up to the
// next multiple of 128 are the next group's, so that all padding, and nothing else, is zeroed.
inline tilewright_grouped_gemm_args as_groups(Call const& args) {
  tilewright_grouped_gemm_args out{};
  out.m = args.m, out.n = args.n, out.k = args.k, out.groups = args.groups;
  out.a = args.a, out.b = args.b, out.d = args.d;
  out.group_of_row = args.group_of_row, out.group_ends = args.group_ends, out.rows_valid = args.rows_valid;
  out.ld_a = args.ld_a, out.ld_b = args.ld_b, out.ld_d = args.ld_d;
  out.batch_stride_a = args.batch_stride_a, out.batch_stride_b = args.batch_stride_b;
  out.batch_stride_d = args.batch_stride_d;
  static_assert(TILEWRIGHT_BLOCKSCALED_GROUPING_ROW_INDEX + 1 == int(TILEWRIGHT_GROUPING_ROW_INDEX) &&
                    TILEWRIGHT_BLOCKSCALED_GROUPING_ENDS + 1 == int(TILEWRIGHT_GROUPING_ENDS) &&
                    TILEWRIGHT_BLOCKSCALED_GROUPING_ROWS_VALID + 1 == int(TILEWRIGHT_GROUPING_ROWS_VALID),
                "grouped_gemm has a batch before these");
  out.grouping = args.grouping + 1;
  out.row_alignment = args.row_alignment;
  bool const close = args.grouping == TILEWRIGHT_BLOCKSCALED_GROUPING_ENDS && args.row_alignment % kScaleRows != 0;
  out.zero_padding = args.zero_padding != 0 || close;
  out.tactic = args.tactic;
  return out;
}

// The call as `can_implement` of groups checks it, which expects whole atoms of scale factors at each group's rows.
inline tilewright_grouped_gemm_args checked(Call const& args) {
  tilewright_grouped_gemm_args out = as_groups(args);
  if (args.scale_begins != nullptr) {
    out.row_alignment = kScaleRows;
  }
  return out;
}

// Only groups that are listed by their ends have scale factors that begin elsewhere.
inline bool possible(Call const& args) {
  bool const ends = args.grouping == TILEWRIGHT_BLOCKSCALED_GROUPING_ENDS;
  return args.grouping >= 0 && args.grouping <= TILEWRIGHT_BLOCKSCALED_GROUPING_ROWS_VALID && args.row_alignment > 0 &&
         (ends || args.scale_begins == nullptr);
}

// Bytes of the scale factors of `rows` rows of `k` columns in the 128x4 layout. `block` columns share a factor.
TILEWRIGHT_RUNS_FUNCTION int64_t scale_bytes(int64_t rows, int64_t k, int block) {
  int64_t const columns = (k + block - 1) / block;
  return (rows + kScaleRows - 1) / kScaleRows * ((columns + 3) / 4) * kAtomBytes;
}

// Where the scale factors of a run's rows of A begin, in bytes.
TILEWRIGHT_RUNS_FUNCTION int64_t offset_of_a(tilewright_grouped_gemm_args const& args, Caller const& caller,
                                             grouped_gemm::Run run, int block) {
  int64_t const begin = caller.scale_begins == nullptr ? run.begin : caller.scale_begins[run.group];
  return run.matrix * scale_bytes(args.m, args.k, block) + scale_bytes(begin, args.k, block);
}

}  // namespace tilewright::blockscaled_grouped_gemm

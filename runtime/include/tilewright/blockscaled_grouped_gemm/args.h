// Written by `python -m tilewright.declarations.headers` from the family's declaration. DO NOT EDIT.
//
// Arguments of a `blockscaled_grouped_gemm` kernel, in the caller's terms:
//
//   D[m,n] = alpha[g] * sum over k of (A[m,k] * SFA[m,k/block]) (B[g,n,k] * SFB[g,n,k/block])
//
// g is the group of row m. Scale factors lie in the 128x4 layout (blockscaled_gemm/args.h): those of A as one
// matrix, or one for each group where each has rows of its own; those of B one matrix for each group. The rows
// of a group begin with an atom of 128 rows of scale factors: where the group begins, which is then a multiple
// of 128, or at its entry of `scale_begins`.
//
// A kernel compiled with swapped operands swaps them itself; nothing here changes for it.
#ifndef TILEWRIGHT_BLOCKSCALED_GROUPED_GEMM_ARGS_H_
#define TILEWRIGHT_BLOCKSCALED_GROUPED_GEMM_ARGS_H_

#include <stdint.h>

#include "tilewright/tactic.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tilewright_blockscaled_grouping {
  TILEWRIGHT_BLOCKSCALED_GROUPING_ROW_INDEX = 0,   // group_of_row
  TILEWRIGHT_BLOCKSCALED_GROUPING_ENDS = 1,        // group_ends
  TILEWRIGHT_BLOCKSCALED_GROUPING_ROWS_VALID = 2,  // rows_valid of the m rows that each group has in A and in D
} tilewright_blockscaled_grouping;

typedef struct tilewright_blockscaled_grouped_gemm_args {
  int32_t m, n, k, groups;

  // [m, k], k contiguous; a batch of such where each group has its own. FP4 lies two to a byte, the even index in the
  // low nibble
  const void* a;
  // [groups, n, k], likewise
  const void* b;
  // of A
  const void* scale_a;
  // of B
  const void* scale_b;
  // [m, n], n contiguous; a batch as A's
  void* d;
  // [groups]: a factor of each group's product; or null for 1
  const float* alpha;
  // [m]: -1 is padding; or null
  const int32_t* group_of_row;
  // [groups]: the row behind each group's last; or null
  const int32_t* group_ends;
  // [groups]: rows of each that count; or null
  const int32_t* rows_valid;
  // [groups]: the row of scale_a with which each group's begin, a multiple of 128; or null: the group's first row
  const int32_t* scale_begins;

  // Elements (not bytes, for FP4 too) between rows, and between matrices of a batch.
  int64_t ld_a, ld_b, ld_d;
  int64_t batch_stride_a, batch_stride_b, batch_stride_d;

  // tilewright_blockscaled_grouping
  int32_t grouping;
  // of group_ends: groups begin at multiples of it
  int32_t row_alignment;
  // tiles that hold padding alone are zeroed, too, else they stay as they are
  int32_t zero_padding;

  tilewright_tactic tactic;
} tilewright_blockscaled_grouped_gemm_args;

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // TILEWRIGHT_BLOCKSCALED_GROUPED_GEMM_ARGS_H_

// Written by `python -m tilewright.declarations.headers` from the family's declaration. DO NOT EDIT.
//
// Arguments of a `grouped_gemm` kernel, in the caller's terms:
//
//   D[m,n] = sum over k of A[m,k] SA[m,k/128] B[g,k,n] SB[g,k/128,n or n/128] + C[m,n]
//
// Scale factors are F32; or of both operands UE8M0, for 32 or 128 of k, in words of four, the first block of k
// in the lowest byte.
//
// g is the group of row m, or of a part of k: then A and B hold [m, k] and [n, k] of each group's part, one
// behind the other, and each group has a D. Operands of 16 bits have no scales. FP4 has factors for 32 of k; it
// lies two to a byte, the even index in the low nibble. Who says which rows are of which group is `grouping`. A
// kernel compiled with swapped operands swaps them itself; nothing here changes for it.
#ifndef TILEWRIGHT_GROUPED_GEMM_ARGS_H_
#define TILEWRIGHT_GROUPED_GEMM_ARGS_H_

#include <stdint.h>

#include "tilewright/tactic.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tilewright_grouping {
  TILEWRIGHT_GROUPING_NONE = 0,        // a batch: matrices of m rows each, `groups` of them
  TILEWRIGHT_GROUPING_ROW_INDEX = 1,   // group_of_row
  TILEWRIGHT_GROUPING_ENDS = 2,        // group_ends
  TILEWRIGHT_GROUPING_ROWS_VALID = 3,  // rows_valid of the m rows that each group has in A and in D
  TILEWRIGHT_GROUPING_K_SIZES = 4,     // group_k: each group has a part of k, and a D
} tilewright_grouping;

typedef struct tilewright_grouped_gemm_args {
  int32_t m, n, k, groups;

  // [m, k], k (or m, as the kernel's layout says) contiguous; a batch of such where each group has its own
  const void* a;
  // [groups, k, n], likewise k or n
  const void* b;
  // [m, k/128], m contiguous; or words [m, k/32/4 or k/128/4], likewise; null of 16-bit operands
  const float* scale_a;
  // [groups, k/128, n/128], either contiguous, or [groups, k/128, n], n contiguous; or words [groups, k/32/4 or
  // k/128/4, n], n contiguous
  const float* scale_b;
  // [m, n], n contiguous; or null; may be d
  const void* c;
  // [m, n], n contiguous; columns of n and those that are skipped
  void* d;
  // [m]: -1 is padding; or null
  const int32_t* group_of_row;
  // [groups]: the row behind each group's last; or null
  const int32_t* group_ends;
  // [groups]: rows of each that count; or null
  const int32_t* rows_valid;
  // [groups]: k of each, multiples of a stage's (64 of 16 bits, 128 of 8); or null
  const int32_t* group_k;

  // Elements between neighbours along the dimension that is not contiguous.
  int64_t ld_a, ld_b, ld_scale_a, ld_scale_b, ld_c, ld_d;
  int64_t batch_stride_a, batch_stride_b, batch_stride_scale_a, batch_stride_scale_b, batch_stride_c, batch_stride_d;

  // tilewright_grouping
  int32_t grouping;
  // of group_ends: groups begin at multiples of it
  int32_t row_alignment;
  // tiles that hold padding alone are zeroed, too, else they stay as they are
  int32_t zero_padding;
  // k is the contiguous dimension of 128x128 scales of B
  int32_t scales_k_major;
  // columns of a head of D, before those that are skipped; 0: none are
  int32_t head_left;
  // columns of D that are skipped in each head
  int32_t head_gap;
  // columns of a head behind them
  int32_t head_right;

  tilewright_tactic tactic;
} tilewright_grouped_gemm_args;

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // TILEWRIGHT_GROUPED_GEMM_ARGS_H_

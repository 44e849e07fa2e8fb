// Written by `python -m tilewright.declarations.headers` from the family's declaration. DO NOT EDIT.
//
// Arguments of a `mixed_grouped_gemm` kernel, in the caller's terms:
//
//   D[m,n] = alpha * F[g] * sum over k of A[m,k] W[g,n,k] + bias[g,n]
//
// g is the group of row m. With the activation silu_mul, D [m,n/2] is silu(gate) * up, the halves of that sum.
// W is packed (docs/packed_weights.md): a row of `weight` and of `scale` holds 64 rows of W, and a group's rows
// follow those of the group before.
#ifndef TILEWRIGHT_MIXED_GROUPED_GEMM_ARGS_H_
#define TILEWRIGHT_MIXED_GROUPED_GEMM_ARGS_H_

#include <stdint.h>

#include "tilewright/tactic.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tilewright_mixed_grouping {
  TILEWRIGHT_MIXED_GROUPING_ROW_INDEX = 0,   // group_of_row
  TILEWRIGHT_MIXED_GROUPING_ENDS = 1,        // group_ends
  TILEWRIGHT_MIXED_GROUPING_ROWS_VALID = 2,  // rows_valid of the m rows that each group has in A and in D
} tilewright_mixed_grouping;

// What is applied last.
typedef enum tilewright_mixed_grouped_activation {
  TILEWRIGHT_MIXED_GROUPED_ACTIVATION_NONE = 0,
  TILEWRIGHT_MIXED_GROUPED_ACTIVATION_SILU_MUL = 1,
} tilewright_mixed_grouped_activation;

typedef struct tilewright_mixed_grouped_gemm_args {
  int32_t m, n, k, groups;

  // [m, k], k contiguous; a batch of such where each group has its own
  const void* a;
  // packed elements: [groups, n / 64, k / 128 * 4096 (8 bits: 8192)] bytes, rounded up
  const void* weight;
  // packed scales, and zero points
  const void* scale;
  // [m, n], n contiguous; a batch as A's
  void* d;
  // [groups, n] of D's type, or null
  const void* bias;
  // [groups]: a factor of each group's product, or null
  const float* group_factors;
  // [m]: -1 is padding; or null
  const int32_t* group_of_row;
  // [groups]: the row behind each group's last; or null
  const int32_t* group_ends;
  // [groups]: rows of each that count; or null
  const int32_t* rows_valid;

  // Elements between neighbours along the dimension that is not contiguous.
  int64_t ld_a, ld_d;
  int64_t batch_stride_a, batch_stride_d;

  // of the product
  float alpha;
  // tilewright_mixed_grouping
  int32_t grouping;
  // of group_ends: groups begin at multiples of it
  int32_t row_alignment;
  // tilewright_mixed_grouped_activation
  int32_t activation;

  tilewright_tactic tactic;
} tilewright_mixed_grouped_gemm_args;

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // TILEWRIGHT_MIXED_GROUPED_GEMM_ARGS_H_

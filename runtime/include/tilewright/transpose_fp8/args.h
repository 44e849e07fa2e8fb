// Written by `python -m tilewright.declarations.headers` from the family's declaration. DO NOT EDIT.
//
// Arguments of a `transpose_fp8` kernel, in the caller's terms: out[column, row] = x[row, column], for bytes.
// With groups, the rows of each group become a matrix [columns, rows of the group]. The matrices follow one
// another without gaps.
#ifndef TILEWRIGHT_TRANSPOSE_FP8_ARGS_H_
#define TILEWRIGHT_TRANSPOSE_FP8_ARGS_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Nothing is chosen: a thread block computes 128 rows and 128 columns.
typedef struct tilewright_transpose_fp8_tactic {
  int32_t sm_count;
} tilewright_transpose_fp8_tactic;

typedef struct tilewright_transpose_fp8_args {
  int32_t rows, columns, batch;

  // [rows, columns], columns contiguous
  const void* x;
  // the number of rows of each group, or null
  const int32_t* group_rows;
  // [columns, rows], rows contiguous
  void* out;

  // Elements between neighbours along the dimension that is not contiguous.
  int64_t ld_x, ld_out;
  int64_t batch_stride_x, batch_stride_out;

  // of rows; 0: none
  int32_t groups;

  tilewright_transpose_fp8_tactic tactic;
} tilewright_transpose_fp8_args;

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // TILEWRIGHT_TRANSPOSE_FP8_ARGS_H_

// Written by `python -m tilewright.declarations.headers` from the family's declaration. DO NOT EDIT.
//
// Arguments of a `scale_columns` kernel, in the caller's terms:
//
//   out[line, m] = scales[m, line]
//   out[line, m] = exponents of scales[m, 4*line], ..., scales[m, 4*line+3], the first one lowest (packed)
//
// for all rows below m; rows from m to the next multiple of 4 are 0. The exponent of a float is the UE8M0 byte
// of a power of two; the mantissa of other floats is lost.
//
// A kernel that writes the 128x4 layout makes bytes for a matrix of `lines` rows, one for 32 of k:
//
//   out[r, b] = the UE8M0 byte of scales[r, b * 32 / block], at the byte that this layout has for r and b
//
// where `scales` holds floats, or words of four exponents (packed), and a row of it is one of the matrix, or 128
// of them if m is ceil(lines / 128). `ld_out` is the columns of bytes with their padding. A float that is no
// power of two becomes NaN, 0 the byte 0. Padding is 0, but that a scale of the last 128 of k has four bytes.
#ifndef TILEWRIGHT_SCALE_COLUMNS_ARGS_H_
#define TILEWRIGHT_SCALE_COLUMNS_ARGS_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// What `groups` holds.
typedef enum tilewright_scale_groups {
  TILEWRIGHT_SCALE_GROUPS_NONE = 0,
  TILEWRIGHT_SCALE_GROUPS_ROW_ENDS = 1,  // the row after each group's last; rows between groups become 0
  TILEWRIGHT_SCALE_GROUPS_K_SIZES = 2,   // elements of k of each group; each group starts a new word
  TILEWRIGHT_SCALE_GROUPS_K_ENDS = 3,    // the element of k after each group's last
} tilewright_scale_groups;

// Nothing is chosen: a thread block computes 64 rows and 32 columns.
typedef struct tilewright_scale_columns_tactic {
  int32_t sm_count;
} tilewright_scale_columns_tactic;

typedef struct tilewright_scale_columns_args {
  int32_t m, columns, batch;

  // [m, columns], one of them contiguous
  const float* scales;
  // one for each group, or null
  const int32_t* groups;
  // [lines, m rounded up to 4]; floats, or words
  void* out;

  // Elements between neighbours along the dimension that is not contiguous.
  int64_t ld_scales, ld_out;
  int64_t batch_stride_scales, batch_stride_out;

  // of out
  int32_t lines;
  // whether a line holds four columns; for 128x4, whether an element of scales does
  int32_t packed;
  // whether columns of scales are contiguous
  int32_t row_major;
  // tilewright_scale_groups
  int32_t grouping;
  // of groups
  int32_t group_count;
  // groups begin at multiples of it
  int32_t alignment;
  // elements of k of a scale
  int32_t block;

  tilewright_scale_columns_tactic tactic;
} tilewright_scale_columns_args;

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // TILEWRIGHT_SCALE_COLUMNS_ARGS_H_

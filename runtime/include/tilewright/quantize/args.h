// Written by `python -m tilewright.declarations.headers` from the family's declaration. DO NOT EDIT.
//
// Arguments of a `quantize` kernel, in the caller's terms: x[group, m, k] becomes data and scale factors, one
// for each block of a row (or, for FP8 in blocks of 128x128, of a square). A kernel that dequantises reads data
// and scales, and writes x.
#ifndef TILEWRIGHT_QUANTIZE_ARGS_H_
#define TILEWRIGHT_QUANTIZE_ARGS_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Where the scale of row r and column c (of `columns` = ceil(k/block)) lies in its group's scales.
typedef enum tilewright_scale_layout {
  // Bytes. KT = ceil(columns/4); rows are padded to 128 or 8, columns to 4, with zeros.
  TILEWRIGHT_SCALES_128X4 = 0,   // ((r/128)*KT + c/4)*512 + (r%32)*16 + ((r%128)/32)*4 + c%4
  TILEWRIGHT_SCALES_8X4 = 1,     // ((r/8)*KT + c/4)*32 + (r%8)*4 + c%4
  TILEWRIGHT_SCALES_LINEAR = 2,  // r*columns + c

  // FP8 in blocks of 128 columns. `ld_scales` is a multiple of 4; rows from m to the next such multiple are
  // written with zeros.
  TILEWRIGHT_SCALES_ROW_MAJOR = 3,  // floats: r*columns + c; with blocks of 128x128, (r/128)*columns + c
  TILEWRIGHT_SCALES_M_MAJOR = 4,    // floats: c*ld_scales + r
  TILEWRIGHT_SCALES_PACKED = 5,     // bytes of UE8M0: ((c/4)*ld_scales + r)*4 + c%4; columns padded to 4
} tilewright_scale_layout;

// What tuning chooses: multiprocessors to use (at most the device's), and thread blocks on each; 0 for as many as there
// is work.
typedef struct tilewright_quantize_tactic {
  int32_t sm_count, blocks;
} tilewright_quantize_tactic;

typedef struct tilewright_quantize_args {
  int32_t m, k, groups;

  // [group, m, k], or [group, m, 2k] if two halves are multiplied; k contiguous
  void* x;
  // [k], of x's type: the weights of RMSNorm, else null
  const void* weight;
  // NVFP4: one device float, or one for each row of every group; null is 1
  const float* global_scale;
  // one for each group: the number of rows that are read and written; null for all rows
  const int32_t* rows_valid;
  // [group, m, k]; FP4 lies two to a byte, the even index in the low nibble
  void* data;
  // the scales of groups follow one another
  void* scales;

  // Elements (not bytes, for FP4 too) between rows, and between groups; of scales in the layouts M_MAJOR and PACKED,
  // scales or words between columns.
  int64_t ld_x, ld_data, ld_scales;
  int64_t batch_stride_x, batch_stride_data;

  // of RMSNorm
  float epsilon;
  // the width of x over k; 0 for the width that the kernel expects
  int32_t x_parts;
  // tilewright_scale_layout
  int32_t layout;
  // whether there is a global scale for each row
  int32_t scale_per_row;

  tilewright_quantize_tactic tactic;
} tilewright_quantize_args;

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // TILEWRIGHT_QUANTIZE_ARGS_H_

// Written by `python -m tilewright.declarations.headers` from the family's declaration. DO NOT EDIT.
//
// Arguments of an `hc_prenorm` kernel, in the caller's terms:
//
//   D[s,m,n] = sum over the k of split s of A[m,k] B[n,k]; squares[s,m] = the same sum of A[m,k]^2
//
// Splits of k have whole blocks of 64. If the blocks do not divide evenly, the first splits have one more.
#ifndef TILEWRIGHT_HC_PRENORM_ARGS_H_
#define TILEWRIGHT_HC_PRENORM_ARGS_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Multiprocessors to use; at most the device's.
typedef struct tilewright_hc_prenorm_tactic {
  int32_t sm_count;
} tilewright_hc_prenorm_tactic;

typedef struct tilewright_hc_prenorm_args {
  int32_t m, n, k, splits;

  // [m, k], k contiguous
  const void* a;
  // [n, k], k contiguous; rounded to TF32
  const float* b;
  // [splits, m, n], n contiguous
  float* d;
  // [splits, m]
  float* squares;

  // Elements between neighbours along the dimension that is not contiguous.
  int64_t ld_a, ld_b, ld_d;
  int64_t batch_stride_a, batch_stride_b, batch_stride_d;

  // added to the mean square
  float epsilon;
  // whether D, of one split, is divided by the root of its row's mean square
  int32_t normalizes;

  tilewright_hc_prenorm_tactic tactic;
} tilewright_hc_prenorm_args;

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // TILEWRIGHT_HC_PRENORM_ARGS_H_

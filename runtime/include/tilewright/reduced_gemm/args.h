// Written by `python -m tilewright.declarations.headers` from the family's declaration. DO NOT EDIT.
//
// Arguments of a `reduced_gemm` kernel, in the caller's terms:
//
//   D[m,n] = alpha * sum over the batch of A[m,k] B[k,n] + beta * C[m,n]
#ifndef TILEWRIGHT_REDUCED_GEMM_ARGS_H_
#define TILEWRIGHT_REDUCED_GEMM_ARGS_H_

#include <stdint.h>

#include "tilewright/tactic.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tilewright_reduced_gemm_args {
  int32_t m, n, k, batch;

  // [m, k], k contiguous
  const void* a;
  // [k, n], k contiguous
  const void* b;
  // [m, n], n contiguous; null where beta is 0; may be d
  const void* c;
  // [m, n], n contiguous
  void* d;

  // Elements between neighbours along the dimension that is not contiguous.
  int64_t ld_a, ld_b, ld_c, ld_d;
  int64_t batch_stride_a, batch_stride_b, batch_stride_c, batch_stride_d;

  // of the sum
  float alpha;
  // of C
  float beta;
  // whether D and C are of F32, not of the operands' type
  int32_t f32;

  tilewright_tactic tactic;
} tilewright_reduced_gemm_args;

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // TILEWRIGHT_REDUCED_GEMM_ARGS_H_

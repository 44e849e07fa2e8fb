// Arguments of a `gemm` kernel, in the caller's terms:
//
//   D[m,n] = activation(alpha * scale_a * scale_b * A[m,k] B[k,n] + beta * C[m,n] + bias[n])
//
// A kernel compiled with swapped operands swaps them itself; nothing here changes for it.
#ifndef TILEWRIGHT_GEMM_ARGS_H_
#define TILEWRIGHT_GEMM_ARGS_H_

#include <stdint.h>

#include "tilewright/tactic.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tilewright_gemm_args {
  int32_t m, n, k, batch;

  const void* a;
  const void* b;
  const void* c;         // may be null where beta is 0
  void* d;               // may be c
  const void* bias;      // n elements of D's type, or null
  const float* scale_a;  // one device float, or null for 1
  const float* scale_b;  // one device float, or null for 1

  // Elements between neighbours along the dimension that is not contiguous.
  int64_t ld_a, ld_b, ld_c, ld_d;
  // Elements between matrices of a batch.
  int64_t batch_stride_a, batch_stride_b, batch_stride_c, batch_stride_d;

  float alpha, beta;

  tilewright_tactic tactic;
} tilewright_gemm_args;

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // TILEWRIGHT_GEMM_ARGS_H_

// Written by `python -m tilewright.declarations.headers` from the family's declaration. DO NOT EDIT.
//
// Arguments of a `mixed_gemm` kernel, in the caller's terms:
//
//   D[m,n] = activation(alpha * sum over k of A[m,k] W[n,k] + bias[n])
//
// W is packed (docs/packed_weights.md): a row of `weight` and of `scale` holds 64 rows of W.
#ifndef TILEWRIGHT_MIXED_GEMM_ARGS_H_
#define TILEWRIGHT_MIXED_GEMM_ARGS_H_

#include <stdint.h>

#include "tilewright/tactic.h"

#ifdef __cplusplus
extern "C" {
#endif

// What is applied last.
typedef enum tilewright_mixed_activation {
  TILEWRIGHT_MIXED_ACTIVATION_NONE = 0,
  TILEWRIGHT_MIXED_ACTIVATION_RELU = 1,
  TILEWRIGHT_MIXED_ACTIVATION_GELU = 2,
  TILEWRIGHT_MIXED_ACTIVATION_SILU = 3,
} tilewright_mixed_activation;

typedef struct tilewright_mixed_gemm_args {
  int32_t m, n, k;

  // [m, k], k contiguous
  const void* a;
  // packed elements: [n / 64, k / 128 * 4096 (8 bits: 8192)] bytes, rounded up
  const void* weight;
  // packed scales, and zero points
  const void* scale;
  // [m, n], n contiguous
  void* d;
  // [n] of D's type, or null
  const void* bias;

  // Elements between neighbours along the dimension that is not contiguous.
  int64_t ld_a, ld_d;
  int64_t batch_stride_a, batch_stride_d;

  // of the product
  float alpha;
  // tilewright_mixed_activation
  int32_t activation;

  tilewright_tactic tactic;
} tilewright_mixed_gemm_args;

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // TILEWRIGHT_MIXED_GEMM_ARGS_H_

// Written by `python -m tilewright.declarations.headers` from the family's declaration. DO NOT EDIT.
//
// Arguments of a `mixed_fp8_gemm` kernel, in the caller's terms:
//
//   D[m,n] = activation(alpha * F[m] * sum over k of A[m,k] W[n,k] + bias[n])
//
// W is packed (docs/packed_weights.md): a row of `weight` and of `scale` holds 64 rows of W.
#ifndef TILEWRIGHT_MIXED_FP8_GEMM_ARGS_H_
#define TILEWRIGHT_MIXED_FP8_GEMM_ARGS_H_

#include <stdint.h>

#include "tilewright/tactic.h"

#ifdef __cplusplus
extern "C" {
#endif

// What is applied last.
typedef enum tilewright_mixed_fp8_activation {
  TILEWRIGHT_MIXED_FP8_ACTIVATION_NONE = 0,
  TILEWRIGHT_MIXED_FP8_ACTIVATION_RELU = 1,
  TILEWRIGHT_MIXED_FP8_ACTIVATION_GELU = 2,
  TILEWRIGHT_MIXED_FP8_ACTIVATION_SILU = 3,
} tilewright_mixed_fp8_activation;

typedef struct tilewright_mixed_fp8_gemm_args {
  int32_t m, n, k;

  // [m, k], k contiguous
  const void* a;
  // packed elements: [n / 64, k / 128 * 4096] bytes, n and k rounded up
  const void* weight;
  // packed scales, and zero points
  const void* scale;
  // [m, n], n contiguous
  void* d;
  // [m], F: factors of A's rows; or null
  const float* a_scale;
  // [n] of D's type, or null
  const void* bias;

  // Elements between neighbours along the dimension that is not contiguous.
  int64_t ld_a, ld_d;
  int64_t batch_stride_a, batch_stride_d;

  // of the product
  float alpha;
  // of MXFP4, a power of two: with fast_accum, scales are relative to it
  float largest_scale;
  // tilewright_mixed_fp8_activation
  int32_t activation;

  tilewright_tactic tactic;
} tilewright_mixed_fp8_gemm_args;

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // TILEWRIGHT_MIXED_FP8_GEMM_ARGS_H_

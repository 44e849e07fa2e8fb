// Written by `python -m tilewright.declarations.headers` from the family's declaration. DO NOT EDIT.
//
// Arguments of a `gemm` kernel, in the caller's terms:
//
//   D[m,n] = scale_result * activation(alpha * scale_a * scale_b * A[m,k] B[k,n] + beta * C[m,n] + bias[n])
//
// A kernel compiled with swapped operands swaps them itself; nothing here changes for it.
#ifndef TILEWRIGHT_GEMM_ARGS_H_
#define TILEWRIGHT_GEMM_ARGS_H_

#include <stdint.h>

#include "tilewright/tactic.h"

#ifdef __cplusplus
extern "C" {
#endif

// Types of C and the bias.
typedef enum tilewright_addend {
  TILEWRIGHT_ADDEND_F32 = 0,
  TILEWRIGHT_ADDEND_F16 = 1,
  TILEWRIGHT_ADDEND_BF16 = 2,
  TILEWRIGHT_ADDEND_S32 = 3,  // CUTLASS's kernels only, where all are D's type
} tilewright_addend;

// For kernels compiled with the activation `given`. Other kernels ignore it.
typedef enum tilewright_activation {
  TILEWRIGHT_ACTIVATION_NONE = 0,
  TILEWRIGHT_ACTIVATION_RELU = 1,
  TILEWRIGHT_ACTIVATION_GELU = 2,
  TILEWRIGHT_ACTIVATION_SILU = 3,
} tilewright_activation;

typedef struct tilewright_gemm_args {
  int32_t m, n, k, batch;

  // [m, k], k or m contiguous as the kernel's layout says
  const void* a;
  // [k, n], likewise
  const void* b;
  // [m, n], n contiguous; null where beta is 0; may be d
  const void* c;
  // [m, n], n contiguous
  void* d;
  // n elements, or null
  const void* bias;
  // one device float, or null for 1
  const float* scale_a;
  // one device float, or null for 1
  const float* scale_b;
  // one device float, or null for 1; for a D of FP8
  const float* scale_result;
  // for a D of FP8: one device float, raised to the largest magnitude before scale_result; or null
  float* amax;

  // Elements between neighbours along the dimension that is not contiguous.
  int64_t ld_a, ld_b, ld_c, ld_d;
  int64_t batch_stride_a, batch_stride_b, batch_stride_c, batch_stride_d;

  // of the product
  float alpha;
  // of C
  float beta;
  // tilewright_addend
  int32_t type_c;
  // tilewright_addend
  int32_t type_bias;
  // tilewright_activation
  int32_t activation;

  tilewright_tactic tactic;
} tilewright_gemm_args;

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // TILEWRIGHT_GEMM_ARGS_H_

// Written by `python -m tilewright.declarations.headers` from the family's declaration. DO NOT EDIT.
//
// Arguments of a `blockscaled_gemm` kernel that adds a bias and applies an activation:
//
//   D[m,n] = activation(alpha * sum over k of (A[m,k] * SFA[m,k/block]) (B[n,k] * SFB[n,k/block])
//                       + beta * C[m,n] + bias[n])
#ifndef TILEWRIGHT_BLOCKSCALED_GEMM_APPENDED_ARGS_H_
#define TILEWRIGHT_BLOCKSCALED_GEMM_APPENDED_ARGS_H_

#include "tilewright/blockscaled_gemm/args.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tilewright_blockscaled_gemm_appended_args {
  tilewright_blockscaled_gemm_args base;

  // n elements of D's type, or null
  const void* bias;
  // tilewright_activation (gemm/args.h)
  int32_t activation;
} tilewright_blockscaled_gemm_appended_args;

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // TILEWRIGHT_BLOCKSCALED_GEMM_APPENDED_ARGS_H_

// Written by `python -m tilewright.declarations.headers` from the family's declaration. DO NOT EDIT.
//
// Arguments of a `blockscaled_gemm` kernel, in the caller's terms:
//
//   D[m,n] = alpha * sum over k of (A[m,k] * SFA[m,k/block]) (B[n,k] * SFB[n,k/block]) + beta * C[m,n]
//
// Scale factors lie in the 128x4 layout: that of row r and column c of a matrix with k columns of data is at
//
//   ((r/128) * KT + c/4) * 512 + (r%32) * 16 + ((r%128)/32) * 4 + c%4,   KT = ceil(ceil(k/block) / 4)
//
// so rows are padded to 128 and columns to 4, with zeros.
//
// A kernel compiled with swapped operands swaps them itself; nothing here changes for it.
#ifndef TILEWRIGHT_BLOCKSCALED_GEMM_ARGS_H_
#define TILEWRIGHT_BLOCKSCALED_GEMM_ARGS_H_

#include <stdint.h>

#include "tilewright/tactic.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tilewright_blockscaled_gemm_args {
  int32_t m, n, k, batch;

  // [m, k], k contiguous; FP4 lies two to a byte, the even index in the low nibble
  const void* a;
  // [n, k], likewise
  const void* b;
  // of A
  const void* scale_a;
  // of B
  const void* scale_b;
  // [m, n]; null where beta is 0; may be d
  const void* c;
  // [m, n]
  void* d;
  // the scale factors of a D that the epilogue quantises, else null
  void* scale_d;
  // one device float, or null for 1
  const float* alpha;
  // one device float: the global scale of a NVFP4 D, else null
  const float* scale_d_global;

  // Elements (not bytes, for FP4 too) between rows, and between matrices of a batch. The scale factors of a batch
  // follow each other.
  int64_t ld_a, ld_b, ld_c, ld_d;
  int64_t batch_stride_a, batch_stride_b, batch_stride_c, batch_stride_d;

  // of C
  float beta;

  tilewright_tactic tactic;
} tilewright_blockscaled_gemm_args;

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // TILEWRIGHT_BLOCKSCALED_GEMM_ARGS_H_

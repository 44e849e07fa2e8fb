// Arguments of a `gemm` kernel, in the caller's terms:
//
//   D[m,n] = activation(alpha * scale_a * scale_b * A[m,k] B[k,n] + beta * C[m,n] + bias[n])
//
// A kernel compiled with swapped operands swaps them itself; nothing here changes for it.
#ifndef TILEWRIGHT_GEMM_ARGS_H_
#define TILEWRIGHT_GEMM_ARGS_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tilewright_raster {
  TILEWRIGHT_RASTER_HEURISTIC = 0,
  TILEWRIGHT_RASTER_ALONG_M = 1,
  TILEWRIGHT_RASTER_ALONG_N = 2,
} tilewright_raster;

// How a stream-K kernel cuts the work; other kernels ignore it.
typedef enum tilewright_decomposition {
  TILEWRIGHT_DECOMPOSE_HEURISTIC = 0,  // `splits` > 1 means split-K
  TILEWRIGHT_DECOMPOSE_DATA_PARALLEL = 1,
  TILEWRIGHT_DECOMPOSE_SPLIT_K = 2,
  TILEWRIGHT_DECOMPOSE_STREAM_K = 3,
} tilewright_decomposition;

typedef enum tilewright_reduction {
  TILEWRIGHT_REDUCE_DETERMINISTIC = 0,
  TILEWRIGHT_REDUCE_NONDETERMINISTIC = 1,  // partial sums are added in the order they arrive
} tilewright_reduction;

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

  // The tactic: what a kernel takes at run time and tuning chooses.
  int32_t raster;         // tilewright_raster, in the caller's m and n
  int32_t swizzle;        // tiles to a side of the rasterised block: 1, 2, 4 or 8
  int32_t decomposition;  // tilewright_decomposition
  int32_t splits;         // parts that K is cut into; 1 lets stream-K decide
  int32_t reduction;      // tilewright_reduction

  int32_t sm_count;  // multiprocessors to use; at most the device's
} tilewright_gemm_args;

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // TILEWRIGHT_GEMM_ARGS_H_

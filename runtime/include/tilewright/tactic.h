// The run-time parameters of a kernel, which tuning chooses; the others are compile-time parameters. A kernel ignores
// fields that it does not need.
#ifndef TILEWRIGHT_TACTIC_H_
#define TILEWRIGHT_TACTIC_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tilewright_raster {
  TILEWRIGHT_RASTER_HEURISTIC = 0,
  TILEWRIGHT_RASTER_ALONG_M = 1,
  TILEWRIGHT_RASTER_ALONG_N = 2,
} tilewright_raster;

// How a stream-K kernel cuts the work.
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

typedef struct tilewright_tactic {
  int32_t raster;         // tilewright_raster, in the caller's m and n
  int32_t swizzle;        // tiles to a side of the rasterised block: 1, 2, 4 or 8
  int32_t decomposition;  // tilewright_decomposition
  int32_t splits;         // parts that k is cut into; 1 lets stream-K decide
  int32_t reduction;      // tilewright_reduction

  // Thread blocks of a cluster in the kernel's own m and n, where the kernel leaves them open: the shape
  // to prefer, and the one for what is left of the GPU. 0 is the smallest that the kernel takes.
  int32_t cluster_m, cluster_n;
  int32_t fallback_m, fallback_n;

  int32_t sm_count;  // multiprocessors to use; at most the device's
} tilewright_tactic;

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // TILEWRIGHT_TACTIC_H_

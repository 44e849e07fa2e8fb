// The C ABI between compiled kernels and whatever loads them.
//
// A kernel exports one `tilewright_kernel` and nothing else. Its three functions take the plain
// argument struct of its family (`tilewright/<family>/args.h`), so a kernel needs no framework
// header and serves every language that can call C.
#ifndef TILEWRIGHT_ABI_H_
#define TILEWRIGHT_ABI_H_

#include <stdint.h>

// Raised whenever a struct of this ABI changes its layout or its meaning.
#define TILEWRIGHT_ABI_VERSION 2

#ifdef __cplusplus
extern "C" {
#endif

// What `can_implement` and `launch` answer. A positive status is a cudaError_t.
typedef enum tilewright_status {
  TILEWRIGHT_OK = 0,
  TILEWRIGHT_NOT_SUPPORTED = -1,      // the kernel cannot compute this problem (shape, alignment)
  TILEWRIGHT_WORKSPACE_MISSING = -2,  // launch needs a workspace and was given none
} tilewright_status;

typedef struct tilewright_kernel {
  uint32_t abi_version;  // TILEWRIGHT_ABI_VERSION of the headers it was compiled with
  uint32_t args_bytes;   // sizeof the family's argument struct, as compiled
  uint32_t threads;      // per CTA
  uint32_t smem_bytes;   // dynamic shared memory per CTA
  const char* name;

  // Pure host functions: they touch no GPU and no pointer in `args`.
  int32_t (*can_implement)(const void* args);
  int64_t (*workspace_bytes)(const void* args);

  // Enqueues the kernel on `stream` (a cudaStream_t) of the current device and returns at once.
  // `workspace` holds at least `workspace_bytes(args)` bytes, aligned to 256, and belongs to this
  // launch until it has finished: two streams that share one can deadlock the GPU.
  int32_t (*launch)(const void* args, void* workspace, void* stream);
} tilewright_kernel;

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // TILEWRIGHT_ABI_H_

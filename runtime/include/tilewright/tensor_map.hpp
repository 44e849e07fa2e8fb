// Detects whether CUTLASS failed to encode a tensor map. Include this header before any header of CUTLASS.
//
// The driver refuses a map with a misaligned address or a stride beyond 2^40 bytes, or without a context. CUTLASS then
// prints a message, asserts (which NDEBUG removes) and continues with a map of zeros, with which the kernel faults or
// hangs. All calls of CUTLASS to the driver go through one macro (cutlass/cuda_host_adapter.hpp). This header redefines
// it, so that it also records the result.
#pragma once

#include "cutlass/cuda_host_adapter.hpp"

#ifndef CUTLASS_CUDA_DRIVER_WRAPPER_CALL
#error "this CUTLASS encodes tensor maps in another way: tilewright/tensor_map.hpp must keep its answers"
#endif

namespace tilewright {

// The first result other than CUDA_SUCCESS since this was last cleared.
inline CUresult& tensor_map_error() {
  static thread_local CUresult error = CUDA_SUCCESS;
  return error;
}

inline CUresult kept(CUresult result) {
  if (tensor_map_error() == CUDA_SUCCESS) {
    tensor_map_error() = result;
  }
  return result;
}

}  // namespace tilewright

#undef CUTLASS_CUDA_DRIVER_WRAPPER_CALL
#define CUTLASS_CUDA_DRIVER_WRAPPER_CALL(FUNCTION) \
  [](auto... arguments) { return ::tilewright::kept(::cutlass::call_##FUNCTION(arguments...)); }

// Whether CUTLASS could encode its tensor maps. Include it before any other header of CUTLASS's.
//
// Where the driver refuses a map (a misaligned address, a stride beyond 2^40 bytes, no context), CUTLASS prints
// that, asserts, which NDEBUG takes away, and goes on with a map of zeros, on which the kernel faults or hangs.
// All it asks the driver goes through one macro (cutlass/cuda_host_adapter.hpp): here it also keeps the answer.
#pragma once

#include "cutlass/cuda_host_adapter.hpp"

#ifndef CUTLASS_CUDA_DRIVER_WRAPPER_CALL
#error "this CUTLASS encodes tensor maps in another way: tilewright/tensor_map.hpp must keep its answers"
#endif

namespace tilewright {

// The first answer of the driver, since it was last cleared, that is not CUDA_SUCCESS.
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

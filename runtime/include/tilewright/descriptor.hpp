// Defines a kernel of our own and the `tilewright_kernel` that it exports, whatever its family. Needs no CUDA header
// beyond what nvcc includes by itself: a unit whose host code lies elsewhere includes no more (gemm/lean.hpp).
#pragma once

#include "tilewright/abi.h"

namespace tilewright {

// `Calls` has `Kernel`, `Args` (its family's struct), and the three functions of abi.h.
template <class Calls>
constexpr tilewright_kernel descriptor(char const* name) {
  return {
      TILEWRIGHT_ABI_VERSION, sizeof(typename Calls::Args), Calls::Kernel::kThreads, Calls::Kernel::kSharedBytes, name,
      &Calls::can_implement,  &Calls::workspace_bytes,      &Calls::launch};
}

}  // namespace tilewright

// The part of a kernel's body that only the device runs. Without it the host's compilers do not instantiate what the
// body calls, which would take 0.03 s of 0.45 s for a lean unit.
#ifdef __CUDA_ARCH__
#define TILEWRIGHT_DEVICE_CODE(...) __VA_ARGS__
#else
#define TILEWRIGHT_DEVICE_CODE(...)
#endif

// Defines the kernel NAME and its descriptor. TRAITS: the struct that a generated file defines. CALLS: the
// parameter of `descriptor`. MIN_BLOCKS: how many thread blocks an SM must be able to hold. ALIGNMENT: of the dynamic
// shared memory.
#define TILEWRIGHT_DEFINE_KERNEL(NAME, TRAITS, CALLS, MIN_BLOCKS, ALIGNMENT)                          \
  extern "C" __global__ void __launch_bounds__(TRAITS::Kernel::kThreads, MIN_BLOCKS)                  \
      NAME(__grid_constant__ typename TRAITS::Kernel::Params const params) {                          \
    TILEWRIGHT_DEVICE_CODE(extern __shared__ __align__(ALIGNMENT) char tilewright_shared_memory[];    \
                           typename TRAITS::Kernel kernel; kernel(params, tilewright_shared_memory);) \
  }                                                                                                   \
  void const* TRAITS::entry() { return reinterpret_cast<void const*>(&::NAME); }                      \
  extern "C" __attribute__((visibility("default"))) tilewright_kernel const tilewright_##NAME =       \
      tilewright::descriptor<CALLS>(#NAME);

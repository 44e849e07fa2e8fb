// The header that generated lean `gemm` kernels for sm_90a include: the kernel, and the functions of its descriptor.
#pragma once

#include "tilewright/descriptor.hpp"
#include "tilewright/gemm/lean_calls.hpp"
#include "tilewright/gemm/lean_kernel.hpp"

// Defines the kernel NAME, its second kernel for parts of k in the workspace, and its descriptor. The first declaration
// says `__cluster_dims__()` without a size: the kernel is launched in clusters of a size that the launch says. Without
// it, ptxas tests at each cluster barrier whether the kernel runs in a cluster.
#define TILEWRIGHT_LEAN_GEMM_KERNEL(NAME)                                                                              \
  extern "C" __global__ void __cluster_dims__()                                                                        \
      NAME(__grid_constant__ typename tilewright::NAME::Gemm::Kernel::Params const params);                            \
  TILEWRIGHT_COMBINING_KERNEL(NAME, tilewright::NAME::Gemm, tilewright::sm90::Combine<tilewright::NAME::Gemm::Kernel>, \
                              tilewright::sm90::CombineParams)                                                         \
  TILEWRIGHT_DEFINE_KERNEL(NAME, tilewright::NAME::Gemm, tilewright::gemm::lean::Calls<tilewright::NAME::Gemm>, 1, 1024)

// The header of generated gated `mixed_gemm` kernels: the kernel, and its adapter to `tilewright_kernel`.
#pragma once

#include "tilewright/mixed_gemm/gated_kernel.hpp"
#include "tilewright/mixed_gemm/gated_maker.hpp"
#include "tilewright/mixed_gemm/maker.hpp"
#include "tilewright/sm90/clustered.hpp"

namespace tilewright::mixed_gemm {

template <class Traits>
using GatedHost = sm90::ClusteredHost<Traits, GatedMaker<Maker<Traits, tilewright_mixed_gemm_args, 2>>>;

}  // namespace tilewright::mixed_gemm

// The first declaration says `__cluster_dims__`: see TILEWRIGHT_LEAN_GEMM_KERNEL.
#define TILEWRIGHT_GATED_MIXED_GEMM_KERNEL(NAME)                                             \
  extern "C" __global__ void __cluster_dims__()                                              \
      NAME(__grid_constant__ typename tilewright::NAME::Mixed::Kernel::Params const params); \
  TILEWRIGHT_KERNEL(NAME, tilewright::NAME::Mixed, tilewright::mixed_gemm::GatedHost, 1, 1024)

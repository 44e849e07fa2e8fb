// The header of generated `mixed_gemm` kernels whose thread blocks have equal work: the kernel, and its adapter to
// `tilewright_kernel`.
#pragma once

#include "tilewright/mixed_gemm/args.h"
#include "tilewright/mixed_gemm/balanced_maker.hpp"
#include "tilewright/mixed_gemm/maker.hpp"
#include "tilewright/sm90/clustered.hpp"

namespace tilewright::mixed_gemm {

template <class Traits>
using BalancedMaker = BalancedMakerBase<Traits, Maker<Traits, tilewright_mixed_gemm_args, 2>>;

template <class Traits>
using BalancedHost = sm90::ClusteredHost<Traits, BalancedMaker<Traits>>;

}  // namespace tilewright::mixed_gemm

// The first declaration says `__cluster_dims__`: see TILEWRIGHT_LEAN_GEMM_KERNEL.
#define TILEWRIGHT_BALANCED_MIXED_GEMM_KERNEL(NAME)                                          \
  extern "C" __global__ void __cluster_dims__()                                              \
      NAME(__grid_constant__ typename tilewright::NAME::Mixed::Kernel::Params const params); \
  TILEWRIGHT_KERNEL(NAME, tilewright::NAME::Mixed, tilewright::mixed_gemm::BalancedHost, 1, 1024)

// The header of generated `blockscaled_gemm` kernels for sm_90a: the kernel, which is our own (sm90/kernel.hpp), and
// its adapter to `tilewright_kernel`.
#pragma once

#include "tilewright/adapter.hpp"
#include "tilewright/alignment.hpp"
#include "tilewright/blockscaled_gemm/args.h"
#include "tilewright/blockscaled_gemm/sm90/kernel.hpp"

namespace tilewright::blockscaled_gemm {

// Checks problems and makes the parameters of a launch. Split-k reduces through distributed shared memory, so there is
// no workspace.
template <class Kernel>
struct HopperMaker {
  using Args = tilewright_blockscaled_gemm_args;

  // TMA copies scale factors without a tensor map, so no encoding of a map refuses misaligned addresses: this does.
  static bool can_implement(Args const& args) {
    return Kernel::can_implement(args) && is_aligned(args.scale_a, 16) && is_aligned(args.scale_b, 16);
  }

  static cudaError_t make_params(Args const& args, typename Kernel::Params& params, LaunchShape& shape) {
    shape.grid = Kernel::grid(args);
    shape.cluster = shape.preferred = Kernel::cluster(args);
    shape.spread = true;
    return Kernel::make_params(args, params);
  }
};

template <class Traits>
using HopperHost = LaunchedOnce<Traits, HopperMaker<typename Traits::Kernel>>;

}  // namespace tilewright::blockscaled_gemm

#define TILEWRIGHT_BLOCKSCALED_GEMM_HOPPER_KERNEL(NAME)                                     \
  TILEWRIGHT_KERNEL(NAME, tilewright::NAME::Gemm, tilewright::blockscaled_gemm::HopperHost, \
                    tilewright::NAME::Gemm::Kernel::kMinBlocks, 1024)

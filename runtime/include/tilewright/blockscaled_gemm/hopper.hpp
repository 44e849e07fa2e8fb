// What a generated `blockscaled_gemm` kernel for sm_90a includes: the kernel (ours: see sm90/kernel.hpp), and
// what turns it into a `tilewright_kernel`.
#pragma once

#include "tilewright/adapter.hpp"
#include "tilewright/alignment.hpp"
#include "tilewright/blockscaled_gemm/args.h"
#include "tilewright/blockscaled_gemm/sm90/kernel.hpp"

namespace tilewright::blockscaled_gemm {

// What a launch checks and sets up. A split k is reduced through distributed shared memory: there is no workspace.
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

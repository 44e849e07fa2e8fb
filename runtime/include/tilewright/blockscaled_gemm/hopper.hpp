// The header of generated `blockscaled_gemm` kernels for sm_90a: the kernel, which is our own (sm90/kernel.hpp), and
// its adapter to `tilewright_kernel`.
#pragma once

#include <type_traits>

#include "tilewright/adapter.hpp"
#include "tilewright/alignment.hpp"
#include "tilewright/blockscaled_gemm/appended_args.h"
#include "tilewright/blockscaled_gemm/sm90/kernel.hpp"

namespace tilewright::blockscaled_gemm {

// Checks problems and makes the parameters of a launch. Split-k reduces through distributed shared memory, so there is
// no workspace.
template <class Kernel>
struct HopperMaker {
  using Plain = tilewright_blockscaled_gemm_args;
  using Args = std::conditional_t<Kernel::kWithBias, tilewright_blockscaled_gemm_appended_args, Plain>;

  // TMA copies scale factors without a tensor map, so no encoding of a map refuses misaligned addresses: this does.
  static bool can_implement(Args const& given) {
    Plain const& args = plain(given);
    return Kernel::can_implement(args) && is_aligned(args.scale_a, 16) && is_aligned(args.scale_b, 16);
  }

  static cudaError_t make_params(Args const& given, typename Kernel::Params& params, LaunchShape& shape) {
    Plain const& args = plain(given);
    shape.grid = Kernel::grid(args);
    shape.cluster = shape.preferred = Kernel::cluster(args);
    shape.spread = true;
    if constexpr (Kernel::kWithBias) {
      params.epilogue.bias = given.bias;
      params.epilogue.activation = static_cast<sm90::Activation>(given.activation);
      params.epilogue.aligned_bias = is_aligned(given.bias, 16);
    }
    return Kernel::make_params(args, params);
  }

 private:
  static Plain const& plain(Args const& args) {
    if constexpr (Kernel::kWithBias) {
      return args.base;
    } else {
      return args;
    }
  }
};

template <class Traits>
using HopperHost = LaunchedOnce<Traits, HopperMaker<typename Traits::Kernel>>;

}  // namespace tilewright::blockscaled_gemm

#define TILEWRIGHT_BLOCKSCALED_GEMM_HOPPER_KERNEL(NAME)                                     \
  TILEWRIGHT_KERNEL(NAME, tilewright::NAME::Gemm, tilewright::blockscaled_gemm::HopperHost, \
                    tilewright::NAME::Gemm::Kernel::kMinBlocks, 1024)

// The header of generated `mixed_fp8_gemm` kernels: the kernel, and its adapter to `tilewright_kernel`.
#pragma once

#include "tilewright/mixed_fp8_gemm/args.h"
#include "tilewright/mixed_fp8_gemm/kernel.hpp"
#include "tilewright/mixed_fp8_gemm/largest_scale.hpp"
#include "tilewright/mixed_gemm/maker.hpp"
#include "tilewright/sm90/clustered.hpp"

namespace tilewright::mixed_fp8_gemm {

template <class Traits>
struct Maker : mixed_gemm::Maker<Traits, tilewright_mixed_fp8_gemm_args, 1> {
  using Base = mixed_gemm::Maker<Traits, tilewright_mixed_fp8_gemm_args, 1>;
  using typename Base::Args;

  static bool can_implement(Args const& args) {
    return Base::can_implement(args) && (!kFast || LargestScale(args.largest_scale).valid());
  }

  static cudaError_t make_params(Args const& args, sm90::Launching const& launching, typename Base::Params& params) {
    cudaError_t const error = Base::make_params(args, launching, params);
    params.row_factors = args.a_scale;
    if constexpr (kFast) {
      LargestScale const largest(args.largest_scale);
      params.largest_scale = largest.twice();
      params.epilogue.alpha = largest.factor(params.epilogue.alpha);
    }
    return error;
  }

 private:
  static constexpr bool kFast = detail::kIsRelative<typename Base::Params>;
};

template <class Traits>
using Host = sm90::ClusteredHost<Traits, Maker<Traits>>;

}  // namespace tilewright::mixed_fp8_gemm

// The first declaration says `__cluster_dims__`: see TILEWRIGHT_LEAN_GEMM_KERNEL.
#define TILEWRIGHT_MIXED_FP8_GEMM_KERNEL(NAME)                                               \
  extern "C" __global__ void __cluster_dims__()                                              \
      NAME(__grid_constant__ typename tilewright::NAME::Mixed::Kernel::Params const params); \
  TILEWRIGHT_KERNEL(NAME, tilewright::NAME::Mixed, tilewright::mixed_fp8_gemm::Host, 1, 1024)

// The header of generated gated `mixed_gemm` kernels of few rows: the kernel, and its adapter to `tilewright_kernel`.
#pragma once

#include "tilewright/mixed_gemm/gated_args.hpp"
#include "tilewright/mixed_gemm/stream.hpp"

namespace tilewright::mixed_gemm::stream {

// The gated kernel: Kernel with GatedElements.
template <class Type, class Format, class ElementD, int Slices, int Rows, int Warps, int Stages, bool kPdl>
using GatedKernel = Kernel<Type, Format, ElementD, Slices, Rows, Warps, Stages, kPdl, GatedElements>;

template <class Traits>
struct GatedMaker : Maker<Traits> {
  using Plain = Maker<Traits>;
  using Args = typename Plain::Args;

  static bool can_implement(Args const& args) { return is_gated(args) && Plain::can_implement(not_gated(args)); }

  static cudaError_t make_params(Args const& args, Params& params, LaunchShape& shape) {
    cudaError_t const error = Plain::make_params(not_gated(args), params, shape);
    params.epilogue.n = args.n / 2;
    return error;
  }
};

template <class Traits>
using GatedHost = LaunchedOnce<Traits, GatedMaker<Traits>>;

}  // namespace tilewright::mixed_gemm::stream

#define TILEWRIGHT_GATED_STREAM_MIXED_GEMM_KERNEL(NAME)                                       \
  TILEWRIGHT_KERNEL(NAME, tilewright::NAME::Mixed, tilewright::mixed_gemm::stream::GatedHost, \
                    tilewright::NAME::Mixed::kBlocks, 1024)

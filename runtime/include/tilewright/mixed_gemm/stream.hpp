// The header of generated `mixed_gemm` kernels of few rows: the kernel, and its adapter to `tilewright_kernel`.
#pragma once

#include "tilewright/adapter.hpp"
#include "tilewright/alignment.hpp"
#include "tilewright/mixed_gemm/args.h"
#include "tilewright/mixed_gemm/stream_kernel.hpp"
#include "tilewright/sm90/matrices.hpp"

namespace tilewright::mixed_gemm::stream {

// Checks problems and makes the parameters of a launch.
template <class Traits>
struct Maker {
  using Args = tilewright_mixed_gemm_args;
  using Kernel = typename Traits::Kernel;

  static bool can_implement(Args const& args) {
    bool const sizes =
        args.m > 0 && args.m <= Kernel::kRows && args.n > 0 && args.n % 8 == 0 && args.k > 0 && args.k % 32 == 0;
    bool const aligned =
        args.ld_a % 8 == 0 && is_aligned(args.a, 16) && is_aligned(args.weight, 16) && is_aligned(args.scale, 16);
    int const splits = args.tactic.splits;
    bool const cluster = splits > 0 && splits <= static_cast<int>(kPortableCluster) && splits <= units(args);
    return sizes && aligned && cluster && args.activation >= 0 &&
           args.activation < static_cast<int32_t>(sm90::Activation::kGiven);
  }

  static cudaError_t make_params(Args const& args, Params& params, LaunchShape& shape) {
    using Layout = typename Kernel::Layout;
    params.weight = static_cast<char const*>(args.weight);
    params.scale = static_cast<char const*>(args.scale);
    params.row_bytes_weight = int64_t(units(args)) * Layout::kUnitBytes;
    params.row_bytes_scale = int64_t(units(args)) * Layout::kUnitScales;
    params.units = units(args);
    params.slices = (args.n + kSliceRows - 1) / kSliceRows;
    params.splits = args.tactic.splits;
    sm90::EpilogueParams& epilogue = params.epilogue;
    epilogue.alpha = args.alpha * Kernel::kFactor;
    epilogue.activation = static_cast<sm90::Activation>(args.activation);
    epilogue.bias = args.bias, epilogue.type_bias = Kernel::ElementD::kAddend;
    epilogue.d = args.d, epilogue.ld_d = args.ld_d;
    epilogue.m = args.m, epilogue.n = args.n;
    int const tiles = (args.n + Kernel::kColumns - 1) / Kernel::kColumns;
    shape.grid = dim3(static_cast<unsigned>(tiles) * params.splits);
    shape.cluster = shape.preferred = dim3(params.splits);
    shape.spread = true;
    sm90::Matrices const activations{args.a, int64_t(args.k) * 2, args.m, 1, args.ld_a * 2, 0};
    return sm90::encode_matrices(params.a, activations, 128, Kernel::kRows, CU_TENSOR_MAP_SWIZZLE_128B);
  }

 private:
  static int units(Args const& args) { return (args.k + kUnitK - 1) / kUnitK; }
};

template <class Traits>
using Host = LaunchedOnce<Traits, Maker<Traits>>;

}  // namespace tilewright::mixed_gemm::stream

#define TILEWRIGHT_STREAM_MIXED_GEMM_KERNEL(NAME)                                        \
  TILEWRIGHT_KERNEL(NAME, tilewright::NAME::Mixed, tilewright::mixed_gemm::stream::Host, \
                    tilewright::NAME::Mixed::kBlocks, 1024)

// The header of generated `mixed_grouped_gemm` kernels of few rows: the kernel, and its adapter to `tilewright_kernel`.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tilewright/mixed_grouped_gemm/mixed_grouped_gemm.hpp"
#include "tilewright/mixed_grouped_gemm/stream_kernel.hpp"

namespace tilewright::mixed_grouped_gemm::stream {

// Checks problems and makes the parameters of a launch.
template <class Traits>
struct Maker : OwnMaker<Traits> {
  using Base = OwnMaker<Traits>;
  using typename Base::Args;
  using typename Base::Kernel;

  static bool can_implement(Args const& args) {
    return Base::can_implement(args) && sm90::cluster_of(args.tactic).size() == 1;
  }

  static cudaError_t make_params(Args const& args, sm90::Launching const& launching, Params& params) {
    params = {};
    mixed_gemm::PackedWeight const weight = Base::packed(args);
    params.weight = weight.elements, params.scale = weight.scales;
    params.row_bytes_weight = weight.row_bytes, params.row_bytes_scale = weight.scale_row_bytes;
    params.slices = weight.slices;
    params.units = Base::k_tiles(args);
    params.alpha = args.alpha * Kernel::kFactor;
    params.group_factors = args.group_factors;
    params.groups = Base::groups_of(args, launching);
    params.clusters = static_cast<int>(std::min<int64_t>(Base::most_blocks(args), launching.at_once * Kernel::kBlocks));
    params.heads = {sm90::Divisor(1), 0, 0, false};
    sm90::EpilogueParams& epilogue = params.epilogue;
    epilogue.bias = args.bias;
    epilogue.d = args.d, epilogue.ld_d = args.ld_d, epilogue.batch_stride_d = args.batch_stride_d;
    epilogue.m = args.m, epilogue.n = Base::d_columns(args);
    int const batch = Base::own_rows(args) ? args.groups : 1;
    sm90::Matrices const activations{args.a, int64_t(args.k) * 2, args.m,
                                     batch,  args.ld_a * 2,       args.batch_stride_a * 2};
    return sm90::encode_matrices(params.a, activations, 128, Kernel::TileN, CU_TENSOR_MAP_SWIZZLE_128B);
  }
};

template <class Traits>
using Host = sm90::ClusteredHost<Traits, Maker<Traits>>;

}  // namespace tilewright::mixed_grouped_gemm::stream

#define TILEWRIGHT_STREAM_MIXED_GROUPED_GEMM_KERNEL(NAME)                                        \
  TILEWRIGHT_KERNEL(NAME, tilewright::NAME::Mixed, tilewright::mixed_grouped_gemm::stream::Host, \
                    tilewright::NAME::Mixed::Kernel::kBlocks, 1024)

// Checks the problems of gated `mixed_gemm` kernels, and makes the parameters of their launches.
#pragma once

#include "tilewright/alignment.hpp"
#include "tilewright/mixed_gemm/gated_args.hpp"
#include "tilewright/sm90/clustered.hpp"
#include "tilewright/sm90/epilogue_params.hpp"
#include "tilewright/sm90/operands.hpp"

namespace tilewright::mixed_gemm {

// `Plain`: the maker of the same kernel without a gate.
template <class Plain>
struct GatedMaker : Plain {
  using Args = tilewright_mixed_gemm_args;
  using Kernel = typename Plain::Kernel;
  using ElementD = typename Kernel::ElementD;

  static bool can_implement(Args const& args) { return is_gated(args) && Plain::can_implement(not_gated(args)); }

  static cudaError_t make_params(Args const& args, sm90::Launching const& launching, typename Kernel::Params& params) {
    // D has half of the columns that `Plain` would store. With a misaligned D, `Plain` encodes no tensor map of it.
    Args elsewhere = not_gated(args);
    elsewhere.d = reinterpret_cast<void*>(1);
    cudaError_t const error = Plain::make_params(elsewhere, launching, params);
    return error != cudaSuccess ? error : set_epilogue(args, params);
  }

 private:
  static cudaError_t set_epilogue(Args const& args, typename Kernel::Params& params) {
    bool const boxes = is_aligned(args.d, 16) && args.ld_d % (16 / ElementD::kBytes) == 0;
    sm90::EpilogueParams& epilogue = params.epilogue;
    epilogue.d = args.d;
    epilogue.n = args.n / 2, epilogue.n_boxes = boxes ? epilogue.n : 0;
    params.epilogue_through_smem = Kernel::kGroups > 1 || args.tactic.splits > 1 || !boxes;
    if (!boxes) {
      return cudaSuccess;
    }
    sm90::Matrices const d{args.d, int64_t(epilogue.n) * ElementD::kBytes, args.m, 1, args.ld_d * ElementD::kBytes, 0};
    using Store = typename Kernel::Store;
    int const rows = params.epilogue_through_smem ? Kernel::SharedStore::kBoxRows : Store::kBoxRows;
    return sm90::encode_matrices(params.d, d, Store::kBoxBytes, rows, Store::kSwizzle);
  }
};

}  // namespace tilewright::mixed_gemm

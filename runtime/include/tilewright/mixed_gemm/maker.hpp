// Checks the problems of `mixed_gemm` and `mixed_fp8_gemm` kernels, and makes the parameters of their launches.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tilewright/alignment.hpp"
#include "tilewright/mixed_gemm/layout.hpp"
#include "tilewright/sm90/clustered.hpp"
#include "tilewright/sm90/epilogue.hpp"
#include "tilewright/sm90/operands.hpp"

namespace tilewright::mixed_gemm {

// `kBytes`: bytes of an activation.
template <class Traits, class Args_, int kBytes>
struct Maker {
  using Args = Args_;
  using Kernel = typename Traits::Kernel;
  using Params = typename Kernel::Params;
  using Layout = typename Kernel::Layout;
  using ElementD = typename Kernel::ElementD;

  static bool can_implement(Args const& args) {
    sm90::ClusterShape const cluster = sm90::cluster_of(args.tactic);
    bool const sizes = args.m > 0 && args.n > 0 && args.k > 0 && args.n % 8 == 0 && args.k % 32 == 0;
    bool const aligned = args.ld_a % (16 / kBytes) == 0 && is_aligned(args.weight, 16) && is_aligned(args.scale, 16);
    bool const shape = sm90::legal(args.tactic, cluster) && cluster.n == 1 && sm90::parts_of(args.tactic) == 1;
    int64_t const blocks = int64_t(down(args, cluster)) * across(args);
    return sizes && aligned && shape && args.tactic.splits <= k_tiles(args) && args.activation >= 0 &&
           args.activation < static_cast<int32_t>(sm90::Activation::kGiven) && blocks * cluster.size() < INT32_MAX;
  }

  static int64_t workspace_bytes(Args const&) { return 0; }

  static int clusters(Params const& params) { return params.clusters; }

  static cudaError_t make_params(Args const& args, sm90::Launching const& launching, Params& params) {
    sm90::ClusterShape const& cluster = launching.cluster;
    params = {};
    params.divide(cluster, Kernel::TileM, Kernel::TileN, k_tiles(args));
    params.slices_b = sm90::Slices::of(Kernel::TileN, cluster.m, args.m);
    params.stage_bytes = Layout::kStageA + Layout::kStageScales + Layout::Pieces * 128 * params.slices_b.loaded();
    int const blocks_down = down(args, cluster), blocks_across = across(args);
    params.raster = raster(args, launching.at_once, blocks_down, blocks_across);
    params.clusters = std::min(params.raster.blocks, launching.at_once);
    params.weight = packed(args);
    // With one column of tiles, a weight is read only once: it leaves L2 first.
    params.policy_a = blocks_across > 1 ? sm90::kPolicyNormal : sm90::kPolicyEvictFirst;
    sm90::Matrices const activations{args.a, int64_t(args.k) * kBytes, args.m, 1, args.ld_a * kBytes, 0};
    cudaError_t const error = sm90::encode_operand(params.b, params.policy_b, activations, params.slices_b,
                                                   blocks_down > 1, blocks_across > 1, false);
    return error != cudaSuccess ? error : set_epilogue(args, params);
  }

 private:
  static int k_tiles(Args const& args) { return sm90::ceil_div(args.k, kUnitK) * (kUnitK / Kernel::kTileK); }
  static int down(Args const& args, sm90::ClusterShape const& cluster) {
    return sm90::ceil_div(args.n, Kernel::TileM * cluster.m);
  }
  static int across(Args const& args) { return sm90::ceil_div(args.m, Kernel::TileN); }

  static PackedWeight packed(Args const& args) {
    int const units = sm90::ceil_div(args.k, kUnitK);
    return {static_cast<char const*>(args.weight), static_cast<char const*>(args.scale),
            int64_t(units) * Layout::kUnitBytes, int64_t(units) * Layout::kUnitScales, sm90::ceil_div(args.n, 64)};
  }

  // The tactic's order of blocks; with the heuristic raster, the order that reads the least bytes.
  static sm90::Raster raster(Args const& args, int at_once, int down, int across) {
    sm90::ClusterShape const cluster = sm90::cluster_of(args.tactic);
    if (args.tactic.raster == TILEWRIGHT_RASTER_HEURISTIC) {
      int64_t const high = int64_t(Kernel::TileM) * cluster.m * Kernel::Format::kBits / (8 * kBytes);
      return {down, across, 1, sm90::Raster::best_swizzle(down, at_once, high, Kernel::TileN), true};
    }
    return {down, across, 1, args.tactic.swizzle, args.tactic.raster == TILEWRIGHT_RASTER_ALONG_N};
  }

  static cudaError_t set_epilogue(Args const& args, Params& params) {
    constexpr int kVector = 16 / ElementD::kBytes;
    bool const boxes = Kernel::Store::kBoxes && is_aligned(args.d, 16) && args.ld_d % kVector == 0;
    int const n_boxes = boxes ? args.n & -kVector : 0;
    params.epilogue_through_smem =
        Kernel::kGroups > 1 || args.tactic.splits > 1 || n_boxes != args.n || args.activation != 0;
    sm90::EpilogueParams& epilogue = params.epilogue;
    epilogue.alpha = args.alpha * Kernel::Format::kFactor;
    epilogue.n_boxes = n_boxes;
    epilogue.activation = static_cast<sm90::Activation>(args.activation);
    epilogue.bias = args.bias;
    epilogue.d = args.d, epilogue.ld_d = args.ld_d;
    epilogue.m = args.m, epilogue.n = args.n;
    epilogue.type_bias = ElementD::kAddend;
    if (n_boxes == 0) {
      return cudaSuccess;
    }
    sm90::Matrices const d{args.d, int64_t(n_boxes) * ElementD::kBytes, args.m, 1, args.ld_d * ElementD::kBytes, 0};
    using Store = typename Kernel::Store;
    using SharedStore = typename Kernel::SharedStore;
    return params.epilogue_through_smem
               ? sm90::encode_matrices(params.d, d, SharedStore::kBoxBytes, SharedStore::kBoxRows,
                                       SharedStore::kSwizzle)
               : sm90::encode_matrices(params.d, d, Store::kBoxBytes, Store::kBoxRows, Store::kSwizzle);
  }
};

}  // namespace tilewright::mixed_gemm

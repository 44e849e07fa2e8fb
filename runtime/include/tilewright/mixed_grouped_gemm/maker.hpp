// Checks the problems of `mixed_grouped_gemm` and `mixed_fp8_grouped_gemm` kernels, and makes the parameters of their
// launches.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tilewright/alignment.hpp"
#include "tilewright/mixed_grouped_gemm/phases.hpp"
#include "tilewright/sm90/clustered.hpp"
#include "tilewright/sm90/operands.hpp"

namespace tilewright::mixed_grouped_gemm {

// Checks problems and makes the parameters of a launch. `kBytes`: bytes of an activation.
template <class Traits, class Args_, int kBytes>
struct Maker {
  using Args = Args_;
  using Kernel = typename Traits::Kernel;
  using Params = typename Kernel::Params;
  using Layout = typename Kernel::Layout;
  using ElementD = typename Kernel::ElementD;
  // Elements of A and of D in 16 bytes, TMA's alignment.
  static constexpr int kVectorA = 16 / kBytes, kVectorD = 16 / ElementD::kBytes;

  static bool can_implement(Args const& args) {
    sm90::ClusterShape const cluster = sm90::cluster_of(args.tactic);
    bool const sizes = args.m > 0 && args.n > 0 && args.k > 0 && args.groups > 0 && args.n % 8 == 0 &&
                       args.k % 32 == 0 && args.row_alignment > 0;
    bool const grouping = args.grouping >= int(Grouping::kRowIndex) && args.grouping <= int(Grouping::kRowsValid);
    bool const batches =
        !own_rows(args) || (args.batch_stride_a % kVectorA == 0 && args.batch_stride_d % kVectorD == 0);
    bool const aligned = args.ld_a % kVectorA == 0 && args.ld_d % kVectorD == 0 && batches &&
                         is_aligned(args.weight, 16) && is_aligned(args.scale, 16);
    bool const shape =
        sm90::legal(args.tactic, cluster) && cluster.n == 1 && cluster.splits == 1 && sm90::parts_of(args.tactic) == 1;
    return sizes && grouping && aligned && shape && most_blocks(args) * cluster.size() < INT32_MAX;
  }

  static int64_t workspace_bytes(Args const&) { return 0; }

  static int clusters(Params const& params) { return params.clusters; }

  static cudaError_t make_params(Args const& args, sm90::Launching const& launching, Params& params) {
    params = {};
    params.divide(launching.cluster, Kernel::TileM, Kernel::TileN, k_tiles(args));
    params.slices_b = sm90::Slices::of(Kernel::TileN, launching.cluster.m, args.m);
    params.activation_bytes = Layout::Pieces * 128 * params.slices_b.loaded();
    params.alpha = args.alpha * Kernel::Format::kFactor;
    params.group_factors = args.group_factors;
    params.weight = packed(args);
    params.groups = groups_of(args, launching);
    params.clusters = static_cast<int>(std::min<int64_t>(most_blocks(args), launching.at_once));
    params.heads = {sm90::Divisor(1), 0, 0, false};
    // Where a group has about one tile of rows, its weight is read only once: it leaves L2 first.
    bool const weight_again = args.m > int64_t(Kernel::TileN) * (own_rows(args) ? 1 : args.groups);
    params.policy_a = weight_again ? sm90::kPolicyNormal : sm90::kPolicyEvictFirst;
    int const batch = own_rows(args) ? args.groups : 1;
    sm90::Matrices const activations{args.a, int64_t(args.k) * kBytes, args.m,
                                     batch,  args.ld_a * kBytes,       args.batch_stride_a * kBytes};
    cudaError_t const error = sm90::encode_operand(params.b, params.policy_b, activations, params.slices_b,
                                                   params.groups.columns > 1, weight_again, false);
    return error != cudaSuccess ? error : set_epilogue(args, params);
  }

 protected:
  static Grouping grouping(Args const& args) { return static_cast<Grouping>(args.grouping); }
  // Whether each group has a matrix of activations of its own.
  static bool own_rows(Args const& args) { return grouping(args) == Grouping::kRowsValid; }
  static int k_tiles(Args const& args) {
    return sm90::ceil_div(args.k, mixed_gemm::kUnitK) * (mixed_gemm::kUnitK / Kernel::kTileK);
  }
  static int d_columns(Args const& args) { return args.n / Kernel::kSumsOfElement; }
  // Blocks along n.
  static int columns(Args const& args) {
    return sm90::ceil_div(args.n, Kernel::TileM * sm90::cluster_of(args.tactic).m);
  }

  // An upper bound of the blocks of tiles, whatever the groups are.
  static int64_t most_blocks(Args const& args) {
    int64_t const rows = sm90::ceil_div(args.m, Kernel::TileN);
    return (own_rows(args) ? args.groups * rows : args.groups + rows) * columns(args);
  }

  static mixed_gemm::PackedWeight packed(Args const& args) {
    int const units = sm90::ceil_div(args.k, mixed_gemm::kUnitK);
    return {static_cast<char const*>(args.weight), static_cast<char const*>(args.scale),
            int64_t(units) * Layout::kUnitBytes, int64_t(units) * Layout::kUnitScales, sm90::ceil_div(args.n, 64)};
  }

  // With the heuristic raster, blocks have the order that reads the least bytes. Rows of the weight count less than
  // rows of activations, because a 4-bit code has a quarter of the bytes of 16 bits, and half of those of 8 bits.
  static Groups groups_of(Args const& args, sm90::Launching const& launching) {
    Groups groups{};
    groups.grouping = grouping(args);
    groups.layout = groups.grouping == Grouping::kRowIndex ? args.group_of_row
                    : groups.grouping == Grouping::kEnds   ? args.group_ends
                                                           : args.rows_valid;
    groups.groups = args.groups;
    groups.rows = args.m;
    groups.alignment = args.row_alignment;
    groups.columns = columns(args);
    int const rows = sm90::ceil_div(args.m, Kernel::TileN);
    bool const raster_given = args.tactic.raster != TILEWRIGHT_RASTER_HEURISTIC;
    groups.swizzle = raster_given
                         ? args.tactic.swizzle
                         : sm90::Raster::best_swizzle(rows, launching.at_once, Kernel::TileN,
                                                      int64_t(Kernel::TileM) * launching.cluster.m / (2 * kBytes));
    groups.raster = sm90::Raster(rows, groups.columns, 1, groups.swizzle,
                                 !raster_given || args.tactic.raster == TILEWRIGHT_RASTER_ALONG_M);
    return groups;
  }

  static cudaError_t set_epilogue(Args const& args, Params& params) {
    using Store = typename Kernel::Store;
    sm90::EpilogueParams& epilogue = params.epilogue;
    epilogue.m = args.m, epilogue.n = d_columns(args);
    epilogue.n_boxes = epilogue.n;
    epilogue.bias = args.bias;
    epilogue.d = args.d, epilogue.ld_d = args.ld_d, epilogue.batch_stride_d = args.batch_stride_d;
    int const batch = own_rows(args) ? args.groups : 1;
    sm90::Matrices const d{args.d, int64_t(epilogue.n) * ElementD::kBytes, args.m,
                           batch,  args.ld_d * ElementD::kBytes,           args.batch_stride_d * ElementD::kBytes};
    return sm90::encode_matrices(params.d, d, Store::kBoxBytes, Store::kBoxRows, Store::kSwizzle);
  }
};

}  // namespace tilewright::mixed_grouped_gemm

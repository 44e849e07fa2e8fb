// Makes the parameters of launches of balanced kernels (balanced_phases.hpp), whose thread blocks have equal work: how
// the stages of k of all tiles are divided among clusters, and the workspace for partial sums.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>

#include "tilewright/alignment.hpp"
#include "tilewright/mixed_gemm/balanced_phases.hpp"
#include "tilewright/sm90/clustered.hpp"

namespace tilewright::mixed_gemm {

// A random number, the same for all launches of the process. Kernels use it as BalancedWorkspace::ready.
inline uint64_t random_flag() {
  static uint64_t const flag = [] {
    std::random_device device;
    return (uint64_t(device()) << 32 | device()) | 1;  // not 0, which clears a flag
  }();
  return flag;
}

// `Base`: the maker of the same kernel without equal work. Clusters have at most two thread blocks, `splits` is 1, and
// TMA stores D without an activation.
template <class Traits, class Base>
struct BalancedMakerBase : Base {
  using Args = typename Base::Args;
  using Kernel = typename Traits::Kernel;

  static bool can_implement(Args const& args) {
    bool const d_by_tma = is_aligned(args.d, 16) && args.ld_d % (16 / Kernel::ElementD::kBytes) == 0;
    bool const plain = args.activation == 0 && args.tactic.splits == 1;
    return d_by_tma && plain && sm90::cluster_of(args.tactic).size() <= 2 && Base::can_implement(args) &&
           tiles(args) * k_tiles(args) < INT32_MAX;
  }

  static int64_t workspace_bytes(Args const&) { return Kernel::kWorkspaceBytes; }

  static cudaError_t make_params(Args const& args, sm90::Launching const& launching, typename Kernel::Params& params) {
    cudaError_t const error = Base::make_params(args, launching, params);
    int divided = static_cast<int>(tiles(args));  // tiles whose stages clusters divide
    int const all_stages = divided * k_tiles(args);
    params.clusters = std::min({launching.at_once, kMaxBalancedCtas / launching.cluster.size(), all_stages});
    if constexpr (Kernel::kHasWholeTiles) {
      // The others are whole tiles, equally many for each cluster.
      if (divided > params.clusters) {
        divided = params.clusters + divided % params.clusters;
      }
      params.divided = divided * k_tiles(args);
    }
    int const stages = divided * k_tiles(args);
    params.stages = stages / params.clusters, params.larger = stages % params.clusters;
    params.k_tiles = sm90::Divisor(params.k_tiles_per_split);
    char* const partials = static_cast<char*>(launching.workspace);
    params.workspace = {partials,
                        reinterpret_cast<uint64_t*>(partials + int64_t(kMaxBalancedCtas) * Kernel::kPartialBytes),
                        random_flag()};
    return error;
  }

 private:
  // The tiles of a cluster's size that D has.
  static int64_t tiles(Args const& args) {
    int const height = Kernel::TileM * sm90::cluster_of(args.tactic).m;
    return int64_t(sm90::ceil_div(args.n, height)) * sm90::ceil_div(args.m, Kernel::TileN);
  }
  // The stages of a tile.
  static int k_tiles(Args const& args) { return sm90::ceil_div(args.k, kUnitK) * (kUnitK / Kernel::kTileK); }
};

}  // namespace tilewright::mixed_gemm

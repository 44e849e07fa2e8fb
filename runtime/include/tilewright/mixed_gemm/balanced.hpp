// The header of generated `mixed_gemm` kernels whose thread blocks have equal work: the kernel, and its adapter to
// `tilewright_kernel`.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>

#include "tilewright/mixed_gemm/args.h"
#include "tilewright/mixed_gemm/balanced_phases.hpp"
#include "tilewright/mixed_gemm/maker.hpp"
#include "tilewright/sm90/clustered.hpp"

namespace tilewright::mixed_gemm {

// A random number, the same in the whole process.
inline uint64_t random_word() {
  static uint64_t const word = [] {
    std::random_device device;
    return (uint64_t(device()) << 32 | device()) | 1;  // not 0, which clears a word
  }();
  return word;
}

// As Maker. Clusters have at most two thread blocks, and k is not divided into equal splits.
template <class Traits>
struct BalancedMaker : Maker<Traits, tilewright_mixed_gemm_args, 2> {
  using Args = tilewright_mixed_gemm_args;
  using Base = Maker<Traits, Args, 2>;
  using Kernel = typename Base::Kernel;

  static bool can_implement(Args const& args) {
    bool const boxes = is_aligned(args.d, 16) && args.ld_d % (16 / Kernel::ElementD::kBytes) == 0;
    bool const plain = args.activation == TILEWRIGHT_MIXED_ACTIVATION_NONE && args.tactic.splits == 1;
    return boxes && plain && sm90::cluster_of(args.tactic).size() <= 2 && Base::can_implement(args) &&
           stages(args) < INT32_MAX;
  }

  static int64_t workspace_bytes(Args const&) { return Kernel::kWorkspaceBytes; }

  static cudaError_t make_params(Args const& args, sm90::Launching const& launching, typename Kernel::Params& params) {
    cudaError_t const error = Base::make_params(args, launching, params);
    int const all = static_cast<int>(stages(args));
    params.clusters = std::min({launching.at_once, kMostBalanced / launching.cluster.size(), all});
    params.stages = all / params.clusters, params.larger = all % params.clusters;
    params.k_tiles = sm90::Divisor(params.k_tiles_per_split);
    char* const sums = static_cast<char*>(launching.workspace);
    params.workspace = {sums, reinterpret_cast<uint64_t*>(sums + int64_t(kMostBalanced) * Kernel::kSumBytes),
                        random_word()};
    return error;
  }

 private:
  // Of all clusters' tiles.
  static int64_t stages(Args const& args) {
    int const height = Kernel::TileM * sm90::cluster_of(args.tactic).m;
    int64_t const tiles = int64_t(sm90::ceil_div(args.n, height)) * sm90::ceil_div(args.m, Kernel::TileN);
    return tiles * sm90::ceil_div(args.k, kUnitK) * (kUnitK / Kernel::kTileK);
  }
};

template <class Traits>
using BalancedHost = sm90::ClusteredHost<Traits, BalancedMaker<Traits>>;

}  // namespace tilewright::mixed_gemm

// The first declaration says `__cluster_dims__`: see TILEWRIGHT_LEAN_GEMM_KERNEL.
#define TILEWRIGHT_BALANCED_MIXED_GEMM_KERNEL(NAME)                                          \
  extern "C" __global__ void __cluster_dims__()                                              \
      NAME(__grid_constant__ typename tilewright::NAME::Mixed::Kernel::Params const params); \
  TILEWRIGHT_KERNEL(NAME, tilewright::NAME::Mixed, tilewright::mixed_gemm::BalancedHost, 1, 1024)

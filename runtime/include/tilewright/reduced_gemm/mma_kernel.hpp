// The `reduced_gemm` kernel of mma.sync, for sm_12x. It has the parameters and the second kernel of kernel.hpp. It has
// no clusters, and the k tiles of a part follow one another.
#pragma once

#include <cstdint>

#include "tilewright/reduced_gemm/reduced_gemm.hpp"
#include "tilewright/sm120/mainloop.hpp"
#include "tilewright/sm120/warpgroups.hpp"

namespace tilewright::reduced_gemm {

template <class Element_, int TileM_, int TileN_, int Stages, bool kPdl_>
struct MmaKernel {
  using Element = Element_;
  static constexpr int TileM = TileM_, TileN = TileN_;
  static constexpr bool kPdl = kPdl_;
  using Params = reduced_gemm::Params;
  using Warpgroups = sm120::Cooperative<TileM, TileN, false>;
  static constexpr int kConsumers = Warpgroups::kConsumers, kThreads = Warpgroups::kThreads;
  static constexpr int kRows = Warpgroups::kRows, kColumns = Warpgroups::kColumns;  // of a warpgroup
  static constexpr int kTileBytesK = 128;

  using Layout = sm90::Layout<TileM, TileN, 1, Stages, 0>;
  using Mainloop = sm120::Mainloop<Element, Element, sm120::PlainSum, Layout, kRows, kColumns, 1, Stages>;
  using Producer = sm90::Producer<Layout, 1, Stages>;
  using TileSums = sm90::TileSums<Warpgroups>;
  static constexpr int kSharedBytes = Layout::kBytes;
  static_assert(kSharedBytes <= 99 * 1024, "the stages exceed the shared memory of sm_120");

  static constexpr int kProducerRegisters = 40, kConsumerRegisters = 232;

  __device__ __forceinline__ void operator()(Params const& params, char* memory) const {
    sm90::run_product<MmaKernel>(params, memory);
  }

  // Prologue, one thread each.
  static __device__ __forceinline__ void init_barriers(Params const& params, uint32_t shared) {
    sm90::start_stages<Layout, Stages>(params.cluster, shared, 1, kConsumers * sm120::kReadersOfWarpgroup);
  }

  static __device__ __forceinline__ void prefetch_maps(Params const& params) {
    sm90::prefetch_map(&params.a);
    sm90::prefetch_map(&params.b);
  }

  // Load: the producer's warps, of which one loads.
  static __device__ __forceinline__ void load(Params const& params, uint32_t shared, sm90::ClusterPlace const& place,
                                              bool loading_warp) {
    sm90::OperandLoads const loads(params, place);
    Part const part(params);
    Producer producer{shared};
    sm90::enter<kPdl>(params.cluster);
    if (!loading_warp) {
      return;
    }
    int matrix = part.first / params.k_tiles, k = part.first % params.k_tiles;
    for (int tiles = part.tiles; tiles > 0;) {
      int const taken = min(tiles, params.k_tiles - k);
      producer.template run<false, false>(loads.a, loads.b,
                                          {k, taken, part.tile_row * TileM, part.tile_column * TileN,
                                           params.broadcast_a ? 0 : matrix, params.broadcast_b ? 0 : matrix});
      tiles -= taken;
      ++matrix;
      k = 0;
    }
  }

  // Multiply: a consumer warpgroup. Its epilogue stores the sums to the workspace.
  static __device__ __forceinline__ void multiply(Params const& params, uint32_t shared, sm90::ClusterPlace const&,
                                                  int warpgroup) {
    Mainloop mainloop(shared, Warpgroups::kDown == 1 ? 0 : warpgroup * kRows * 64,
                      Warpgroups::kAcross == 1 ? 0 : warpgroup * kColumns);
    Part const part(params);
    sm90::enter<kPdl>(params.cluster);  // the previous kernel may still read the workspace
    float sums[kRows][kColumns / 2];
    mainloop.run(part.tiles, sums, [] {});
    int64_t const tile = int64_t(part.number) * params.blocks + part.tile_row + part.tile_column * params.tiles_down;
    int const row = part.tile_row * TileM + (Warpgroups::kDown == 1 ? 0 : warpgroup * kRows * 64);
    int const column = part.tile_column * TileN + (Warpgroups::kAcross == 1 ? 0 : warpgroup * kColumns);
    if (row < params.m && column < params.n) {
      TileSums::store(params.sums + tile * TileSums::kCount, threadIdx.x, sums);
    }
  }

 private:
  // What a CTA computes: some k tiles of one tile. CTAs with the same k tiles lie side by side in the grid, so that
  // their tiles share rows of A and B in L2.
  struct Part {
    int number, first, tiles, tile_row, tile_column;

    __device__ __forceinline__ explicit Part(Params const& params) {
      int const tile = blockIdx.x % params.blocks;
      number = blockIdx.x / params.blocks;
      first = number * params.k_tiles_per_part + min(number, params.larger_parts);
      tiles = params.k_tiles_per_part + (number < params.larger_parts ? 1 : 0);
      tile_row = tile % params.blocks_down;
      tile_column = tile / params.blocks_down;
    }
  };
};

// The host code of kernels without clusters.
template <class Traits>
struct MmaHost : Host<Traits> {
  using Args = typename Host<Traits>::Args;

  static bool can_implement(Args const& args) {
    return args.tactic.cluster_m <= 1 && args.tactic.cluster_n <= 1 && Host<Traits>::can_implement(args);
  }
};

}  // namespace tilewright::reduced_gemm

#define TILEWRIGHT_REDUCED_MMA_KERNEL(NAME)                                                         \
  TILEWRIGHT_COMBINING_KERNEL(NAME, tilewright::NAME::Reduced,                                      \
                              tilewright::reduced_gemm::Combine<tilewright::NAME::Reduced::Kernel>, \
                              tilewright::reduced_gemm::CombineParams)                              \
  TILEWRIGHT_KERNEL(NAME, tilewright::NAME::Reduced, tilewright::reduced_gemm::MmaHost, 1, 1024)

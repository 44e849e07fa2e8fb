// The phases (sm90/product.hpp) of a CTA that multiplies activations by packed weights: `mixed_gemm`, `mixed_fp8_gemm`.
//
// Operands are swapped: the kernel's rows are D's columns (n), its columns D's rows (m). So the weights are operand A
// of wgmma, which may lie in registers, where threads decode them, and the rows of activations are wgmma's N, which may
// be as few as 8. The CTAs of a cluster share the activations of the same rows by multicast, or divide a tile's k.
#pragma once

#include <cstdint>
#include <type_traits>

#include "tilewright/mixed_gemm/layout.hpp"
#include "tilewright/sm90/cluster.hpp"
#include "tilewright/sm90/cluster_reduction.hpp"
#include "tilewright/sm90/epilogue.hpp"
#include "tilewright/sm90/mainloop.hpp"
#include "tilewright/sm90/product.hpp"
#include "tilewright/sm90/scheduler.hpp"

namespace tilewright::mixed_gemm {

// The parameters of a launch that kernels of both families have.
struct OwnParams {
  sm90::Raster raster;
  int stage_bytes;  // bytes of weights, scales and activations that arrive in a stage
  int clusters;
  PackedWeight weight;
};

// The phases of a kernel. `Types` has the kernel's types and constants, and
//   finish(params, column, sums)  changes a tile's sums before they are stored; `column`: the tile's first column
template <class Types>
struct Phases : Types {
  using typename Types::Layout;
  using typename Types::Mainloop;
  using typename Types::Params;
  using typename Types::SharedStore;
  using typename Types::Store;
  using Producer = mixed_gemm::Producer<Layout, Types::Stages>;
  using ClusterReduction = sm90::ClusterReduction<Types::kRows, Types::kColumns, Types::kConsumers * 128>;
  static constexpr bool kSwapped = true;
  static constexpr int kThreads = (Types::kConsumers + 1) * 128, kSharedBytes = Layout::kBytes;
  static_assert(SharedStore::kBytes <= Store::kBytes);
  static_assert(ClusterReduction::kBytes <= Layout::kStoresAt, "the stages have no room for the sums");
  static_assert(Types::Stages >= 2 && Types::Stages <= 32 && kSharedBytes <= 227 * 1024,
                "the stages exceed the shared memory of sm_90");

  __device__ __forceinline__ void operator()(Params const& params, char* memory) const {
    sm90::run_product<Phases>(params, memory);
  }

  static __device__ __forceinline__ void init_barriers(Params const& params, uint32_t shared) {
    sm90::start_stages<Layout, Types::Stages>(params.cluster, shared, 1, Types::kOfGroup);
  }

  static __device__ __forceinline__ void prefetch_maps(Params const& params) {
    sm90::prefetch_map(&params.b);
    if (params.epilogue.n_boxes > 0) {
      sm90::prefetch_map(&params.d);
    }
  }

  // Load: the producer's warps. One of them loads.
  static __device__ __forceinline__ void load(Params const& params, uint32_t shared, sm90::ClusterPlace const& place,
                                              bool loading_warp) {
    sm90::ClusterShape const& cluster = params.cluster;
    sm90::Load const activations(&params.b, params.policy_b, params.slices_b, place.m, place.sharers_of_b(cluster));
    Producer producer{shared, params.weight, params.policy_a, params.stage_bytes};
    int const first = params.first_k_tile(place.split), stages = params.k_tiles(place.split);
    sm90::enter<Types::kPdl>(cluster);
    for (int index = sm90::cluster_index(); index < params.raster.blocks; index += sm90::cluster_count()) {
      if (loading_warp) {
        Place const tile(params, place, index);
        if (cluster.m > 1) {
          producer.template run<true>(activations, first, stages, tile.row / 64, tile.column);
        } else {
          producer.template run<false>(activations, first, stages, tile.row / 64, tile.column);
        }
      }
      meet_consumers(params, index);
    }
    if (loading_warp && cluster.size() > 1) {
      producer.drain();
    }
  }

  // Multiply: a consumer warpgroup.
  static __device__ __forceinline__ void multiply(Params const& params, uint32_t shared,
                                                  sm90::ClusterPlace const& place, int warpgroup) {
    if constexpr (!Store::kBoxes || Types::kGroups > 1) {
      consume<true>(params, shared, place, warpgroup);
    } else if (params.epilogue_through_smem) {
      consume<true>(params, shared, place, warpgroup);
    } else {
      consume<false>(params, shared, place, warpgroup);
    }
  }

 protected:
  // Called after each block by warps that do not multiply. Where the block's sums go through the memory of the stages,
  // all warps of the cluster synchronise.
  static __device__ __forceinline__ void meet_consumers(Params const& params, int index) {
    if (params.epilogue_through_smem) {
      __syncwarp();
      sm90::cluster_barrier();  // all CTAs have stored their sums
      if (another_block(params, index)) {
        sm90::cluster_barrier();  // all CTAs have read them
      }
    }
  }

  static __device__ __forceinline__ bool another_block(Params const& params, int index) {
    return index + sm90::cluster_count() < params.raster.blocks;
  }

 private:
  static constexpr int kAllConsumers = 5;  // named barrier; 1 to 4 are the epilogues'

  // Where this CTA's tile of a cluster's block begins: its row along n, its column along m.
  struct Place {
    int row, column;

    __device__ __forceinline__ Place(Params const& params, sm90::ClusterPlace const& place, int index) {
      sm90::Block const block(params.raster, index);
      row = (block.row * params.cluster.m + place.m) * Types::TileM;
      column = block.column * Types::TileN;
    }
  };

  // `kThroughSmem`: sums go through shared memory, where the CTAs of a split k and the groups of warpgroups add theirs.
  // The two values have a loop each, because ptxas would serialise the wgmmas of a loop with both epilogues (C7511).
  template <bool kThroughSmem>
  static __device__ __forceinline__ void consume(Params const& params, uint32_t shared, sm90::ClusterPlace const& place,
                                                 int warpgroup) {
    constexpr int kRows = Types::kRows, kOfGroup = Types::kOfGroup, Groups = Types::kGroups;
    sm90::ClusterShape const& cluster = params.cluster;
    int const slice = warpgroup % kOfGroup * kRows, group = warpgroup / kOfGroup, first_row = slice * 64;
    sm90::Release const release(Layout::empty(shared, 0), cluster.size(), place.sharers(cluster), threadIdx.x % 128);
    Mainloop mainloop(shared, slice, group, release);
    sm90::enter<Types::kPdl>(cluster);
    using StorePolicy = std::conditional_t<kThroughSmem, SharedStore, Store>;
    StorePolicy store(params.epilogue, &params.d, shared + Layout::kStoresAt, warpgroup % kOfGroup);
    int const stages = params.k_tiles(place.split);
    int before = 0;  // stages of earlier tiles, modulo Groups
    for (int index = sm90::cluster_index(); index < params.raster.blocks; index += sm90::cluster_count()) {
      float sums[kRows][Types::kColumns / 2];
      if constexpr (Groups == 1) {
        mainloop.run(stages, sums);
      } else {
        int const skipped = (group - before) & (Groups - 1);  // the tile's stages before this group's first one
        mainloop.run(stages > skipped ? (stages - skipped - 1) / Groups + 1 : 0, sums);
        before = (before + stages) & (Groups - 1);
      }
      Place const tile(params, place, index);
      Types::finish(params, tile.column, sums);
      if constexpr (kThroughSmem) {
        // All products are done: the stages are free.
        sm90::named_barrier_sync(kAllConsumers, Types::kConsumers * 128);
        ClusterReduction::store_sums(shared, sums);
        sm90::cluster_barrier();
        constexpr int kSubtiles = kRows * StorePolicy::kSubtiles;
#pragma unroll 1
        for (int subtile = place.split; subtile < (group == 0 ? kSubtiles : 0); subtile += cluster.splits) {
          float values[1][StorePolicy::kColumnGroups * 4];
          ClusterReduction::template reduce<1, StorePolicy::kColumnGroups>(shared, subtile, 1, cluster, place, values);
#pragma unroll
          for (int other = 1; other < Groups; ++other) {
            float more[1][StorePolicy::kColumnGroups * 4];
            ClusterReduction::template reduce<1, StorePolicy::kColumnGroups>(shared + other * kOfGroup * 128 * 16,
                                                                             subtile, 1, cluster, place, more);
#pragma unroll
            for (int i = 0; i < StorePolicy::kColumnGroups * 4; ++i) {
              values[0][i] += more[0][i];
            }
          }
          store.store_any(values[0], tile.row + first_row + subtile / StorePolicy::kSubtiles * 64,
                          tile.column + subtile % StorePolicy::kSubtiles * StorePolicy::kColumns, 0);
        }
        if (another_block(params, index)) {
          sm90::fence_async_proxy();  // TMA writes the stages next
          sm90::cluster_barrier();
        }
      } else {
        store.store(sums, tile.row + first_row, tile.column, 0);
      }
    }
    store.drain();
  }
};

}  // namespace tilewright::mixed_gemm

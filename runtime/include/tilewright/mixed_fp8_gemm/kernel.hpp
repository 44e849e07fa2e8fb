// The `mixed_fp8_gemm` kernel for sm_90a: FP8 activations by packed 4-bit weights.
//
// As in mixed_gemm/kernel.hpp, operands are swapped: the kernel's rows are D's columns (n), its columns D's rows (m). A
// CTA runs the phases of sm90/product.hpp. The CTAs of a cluster share the activations of the same rows by multicast,
// or divide a tile's k.
#pragma once

#include <cstdint>
#include <type_traits>

#include "tilewright/mixed_fp8_gemm/decode.hpp"
#include "tilewright/mixed_fp8_gemm/layout.hpp"
#include "tilewright/mixed_gemm/layout.hpp"
#include "tilewright/sm90/cluster.hpp"
#include "tilewright/sm90/cluster_reduction.hpp"
#include "tilewright/sm90/epilogue.hpp"
#include "tilewright/sm90/product.hpp"
#include "tilewright/sm90/scheduler.hpp"

namespace tilewright::mixed_fp8_gemm {

struct OwnParams {
  sm90::Raster raster;
  int stage_bytes;  // of weights, scales and activations that arrive in a stage
  int clusters;
  float const* row_factors;  // of D's rows, or null for 1
  mixed_gemm::PackedWeight weight;
};

struct Params : sm90::ProductParams, OwnParams, sm90::ProductMaps {};

// `TileM`: of n, 64 for each of the warpgroups that multiply; `TileN`: of m. `Schedule`: AtWill (mainloop.hpp) or
// InTurn (in_turn.hpp).
template <class Format_, class ElementD_, int TileM_, int TileN_, int Stages_, bool kPdl_, class Schedule>
struct Kernel {
  using Format = Format_;
  using ElementD = ElementD_;
  static constexpr int TileM = TileM_, TileN = TileN_, Stages = Stages_, kTileK = kUnitK;
  static constexpr bool kSwapped = true, kPdl = kPdl_;
  static constexpr int kConsumers = TileM / 64, kColumns = TileN, kThreads = (kConsumers + 1) * 128;
  static_assert(kConsumers == 1 || kConsumers == 2);

  using Store = sm90::Epilogue<ElementD, 1, kColumns, true, sm90::Activation::kNone>;
  // The store policy for sums that go through the stages' memory: those of a split k, of a D that TMA cannot store, and
  // those that are activated. Its code is in a loop, so that it takes little room.
  using SharedStore = sm90::Epilogue<ElementD, 1, kColumns, true, sm90::Activation::kGiven, 2,
                                     sm90::shared_subtile_columns(kColumns, true, false)>;
  static_assert(SharedStore::kBytes <= Store::kBytes);
  using Layout = mixed_fp8_gemm::Layout<Format, kConsumers, TileN, Stages, kConsumers * Store::kBytes>;
  using ClusterReduction = sm90::ClusterReduction<1, kColumns, kConsumers * 128>;
  using Mainloop = typename Schedule::template Mainloop<Format, Layout, kColumns, Stages>;
  using Producer = mixed_gemm::Producer<Layout, Stages>;
  using Params = mixed_fp8_gemm::Params;
  static constexpr int kSharedBytes = Layout::kBytes;
  static_assert(ClusterReduction::kBytes <= Layout::kStoresAt, "the stages have no room for the sums");
  static_assert(Stages >= 2 && Stages <= 32 && kSharedBytes <= 227 * 1024,
                "the stages exceed the shared memory of sm_90");
  // Registers of a thread, of the 65536: three warpgroups start with 168 each.
  static constexpr int kProducerRegisters = 24, kConsumerRegisters = 240;

  __device__ __forceinline__ void operator()(Params const& params, char* memory) const {
    sm90::run_product<Kernel>(params, memory);
  }

  static __device__ __forceinline__ void init_barriers(Params const& params, uint32_t shared) {
    sm90::start_stages<Layout, Stages>(params.cluster, shared, 1, kConsumers);
  }

  static __device__ __forceinline__ void prefetch_maps(Params const& params) {
    sm90::prefetch_map(&params.b);
    if (params.epilogue.n_boxes > 0) {
      sm90::prefetch_map(&params.d);
    }
  }

  // Load: the producer's warps, of which one loads.
  static __device__ __forceinline__ void load(Params const& params, uint32_t shared, sm90::ClusterPlace const& place,
                                              bool loading_warp) {
    sm90::ClusterShape const& cluster = params.cluster;
    sm90::Load const activations(&params.b, params.policy_b, params.slices_b, place.m, place.sharers_of_b(cluster));
    Producer producer{shared, params.weight, params.policy_a, params.stage_bytes};
    int const first = params.first_k_tile(place.split), stages = params.k_tiles(place.split);
    sm90::enter<kPdl>(cluster);
    for (int index = sm90::cluster_index(); index < params.raster.blocks; index += sm90::cluster_count()) {
      if (loading_warp) {
        Place const tile(params, place, index);
        if (cluster.m > 1) {
          producer.template run<true>(activations, first, stages, tile.row / 64, tile.column);
        } else {
          producer.template run<false>(activations, first, stages, tile.row / 64, tile.column);
        }
      }
      if (params.epilogue_through_smem) {
        __syncwarp();
        sm90::cluster_barrier();  // all CTAs have stored their sums to the stages' memory
        if (another_block(params, index)) {
          sm90::cluster_barrier();  // all CTAs have read them
        }
      }
    }
    if (loading_warp && cluster.size() > 1) {
      producer.drain();
    }
  }

  // Multiply: a consumer warpgroup.
  static __device__ __forceinline__ void multiply(Params const& params, uint32_t shared,
                                                  sm90::ClusterPlace const& place, int warpgroup) {
    if constexpr (!Store::kBoxes) {
      consume<true>(params, shared, place, warpgroup);
    } else if (params.epilogue_through_smem) {
      consume<true>(params, shared, place, warpgroup);
    } else {
      consume<false>(params, shared, place, warpgroup);
    }
  }

 private:
  static constexpr int kAllConsumers = 5;  // named barrier; 1 to 4 are the epilogues'

  // Where this CTA's tile of a cluster's block begins: rows of n, columns of m.
  struct Place {
    int row, column;

    __device__ __forceinline__ Place(Params const& params, sm90::ClusterPlace const& place, int index) {
      sm90::Block const block(params.raster, index);
      row = (block.row * params.cluster.m + place.m) * TileM;
      column = block.column * TileN;
    }
  };

  static __device__ __forceinline__ bool another_block(Params const& params, int index) {
    return index + sm90::cluster_count() < params.raster.blocks;
  }

  // Multiplies sums by the factors of D's rows, which are the kernel's columns, starting with `column`.
  static __device__ __forceinline__ void scale_rows(Params const& params, int column, float (&sums)[kColumns / 2]) {
    if (params.row_factors == nullptr) {
      return;
    }
#pragma unroll
    for (int group = 0; group < kColumns / 8; ++group) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        int const row = column + group * 8 + static_cast<int>(threadIdx.x) % 4 * 2 + i;
        float const factor = row < params.epilogue.m ? params.row_factors[row] : 0.0f;
        sums[group * 4 + i] *= factor, sums[group * 4 + i + 2] *= factor;
      }
    }
  }

  // `kThroughSmem`: sums go through shared memory, where the CTAs that divide k add them up. There are two loops,
  // because ptxas would serialise the wgmmas of a loop with both epilogues (C7511).
  template <bool kThroughSmem>
  static __device__ __forceinline__ void consume(Params const& params, uint32_t shared, sm90::ClusterPlace const& place,
                                                 int warpgroup) {
    sm90::ClusterShape const& cluster = params.cluster;
    sm90::Release const release(Layout::empty(shared, 0), cluster.size(), place.sharers(cluster), threadIdx.x % 128);
    Mainloop mainloop(shared, warpgroup, release);
    sm90::enter<kPdl>(cluster);
    using StorePolicy = std::conditional_t<kThroughSmem, SharedStore, Store>;
    StorePolicy store(params.epilogue, &params.d, shared + Layout::kStoresAt, warpgroup);
    int const stages = params.k_tiles(place.split);
    for (int index = sm90::cluster_index(); index < params.raster.blocks; index += sm90::cluster_count()) {
      float sums[1][kColumns / 2];
      mainloop.run(stages, sums[0]);
      Place const tile(params, place, index);
      scale_rows(params, tile.column, sums[0]);
      if constexpr (kThroughSmem) {
        sm90::named_barrier_sync(kAllConsumers, kConsumers * 128);  // all products are done: the stages are free
        ClusterReduction::store_sums(shared, sums);
        sm90::cluster_barrier();
#pragma unroll 1
        for (int subtile = place.split; subtile < StorePolicy::kSubtiles; subtile += cluster.splits) {
          float values[1][StorePolicy::kColumnGroups * 4];
          ClusterReduction::template reduce<1, StorePolicy::kColumnGroups>(shared, subtile, 1, cluster, place, values);
          store.store_any(values[0], tile.row + warpgroup * 64, tile.column + subtile * StorePolicy::kColumns, 0);
        }
        if (another_block(params, index)) {
          sm90::fence_async_proxy();  // TMA writes the stages next
          sm90::cluster_barrier();
        }
      } else {
        store.store(sums, tile.row + warpgroup * 64, tile.column, 0);
      }
    }
    store.drain();
  }
};

}  // namespace tilewright::mixed_fp8_gemm

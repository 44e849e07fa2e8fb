// What the producer's warps do: one loads operands, one loads their scale factors, and one schedules tiles, so that no
// load waits for the loads that tell its address.
#pragma once

#include <cstdint>

#include "tilewright/grouped_gemm/cta_tile.hpp"
#include "tilewright/grouped_gemm/block_factors.hpp"
#include "tilewright/grouped_gemm/form_code.hpp"
#include "tilewright/grouped_gemm/tile.hpp"
#include "tilewright/grouped_gemm/work.hpp"
#include "tilewright/sm90/cluster.hpp"
#include "tilewright/sm90/pipeline.hpp"
#include "tilewright/sm90/producer.hpp"
#include "tilewright/sm90/ptx.hpp"
#include "tilewright/sm90/scaled_layout.hpp"

namespace tilewright::grouped_gemm {

// `Kernel` is kernel.hpp's.
template <class Kernel>
struct Producers {
  using Params = typename Kernel::Params;
  using Layout = typename Kernel::Layout;
  using CtaTile = grouped_gemm::CtaTile<Kernel>;
  static constexpr int Boxes = Kernel::Boxes, Stages = Kernel::Stages;
  static constexpr bool kSwapped = Kernel::kSwapped;
  using Cluster = FormCluster<Kernel::kForm>;
  using Tiles = FormTiles<Kernel::kForm, Kernel::kTileRows, Kernel::kQueueAt>;

  // Called by each of the producer's warps. They enter (sm90::enter) here, unless the code is the general one.
  // `epilogue_through_smem`: consumers use the stages' memory between two tiles.
  static __device__ __forceinline__ void run(Params const& params, uint32_t shared, sm90::ClusterPlace const& place,
                                             bool loading_warp, bool epilogue_through_smem) {
    int const warp = threadIdx.x / 32 - Kernel::kConsumers * 4;
    if (loading_warp) {
      load(params, shared, place, epilogue_through_smem);
    } else if (warp == 1 && !Tiles::kKnown) {
      schedule(params, shared, place, epilogue_through_smem);
    } else if (Kernel::kScaled && warp == 2) {
      load_scales(params, shared, place, epilogue_through_smem);
    } else if (Kernel::kForm != Form::kAny) {
      sm90::enter<false>(Cluster::shape(params));
    } else if (epilogue_through_smem) {
      idle(shared);
    }
  }

 private:
  // Waits until what the stream's previous kernel wrote can be read.
  static __device__ __forceinline__ void wait_for_previous() {
    if constexpr (Kernel::kPdl) {
      sm90::wait_for_previous_kernel();
      sm90::allow_next_kernel();
    }
  }

  // For each tile, all threads of the cluster synchronise twice: when its sums lie in the stages' memory, and when they
  // have been read.
  static __device__ __forceinline__ void wait_for_reduction() {
    sm90::cluster_barrier();
    sm90::cluster_barrier();
  }

  // Sends the CTA's tiles to the other warps: in a form, the first one while other warps make the CTA's barriers.
  static __device__ __forceinline__ void schedule(Params const& params, uint32_t shared,
                                                  sm90::ClusterPlace const& place, bool epilogue_through_smem) {
    sm90::ClusterShape const& cluster = Cluster::shape(params);
    typename Kernel::TileScheduler scheduler(params.groups, params.groups.shares.of(sm90::cluster_index()),
                                             kSwapped ? cluster.n : cluster.m, kSwapped ? place.n : place.m);
    TileQueue queue(shared + Kernel::kQueueAt);
    bool const leader = sm90::elect_one();
    Tile tile;
    auto const send = [&] {
      if (leader) {
        queue.push(tile);
      }
      __syncwarp();
    };
    if constexpr (Kernel::kForm == Form::kAny) {
      // The first tile does not wait for the previous kernel where only the host decides which it is.
      bool const sent = scheduler.first(tile);
      if (sent) {
        send();
      }
      wait_for_previous();
      if (sent && epilogue_through_smem) {
        wait_for_reduction();
      }
      scheduler.start();
    } else {
      if (leader) {
        Kernel::start_queue(params, shared);
      }
      wait_for_previous();
      scheduler.start();
    }
    bool entered = Kernel::kForm == Form::kAny;
    while (scheduler.next(tile)) {
      send();
      if (!entered) {
        sm90::enter<false>(cluster);
        entered = true;
      }
      if (epilogue_through_smem) {
        wait_for_reduction();
      }
    }
    if (!entered) {
      sm90::enter<false>(cluster);
    }
    if (leader) {
      tile.flags = Tile::kEnd;
      queue.push(tile);
    }
    __syncwarp();
  }

  // Loads operands.
  static __device__ __forceinline__ void load(Params const& params, uint32_t shared, sm90::ClusterPlace const& place,
                                              bool epilogue_through_smem) {
    sm90::ClusterShape const& cluster = Cluster::shape(params);
    sm90::OperandLoads loads(params, place);
    typename Kernel::Producer producer{shared};
    auto queue = Tiles::source(params, shared);
    Tile tile;
    bool more = Tiles::template first<false>(params, queue, tile);
    wait_for_previous();
    for (; more; queue.pop(tile), more = queue.wait(tile)) {
      if (sm90::elect_one()) {
        CtaTile const cta_tile(params, place, tile);
        bool const own_maps = Kernel::kOwnMaps && CtaTile::groups_divide_k(params);
        if (own_maps && cta_tile.k_tiles > 0) {
          loads.a.map = params.group_maps + tile.group * 2, loads.b.map = loads.a.map + 1;
          sm90::acquire_map(loads.a.map), sm90::acquire_map(loads.b.map);
        }
        producer.run(cluster, loads,
                     {own_maps ? 0 : cta_tile.first_k_tile, cta_tile.k_tiles, cta_tile.a_row, cta_tile.b_row,
                      cta_tile.a_matrix, cta_tile.b_matrix});
      }
      __syncwarp();
      if (epilogue_through_smem) {
        wait_for_reduction();
      }
    }
    if (cluster.size() > 1 && sm90::elect_one()) {
      producer.drain();
    }
  }

  // Loads the scale factors of each stage, beside the warp that loads its operands.
  static __device__ __forceinline__ void load_scales(Params const& params, uint32_t shared,
                                                     sm90::ClusterPlace const& place, bool epilogue_through_smem) {
    bool const leader = sm90::elect_one();
    sm90::Position<Stages> at{};
    auto queue = Tiles::source(params, shared);
    Tile tile;
    bool more = Tiles::template first<false>(params, queue, tile);
    wait_for_previous();
    for (; more; queue.pop(tile), more = queue.wait(tile)) {
      CtaTile const cta_tile(params, place, tile);
      constexpr bool kOfA = Kernel::kOwnScalesA == sm90::Scales::kBlocks;  // else B's, if any are of 128x128
      BlockFactors<Layout, Boxes> blocks(kOfA ? params.blocks_a : params.blocks_b,
                                         kOfA ? cta_tile.a_matrix : cta_tile.b_matrix,
                                         kOfA ? cta_tile.a_row : cta_tile.b_row, cta_tile.first_k_tile * Boxes);
#pragma unroll 1
      for (int i = 0; i < cta_tile.k_tiles; ++i) {
        uint32_t const full = Layout::full(shared, at.stage);
        sm90::barrier_wait(Layout::empty(shared, at.stage), at.phase ^ 1);
        if (Layout::kScaleBytes > 0 && leader) {
          sm90::barrier_expect(full, Layout::kScaleBytes);
          load_row_scales(params, shared, cta_tile, at.stage, full, (cta_tile.first_k_tile + i) * Boxes);
        }
        if constexpr (Layout::kBlocks > 0) {
          blocks.store(shared, at.stage, full, i * Boxes);
        }
        at.next();
      }
      __syncwarp();
      if (epilogue_through_smem) {
        wait_for_reduction();
      }
    }
  }

  // Loads a stage's scale factors of rows. `k`: the first block of 128 of k.
  static __device__ __forceinline__ void load_row_scales(Params const& params, uint32_t shared, CtaTile const& cta_tile,
                                                         int stage, uint32_t full, int k) {
    if constexpr (Kernel::kOwnScalesA == sm90::Scales::kRows) {
      sm90::copy_box(Layout::scales_a(shared, stage), &params.scales_a, full, cta_tile.a_row, k, cta_tile.a_matrix,
                     params.policy_a);
    }
    if constexpr (Kernel::kOwnScalesB == sm90::Scales::kRows) {
      sm90::copy_box(Layout::scales_b(shared, stage), &params.scales_b, full, cta_tile.b_row, k, cta_tile.b_matrix,
                     params.policy_b);
    }
  }

  // A warp without loads: takes part in the cluster's barriers alone.
  static __device__ __forceinline__ void idle(uint32_t shared) {
    TileQueue queue(shared + Kernel::kQueueAt);
    Tile tile;
    for (; queue.wait(tile); queue.pop(tile)) {
      wait_for_reduction();
    }
  }
};

}  // namespace tilewright::grouped_gemm

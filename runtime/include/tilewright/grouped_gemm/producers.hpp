// What the producer's four warps do. Operands, scale factors and tiles have a warp each, so that the loads of a stage
// do not wait for the loads that say where it lies.
//
// | warp | general code | Form::kRows and kCounts (run_reading) | Form::kDense |
// |---|---|---|---|
// | 0 | loads operands | finds the first tile, then loads operands | computes tiles, and loads operands |
// | 1 | finds tiles, and sends them through the queue | the same | ends |
// | 2 | loads scale factors | finds the first tile, then loads scale factors | computes tiles, and loads factors |
// | 3 | takes part in cluster barriers | makes the queue if there are no clusters, and ends | ends |
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

// `Kernel` is kernel.hpp's, or has the same members.
template <class Kernel>
struct Producers {
  using Params = typename Kernel::Params;
  using Layout = typename Kernel::Layout;
  using CtaTile = grouped_gemm::CtaTile<Kernel>;
  static constexpr int Boxes = Kernel::Boxes, Stages = Kernel::Stages;
  static constexpr bool kSwapped = Kernel::kSwapped;
  using Cluster = typename Kernel::Cluster;
  using Tiles = typename Kernel::Tiles;

  // Called by each of the producer's warps. In forms, they enter (sm90::enter) here; in the general code they have
  // entered before. `epilogue_through_smem`: consumers use the stages' memory between two tiles.
  static __device__ __forceinline__ void run(Params const& params, uint32_t shared, sm90::ClusterPlace const& place,
                                             bool loading_warp, bool epilogue_through_smem) {
    int const warp = threadIdx.x / 32 - Kernel::kConsumers * 4;
    auto const first = [&](auto& queue, Tile& tile) {
      bool const more = Tiles::template first<false>(params, queue, tile);
      wait_for_previous();
      return more;
    };
    if constexpr (Tiles::kRead) {
      run_reading(params, shared, place, loading_warp, warp);
    } else if (loading_warp) {
      load(params, shared, place, epilogue_through_smem, first);
    } else if (warp == 1 && !Tiles::kKnown) {
      schedule(params, shared, place, epilogue_through_smem);
    } else if (Kernel::kScaled && warp == 2) {
      load_scales(params, shared, place, epilogue_through_smem, first);
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

  // Takes part in the two barriers of a reduction (ReducedStore), in which all threads of the cluster synchronise: when
  // a tile's sums lie in the stages' memory, and when they have been read.
  static __device__ __forceinline__ void wait_for_reduction() {
    sm90::cluster_barrier();
    sm90::cluster_barrier();
  }

  // The producer's warps in a form whose groups the device reads. Three warps find the first tile, each for itself and
  // by the same instructions, so that the loads of the first stages wait for no other warp. The fourth makes the queue
  // for the tiles after the first, unless there are clusters: there the queue's mbarriers must be ready before any warp
  // arrives at the cluster's barrier.
  static __device__ __forceinline__ void run_reading(Params const& params, uint32_t shared,
                                                     sm90::ClusterPlace const& place, bool loading_warp, int warp) {
    sm90::ClusterShape const& cluster = Cluster::shape(params);
    if (warp == 3) {
      if (!Kernel::kClusters && sm90::elect_one()) {
        Kernel::start_queue(params, shared);
      }
      __syncwarp();
      sm90::enter<false>(cluster);
      return;
    }
    int const cluster_index = Kernel::kClusters ? sm90::cluster_index() : static_cast<int>(blockIdx.x);
    typename Kernel::TileScheduler scheduler(params.groups, params.groups.shares.of(cluster_index),
                                             kSwapped ? cluster.n : cluster.m, kSwapped ? place.n : place.m);
    wait_for_previous();
    Tile tile;
    bool const found = scheduler.begin(tile);
    sm90::enter<false>(cluster);
    if (warp == 1) {
      TileQueue queue(shared + Kernel::kQueueAt);
      bool const leader = sm90::elect_one();
      auto const send = [&] {
        if (leader) {
          queue.push(tile);
        }
        __syncwarp();
      };
      if constexpr (Kernel::kForm == Form::kRows) {
        while (scheduler.next(tile)) {  // begins with the first tile again, now with all fields
          send();
        }
      } else {
        for (bool more = found; more; more = scheduler.next(tile)) {
          send();
        }
      }
      tile.flags = Tile::kEnd;
      send();
      return;
    }
    // A warp that found the first tile does not wait for the queue's first slot. That is safe: before it waits for the
    // next tile in that slot, it waits for all other slots, which are written after the first tile.
    auto const first = [&](TileQueue& queue, Tile& current) {
      current = tile;
      return found || queue.wait(current);
    };
    if (loading_warp) {
      load(params, shared, place, false, first);
    } else {
      load_scales(params, shared, place, false, first);
    }
  }

  // Warp 1 in the general code: sends the CTA's tiles to the other warps.
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
    // The first tile is sent before the previous kernel's end where the host alone decides which tile that is.
    bool const sent = scheduler.first(tile);
    if (sent) {
      send();
    }
    wait_for_previous();
    if (sent && epilogue_through_smem) {
      wait_for_reduction();
    }
    scheduler.start();
    while (scheduler.next(tile)) {
      send();
      if (epilogue_through_smem) {
        wait_for_reduction();
      }
    }
    if (leader) {
      tile.flags = Tile::kEnd;
      queue.push(tile);
    }
    __syncwarp();
  }

  // Loads the operands of all tiles. `first(queue, tile)` sets the first tile, or returns false if there is none.
  template <class First>
  static __device__ __forceinline__ void load(Params const& params, uint32_t shared, sm90::ClusterPlace const& place,
                                              bool epilogue_through_smem, First const& first) {
    sm90::ClusterShape const& cluster = Cluster::shape(params);
    sm90::OperandLoads loads(params, place);
    typename Kernel::Producer producer{shared};
    auto queue = Tiles::source(params, shared, place);
    Tile tile;
    bool more = first(queue, tile);
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

  // Loads the scale factors of all stages, beside the warp that loads their operands. `first`: as in `load`.
  template <class First>
  static __device__ __forceinline__ void load_scales(Params const& params, uint32_t shared,
                                                     sm90::ClusterPlace const& place, bool epilogue_through_smem,
                                                     First const& first) {
    bool const leader = sm90::elect_one();
    sm90::Position<Stages> at{};
    auto queue = Tiles::source(params, shared, place);
    Tile tile;
    bool more = first(queue, tile);
    for (; more; queue.pop(tile), more = queue.wait(tile)) {
      CtaTile const cta_tile(params, place, tile);
      constexpr bool kOfA = Kernel::kOwnScalesA == sm90::Scales::kBlocks;  // false: B may have factors of blocks
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

  // Issues the loads of a stage's scale factors of rows. `k`: the stage's first block of 128 of k.
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

  // A warp without loads: reads tiles only to take part in the barriers of their reductions.
  static __device__ __forceinline__ void idle(uint32_t shared) {
    TileQueue queue(shared + Kernel::kQueueAt);
    Tile tile;
    for (; queue.wait(tile); queue.pop(tile)) {
      wait_for_reduction();
    }
  }
};

}  // namespace tilewright::grouped_gemm

// What the producer's warps do: one loads operands, one their scale factors, and another finds out which tiles there
// are, so that no load waits for another's addresses.
#pragma once

#include <cstdint>

#include "tilewright/grouped_gemm/begin.hpp"
#include "tilewright/grouped_gemm/block_factors.hpp"
#include "tilewright/grouped_gemm/tile.hpp"
#include "tilewright/grouped_gemm/work.hpp"
#include "tilewright/sm90/cluster.hpp"
#include "tilewright/sm90/pipeline.hpp"
#include "tilewright/sm90/producer.hpp"
#include "tilewright/sm90/ptx.hpp"
#include "tilewright/sm90/scaled_layout.hpp"

namespace tilewright::grouped_gemm {

// `Kernel` is that of kernel.hpp.
template <class Kernel>
struct Producers {
  using Params = typename Kernel::Params;
  using Layout = typename Kernel::Layout;
  using Begin = grouped_gemm::Begin<Kernel>;
  static constexpr int Boxes = Kernel::Boxes, Stages = Kernel::Stages;
  static constexpr bool kSwapped = Kernel::kSwapped;

  // By each warp. `exchanges`: parts of a split k meet in the stages' memory.
  static __device__ __forceinline__ void run(Params const& params, uint32_t shared, sm90::ClusterPlace const& place,
                                             bool loading_warp, bool exchanges) {
    int const warp = threadIdx.x / 32 - Kernel::kConsumers * 4;
    if (loading_warp) {
      load(params, shared, place, exchanges);
    } else if (warp == 1) {
      decide(params, shared, place, exchanges);
    } else if (Kernel::kScaled && warp == 2) {
      load_scales(params, shared, place, exchanges);
    } else if (exchanges) {
      idle(shared);
    }
  }

 private:
  // For each tile: all threads of the cluster meet when its sums lie in the stages' memory, and when they have been
  // read.
  static __device__ __forceinline__ void let_exchange() {
    sm90::cluster_barrier();
    sm90::cluster_barrier();
  }

  static __device__ __forceinline__ void decide(Params const& params, uint32_t shared, sm90::ClusterPlace const& place,
                                                bool exchanges) {
    typename Kernel::Work work(params.groups, params.groups.shares.of(sm90::cluster_index()),
                               kSwapped ? params.cluster.n : params.cluster.m, kSwapped ? place.n : place.m);
    TileQueue queue(shared + Kernel::kQueueAt);
    bool const tells = sm90::elect_one();
    Tile tile;
    while (work.next(tile)) {
      if (tells) {
        queue.push(tile);
      }
      __syncwarp();
      if (exchanges) {
        let_exchange();
      }
    }
    if (tells) {
      tile.flags = Tile::kEnd;
      queue.push(tile);
    }
    __syncwarp();
  }

  static __device__ __forceinline__ void load(Params const& params, uint32_t shared, sm90::ClusterPlace const& place,
                                              bool exchanges) {
    sm90::ClusterShape const& cluster = params.cluster;
    sm90::OperandLoads loads(params, place);
    typename Kernel::Producer producer{shared};
    TileQueue queue(shared + Kernel::kQueueAt);
    Tile tile;
    for (; queue.wait(tile); queue.pop(tile)) {
      if (sm90::elect_one()) {
        Begin const begin(params, place, tile);
        bool const own_maps = Kernel::kOwnMaps && Begin::by_k(params);
        if (own_maps && begin.tiles > 0) {
          loads.a.map = params.parts + tile.group * 2, loads.b.map = loads.a.map + 1;
          sm90::acquire_map(loads.a.map), sm90::acquire_map(loads.b.map);
        }
        producer.run(cluster, loads,
                     {own_maps ? 0 : begin.k, begin.tiles, begin.a_row, begin.b_row, begin.a_matrix, begin.b_matrix});
      }
      __syncwarp();
      if (exchanges) {
        let_exchange();
      }
    }
    if (cluster.size() > 1 && sm90::elect_one()) {
      producer.drain();
    }
  }

  // A stage's scale factors, which are on their way beside its operands.
  static __device__ __forceinline__ void load_scales(Params const& params, uint32_t shared,
                                                     sm90::ClusterPlace const& place, bool exchanges) {
    bool const leads = sm90::elect_one();
    sm90::Position<Stages> at{};
    TileQueue queue(shared + Kernel::kQueueAt);
    Tile tile;
    for (; queue.wait(tile); queue.pop(tile)) {
      Begin const begin(params, place, tile);
      constexpr bool kOfA = Kernel::kOwnScalesA == sm90::Scales::kBlocks;  // else of B, if there are any
      BlockFactors<Layout, Boxes> blocks(kOfA ? params.blocks_a : params.blocks_b,
                                         kOfA ? begin.a_matrix : begin.b_matrix, kOfA ? begin.a_row : begin.b_row,
                                         begin.k * Boxes);
#pragma unroll 1
      for (int i = 0; i < begin.tiles; ++i) {
        uint32_t const full = Layout::full(shared, at.stage);
        sm90::barrier_wait(Layout::empty(shared, at.stage), at.phase ^ 1);
        if (Layout::kScaleBytes > 0 && leads) {
          sm90::barrier_expect(full, Layout::kScaleBytes);
          load_rows(params, shared, begin, at.stage, full, (begin.k + i) * Boxes);
        }
        if constexpr (Layout::kBlocks > 0) {
          blocks.store(shared, at.stage, full, i * Boxes);
        }
        at.next();
      }
      __syncwarp();
      if (exchanges) {
        let_exchange();
      }
    }
  }

  // The factors of rows of a stage, whose first block of k is `k`.
  static __device__ __forceinline__ void load_rows(Params const& params, uint32_t shared, Begin const& begin, int stage,
                                                   uint32_t full, int k) {
    if constexpr (Kernel::kOwnScalesA == sm90::Scales::kRows) {
      sm90::copy_box(Layout::scales_a(shared, stage), &params.scales_a, full, begin.a_row, k, begin.a_matrix,
                     params.policy_a);
    }
    if constexpr (Kernel::kOwnScalesB == sm90::Scales::kRows) {
      sm90::copy_box(Layout::scales_b(shared, stage), &params.scales_b, full, begin.b_row, k, begin.b_matrix,
                     params.policy_b);
    }
  }

  static __device__ __forceinline__ void idle(uint32_t shared) {
    TileQueue queue(shared + Kernel::kQueueAt);
    Tile tile;
    for (; queue.wait(tile); queue.pop(tile)) {
      let_exchange();
    }
  }
};

}  // namespace tilewright::grouped_gemm

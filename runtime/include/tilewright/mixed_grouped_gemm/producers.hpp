// The producer's warps of kernels of `mixed_grouped_gemm` and `mixed_fp8_grouped_gemm`. One warp schedules tiles; the
// others load the elements of weights, their scales, and activations. So no load of a stage waits for the loads of
// groups that say where the next tile lies.
#pragma once

#include <cstdint>

#include "tilewright/grouped_gemm/tile.hpp"
#include "tilewright/mixed_gemm/layout.hpp"
#include "tilewright/mixed_grouped_gemm/scheduler.hpp"
#include "tilewright/sm90/cluster.hpp"
#include "tilewright/sm90/pipeline.hpp"
#include "tilewright/sm90/producer.hpp"
#include "tilewright/sm90/ptx.hpp"

namespace tilewright::mixed_grouped_gemm {

// Where a CTA's tile begins: at `slice`, of 64 rows, of its group's weight, and at `row` of its matrix of activations.
struct CtaTile {
  int slice, row, matrix, group;

  template <class Params>
  __device__ __forceinline__ CtaTile(Params const& params, sm90::ClusterPlace const& place, Tile const& tile,
                                     int slices_of_tile)
      : slice((tile.column * params.cluster.m + place.m) * slices_of_tile),
        row(tile.row),
        matrix(tile.matrix),
        group(tile.group) {}
};

// `Kernel`: the Phases of phases.hpp. Three warps load: each waits for free stages by itself and announces its own
// bytes.
template <class Kernel>
struct Producers {
  using Params = typename Kernel::Params;
  using Layout = typename Kernel::Layout;
  static constexpr int Stages = Kernel::Stages;
  static constexpr int kLoaders = 3;

  // Called by each of the producer's warps.
  static __device__ __forceinline__ void run(Params const& params, uint32_t shared, sm90::ClusterPlace const& place) {
    switch (static_cast<int>(threadIdx.x) / 32 - Kernel::kConsumers * 4) {
      case 0:
        load_elements(params, shared, place);
        break;
      case 1:
        schedule(params, shared);
        break;
      case 2:
        if (params.cluster.m > 1) {
          load_activations<true>(params, shared, place);
        } else {
          load_activations<false>(params, shared, place);
        }
        break;
      default:
        load_scales(params, shared, place);
    }
  }

 private:
  // Sends the CTA's tiles to the other warps. The CTAs of a cluster compute tiles of the same rows.
  static __device__ __forceinline__ void schedule(Params const& params, uint32_t shared) {
    TileScheduler<Kernel::TileN> scheduler(params.groups, sm90::cluster_index(), sm90::cluster_count());
    TileQueue queue(shared + Kernel::kQueueAt);
    bool const leader = sm90::elect_one();
    Tile tile{};
    while (scheduler.next(tile)) {
      if (leader) {
        queue.push(tile);
      }
      __syncwarp();
    }
    if (leader) {
      tile.flags = Tile::kEnd;
      queue.push(tile);
    }
    __syncwarp();
  }

  // Goes through the stages of all tiles: calls `start(tile)` for each tile, waits for each stage of the ring,
  // announces `bytes`, and calls `issue(stage of k, stage of the ring, full barrier)` in one thread. Returns the
  // position in the ring after the last stage.
  template <class Start, class Issue>
  static __device__ __forceinline__ sm90::Position<Stages> load(Params const& params, uint32_t shared,
                                                                sm90::ClusterPlace const& place, int bytes,
                                                                Start const& start, Issue const& issue) {
    bool const loads = sm90::elect_one();
    sm90::Position<Stages> at{};
    TileQueue queue(shared + Kernel::kQueueAt);
    Tile tile;
    for (; queue.wait(tile); queue.pop(tile)) {
      start(CtaTile(params, place, tile, Layout::Slices));
#pragma unroll 1
      for (int i = 0; i < params.k_tiles_per_split; ++i) {
        uint32_t const full = Layout::full(shared, at.stage);
        sm90::barrier_wait(Layout::empty(shared, at.stage), at.phase ^ 1);
        if (loads) {
          sm90::barrier_expect(full, bytes);
          issue(i, at.stage, full);
        }
        at.next();
      }
      __syncwarp();
    }
    return at;
  }

  // Loads the elements or the scales of a packed weight: for each slice, `kStageBytes` to `to(stage, slice)`. With
  // `kHalf`, two stages in a row have the same bytes. The loop advances addresses and computes none, because tiles of
  // few columns leave it about 200 clocks for a stage.
  template <int kStageBytes, bool kHalf, class Place>
  static __device__ __forceinline__ void load_weight(Params const& params, uint32_t shared,
                                                     sm90::ClusterPlace const& place, char const* memory,
                                                     int64_t row_bytes, Place const& to) {
    char const* from[Layout::Slices];
    auto const start = [&](CtaTile const& tile) {
#pragma unroll
      for (int i = 0; i < Layout::Slices; ++i) {
        // A slice that begins after the weight's last row loads the last one: its sums are not stored.
        int const slice = min(tile.slice + i, params.weight.slices - 1);
        from[i] = memory + (int64_t(tile.group) * params.weight.slices + slice) * row_bytes;
      }
    };
    auto const issue = [&](int of_k, int stage, uint32_t full) {
#pragma unroll
      for (int i = 0; i < Layout::Slices; ++i) {
        sm90::copy_bytes(to(stage, i), from[i], kStageBytes, full, params.policy_a);
        from[i] += !kHalf || of_k % 2 == 1 ? kStageBytes : 0;
      }
    };
    load(params, shared, place, Layout::Slices * kStageBytes, start, issue);
  }

  static __device__ __forceinline__ void load_elements(Params const& params, uint32_t shared,
                                                       sm90::ClusterPlace const& place) {
    load_weight<Layout::kSliceA, false>(params, shared, place, params.weight.elements, params.weight.row_bytes,
                                        [&](int stage, int slice) { return Layout::weights(shared, stage, slice); });
  }

  static __device__ __forceinline__ void load_scales(Params const& params, uint32_t shared,
                                                     sm90::ClusterPlace const& place) {
    constexpr bool kHalf = Layout::kUnitScales == Layout::kPieceScales && Layout::Pieces == 1;
    load_weight<Layout::kSliceScales, kHalf>(
        params, shared, place, params.weight.scales, params.weight.scale_row_bytes,
        [&](int stage, int slice) { return Layout::scales(shared, stage, slice); });
  }

  // `kShare`: the CTAs of the cluster share the activations by multicast.
  template <bool kShare>
  static __device__ __forceinline__ void load_activations(Params const& params, uint32_t shared,
                                                          sm90::ClusterPlace const& place) {
    sm90::Load const load_b(&params.b, params.policy_b, params.slices_b, place.m, place.sharers_of_b(params.cluster));
    int count = 0;  // stages so far, modulo kMostCtas
    int row = 0, matrix = 0;
    auto const start = [&](CtaTile const& tile) { row = tile.row + load_b.row, matrix = tile.matrix; };
    auto const issue = [&](int of_k, int stage, uint32_t full) {
      bool const own = !kShare || (count & (load_b.period - 1)) == load_b.phase;
      count = (count + 1) & (sm90::kMostCtas - 1);
#pragma unroll
      for (int box = 0; box < Layout::Pieces; ++box) {
        uint32_t const to = Layout::activations(shared, stage) + box * Layout::kBoxB + load_b.offset;
        int const byte = (of_k * Layout::Pieces + box) * 128;
        if (own) {
          if constexpr (kShare) {
            sm90::copy_box_to(load_b.sharers, to, load_b.map, full, byte, row, matrix, load_b.policy);
          } else {
            sm90::copy_box(to, load_b.map, full, byte, row, matrix, load_b.policy);
          }
        }
      }
    };
    sm90::Position<Stages> at = load(params, shared, place, params.activation_bytes, start, issue);
    if constexpr (kShare) {
      // Waits until all CTAs that share this CTA's loads have read them: until then they arrive at this CTA's barriers.
#pragma unroll 1
      for (int i = 0; i < Stages; ++i) {
        sm90::barrier_wait(Layout::empty(shared, at.stage), at.phase ^ 1);
        at.next();
      }
    }
  }
};

}  // namespace tilewright::mixed_grouped_gemm

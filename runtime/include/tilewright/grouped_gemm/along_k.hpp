// The form for groups that divide k, where each group has tensor maps of its own.
//
// | | general code | this form |
// |---|---|---|
// | maps of groups | a kernel before the product writes them | the loading warp makes them (cta_maps.hpp) |
// | tiles | come through a queue | each warp computes them, because the host knows all tiles |
// | sizes of groups | the scheduling warp reads them | each warp reads them |
// | code | 110 to 134 kB | 16 to 26 kB |
#pragma once

#include <cstdint>

#include "tilewright/grouped_gemm/along_k_params.hpp"
#include "tilewright/grouped_gemm/cta_maps.hpp"
#include "tilewright/grouped_gemm/form.hpp"
#include "tilewright/grouped_gemm/groups_of_k.hpp"
#include "tilewright/grouped_gemm/kernel.hpp"
#include "tilewright/grouped_gemm/tile.hpp"
#include "tilewright/sm90/cluster.hpp"
#include "tilewright/sm90/pipeline.hpp"
#include "tilewright/sm90/producer.hpp"
#include "tilewright/sm90/product.hpp"
#include "tilewright/sm90/ptx.hpp"

namespace tilewright::grouped_gemm {

// `Base`: the dense form of kernel.hpp's Kernel, from which it has the tiles that the host knows.
template <class Base>
struct AlongKForm : Base {
  using Params = AlongKParamsOf<Heads>;
  static_assert(sizeof(Params) == sizeof(HostAlongKParams));
  static_assert(Base::kForm == Form::kDense && Base::kOwnMaps && Base::kFloats && Base::kConsumers > 1);
  static constexpr bool kClusters = Base::kClusters;

  __device__ __forceinline__ void operator()(Params const& params, char* memory) const {
    sm90::run_product<AlongKForm>(params, memory);
  }

  // Prologue, one thread. Nothing is loaded by the maps of all of A and B.
  static __device__ __forceinline__ void prefetch_maps(Params const& params) {
    sm90::prefetch_map(&params.scales_a);
    sm90::prefetch_map(&params.scales_b);
    sm90::prefetch_map(&params.d);
  }

  // Load: the producer's warps.
  static __device__ __forceinline__ void load(Params const& params, uint32_t shared,
                                              sm90::ClusterPlace const& in_launch, bool loading_warp) {
    sm90::ClusterShape const cluster = Base::Cluster::shape(params);
    sm90::ClusterPlace const place = Base::Cluster::place(in_launch);
    if (loading_warp) {
      load_operands(params, shared, cluster, place);
    } else if (threadIdx.x / 32 == Base::kConsumers * 4 + 2) {
      load_scales(params, shared, cluster, place);
    } else {
      sm90::enter<false>(cluster);
    }
  }

  // Multiply: a consumer warpgroup. Sums are stored, or added to D.
  static __device__ __forceinline__ void multiply(Params const& params, uint32_t shared,
                                                  sm90::ClusterPlace const& in_launch, int warpgroup) {
    sm90::ClusterShape const cluster = Base::Cluster::shape(params);
    sm90::ClusterPlace const place = Base::Cluster::place(in_launch);
    int const first_row = Base::kDown == 1 ? 0 : warpgroup * Base::kRows * 64;
    int const own_column = Base::kAcross == 1 ? 0 : warpgroup * Base::kColumns;
    sm90::Release const release(Layout::empty(shared, 0), cluster.size(), place.sharers(cluster), threadIdx.x % 32);
    Mainloop mainloop{shared, first_row, own_column, release};
    typename Base::FloatBoxes boxes(&params.d, shared + Layout::kStoresAt);
    auto tiles = Tiles::source(params, shared, place);
    Tile tile;
    sm90::enter<Base::kPdl>(cluster);
    Mainloop::start_order(warpgroup);
#pragma unroll 1
    for (; tiles.wait(tile); tiles.pop(tile)) {
      int const k_tiles = k_range<kUnit>(params.groups, tile.group).count;
      int const column = first_column(cluster, place, tile) + own_column;
      float sums[Base::kRows][Base::kColumns / 2];
      clear(sums);
      if (k_tiles > 0) {  // also if the warpgroup has no row of D: code for that case would lie in the way
        mainloop.run(k_tiles, column, ~0u, sums);
      }
      if (params.floats == Floats::kAdded) {
        boxes.template store<true>(sums, tile.row + first_row, column, tile.matrix);
      } else {
        boxes.template store<false>(sums, tile.row + first_row, column, tile.matrix);
      }
    }
    boxes.drain();
  }

 private:
  using Layout = typename Base::Layout;
  using Mainloop = typename Base::Mainloop;
  using Tiles = typename Base::Tiles;
  static constexpr int kUnit = Base::kTileBytesK;  // elements of a k tile, of a byte
  // No warp sends tiles through the queue, so its memory has room for maps.
  static constexpr int kMapsAt = (Base::kQueueAt + 127) / 128 * 128;
  static_assert(kMapsAt + CtaMaps<Base::Stages>::kSharedBytes <= Base::kSharedBytes);

  static __device__ __forceinline__ int first_column(sm90::ClusterShape const& cluster, sm90::ClusterPlace const& place,
                                                     Tile const& tile) {
    return (tile.column * cluster.n + place.n) * Base::TileN;
  }

  static __device__ __forceinline__ void wait_for_previous() {
    if constexpr (Base::kPdl) {
      sm90::wait_for_previous_kernel();
      sm90::allow_next_kernel();
    }
  }

  static __device__ __forceinline__ void clear(float (&sums)[Base::kRows][Base::kColumns / 2]) {
#pragma unroll
    for (auto& row : sums) {
#pragma unroll
      for (float& sum : row) {
        sum = 0.0f;
      }
    }
  }

  // Loads operands. The maps of the first group are made while barriers are.
  static __device__ __forceinline__ void load_operands(Params const& params, uint32_t shared,
                                                       sm90::ClusterShape const& cluster,
                                                       sm90::ClusterPlace const& place) {
    sm90::prefetch_line(params.groups.layout);
    sm90::OperandLoads loads(params, place);
    typename Base::Producer producer{shared};
    CtaMaps<Base::Stages> maps(params, shared + kMapsAt);
    auto tiles = Tiles::source(params, shared, place);
    Tile tile;
    int group = -1;  // whose maps `loads` has
    bool entered = false;
#pragma unroll 1
    for (; tiles.wait(tile); tiles.pop(tile)) {
      // Returns at once before later tiles. A branch around it would hide it from the build's check.
      wait_for_previous();
      Tile::KRange const range = k_range<kUnit>(params.groups, tile.group);
      if (tile.group != group && range.count > 0) {
        group = tile.group;
        loads.a.map = maps.template make<kUnit>(params, range);
        loads.b.map = loads.a.map + 1;
      }
      if (!entered) {
        sm90::enter<false>(cluster);
        entered = true;
      }
      producer.run(cluster, loads, {0, range.count, tile.row, first_column(cluster, place, tile), 0, 0});
    }
    if constexpr (kClusters) {
      producer.drain();
    }
  }

  // Loads scale factors, whose maps are those of all of k.
  static __device__ __forceinline__ void load_scales(Params const& params, uint32_t shared,
                                                     sm90::ClusterShape const& cluster,
                                                     sm90::ClusterPlace const& place) {
    bool const leader = sm90::elect_one();
    sm90::Position<Base::Stages> at{};
    auto tiles = Tiles::source(params, shared, place);
    Tile tile;
    bool entered = false;
#pragma unroll 1
    for (; tiles.wait(tile); tiles.pop(tile)) {
      wait_for_previous();
      Tile::KRange const range = k_range<kUnit>(params.groups, tile.group);
      if (!entered) {
        sm90::enter<false>(cluster);
        entered = true;
      }
      int const column = first_column(cluster, place, tile);
#pragma unroll 1
      for (int k_tile = range.first; k_tile < range.first + range.count; ++k_tile) {
        uint32_t const full = Layout::full(shared, at.stage);
        sm90::barrier_wait(Layout::empty(shared, at.stage), at.phase ^ 1);
        if (leader) {
          sm90::barrier_expect(full, Layout::kScaleBytes);
          sm90::copy_box(Layout::scales_a(shared, at.stage), &params.scales_a, full, tile.row, k_tile, 0,
                         params.policy_a);
          sm90::copy_box(Layout::scales_b(shared, at.stage), &params.scales_b, full, column, k_tile, 0,
                         params.policy_b);
        }
        at.next();
      }
      if (params.floats == Floats::kAdded && range.count <= kShortOfK) {
        request_d<Base>(params, tile, column);
      }
    }
  }
};

// A kernel with this form. `Base`: kernel.hpp's Kernel.
template <class Base>
struct AlongK : WithFormOfK<Base, AlongKForm> {};

}  // namespace tilewright::grouped_gemm

// The form for groups that divide k, of MN-major operands of 16 bits: a group is some rows of both operands.
//
// The general code has a queue of tiles, splits of k, a C that is not D, and rows of groups. Here each warp computes
// the tiles itself, because the host knows all of them, and reads the sizes of groups.
#pragma once

#include <cstdint>

#include "tilewright/grouped_gemm/form.hpp"
#include "tilewright/grouped_gemm/groups_of_k.hpp"
#include "tilewright/grouped_gemm/kernel.hpp"
#include "tilewright/grouped_gemm/tile.hpp"
#include "tilewright/sm90/cluster.hpp"
#include "tilewright/sm90/producer.hpp"
#include "tilewright/sm90/product.hpp"
#include "tilewright/sm90/ptx.hpp"

namespace tilewright::grouped_gemm {

// `Base`: the dense form of kernel.hpp's Kernel, from which it has the tiles that the host knows.
template <class Base>
struct MnAlongKForm : Base {
  using Params = typename Base::Params;
  static_assert(Base::kForm == Form::kDense && Base::kGroupsOfK && !Base::kOwnMaps && Base::kFloats &&
                Base::kConsumers > 1);
  static constexpr bool kClusters = Base::kClusters;

  __device__ __forceinline__ void operator()(Params const& params, char* memory) const {
    sm90::run_product<MnAlongKForm>(params, memory);
  }

  // Load: the producer's warps.
  static __device__ __forceinline__ void load(Params const& params, uint32_t shared,
                                              sm90::ClusterPlace const& in_launch, bool loading_warp) {
    sm90::ClusterShape const cluster = Base::Cluster::shape(params);
    if (!loading_warp) {
      sm90::enter<false>(cluster);
      return;
    }
    sm90::ClusterPlace const place = Base::Cluster::place(in_launch);
    sm90::prefetch_line(params.groups.layout);
    sm90::OperandLoads const loads(params, place);
    typename Base::Producer producer{shared};
    auto tiles = Tiles::source(params, shared, place);
    Tile tile;
    bool entered = false;
#pragma unroll 1
    for (; tiles.wait(tile); tiles.pop(tile)) {
      if constexpr (Base::kPdl) {  // returns at once before later tiles
        sm90::wait_for_previous_kernel();
        sm90::allow_next_kernel();
      }
      Tile::KRange const range = k_range<kUnit>(params.groups, tile.group);
      int const column = first_column(cluster, place, tile);
      if (!entered) {
        sm90::enter<false>(cluster);
        entered = true;
      }
      producer.run(cluster, loads, {range.first, range.count, tile.row, column, 0, 0});
      if (params.floats == Floats::kAdded && range.count > 0 && range.count <= kShortOfK) {
        request_d<Base>(params, tile, column);
      }
    }
    if constexpr (kClusters) {
      producer.drain();
    }
  }

  // Multiply: a consumer warpgroup. Sums are stored, or added to D.
  static __device__ __forceinline__ void multiply(Params const& params, uint32_t shared,
                                                  sm90::ClusterPlace const& in_launch, int warpgroup) {
    sm90::ClusterShape const cluster = Base::Cluster::shape(params);
    sm90::ClusterPlace const place = Base::Cluster::place(in_launch);
    int const first_row = Base::kDown == 1 ? 0 : warpgroup * Base::kRows * 64;
    int const own_column = Base::kAcross == 1 ? 0 : warpgroup * Base::kColumns;
    sm90::Release const release(Layout::empty(shared, 0), cluster.size(), place.sharers(cluster), threadIdx.x % 128);
    typename Base::Mainloop mainloop{shared, first_row, own_column, release};
    typename Base::FloatBoxes boxes(&params.d, shared + Layout::kStoresAt);
    auto tiles = Tiles::source(params, shared, place);
    Tile tile;
    sm90::enter<Base::kPdl>(cluster);
#pragma unroll 1
    for (; tiles.wait(tile); tiles.pop(tile)) {
      int const k_tiles = k_range<kUnit>(params.groups, tile.group).count;
      int const row = tile.row + first_row, column = first_column(cluster, place, tile) + own_column;
      if (k_tiles == 0) {
        if (params.floats == Floats::kBoxes) {
          store_zeros(params, row, column, tile.matrix);
        }
        continue;
      }
      float sums[Base::kRows][Base::kColumns / 2];
      mainloop.run(k_tiles, sums, [] {});
      if (params.floats == Floats::kAdded) {
        boxes.template store<true>(sums, row, column, tile.matrix);
      } else {
        boxes.template store<false>(sums, row, column, tile.matrix);
      }
    }
    boxes.drain();
  }

 private:
  using Layout = typename Base::Layout;
  using Tiles = typename Base::Tiles;
  static constexpr int kUnit = Base::kTileBytesK / Base::ElementA::kBytes;  // elements of a k tile

  static __device__ __forceinline__ int first_column(sm90::ClusterShape const& cluster, sm90::ClusterPlace const& place,
                                                     Tile const& tile) {
    return (tile.column * cluster.n + place.n) * Base::TileN;
  }

  // Stores zeros to a warpgroup's part of a tile whose group has no k. If `boxes` stored cleared sums, ptxas would have
  // a second set of accumulators beside wgmma's.
  static __device__ __forceinline__ void store_zeros(Params const& params, int row, int column, int matrix) {
    sm90::EpilogueParams const& epilogue = params.epilogue;
    float* const d = static_cast<float*>(epilogue.d) + matrix * epilogue.batch_stride_d;
#pragma unroll 1
    for (int m = row; m < min(row + Base::kRows * 64, epilogue.m); ++m) {
#pragma unroll 1
      for (int n = column + static_cast<int>(threadIdx.x) % 128; n < min(column + Base::kColumns, epilogue.n);
           n += 128) {
        d[m * epilogue.ld_d + n] = 0.0f;
      }
    }
  }
};

// A kernel with this form. `Base`: kernel.hpp's Kernel.
template <class Base>
struct MnAlongK : WithFormOfK<Base, MnAlongKForm> {};

}  // namespace tilewright::grouped_gemm

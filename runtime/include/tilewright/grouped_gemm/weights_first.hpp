// Kernels whose callers promise that B is constant: nothing writes it that may still run when the kernel is launched.
// So dense products need not wait for the end of the stream's previous kernel before they load B:
//
// | when | the loading warp loads | other warps |
// |---|---|---|
// | before the previous kernel's end | B of the first stages of the CTA's first tile | wait |
// | after it | A of these stages, then all other stages | load scale factors, multiply |
#pragma once

#include <cstdint>
#include <type_traits>

#include "tilewright/grouped_gemm/cta_tile.hpp"
#include "tilewright/grouped_gemm/form.hpp"
#include "tilewright/grouped_gemm/producers.hpp"
#include "tilewright/grouped_gemm/tile.hpp"
#include "tilewright/sm90/cluster.hpp"
#include "tilewright/sm90/producer.hpp"
#include "tilewright/sm90/product.hpp"
#include "tilewright/sm90/ptx.hpp"

namespace tilewright::grouped_gemm {

// The dense form with weights (B) first. `Base`: the dense form of kernel.hpp's Kernel.
template <class Base>
struct DenseWeightsFirst : Base {
  using Params = typename Base::Params;
  static_assert(Base::kForm == Form::kDense && Base::kPdl && !Base::kMnA && !Base::kMnB);

  __device__ __forceinline__ void operator()(Params const& params, char* memory) const {
    sm90::run_product<DenseWeightsFirst>(params, memory);
  }

  static __device__ __forceinline__ void load(Params const& params, uint32_t shared,
                                              sm90::ClusterPlace const& in_launch, bool loading_warp) {
    sm90::ClusterPlace const place = Base::Cluster::place(in_launch);
    if (loading_warp) {
      load_operands(params, shared, place);
    } else {
      Producers<Base>::run(params, shared, place, false, false);
    }
  }

 private:
  using Layout = typename Base::Layout;
  using Tiles = typename Base::Tiles;
  using CtaTile = grouped_gemm::CtaTile<Base>;
  static constexpr bool kSwapped = Base::kSwapped;  // the caller's B is the kernel's A; otherwise its B
  static constexpr bool kClusters = Base::kClusters;

  static __device__ __forceinline__ void load_operands(Params const& params, uint32_t shared,
                                                       sm90::ClusterPlace const& place) {
    sm90::ClusterShape const& cluster = Base::Cluster::shape(params);
    sm90::OperandLoads const loads(params, place);
    typename Base::Producer producer{shared};
    auto queue = Tiles::source(params, shared, place);
    Tile tile;
    bool more = Tiles::template first<false>(params, queue, tile);
    int begun = 0;  // stages of the first tile whose B is loaded before the previous kernel's end
    if (more) {
      CtaTile const cta_tile(params, place, tile);
      begun = min(Base::Stages, cta_tile.k_tiles);
      load_stages<kSwapped, true>(cluster, loads, shared, cta_tile, begun);
    }
    sm90::wait_for_previous_kernel();
    sm90::allow_next_kernel();
    if (more) {
      load_stages<!kSwapped, false>(cluster, loads, shared, CtaTile(params, place, tile), begun);
      producer.at.skip(begun);
      producer.count = begun & (sm90::kMostCtas - 1);
    }
    for (; more; queue.pop(tile), more = queue.wait(tile)) {
      if (sm90::elect_one()) {
        CtaTile const cta_tile(params, place, tile);
        producer.run(cluster, loads,
                     {cta_tile.first_k_tile + begun, cta_tile.k_tiles - begun, cta_tile.a_row, cta_tile.b_row,
                      cta_tile.a_matrix, cta_tile.b_matrix});
      }
      __syncwarp();
      begun = 0;
    }
    if (cluster.size() > 1 && sm90::elect_one()) {
      producer.drain();
    }
  }

  // Loads the kernel's A (`kOfA`) or its B into the first `count` stages for the CTA's first tile. All stages are free
  // then, so it does not wait. `kAnnounces`: announces the bytes of both operands.
  template <bool kOfA, bool kAnnounces>
  static __device__ __forceinline__ void load_stages(sm90::ClusterShape const& cluster, sm90::OperandLoads const& loads,
                                                     uint32_t shared, CtaTile const& tile, int count) {
    sm90::Load const& load = kOfA ? loads.a : loads.b;
    int const row = (kOfA ? tile.a_row : tile.b_row) + load.row, matrix = kOfA ? tile.a_matrix : tile.b_matrix;
    bool const shares = kClusters && (kOfA ? cluster.n : cluster.m) > 1;
    bool const leader = sm90::elect_one();
    int byte = tile.first_k_tile * Base::kTileBytesK;  // of k
#pragma unroll 1
    for (int stage = 0; stage < count; ++stage) {
      uint32_t const full = Layout::full(shared, stage);
      uint32_t const to = (kOfA ? Layout::a(shared, stage) : Layout::b(shared, stage)) + load.offset;
      if (kAnnounces && leader) {
        sm90::barrier_expect(full, Layout::kStageA + Layout::kStageB);
      }
      // If CTAs share the operand, each loads a slice of every stage, or all rows of one in `period` stages (Slices).
      if (leader && (!shares || (stage & (load.period - 1)) == load.phase)) {
#pragma unroll
        for (int box = 0; box < Base::Boxes; ++box) {
          uint32_t const to_box = to + box * (kOfA ? Layout::kBoxA : Layout::kBoxB);
          if (shares) {
            sm90::copy_box_to(load.sharers, to_box, load.map, full, byte + box * 128, row, matrix, load.policy);
          } else {
            sm90::copy_box(to_box, load.map, full, byte + box * 128, row, matrix, load.policy);
          }
        }
      }
      byte += Base::kTileBytesK;
    }
    __syncwarp();
  }
};

// The kernel `Base` (kernel.hpp's Kernel) with dense forms that load weights first.
template <class Base>
struct WeightsFirst : Base {
  template <Form kForm, bool kClusters>
  using Of =
      std::conditional_t<kForm == Form::kDense, DenseWeightsFirst<typename Base::template Of<Form::kDense, kClusters>>,
                         typename Base::template Of<kForm, kClusters>>;
};

}  // namespace tilewright::grouped_gemm

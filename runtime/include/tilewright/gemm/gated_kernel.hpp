// The lean `gemm` kernel with a gated activation for sm_90a (sm90/gated.hpp): the lean kernel, with the loads and the
// epilogue of paired rows. Both operands have k contiguous. One cluster computes all k ranges of a tile.
#pragma once

#include <cstdint>

#include "tilewright/gemm/lean_kernel.hpp"
#include "tilewright/sm90/gated_epilogue.hpp"
#include "tilewright/sm90/paired_rows.hpp"

namespace tilewright::gemm::lean {

template <class A, class B, class ElementD, int TileM, int TileN, int Boxes, int Stages, Schedule kSchedule,
          bool kSwapped, class Sum, bool kPdl>
struct GatedKernel : Kernel<A, B, false, false, ElementD, TileM, TileN, Boxes, Stages, kSchedule, kSwapped, Sum,
                            sm90::kSiluMul, kPdl> {
  using Base =
      Kernel<A, B, false, false, ElementD, TileM, TileN, Boxes, Stages, kSchedule, kSwapped, Sum, sm90::kSiluMul, kPdl>;
  using Producer = sm90::PairedProducer<typename Base::Layout, Boxes, Stages, kSwapped>;
  static_assert((kSwapped ? TileM : TileN) % sm90::kPairedRows == 0);

  __device__ __forceinline__ void operator()(Params const& params, char* memory) const {
    sm90::run_product<GatedKernel>(params, memory);
  }

  // Load: the producer's warps, as `Kernel::load`, with another producer.
  static __device__ __forceinline__ void load(Params const& params, uint32_t shared, sm90::ClusterPlace const& place,
                                              bool loading_warp) {
    sm90::ClusterShape const& cluster = params.cluster;
    sm90::OperandLoads const loads(params, place);
    Producer producer(shared, {}, params.stage_bytes);
    int index = sm90::cluster_index();
    sm90::TileKRange k_range = k_range_of(params, place, index);
    sm90::enter<kPdl>(cluster);
    while (index < params.raster.blocks) {
      if (loading_warp) {
        producer.run(cluster, loads, k_range);
      }
      index += sm90::cluster_count();
      if (Base::kEpilogueThroughSmem && params.epilogue_through_smem) {
        __syncwarp();
        sm90::cluster_barrier();  // all CTAs have stored their sums to the stages' memory
        if (index < params.raster.blocks) {
          sm90::cluster_barrier();  // all CTAs have read them
        }
      }
      k_range = k_range_of(params, place, index);
    }
    if (loading_warp && cluster.size() > 1) {
      producer.drain();
    }
  }

 private:
  // What this CTA loads for block number `index`.
  static __device__ __forceinline__ sm90::TileKRange k_range_of(Params const& params, sm90::ClusterPlace const& place,
                                                                int index) {
    sm90::Block const block(params.raster, index);
    return {params.first_k_tile(place.split),
            params.k_tiles(place.split),
            (block.row * params.cluster.m + place.m) * TileM,
            (block.column * params.cluster.n + place.n) * TileN,
            params.broadcast_a ? 0 : block.matrix,
            params.broadcast_b ? 0 : block.matrix};
  }
};

}  // namespace tilewright::gemm::lean

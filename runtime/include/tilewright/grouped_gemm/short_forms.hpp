// Short forms: forms of a kernel (form.hpp) with code of their own around the main loop.
//
// A launch behind other kernels finds none of its code in the instruction caches. The forms of kernel.hpp have the loop
// over tiles of the general code (`consume`): in a dense form of 64x32, 1.5 kB of code lie between the last product and
// its store. Short forms have less there:
//
// | | forms of kernel.hpp | short forms |
// |---|---|---|
// | after the main loop, the tile is | read again | still in registers, if there is room |
// | the next tile is found | before the sums are stored | after that |
// | dense products have | code for groups, too | no code for groups |
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
#include "tilewright/sm90/row_fate.hpp"

namespace tilewright::grouped_gemm {

// `Base`: a form of kernel.hpp's Kernel.
template <class Base>
struct ShortForm : Base {
  using Params = typename Base::Params;
  static constexpr Form kForm = Base::kForm;
  static constexpr bool kClusters = Base::kClusters;
  static_assert(kForm != Form::kAny && Base::kScaled && Base::Store::kBoxes && Base::ElementD::kBytes == 2,
                "TMA stores D as it is summed");

  // Starts the CTA in the steps of sm90::run_form (sm90/run_form.hpp has them in a table). They are written out here,
  // because by way of run_form nvcc orders some loop variables otherwise: the machine code of dense forms would change,
  // and they would have to run on a GPU again.
  __device__ __forceinline__ void operator()(Params const& params, char* memory) const {
    uint32_t const shared = sm90::shared_address(memory);
    if (shared % 1024 != 0) {
      __trap();  // see sm90::prologue
    }
    int const warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0);
    sm90::ClusterShape const cluster = Base::Cluster::shape(params);
    sm90::ClusterPlace const place = Base::Cluster::place(sm90::ClusterPlace(cluster));
    if (warp == 0) {
      if (sm90::elect_one()) {
        Base::init_barriers(params, shared);
        sm90::fence_barrier_init();
      }
      __syncwarp();
    } else if (warp == kLoading) {
      if (sm90::elect_one()) {
        Base::prefetch_maps(params);
      }
      __syncwarp();
    }
    if constexpr (kClusters) {
      sm90::cluster_arrive();  // sm90::enter waits
    }
    if (warp < kLoading) {
      if constexpr (kSetsRegisters) {
        sm90::take_registers<Base::kConsumerRegisters>();
      }
      multiply_tiles(params, shared, cluster, place, warp / 4);
      return;
    }
    if constexpr (kSetsRegisters) {
      sm90::keep_registers<Base::kProducerRegisters>();
    }
    if (kForm == Form::kDense && warp == kLoading) {
      load_tiles(params, shared, cluster, place);
    } else {
      Producers<Base>::run(params, shared, place, warp == kLoading, false);
    }
  }

 private:
  using CtaTile = grouped_gemm::CtaTile<Base>;
  using Layout = typename Base::Layout;
  using Mainloop = typename Base::Mainloop;
  using Store = typename Base::Store;
  using Tiles = typename Base::Tiles;
  static constexpr int kConsumers = Base::kConsumers, kDown = Base::kDown, kAcross = Base::kAcross;
  static constexpr int kRows = Base::kRows, kColumns = Base::kColumns;
  static constexpr int kLoading = kConsumers * 4;  // the warp that loads operands

  // Accumulators of a thread, with both sets of a promotion that overlaps. They decide whether registers are set, as in
  // sm90::form_sets_registers.
  static constexpr int kAccumulators = kRows * kColumns / 2 + 2 * Mainloop::kPart;
  static constexpr bool kSetsRegisters = kConsumers > 1 && kAccumulators > 104;
  // Whether registers hold a tile during the main loop. Otherwise it is read again after it.
  static constexpr bool kHoldsTile = kAccumulators <= 104;
  // Whether a warpgroup's rows may all lie outside of D, or of the tile's group.
  static constexpr bool kMaySkip = kForm != Form::kDense || (kDown > 1 && !Base::kSwapped);

  // Loads the operands of dense products. The first tile is computed while barriers are made.
  static __device__ __forceinline__ void load_tiles(Params const& params, uint32_t shared,
                                                    sm90::ClusterShape const& cluster,
                                                    sm90::ClusterPlace const& place) {
    sm90::OperandLoads const loads(params, place);
    typename Base::Producer producer{shared};
    auto tiles = Tiles::source(params, shared, place);
    Tile tile;
    for (bool more = Tiles::template first<Base::kPdl>(params, tiles, tile); more;
         tiles.pop(tile), more = tiles.wait(tile)) {
      CtaTile const cta_tile(params, place, tile);
      producer.run(cluster, loads,
                   {0, params.k_tiles_per_split, cta_tile.a_row, cta_tile.b_row, cta_tile.a_matrix, cta_tile.b_matrix});
    }
    if constexpr (kClusters) {
      producer.drain();
    }
  }

  static __device__ __forceinline__ void multiply_tiles(Params const& params, uint32_t shared,
                                                        sm90::ClusterShape const& cluster,
                                                        sm90::ClusterPlace const& place, int warpgroup) {
    int const first_row = kDown == 1 ? 0 : warpgroup * kRows * 64;
    int const first_column = kAcross == 1 ? 0 : warpgroup * kColumns;
    sm90::Release const release(Layout::empty(shared, 0), cluster.size(), place.sharers(cluster), threadIdx.x % 32);
    Mainloop mainloop{shared, first_row, first_column, release};
    Store store(params.epilogue, &params.d, shared + Layout::kStoresAt, warpgroup);
    int const first_slice = Base::kSwapped ? 0 : first_row / 64;  // of Tile::row_slices
    uint32_t const own_slices = Base::kSwapped ? ~0u : (1u << kRows) - 1;
    auto tiles = Tiles::source(params, shared, place);
    Tile tile;
    bool more = Tiles::template first<Base::kPdl>(params, tiles, tile);
    Mainloop::start_order(warpgroup);
    while (more) {
      int k_tiles = CtaTile::count_k_tiles(params, place, tile);
      if constexpr (!Tiles::kKnown) {
        // Waits for the load of the tile's column from the queue, so that it returns on all paths before any barrier is
        // arrived at, which the build can check.
        k_tiles += static_cast<int>(sm90::zero_after(tile.column));
      }
      float sums[kRows][kColumns / 2];
      clear(sums);
      uint32_t const slices = tile.row_slices >> first_slice;
      if (!kMaySkip || ((slices & own_slices) != 0 && k_tiles > 0)) {
        mainloop.run(k_tiles, CtaTile(params, place, tile).b_row + first_column, slices, sums);
      } else {
        mainloop.skip(k_tiles);
      }
      if constexpr (!kHoldsTile) {
        tiles.read(tile);
      }
      store_tile(params, store, tile, place, first_row, first_column, sums);
      tiles.pop(tile);
      more = tiles.wait(tile);
    }
    store.drain();
  }

  // Stores a warpgroup's sums of a tile. first_row, first_column: where they begin in the tile of the kernel's own
  // plane.
  static __device__ __forceinline__ void store_tile(Params const& params, Store& store, Tile& tile,
                                                    sm90::ClusterPlace const& place, int first_row, int first_column,
                                                    float (&sums)[kRows][kColumns / 2]) {
    // Row and column of this warpgroup's sums, in the kernel's own plane: swapped, D's column and row.
    CtaTile const cta_tile(params, place, tile);
    int const row = cta_tile.a_row + first_row, column = cta_tile.b_row + first_column;
    if constexpr (kForm == Form::kDense) {
      store.store_rows(sums, row, column, tile.matrix, sm90::EveryRow{});
    } else {
      if constexpr (kForm == Form::kCounts) {
        tile.flags &= ~Tile::kIndexed;  // it is 0 already: now the compiler knows
      }
      Heads const no_heads{};
      store.store_rows(sums, row, column, tile.matrix,
                       TileRowFates{tile, params.groups.layout, params.groups.groups, no_heads});
    }
  }

  // As Kernel::clear.
  static __device__ __forceinline__ void clear(float (&sums)[kRows][kColumns / 2]) {
#pragma unroll
    for (auto& row : sums) {
#pragma unroll
      for (float& sum : row) {
        sum = 0.0f;
      }
      if constexpr (kRows == 1) {
        sm90::hold(row);  // see Kernel::clear
      }
    }
  }
};

// The kernel `Base` with short forms: kernel.hpp's Kernel, or a struct of main_loops.hpp.
template <class Base>
struct ShortForms : Base {
  template <Form kForm, bool kClusters>
  using Of = ShortForm<typename Base::template Of<kForm, kClusters>>;
};

}  // namespace tilewright::grouped_gemm

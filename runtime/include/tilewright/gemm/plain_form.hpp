// The plain forms of a lean kernel: copies of its code for products with nothing added, scaled or split.
//
// A launch behind other kernels finds none of its code in the instruction caches, and waits for each line of
// instructions and parameters that it is the first to read. A plain form leaves out what such a product does not need:
// splits of k, C, bias, scales, alpha. There are four. One is for tactics of one thread block to a cluster: it is
// launched without clusters, because thread blocks that are clusters of one begin 90 to 250 ns later on an H200. Two
// are for the clusters that are chosen most, 2x1 and 1x2, and one is for all others.
// benchmarks/results/plain_forms.md has the measurements.
#pragma once

#include <cstdint>

#include "tilewright/gemm/lean.hpp"
#include "tilewright/sm90/row_fate.hpp"

namespace tilewright::gemm::lean {

// `Base`: the kernel's general code, whose tile, stages, main loop and epilogue a form shares. `kClusterM`,
// `kClusterN`: the cluster; 0 where a launch says which.
template <class Base, int kClusterM, int kClusterN>
struct PlainForm : Base {
  using Layout = typename Base::Layout;
  using Mainloop = typename Base::Mainloop;
  using Params = typename Base::Params;
  using Producer = typename Base::Producer;
  using Store = typename Base::Store;
  static constexpr int TileM = Base::TileM, TileN = Base::TileN;
  static constexpr int kConsumers = Base::kConsumers, kDown = Base::kDown, kAcross = Base::kAcross;
  static constexpr int kRows = Base::kRows, kColumns = Base::kColumns;
  static constexpr bool kPingpong = Base::kPingpong;
  static constexpr bool kKnown = kClusterM > 0, kClusters = kClusterM * kClusterN != 1;
  static_assert(Store::kBoxes && Base::ElementD::kBytes == 2, "TMA stores D as it is summed");

  // What the host reads: no sums of a split k, no C.
  struct TileSums {
    static constexpr int kCount = 0;
  };
  static constexpr int kBarriersOfC = 0;
  static constexpr bool kEpilogueThroughSmem = false;

  // Named barriers of the CTA; 1 to 3 are the epilogues'.
  static constexpr int kAll = 0, kOrderBarrier = 5;

  __device__ __forceinline__ void operator()(Params const& params, char* memory) const {
    uint32_t const shared = sm90::shared_address(memory);
    if (shared % 1024 != 0) {
      __trap();  // see sm90::prologue
    }
    int const warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0);
    sm90::ClusterShape const cluster = shape(params);
    sm90::ClusterPlace const place = place_in(cluster);
    constexpr int kLoading = kConsumers * 4;  // the warp that loads
    if (warp == 0) {
      if (sm90::elect_one()) {
        sm90::start_stages<Layout, Base::Stages>(cluster, shared, 1, kPingpong ? 1 : kConsumers);
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
      sm90::cluster_arrive();  // `enter` waits
    }
    if (warp < kLoading) {
      if constexpr (kSetsRegisters) {
        sm90::take_registers<Base::kConsumerRegisters>();
      }
      multiply(params, shared, cluster, place, warp / 4);
      return;
    }
    if constexpr (kSetsRegisters) {
      sm90::keep_registers<Base::kProducerRegisters>();
    }
    if (warp == kLoading) {
      load(params, shared, cluster, place);
    } else if constexpr (kClusters) {
      sm90::cluster_wait();
    } else {
      sm90::named_barrier_arrive(kAll, Base::kThreads);
    }
  }

 private:
  // Whether warpgroups change their numbers of registers. Below some 100 accumulators a thread, the 168 that each has
  // at launch are enough, and the change takes 50 to 75 ns.
  static constexpr bool kSetsRegisters = kConsumers > 1 && kRows* kColumns / 2 > 104;

  static __device__ __forceinline__ sm90::ClusterShape shape(Params const& params) {
    if constexpr (kKnown) {
      static_assert(kClusterM <= 2 && kClusterN <= 2, "the logarithms of 1 and 2 are 0 and 1");
      sm90::ClusterShape known;
      known.m = kClusterM, known.n = kClusterN, known.splits = 1;
      known.log_m = kClusterM - 1, known.log_mn = kClusterM - 1 + kClusterN - 1;
      return known;
    } else {
      return params.cluster;
    }
  }

  static __device__ __forceinline__ sm90::ClusterPlace place_in(sm90::ClusterShape const& cluster) {
    sm90::ClusterPlace place(cluster);
    place.split = 0;
    if constexpr (!kClusters) {
      place.m = place.n = 0;
    }
    return place;
  }

  // The first block of this CTA's cluster, and from each of its blocks to the next.
  static __device__ __forceinline__ int first_block() {
    if constexpr (kClusters) {
      return sm90::cluster_index();
    } else {
      return static_cast<int>(blockIdx.x);
    }
  }
  static __device__ __forceinline__ int block_step() {
    if constexpr (kClusters) {
      return sm90::cluster_count();
    } else {
      return static_cast<int>(gridDim.x);
    }
  }

  // Where this CTA's tile of a block begins.
  struct Tile {
    int row, column, matrix;

    __device__ __forceinline__ Tile(Params const& params, sm90::ClusterShape const& cluster,
                                    sm90::ClusterPlace const& place, int index) {
      sm90::Block const block(params.raster, index);
      row = (block.row * cluster.m + place.m) * TileM;
      column = (block.column * cluster.n + place.n) * TileN;
      matrix = block.matrix;
    }
  };

  // What sm90::enter does, for the warps that load or multiply.
  static __device__ __forceinline__ void enter() {
    if constexpr (kClusters) {
      sm90::cluster_wait();
    } else {
      sm90::named_barrier_sync(kAll, Base::kThreads);
    }
    if constexpr (Base::kPdl) {
      sm90::wait_for_previous_kernel();
      sm90::allow_next_kernel();
    }
  }

  // Tells the compiler what `Slices::of` decides where a known cluster's slices are whole atoms (`kWhole`).
  template <bool kWhole>
  static __device__ __forceinline__ void slice(sm90::Load& load, sm90::Slices const& slices, int number) {
    if constexpr (kKnown && kWhole) {
      load.period = 1, load.phase = 0;
      load.row = number * slices.rows;
      load.offset = load.row * 128;
    }
  }

  static __device__ __forceinline__ void load(Params const& params, uint32_t shared, sm90::ClusterShape const& cluster,
                                              sm90::ClusterPlace const& place) {
    sm90::Load a(&params.a, params.policy_a, params.slices_a, place.n, place.sharers_of_a(cluster));
    sm90::Load b(&params.b, params.policy_b, params.slices_b, place.m, place.sharers_of_b(cluster));
    slice<Base::kMnA || TileM % (kKnown ? 8 * kClusterN : 1) == 0>(a, params.slices_a, place.n);
    slice<Base::kMnB || TileN % (kKnown ? 8 * kClusterM : 1) == 0>(b, params.slices_b, place.m);
    Producer producer{shared, {}, params.stage_bytes};
    int index = first_block();
    auto const k_range = [&] {
      Tile const tile(params, cluster, place, index);
      return sm90::TileKRange{0,
                              params.k_tiles_per_split,
                              tile.row,
                              tile.column,
                              params.broadcast_a ? 0 : tile.matrix,
                              params.broadcast_b ? 0 : tile.matrix};
    };
    sm90::TileKRange tile = k_range();
    enter();
    while (index < params.raster.blocks) {
      if constexpr (kKnown) {
        producer.template run<(kClusterN > 1), (kClusterM > 1)>(a, b, tile);
      } else {
        producer.run(cluster, sm90::OperandLoads(params, place), tile);
      }
      index += block_step();
      tile = k_range();
    }
    if (cluster.size() > 1) {
      producer.drain();
    }
  }

  static __device__ __forceinline__ void multiply(Params const& params, uint32_t shared,
                                                  sm90::ClusterShape const& cluster, sm90::ClusterPlace const& place,
                                                  int warpgroup) {
    int const first_row = kDown == 1 ? 0 : warpgroup * kRows * 64;
    int const first_column = kAcross == 1 ? 0 : warpgroup * kColumns;
    sm90::Release const release(Layout::empty(shared, 0), cluster.size(), place.sharers(cluster), threadIdx.x % 128);
    Mainloop mainloop{shared, first_row, first_column, release};
    enter();
    Store store(params.epilogue, &params.d, shared + Layout::kStoresAt, warpgroup);
    int tile_number = 0;
    if (kPingpong && warpgroup == 1) {
      sm90::named_barrier_arrive(kOrderBarrier, 256);  // warpgroup 0 begins
    }
    for (int index = first_block(); index < params.raster.blocks; index += block_step()) {
      if (kPingpong && tile_number++ % 2 != warpgroup) {
        mainloop.at.skip(params.k_tiles_per_split);
        continue;
      }
      float sums[kRows][kColumns / 2];
      if constexpr (kPingpong) {  // as in the general code
        sm90::named_barrier_sync(kOrderBarrier + warpgroup, 256);
        mainloop.run(params.k_tiles_per_split, sums,
                     [warpgroup] { sm90::named_barrier_arrive(kOrderBarrier + 1 - warpgroup, 256); });
      } else {
        mainloop.run(params.k_tiles_per_split, sums, [] {});
      }
      Tile const tile(params, cluster, place, index);
      store.store_rows(sums, tile.row + first_row, tile.column + first_column, tile.matrix, sm90::EveryRow{});
    }
    store.drain();
  }
};

// The entry points of forms.
template <class Kernel>
__global__ void __launch_bounds__(Kernel::kThreads, 1)
    run_plain(__grid_constant__ typename Kernel::Params const params) {
  TILEWRIGHT_DEVICE_CODE(extern __shared__ __align__(1024) char tilewright_shared_memory[]; Kernel kernel;
                         kernel(params, tilewright_shared_memory);)
}

// As to `__cluster_dims__`, see TILEWRIGHT_LEAN_GEMM_KERNEL.
template <class Kernel>
__global__ void __cluster_dims__() __launch_bounds__(Kernel::kThreads, 1)
    run_plain_in_clusters(__grid_constant__ typename Kernel::Params const params) {
  TILEWRIGHT_DEVICE_CODE(extern __shared__ __align__(1024) char tilewright_shared_memory[]; Kernel kernel;
                         kernel(params, tilewright_shared_memory);)
}

// A plain form of the kernel that `Traits` describes, as if it were a kernel.
template <class Traits, int kClusterM, int kClusterN>
struct PlainTraits {
  using Kernel = PlainForm<typename Traits::Kernel, kClusterM, kClusterN>;
  static constexpr bool kPdl = Traits::kPdl;

  static void const* entry() {
    if constexpr (Kernel::kClusters) {
      return reinterpret_cast<void const*>(&run_plain_in_clusters<Kernel>);
    } else {  // not both: each function that is named is compiled
      return reinterpret_cast<void const*>(&run_plain<Kernel>);
    }
  }
  static void const* combining_entry() { return nullptr; }  // no form splits k
};

// The functions of the descriptor of a kernel that has plain forms. A form takes plain products alone (`plain_form` in
// lean_host.hpp): all others run the general code.
template <class Traits>
struct CallsWithForms : Calls<Traits> {
  static int32_t launch(void const* args, void* workspace, void* stream) {
    tilewright_tactic const& tactic = static_cast<tilewright_gemm_args const*>(args)->tactic;
    int const m = tactic.cluster_m > 1 ? tactic.cluster_m : 1, n = tactic.cluster_n > 1 ? tactic.cluster_n : 1;
    auto const form = m * n == 1         ? &Calls<PlainTraits<Traits, 1, 1>>::launch
                      : m == 2 && n == 1 ? &Calls<PlainTraits<Traits, 2, 1>>::launch
                      : m == 1 && n == 2 ? &Calls<PlainTraits<Traits, 1, 2>>::launch
                                         : &Calls<PlainTraits<Traits, 0, 0>>::launch;
    int32_t const status = form(args, workspace, stream);
    return status == TILEWRIGHT_NOT_SUPPORTED ? Calls<Traits>::launch(args, workspace, stream) : status;
  }
};

}  // namespace tilewright::gemm::lean

// TILEWRIGHT_LEAN_GEMM_KERNEL (lean.hpp) for a kernel that has plain forms.
#define TILEWRIGHT_LEAN_GEMM_KERNEL_WITH_FORMS(NAME)                                                                   \
  extern "C" __global__ void __cluster_dims__()                                                                        \
      NAME(__grid_constant__ typename tilewright::NAME::Gemm::Kernel::Params const params);                            \
  TILEWRIGHT_COMBINING_KERNEL(NAME, tilewright::NAME::Gemm, tilewright::sm90::Combine<tilewright::NAME::Gemm::Kernel>, \
                              tilewright::sm90::CombineParams)                                                         \
  TILEWRIGHT_DEFINE_KERNEL(NAME, tilewright::NAME::Gemm,                                                               \
                           tilewright::gemm::lean::CallsWithForms<tilewright::NAME::Gemm>, 1, 1024)

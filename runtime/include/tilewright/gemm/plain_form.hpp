// The plain forms of a lean kernel: copies of its code for D = A B, with nothing added, scaled or split.
//
// A launch behind other kernels finds none of its code in the instruction caches, and waits for each line of
// instructions and parameters that it is the first to read. A plain form leaves out what such a product does not need:
// splits of k, C, bias, scales, alpha (benchmarks/results/plain_forms.md has the measurements). A kernel has four plain
// forms, one for each set of operands that the CTAs of a cluster share, so that each form has one loop that loads:
//
// | cluster, m x n | shared operands | form |
// |---|---|---|
// | 1 x 1 | none | PlainForm<Kernel, false, false>, launched without clusters |
// | 1 x n | A | PlainForm<Kernel, true, false> |
// | m x 1 | B | PlainForm<Kernel, false, true> |
// | m x n | A and B | PlainForm<Kernel, true, true> |
//
// On an H200, CTAs that are launched as clusters of one begin 90 to 250 ns later than CTAs without clusters.
//
// The loop over tiles. Who waits for whom:
//
// | barrier | who waits | until |
// |---|---|---|
// | `full` of a stage | each consumer warpgroup, before its wgmma | TMA has written A and B |
// | `empty` of a stage | the loading warp, before it loads again | the warpgroups of all CTAs that read it are done |
// | kOrderBarrier + w, ping-pong | warpgroup w, before its main loop | the other one has issued its last wgmma |
// | bulk groups of stores | the thread that stores, before a buffer is written | TMA has read the buffer |
#pragma once

#include <cstdint>

#include "tilewright/gemm/lean.hpp"
#include "tilewright/sm90/add_parts.hpp"
#include "tilewright/sm90/gated.hpp"
#include "tilewright/sm90/row_fate.hpp"
#include "tilewright/sm90/run_form.hpp"

namespace tilewright::gemm::lean {

// A plain form of the kernel `Base`, whose tile, stages, main loop and epilogue it uses. `kShareA`, `kShareB`: the CTAs
// of a cluster load slices of this operand for each other, by multicast.
template <class Base, bool kShareA, bool kShareB>
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
  static constexpr bool kClusters = kShareA || kShareB;
  static_assert(Store::kBoxes && Base::ElementD::kBytes == 2, "TMA stores D as it is summed");

  // What the host's Facts say of a form (lean_calls.hpp): it stores no sums of a split k, and adds no C.
  struct TileSums {
    static constexpr int kCount = 0;
  };
  static constexpr int kBarriersOfC = 0;
  static constexpr bool kEpilogueThroughSmem = false;

  // See sm90::run_form.
  static constexpr bool kSetsRegisters = sm90::form_sets_registers(kConsumers, kRows* kColumns / 2);

  __device__ __forceinline__ void operator()(Params const& params, char* memory) const {
    sm90::run_form<PlainForm>(params, memory);
  }

  // The cluster of the launch, with the constants that the form implies: no splits, and one CTA along a side that
  // shares nothing.
  static __device__ __forceinline__ sm90::ClusterShape shape(Params const& params) {
    sm90::ClusterShape cluster = params.cluster;
    cluster.splits = 1;
    if constexpr (!kShareA) {
      cluster.n = 1, cluster.log_mn = kShareB ? cluster.log_m : 0;
    }
    if constexpr (!kShareB) {
      cluster.m = 1, cluster.log_m = 0;
    }
    return cluster;
  }

  static __device__ __forceinline__ sm90::ClusterPlace place(sm90::ClusterShape const& cluster) {
    sm90::ClusterPlace place(cluster);
    place.split = 0;
    if constexpr (!kClusters) {
      place.m = place.n = 0;
    }
    return place;
  }

  static __device__ __forceinline__ void init_barriers(Params const&, sm90::ClusterShape const& cluster,
                                                       uint32_t shared) {
    sm90::start_stages<Layout, Base::Stages>(cluster, shared, 1, kPingpong ? 1 : kConsumers);
  }

  static __device__ __forceinline__ void prefetch_maps(Params const& params) {
    sm90::prefetch_map(&params.a);
    sm90::prefetch_map(&params.b);
    sm90::prefetch_map(&params.d);
  }

  static __device__ __forceinline__ void load(Params const& params, uint32_t shared, sm90::ClusterShape const& cluster,
                                              sm90::ClusterPlace const& place, bool loads) {
    if (!loads) {
      sm90::leave_form<PlainForm>();
      return;
    }
    sm90::Load a(&params.a, params.policy_a, params.slices_a, place.n, place.sharers_of_a(cluster));
    sm90::Load b(&params.b, params.policy_b, params.slices_b, place.m, place.sharers_of_b(cluster));
    slice<Base::kMnA || TileM % (kSliceRowsA * sm90::kMostCtas) == 0>(a, params.slices_a, place.n);
    slice<Base::kMnB || TileN % (kSliceRowsB * sm90::kMostCtas) == 0>(b, params.slices_b, place.m);
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
    sm90::enter_form<PlainForm>();
    while (index < params.raster.blocks) {
      producer.template run<kShareA, kShareB>(a, b, tile);
      index += block_step();
      tile = k_range();
    }
    if constexpr (kClusters) {
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
    sm90::enter_form<PlainForm>();
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

 private:
  static constexpr int kOrderBarrier = 5;  // a named barrier of the CTA; 1 to 3 are the epilogues'

  // Rows of which a multicast slice is a multiple: an atom of the swizzle; of an operand with rows in pairs, two atoms
  // (sm90/gated.hpp).
  static constexpr bool kGated = Base::kActivation == sm90::kSiluMul;
  static constexpr int kSliceRowsA = kGated && Base::kSwapped ? sm90::kPairedRows : 8;
  static constexpr int kSliceRowsB = kGated && !Base::kSwapped ? sm90::kPairedRows : 8;

  // Where slices divide the rows of a tile in clusters of every size (`kDivides`), `Slices::of` always lets a CTA load
  // slice `number` of every k tile. The compiler cannot see that, so this sets the fields of `load` again.
  template <bool kDivides>
  static __device__ __forceinline__ void slice(sm90::Load& load, sm90::Slices const& slices, int number) {
    if constexpr (kDivides) {
      load.period = 1, load.phase = 0;
      load.row = number * slices.rows;
      load.offset = load.row * 128;
    }
  }

  // The number of the first block (Raster's) of this CTA's cluster, and the step to its next block.
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

  // First row, first column and matrix of this CTA's tile of block `index`.
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
};

// The entry point of a form that is launched without clusters.
template <class Kernel>
__global__ void __launch_bounds__(Kernel::kThreads, 1)
    run_plain(__grid_constant__ typename Kernel::Params const params) {
  TILEWRIGHT_DEVICE_CODE(extern __shared__ __align__(1024) char tilewright_shared_memory[]; Kernel kernel;
                         kernel(params, tilewright_shared_memory);)
}

// The entry point of a form that is launched in clusters. TILEWRIGHT_LEAN_GEMM_KERNEL says why `__cluster_dims__` has
// no size.
template <class Kernel>
__global__ void __cluster_dims__() __launch_bounds__(Kernel::kThreads, 1)
    run_plain_in_clusters(__grid_constant__ typename Kernel::Params const params) {
  TILEWRIGHT_DEVICE_CODE(extern __shared__ __align__(1024) char tilewright_shared_memory[]; Kernel kernel;
                         kernel(params, tilewright_shared_memory);)
}

// Describes a plain form as `Traits` describes its kernel, so that `Calls` can launch it.
template <class Traits, bool kShareA, bool kShareB>
struct PlainTraits {
  using Kernel = PlainForm<typename Traits::Kernel, kShareA, kShareB>;
  static constexpr bool kPdl = Traits::kPdl;

  static void const* entry() {
    if constexpr (Kernel::kClusters) {
      return reinterpret_cast<void const*>(&run_plain_in_clusters<Kernel>);
    } else {  // not both: each function that is named is compiled
      return reinterpret_cast<void const*>(&run_plain<Kernel>);
    }
  }
  static void const* combining_entry() { return nullptr; }  // no plain form splits k
};

// The functions of the descriptor of a kernel that has plain forms. The form that fits the cluster is tried first. It
// refuses every product that is not plain (Maker::can_implement in lean_host.hpp), which the general code then runs.
// `Calls`: the functions of one kernel or form. `BaseTraits` describes the kernel that the forms take as their Base.
template <template <class> class Calls, class Traits, class BaseTraits>
struct PlainFormsFirst : Calls<Traits> {
  static int32_t launch(void const* args, void* workspace, void* stream) {
    tilewright_tactic const& tactic = static_cast<tilewright_gemm_args const*>(args)->tactic;
    bool const shares_a = tactic.cluster_n > 1, shares_b = tactic.cluster_m > 1;
    auto const form = !shares_a && !shares_b ? &Form<false, false>::launch
                      : !shares_a            ? &Form<false, true>::launch
                      : !shares_b            ? &Form<true, false>::launch
                                             : &Form<true, true>::launch;
    int32_t const status = form(args, workspace, stream);
    return status == TILEWRIGHT_NOT_SUPPORTED ? Calls<Traits>::launch(args, workspace, stream) : status;
  }

 private:
  template <bool kShareA, bool kShareB>
  using Form = Calls<PlainTraits<BaseTraits, kShareA, kShareB>>;
};

template <class Traits>
using CallsWithForms = PlainFormsFirst<Calls, Traits, Traits>;

}  // namespace tilewright::gemm::lean

// TILEWRIGHT_LEAN_GEMM_KERNEL (lean.hpp) for a kernel with plain forms; and for a kernel with any forms, whose
// descriptor's functions, which choose the form, are those of the template CALLS.
#define TILEWRIGHT_LEAN_GEMM_KERNEL_WITH_FORMS(NAME) \
  TILEWRIGHT_LEAN_GEMM_KERNEL_CALLED_BY(NAME, tilewright::gemm::lean::CallsWithForms)
#define TILEWRIGHT_LEAN_GEMM_KERNEL_CALLED_BY(NAME, CALLS)                                  \
  extern "C" __global__ void __cluster_dims__()                                             \
      NAME(__grid_constant__ typename tilewright::NAME::Gemm::Kernel::Params const params); \
  TILEWRIGHT_COMBINING_KERNEL(NAME, tilewright::NAME::Gemm,                                 \
                              tilewright::sm90::AddParts<tilewright::NAME::Gemm::Kernel>,   \
                              tilewright::sm90::CombineParams)                              \
  TILEWRIGHT_DEFINE_KERNEL(NAME, tilewright::NAME::Gemm, CALLS<tilewright::NAME::Gemm>, 1, 1024)

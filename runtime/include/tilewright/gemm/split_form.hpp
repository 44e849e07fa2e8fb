// The split forms of a lean kernel: copies of its code for parts of k. As plain forms (plain_form.hpp), they are short
// for launches behind other kernels. There are two:
//   in the workspace  The sums of a part go to the workspace (sm90/parts.hpp), and a short kernel (sm90/add_parts.hpp)
//                     adds them up.
//   in clusters       The CTAs of a cluster that share a tile add up their sums (sm90/cluster_reduction.hpp), and store
//                     D from registers.
//
// Both are for launches of one wave: each CTA computes one tile and one part, and the grid says which. So they have no
// loop over tiles, no order of tiles, and of a ping-pong kernel one warpgroup. Launches of more waves, or of a batch,
// run the general code.
#pragma once

#include <cstdint>

#include "tilewright/gemm/plain_form.hpp"
#include "tilewright/sm90/run_form.hpp"

namespace tilewright::gemm::lean {

// `Base`: the kernel's general code, whose tile, stages and main loop the form shares. `kInClusters`: parts are those
// of a cluster. The grid: clusters along the kernel's rows, clusters along its columns, and parts in the workspace.
template <class Base, bool kInClusters>
struct SplitForm : Base {
  using Layout = typename Base::Layout;
  using Mainloop = typename Base::Mainloop;
  using Params = typename Base::Params;
  using Producer = typename Base::Producer;
  using TileSums = typename Base::TileSums;
  using ClusterReduction = typename Base::ClusterReduction;
  static constexpr int TileM = Base::TileM, TileN = Base::TileN;
  static constexpr int kConsumers = Base::kPingpong ? 1 : Base::kConsumers;
  static constexpr int kThreads = (kConsumers + 1) * 128;

  // What the host reads: no TMA stores D. In clusters, sums go through the stages' memory.
  struct Store : Base::Store {
    static constexpr bool kBoxes = false;
  };
  static constexpr int kBarriersOfC = 0;
  static constexpr bool kEpilogueThroughSmem = kInClusters;
  static_assert(Base::ElementD::kBytes == 2 && (!kInClusters || Base::kEpilogueThroughSmem),
                "the host knows split forms by a D of 16 bits without boxes (Maker::is_split_form)");

  // See sm90::run_form. The cluster is a run-time argument.
  static constexpr bool kClusters = true;
  static constexpr bool kSetsRegisters = sm90::form_sets_registers(kConsumers, Base::kRows* Base::kColumns / 2);

  __device__ __forceinline__ void operator()(Params const& params, char* memory) const {
    sm90::run_form<SplitForm>(params, memory);
  }

  static __device__ __forceinline__ sm90::ClusterShape shape(Params const& params) { return params.cluster; }

  static __device__ __forceinline__ sm90::ClusterPlace place(sm90::ClusterShape const& cluster) {
    return sm90::ClusterPlace(cluster);
  }

  static __device__ __forceinline__ void init_barriers(Params const&, sm90::ClusterShape const& cluster,
                                                       uint32_t shared) {
    sm90::start_stages<Layout, Base::Stages>(cluster, shared, 1, kConsumers);
  }

  static __device__ __forceinline__ void prefetch_maps(Params const& params) {
    sm90::prefetch_map(&params.a);
    sm90::prefetch_map(&params.b);
  }

  static __device__ __forceinline__ void load(Params const& params, uint32_t shared, sm90::ClusterShape const& cluster,
                                              sm90::ClusterPlace const& place, bool loads) {
    if (!loads) {
      sm90::leave_form<SplitForm>();
      wait_for_sums();
      return;
    }
    sm90::OperandLoads const operands(params, place);
    Producer producer{shared, {}, params.stage_bytes};
    Work const work(cluster, place);
    sm90::TileKRange const range{
        params.first_k_tile(work.part), params.k_tiles(work.part), work.row * TileM, work.column * TileN, 0, 0};
    sm90::enter_form<SplitForm>();
    producer.run(cluster, operands, range);
    if constexpr (kInClusters) {
      wait_for_sums();
    } else if (cluster.size() > 1) {
      producer.drain();
    }
  }

  static __device__ __forceinline__ void multiply(Params const& params, uint32_t shared,
                                                  sm90::ClusterShape const& cluster, sm90::ClusterPlace const& place,
                                                  int warpgroup) {
    int const first_row = Base::kDown == 1 ? 0 : warpgroup * Base::kRows * 64;
    int const first_column = Base::kAcross == 1 ? 0 : warpgroup * Base::kColumns;
    sm90::Release const release(Layout::empty(shared, 0), cluster.size(), place.sharers(cluster), threadIdx.x % 128);
    Mainloop mainloop{shared, first_row, first_column, release};
    Work const work(cluster, place);
    float4* const sums_at =
        kInClusters ? nullptr : params.parts.tile(work.row, work.column, work.part, TileSums::kCount);
    sm90::enter_form<SplitForm>();
    float sums[Base::kRows][Base::kColumns / 2];
    mainloop.run(params.k_tiles(work.part), sums, [] {});
    if constexpr (kInClusters) {
      sm90::named_barrier_sync(kAllConsumers, kConsumers * 128);  // all products are done: the stages are free
      ClusterReduction::store_sums(shared, sums);
      sm90::cluster_barrier();
      store_share(params.epilogue, shared, cluster, place, work.row * TileM + first_row,
                  work.column * TileN + first_column);
      leave_sums();
    } else {
      TileSums::store(sums_at, threadIdx.x, sums);
    }
  }

 private:
  // What this CTA computes: a part of k of a tile, by the grid.
  struct Work {
    int part, row, column;

    __device__ __forceinline__ Work(sm90::ClusterShape const& cluster, sm90::ClusterPlace const& place)
        : part(kInClusters ? place.split : static_cast<int>(blockIdx.z)),
          row(sm90::cluster_index() * cluster.m + place.m),
          column(static_cast<int>(blockIdx.y) * cluster.n + place.n) {}
  };

  static constexpr int kAllConsumers = 4;  // a named barrier of the CTA

  // In clusters, every warp takes part in the two barriers that follow the products: `cluster_barrier` in `multiply`,
  // and this one. No CTA ends while others read its sums. The arrival is relaxed, as in sm90::finish.
  static __device__ __forceinline__ void leave_sums() {
    __syncwarp();
    sm90::cluster_arrive();
    sm90::cluster_wait();
  }

  // The same for the producer's warps.
  static __device__ __forceinline__ void wait_for_sums() {
    if constexpr (kInClusters) {
      __syncwarp();
      sm90::cluster_barrier();
      leave_sums();
    }
  }

  // Adds up this CTA's share of the column groups of a warpgroup, and stores them to D. `row`, `column`: where the
  // warpgroup's sums begin.
  static __device__ __forceinline__ void store_share(sm90::EpilogueParams const& epilogue, uint32_t shared,
                                                     sm90::ClusterShape const& cluster, sm90::ClusterPlace const& place,
                                                     int row, int column) {
    constexpr bool kSwapped = Base::kSwapped;
    constexpr int kOfRow = Base::kColumns / 8, kCount = Base::kRows * kOfRow, kTogether = ClusterReduction::together(1);
    int const lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    int const end_row = kSwapped ? epilogue.n : epilogue.m, end_column = kSwapped ? epilogue.m : epilogue.n;
    int64_t const ld = epilogue.ld_d;
    row += warp * 16 + lane / 4, column += lane % 4 * 2;
#pragma unroll 1
    for (int first = place.split; first < kCount; first += kTogether * cluster.splits) {
      float values[kTogether][4];
      ClusterReduction::template reduce<kTogether, 1>(shared, first, cluster.splits, cluster, place, values);
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        int const group = first + i * cluster.splits;
        if (group < kCount) {
          int const r = row + group / kOfRow * 64, c = column + group % kOfRow * 8;
          uint16_t* const d = static_cast<uint16_t*>(epilogue.d) + (kSwapped ? c * ld + r : r * ld + c);
          sm90::store_float4_to_d<typename Base::ElementD, kSwapped>(d, ld, values[i], r, c, end_row, end_column);
        }
      }
    }
  }
};

// The entry point of a split form. As to `__cluster_dims__`, see TILEWRIGHT_LEAN_GEMM_KERNEL.
template <class Kernel>
__global__ void __cluster_dims__() __launch_bounds__(Kernel::kThreads, 1)
    run_split(__grid_constant__ typename Kernel::Params const params) {
  TILEWRIGHT_DEVICE_CODE(extern __shared__ __align__(1024) char tilewright_shared_memory[]; Kernel kernel;
                         kernel(params, tilewright_shared_memory);)
}

// A split form of the kernel that `Traits` describes, as if it were a kernel.
template <class Traits, bool kInClusters>
struct SplitTraits {
  using Kernel = SplitForm<typename Traits::Kernel, kInClusters>;
  static constexpr bool kPdl = Traits::kPdl;

  static void const* entry() { return reinterpret_cast<void const*>(&run_split<Kernel>); }
  static void const* combining_entry() { return Traits::combining_entry(); }
};

// The functions of the descriptor of a kernel that has plain forms and split forms.
template <class Traits>
struct CallsWithSplitForms : CallsWithForms<Traits> {
  static int32_t launch(void const* args, void* workspace, void* stream) {
    tilewright_tactic const& tactic = static_cast<tilewright_gemm_args const*>(args)->tactic;
    int32_t status = TILEWRIGHT_NOT_SUPPORTED;
    if (tactic.decomposition == TILEWRIGHT_DECOMPOSE_SPLIT_K) {
      status = Calls<SplitTraits<Traits, false>>::launch(args, workspace, stream);
    } else if constexpr (Traits::Kernel::kEpilogueThroughSmem) {
      if (tactic.splits > 1) {
        status = Calls<SplitTraits<Traits, true>>::launch(args, workspace, stream);
      }
    }
    return status == TILEWRIGHT_NOT_SUPPORTED ? CallsWithForms<Traits>::launch(args, workspace, stream) : status;
  }
};

}  // namespace tilewright::gemm::lean

// TILEWRIGHT_LEAN_GEMM_KERNEL (lean.hpp) for a kernel that has plain forms and split forms.
#define TILEWRIGHT_LEAN_GEMM_KERNEL_WITH_SPLIT_FORM(NAME) \
  TILEWRIGHT_LEAN_GEMM_KERNEL_CALLED_BY(NAME, tilewright::gemm::lean::CallsWithSplitForms)

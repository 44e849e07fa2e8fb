// The split form of a lean kernel: a copy of its code for parts of k that are added up through the workspace
// (sm90/parts.hpp), and a short kernel that adds them up. As plain forms (plain_form.hpp), they are short for launches
// behind other kernels.
//
// The form is for launches of one wave: each CTA stores the sums of one tile and one part, and the grid says which. So
// it has no loop over tiles, no order of tiles, and of a ping-pong kernel one warpgroup. Launches of more waves, or of
// a batch, run the general code. The kernel that adds the parts up (sm90/add_parts.hpp) serves both.
#pragma once

#include <cstdint>

#include "tilewright/gemm/plain_form.hpp"
#include "tilewright/sm90/run_form.hpp"

namespace tilewright::gemm::lean {

// `Base`: the kernel's general code, whose tile, stages and main loop the form shares. The grid: clusters along the
// kernel's rows, clusters along its columns, and parts.
template <class Base>
struct SplitForm : Base {
  using Layout = typename Base::Layout;
  using Mainloop = typename Base::Mainloop;
  using Params = typename Base::Params;
  using Producer = typename Base::Producer;
  using TileSums = typename Base::TileSums;
  static constexpr int TileM = Base::TileM, TileN = Base::TileN;
  static constexpr int kConsumers = Base::kPingpong ? 1 : Base::kConsumers;
  static constexpr int kThreads = (kConsumers + 1) * 128;

  // What the host reads: sums go to the workspace, not to D and not through the stages' memory.
  struct Store : Base::Store {
    static constexpr bool kBoxes = false;
  };
  static constexpr int kBarriersOfC = 0;
  static constexpr bool kEpilogueThroughSmem = false;

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
      return;
    }
    sm90::OperandLoads const operands(params, place);
    Producer producer{shared, {}, params.stage_bytes};
    Work const work(cluster, place);
    sm90::TileKRange const range{
        params.first_k_tile(work.part), params.k_tiles(work.part), work.row * TileM, work.column * TileN, 0, 0};
    sm90::enter_form<SplitForm>();
    producer.run(cluster, operands, range);
    if (cluster.size() > 1) {
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
    float4* const sums_at = params.parts.tile(work.row, work.column, work.part, TileSums::kCount);
    sm90::enter_form<SplitForm>();
    float sums[Base::kRows][Base::kColumns / 2];
    mainloop.run(params.k_tiles(work.part), sums, [] {});
    TileSums::store(sums_at, threadIdx.x, sums);
  }

 private:
  // What this CTA computes: a part of k of a tile, by the grid.
  struct Work {
    int part, row, column;

    __device__ __forceinline__ Work(sm90::ClusterShape const& cluster, sm90::ClusterPlace const& place)
        : part(static_cast<int>(blockIdx.z)),
          row(sm90::cluster_index() * cluster.m + place.m),
          column(static_cast<int>(blockIdx.y) * cluster.n + place.n) {}
  };
};

// The entry point of a split form. As to `__cluster_dims__`, see TILEWRIGHT_LEAN_GEMM_KERNEL.
template <class Kernel>
__global__ void __cluster_dims__() __launch_bounds__(Kernel::kThreads, 1)
    run_split(__grid_constant__ typename Kernel::Params const params) {
  TILEWRIGHT_DEVICE_CODE(extern __shared__ __align__(1024) char tilewright_shared_memory[]; Kernel kernel;
                         kernel(params, tilewright_shared_memory);)
}

// The split form of the kernel that `Traits` describes, as if it were a kernel.
template <class Traits>
struct SplitTraits {
  using Kernel = SplitForm<typename Traits::Kernel>;
  static constexpr bool kPdl = Traits::kPdl;

  static void const* entry() { return reinterpret_cast<void const*>(&run_split<Kernel>); }
  static void const* combining_entry() { return Traits::combining_entry(); }
};

// The functions of the descriptor of a kernel that has plain forms and a split form.
template <class Traits>
struct CallsWithSplitForm : CallsWithForms<Traits> {
  static int32_t launch(void const* args, void* workspace, void* stream) {
    tilewright_tactic const& tactic = static_cast<tilewright_gemm_args const*>(args)->tactic;
    int32_t const status = tactic.decomposition == TILEWRIGHT_DECOMPOSE_SPLIT_K
                               ? Calls<SplitTraits<Traits>>::launch(args, workspace, stream)
                               : TILEWRIGHT_NOT_SUPPORTED;
    return status == TILEWRIGHT_NOT_SUPPORTED ? CallsWithForms<Traits>::launch(args, workspace, stream) : status;
  }
};

}  // namespace tilewright::gemm::lean

// TILEWRIGHT_LEAN_GEMM_KERNEL (lean.hpp) for a kernel that has plain forms and a split form.
#define TILEWRIGHT_LEAN_GEMM_KERNEL_WITH_SPLIT_FORM(NAME) \
  TILEWRIGHT_LEAN_GEMM_KERNEL_CALLED_BY(NAME, tilewright::gemm::lean::CallsWithSplitForm)

// The split forms of a lean kernel: copies of its code for a k that is divided into k ranges ("parts"). They have few
// instructions for launches behind other kernels, as plain forms do (plain_form.hpp). There are two:
//
// | form | a part belongs to | who adds the parts up |
// |---|---|---|
// | SplitForm<Kernel, false>, in the workspace | a CTA of any cluster | a second kernel (sm90/add_parts.hpp) |
// | SplitForm<Kernel, true>, in clusters | a CTA of the tile's cluster | those CTAs (sm90/cluster_reduction.hpp) |
//
// Both are for launches of one wave without a batch: each CTA computes one part of one tile, and its place in the grid
// says which. So they have no loop over tiles, and one consumer warpgroup where a ping-pong kernel has two. All other
// launches run the general code.
//
// In the workspace: the sums of a CTA go from registers to the workspace, and the CTA ends. In clusters:
//
// | step | consumers' warps | the producer's warps | afterwards |
// |---|---|---|---|
// | 1 | multiply | one loads | |
// | 2 | named barrier kAllConsumers | | no wgmma reads the stages any more |
// | 3 | store their sums to the stages' memory | | |
// | 4 | cluster barrier | cluster barrier | all CTAs' sums can be read |
// | 5 | add up and store a share of the tile | | |
// | 6 | cluster barrier (`leave_sums`) | cluster barrier | no CTA is read any more: all may end |
#pragma once

#include <cstdint>

#include "tilewright/gemm/plain_form.hpp"
#include "tilewright/sm90/run_form.hpp"

namespace tilewright::gemm::lean {

// A split form of the kernel `Base`, whose tile, stages and main loop it uses. The grid (`Maker::split_grid`):
//
// | dimension | counts |
// |---|---|
// | x | CTAs: clusters along the rows of the kernel's own plane, times the CTAs of a cluster |
// | y | clusters along its columns |
// | z | parts in the workspace; 1 in clusters |
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

  // What the host's Facts say of a form (lean_calls.hpp): threads, not TMA, store D; in clusters, sums go through the
  // stages' memory.
  struct Store : Base::Store {
    static constexpr bool kBoxes = false;
  };
  static constexpr int kBarriersOfC = 0;
  static constexpr bool kEpilogueThroughSmem = kInClusters;
  static_assert(Base::ElementD::kBytes == 2 && (!kInClusters || Base::kEpilogueThroughSmem),
                "the host knows split forms by a D of 16 bits without boxes (Maker::is_split_form)");

  // See sm90::run_form. The size of the cluster is a run-time argument, so every launch is one in clusters.
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
  // The part of k and the tile (in tiles) that this CTA computes, by its place in the grid.
  struct Work {
    int part, row, column;

    __device__ __forceinline__ Work(sm90::ClusterShape const& cluster, sm90::ClusterPlace const& place)
        : part(kInClusters ? place.split : static_cast<int>(blockIdx.z)),
          row(sm90::cluster_index() * cluster.m + place.m),
          column(static_cast<int>(blockIdx.y) * cluster.n + place.n) {}
  };

  static constexpr int kAllConsumers = 4;  // a named barrier of the CTA

  // Step 6: waits until no CTA reads the sums of another one any more. Called by every warp of the cluster. The arrival
  // is relaxed, as in sm90::finish.
  static __device__ __forceinline__ void leave_sums() {
    __syncwarp();
    sm90::cluster_arrive();
    sm90::cluster_wait();
  }

  // Steps 4 and 6 for the producer's warps, which a cluster's barrier counts, too.
  static __device__ __forceinline__ void wait_for_sums() {
    if constexpr (kInClusters) {
      __syncwarp();
      sm90::cluster_barrier();
      leave_sums();
    }
  }

  // Step 5: adds up this CTA's share of a warpgroup's column groups (8 columns), which are dealt round robin to the
  // tile's CTAs, and stores them to D. The warpgroup's sums begin at (`row`, `column`) of the kernel's own plane.
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

// The entry point of a split form. TILEWRIGHT_LEAN_GEMM_KERNEL says why `__cluster_dims__` has no size.
template <class Kernel>
__global__ void __cluster_dims__() __launch_bounds__(Kernel::kThreads, 1)
    run_split(__grid_constant__ typename Kernel::Params const params) {
  TILEWRIGHT_DEVICE_CODE(extern __shared__ __align__(1024) char tilewright_shared_memory[]; Kernel kernel;
                         kernel(params, tilewright_shared_memory);)
}

// Describes a split form as `Traits` describes its kernel, so that `Calls` can launch it.
template <class Traits, bool kInClusters>
struct SplitTraits {
  using Kernel = SplitForm<typename Traits::Kernel, kInClusters>;
  static constexpr bool kPdl = Traits::kPdl;

  static void const* entry() { return reinterpret_cast<void const*>(&run_split<Kernel>); }
  static void const* combining_entry() { return Traits::combining_entry(); }
};

// The functions of the descriptor of a kernel that has plain forms and split forms. A split form refuses what it does
// not compute (`Maker::runs_split_form`), and the product then goes on to the plain forms and the general code.
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

// The phases of a persistent CTA that multiplies two operands. One of the producer's four warps loads stages of both
// operands. One to three consumer warpgroups multiply them and store D. The CTAs of a cluster share loads by multicast,
// or share a tile along k.
//
// | phase | consumers' warps | the producer's warps | waits for |
// |---|---|---|---|
// | prologue | initialise mbarriers, prefetch tensor maps (one thread each) | | |
// | multiply, load | prepare the loop | prepare the loop | |
// | `enter` | wait | wait | all mbarriers of the cluster; the previous kernel |
// | multiply, load | multiply stages, store tiles | one loads stages | full and empty mbarriers (pipeline.hpp) |
// | drain | wait | the loading warp waits | TMA has read the last boxes of D; others have read the last stages |
// | `finish` | wait, if a cluster splits k | wait | no CTA reads this CTA's sums any more |
#pragma once

#include <cstdint>

#include "tilewright/sm90/cluster.hpp"
#include "tilewright/sm90/product_params.hpp"
#include "tilewright/sm90/ptx.hpp"

namespace tilewright::sm90 {

static_assert(kPolicyNormal == kKeepNormal && kPolicyEvictFirst == kEvictFirst);

// How many consumer warpgroups share a tile, unless a kernel says otherwise.
constexpr int consumers_of(int tile_m) { return tile_m == 64 ? 1 : 2; }

// Cooperative: all consumer warpgroups, of 128 threads each, compute one tile together. They divide the tile's 64-row
// slices among them, or its columns where the number of slices is no multiple of the number of warpgroups.
template <int TileM, int TileN, int Consumers = consumers_of(TileM)>
struct Cooperative {
  static constexpr int kConsumers = Consumers, kOfTile = Consumers;  // warpgroups of a CTA, and of a tile
  static constexpr int kDown = TileM / 64 % Consumers == 0 ? Consumers : 1, kAcross = Consumers / kDown;
  static constexpr int kRows = TileM / 64 / kDown,
                       kColumns = TileN / kAcross;         // of a warpgroup: 64-row slices, columns
  static constexpr int kThreads = (kConsumers + 1) * 128;  // with the producer's
  static_assert(TileM % 64 == 0 && kColumns % 8 == 0 && TileN == kColumns * kAcross);
};

// Ping-pong: two warpgroups compute a tile each, in alternation, so that one stores while the other multiplies.
template <int TileM, int TileN>
struct Pingpong {
  static constexpr int kConsumers = 2, kOfTile = 1, kDown = 1, kAcross = 1;
  static constexpr int kRows = TileM / 64, kColumns = TileN, kThreads = (kConsumers + 1) * 128;
  static_assert(TileM % 64 == 0 && kColumns % 8 == 0);
};

// Initialises the mbarriers of the stages. `arrivals`: of warps or threads at a stage's `full`, beside the bytes of
// TMA. `readers`: warpgroups (or warps) that arrive at a stage's `empty`, of each CTA that reads the stage's data.
// Called by one thread, chosen by `elect_one`: if each lane initialised a barrier of its own, ptxas would make a loop
// over the lanes, for 6 stages 14 rounds of some 60 clocks.
template <class Layout, int kStages>
__device__ __forceinline__ void start_stages(ClusterShape const& cluster, uint32_t shared, int arrivals, int readers) {
  // The CTA that loads a stage waits for all warpgroups that read it, in the CTAs of its row and of its column.
  int const releases = (cluster.m + cluster.n - 1) * readers;
#pragma unroll
  for (int stage = 0; stage < kStages; ++stage) {
    barrier_init(Layout::full(shared, stage), arrivals);
    barrier_init(Layout::empty(shared, stage), releases);
  }
}

// Waits until the mbarriers of the CTA and of its cluster are initialised and the stream's previous kernel is done, so
// that what that kernel wrote can be read, and what it read can be overwritten. Every warp calls it once, as late as it
// can, because both take time: other CTAs' mbarriers 200 clocks and more, and the previous kernel until its last store
// is in memory.
template <bool kPdl>
__device__ __forceinline__ void enter(ClusterShape const& cluster) {
  if (cluster.size() > 1) {
    cluster_wait();
  } else {
    __syncthreads();
  }
  if constexpr (kPdl) {
    wait_for_previous_kernel();
    allow_next_kernel();
  }
}

// Prologue: one thread initialises barriers, and one of another warp prefetches tensor maps.
template <class Kernel>
__device__ __forceinline__ void prologue(typename Kernel::Params const& params, uint32_t shared, int warp) {
  if (shared % 1024 != 0) {
    __trap();  // the 128-byte swizzle needs this alignment; no static shared memory precedes the stages
  }
  if (warp == 0) {
    if (elect_one()) {
      Kernel::init_barriers(params, shared);
      fence_barrier_init();
    }
    __syncwarp();
  } else if (warp == 1) {
    if (elect_one()) {
      Kernel::prefetch_maps(params);
    }
    __syncwarp();
  }
  if (params.cluster.size() > 1) {
    cluster_arrive();  // `enter` waits
  }
}

// Finish: waits until no other CTA of the cluster reads this CTA's sums any more. The arrival is relaxed: a thread's
// loads of other CTAs' sums have returned before it arrives, because it has added them up and stored the result.
__device__ __forceinline__ void finish(ClusterShape const& cluster) {
  if (cluster.splits > 1) {
    __syncwarp();
    cluster_arrive();
    cluster_wait();
  }
}

// Runs a CTA from start to end. `Kernel` has a static function for each phase:
//
// | function | called by | what it does |
// |---|---|---|
// | init_barriers | one thread | initialises all mbarriers |
// | prefetch_maps | one thread of another warp | |
// | load | each of the producer's four warps; `loading_warp` is true in the first | loads; calls `enter` |
// | multiply | each consumer warpgroup | multiplies, and stores D; calls `enter` |
//
// `load` and `multiply` return only when no other CTA will arrive at this CTA's mbarriers any more.
template <class Kernel>
__device__ __forceinline__ void run_product(typename Kernel::Params const& params, char* memory) {
  // A CTA of three warpgroups starts with 168 registers a thread, one of four with 128. If its warpgroups asked for
  // more in all, they would wait forever.
  static_assert(Kernel::kConsumers == 1 ||
                Kernel::kProducerRegisters + Kernel::kConsumers * Kernel::kConsumerRegisters <=
                    (Kernel::kConsumers == 2 ? 3 * 168 : 4 * 128));
  uint32_t const shared = shared_address(memory);
  int const warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0);
  ClusterPlace const place(params.cluster);
  prologue<Kernel>(params, shared, warp);
  if (warp / 4 == Kernel::kConsumers) {
    if constexpr (Kernel::kConsumers > 1) {
      keep_registers<Kernel::kProducerRegisters>();
    }
    Kernel::load(params, shared, place, warp == Kernel::kConsumers * 4);
  } else {
    if constexpr (Kernel::kConsumers > 1) {
      take_registers<Kernel::kConsumerRegisters>();
    }
    Kernel::multiply(params, shared, place, warp / 4);
  }
  finish(params.cluster);
}

}  // namespace tilewright::sm90

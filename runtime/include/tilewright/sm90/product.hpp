// What persistent kernels share that multiply stages of two operands: one producer warp loads them, one to three
// consumer warpgroups multiply, CTAs of a cluster share loads by multicast, or a tile along k.
#pragma once

#include <cstdint>

#include "tilewright/sm90/cluster.hpp"
#include "tilewright/sm90/product_params.hpp"
#include "tilewright/sm90/ptx.hpp"

namespace tilewright::sm90 {

static_assert(kPolicyNormal == kKeepNormal && kPolicyEvictFirst == kEvictFirst);

// Warpgroups that share a tile, unless a kernel knows better.
constexpr int consumers_of(int tile_m) { return tile_m == 64 ? 1 : 2; }

// Consumer warpgroups that compute one tile together (cooperative). Each has 128 threads and multiplies 64 rows at a
// time. They divide the tile's rows, or its columns where its 64s of rows do not divide.
template <int TileM, int TileN, int Consumers = consumers_of(TileM)>
struct Cooperative {
  static constexpr int kConsumers = Consumers, kOfTile = Consumers;  // that have a tile between them
  static constexpr int kDown = TileM / 64 % Consumers == 0 ? Consumers : 1, kAcross = Consumers / kDown;
  static constexpr int kRows = TileM / 64 / kDown, kColumns = TileN / kAcross;  // a warpgroup's: 64s, and columns
  static constexpr int kThreads = (kConsumers + 1) * 128;                       // with the producer's
  static_assert(TileM % 64 == 0 && kColumns % 8 == 0 && TileN == kColumns * kAcross);
};

// Two that compute a tile each, in turns (ping-pong).
template <int TileM, int TileN>
struct Pingpong {
  static constexpr int kConsumers = 2, kOfTile = 1, kDown = 1, kAcross = 1;
  static constexpr int kRows = TileM / 64, kColumns = TileN, kThreads = (kConsumers + 1) * 128;
  static_assert(TileM % 64 == 0 && kColumns % 8 == 0);
};

// By one thread: makes the barriers of the stages, whose data arrive by `arrivals` and are read by `readers` of each
// CTA that shares them. One that `elect_one` names, because ptxas makes a loop of what each lane of a warp does to a
// barrier of its own: 14 rounds, of some 60 clocks each, for 6 stages.
template <class Layout, int kStages>
__device__ __forceinline__ void start_stages(ClusterShape const& cluster, uint32_t shared, int arrivals, int readers) {
  // Whoever loads a stage waits for all warpgroups that read it, in the CTAs of its row and of its column.
  int const releases = (cluster.m + cluster.n - 1) * readers;
#pragma unroll
  for (int stage = 0; stage < kStages; ++stage) {
    barrier_init(Layout::full(shared, stage), arrivals);
    barrier_init(Layout::empty(shared, stage), releases);
  }
}

// From here on the barriers of the CTA and of its cluster are made, what the stream's previous kernel wrote can be
// read, and what it read be written. Every warp comes here once. What it can do before, it does: the barriers of others
// take 200 clocks and more, and the previous kernel's end until its last store is in memory.
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

// A CTA from start to end. `Kernel::start`, which makes the barriers, is one thread's work, `ask_for_maps` another's,
// `produce` that of the producer's warps, of which one loads, `multiply` that of a consumer warpgroup. The latter two
// call `enter`, and do not end before other CTAs have told the barriers of theirs that they will tell.
template <class Kernel>
__device__ __forceinline__ void run_product(typename Kernel::Params const& params, char* memory) {
  // A CTA of three warpgroups starts with 168 registers a thread, one of four with 128: if they asked for more in all,
  // they would wait forever.
  static_assert(Kernel::kConsumers == 1 ||
                Kernel::kProducerRegisters + Kernel::kConsumers * Kernel::kConsumerRegisters <=
                    (Kernel::kConsumers == 2 ? 3 * 168 : 4 * 128));
  uint32_t const shared = shared_address(memory);
  int const warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0);
  ClusterPlace const place(params.cluster);
  if (shared % 1024 != 0) {
    __trap();  // the swizzles count on it; there is no static shared memory to get in the way
  }
  if (warp == 0) {
    if (elect_one()) {
      Kernel::start(params, shared);
      fence_barrier_init();
    }
    __syncwarp();
  } else if (warp == 1) {
    if (elect_one()) {
      Kernel::ask_for_maps(params);
    }
    __syncwarp();
  }
  if (params.cluster.size() > 1) {
    cluster_arrive();
  }
  if (warp / 4 == Kernel::kConsumers) {
    if constexpr (Kernel::kConsumers > 1) {
      keep_registers<Kernel::kProducerRegisters>();
    }
    Kernel::produce(params, shared, place, warp == Kernel::kConsumers * 4);
  } else {
    if constexpr (Kernel::kConsumers > 1) {
      take_registers<Kernel::kConsumerRegisters>();
    }
    Kernel::multiply(params, shared, place, warp / 4);
  }
  if (params.cluster.splits > 1) {
    // No CTA ends while others read its sums. The arrival is relaxed: a thread's loads of others' sums have returned
    // before it arrives, because it has added up and stored what they brought.
    __syncwarp();
    cluster_arrive();
    cluster_wait();
  }
}

}  // namespace tilewright::sm90

// What persistent kernels share that multiply stages of two operands: one producer warp loads them, one or two
// consumer warpgroups multiply, CTAs of a cluster share loads by multicast, or a tile along k.
#pragma once

#include <cstdint>

#include "tilewright/sm90/cluster.hpp"
#include "tilewright/sm90/epilogue.hpp"
#include "tilewright/sm90/product_params.hpp"
#include "tilewright/sm90/ptx.hpp"

namespace tilewright::sm90 {

static_assert(kPolicyNormal == kKeepNormal && kPolicyEvictFirst == kEvictFirst);

// How the consumer warpgroups divide a tile: half of its rows each, or half of its columns where 64 rows do not divide
// into two; or, in turns, a tile each.
template <int TileM, int TileN, bool kTurns>
struct Warpgroups {
  static constexpr int kConsumers = !kTurns && TileM == 64 ? 1 : 2;
  static constexpr int kDown = !kTurns && TileM % 128 == 0 ? 2 : 1;             // that divide the rows
  static constexpr int kAcross = kTurns ? 1 : kConsumers / kDown;               // and the columns
  static constexpr int kRows = TileM / 64 / kDown, kColumns = TileN / kAcross;  // of 64, and of 1: a warpgroup's
  static constexpr int kThreads = (kConsumers + 1) * 128;
  static_assert(TileM % 64 == 0 && kColumns % 8 == 0 && TileN == kColumns * kAcross);
};

// One warp's work, before the others go on: maps are asked for, barriers of the stages made, whose data arrive by
// `arrivals` and are read by `readers` of each CTA that shares them.
template <class Layout, int kStages>
__device__ __forceinline__ void start_stages(ProductParams const& params, uint32_t shared, bool boxes, int arrivals,
                                             int readers) {
  int const lane = threadIdx.x;
  if (lane == 0) {
    prefetch_map(&params.a);
    prefetch_map(&params.b);
    if (boxes) {
      prefetch_map(&params.d);
    }
  }
  if (lane < kStages) {
    // Whoever loads a stage waits for all warpgroups that read it, in the CTAs of its row and of its column.
    barrier_init(Layout::full(shared, lane), arrivals);
    barrier_init(Layout::empty(shared, lane), (params.cluster.m + params.cluster.n - 1) * readers);
  }
}

// A CTA from start to end. `Kernel::start` is one warp's work, `produce` that of the producer's warps, of which one
// loads, `multiply` that of a consumer warpgroup.
template <class Kernel>
__device__ __forceinline__ void run_product(typename Kernel::Params const& params, char* memory) {
  // A CTA of three warpgroups starts with 168 registers a thread: if they asked for more in all, they would wait
  // forever.
  static_assert(Kernel::kConsumers == 1 || Kernel::kProducerRegisters + 2 * Kernel::kConsumerRegisters <= 3 * 168);
  uint32_t const shared = shared_address(memory);
  int const warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0);
  ClusterPlace const place(params.cluster);
  if (shared % 1024 != 0) {
    __trap();  // the swizzles count on it; there is no static shared memory to get in the way
  }
  if (warp == 0) {
    Kernel::start(params, shared);
    fence_barrier_init();
    __syncwarp();
  }
  if (cluster_size() > 1) {
    cluster_arrive();
    cluster_wait();
  } else {
    __syncthreads();
  }
  if constexpr (Kernel::kPdl) {
    wait_for_previous_kernel();  // what it wrote: operands, C; what it reads: D
  }
  if (warp / 4 == Kernel::kConsumers) {
    if constexpr (Kernel::kConsumers > 1) {
      keep_registers<Kernel::kProducerRegisters>();
    }
    if constexpr (Kernel::kPdl) {
      allow_next_kernel();
    }
    Kernel::produce(params, shared, place, warp == Kernel::kConsumers * 4);
  } else {
    if constexpr (Kernel::kConsumers > 1) {
      take_registers<Kernel::kConsumerRegisters>();
    }
    Kernel::multiply(params, shared, place, warp / 4);
  }
  if (cluster_size() > 1) {
    __syncwarp();
    cluster_arrive();
    cluster_wait();  // others may still tell this CTA's barriers
  }
}

}  // namespace tilewright::sm90

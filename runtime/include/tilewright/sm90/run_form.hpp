// The start of a CTA that runs a form. A form is a copy of a kernel's code that serves one kind of launches with few
// instructions, because a launch behind other kernels finds none of them in the instruction caches: see
// gemm/plain_form.hpp and gemm/split_form.hpp. `run_product` (product.hpp) starts the general code.
//
// What each warp does, and what it waits for:
//
// | step | consumers' warps | the warp that loads | the producer's other warps |
// |---|---|---|---|
// | prologue | warp 0 initialises the mbarriers | prefetches tensor maps | |
// | clusters only | arrive at the cluster's barrier | arrives | arrive |
// | registers, if they change | wait until the producer has given up enough | gives up | give up |
// | `multiply`, `load` | set up the main loop | computes its first loads | |
// | `enter_form`, `leave_form` | wait for all warps, then for the previous kernel | as consumers | arrive, or wait |
// | main loop | multiply | loads | |
//
// Arriving and waiting are apart, so that all work that needs no barrier is done between them.
#pragma once

#include <cstdint>

#include "tilewright/sm90/cluster.hpp"
#include "tilewright/sm90/ptx.hpp"

namespace tilewright::sm90 {

// Whether the warpgroups of a form change their numbers of registers (setmaxnreg), which takes 50 to 75 ns on an H200.
// With up to about 100 accumulators a thread, the 168 registers that a thread has at launch are enough. `accumulators`:
// of a thread.
constexpr bool form_sets_registers(int consumers, int accumulators) { return consumers > 1 && accumulators > 104; }

// Runs a CTA of a form from start to end. `Form` has these static functions:
//
// | function | called by | what it does |
// |---|---|---|
// | shape, place | all threads | the cluster as the form sees it, and the CTA's place in it |
// | init_barriers | one thread of warp 0 | initialises all mbarriers |
// | prefetch_maps | one thread of the warp that loads | |
// | load | each of the producer's warps | `loads` is true in the warp that loads |
// | multiply | each consumer warpgroup | the main loop, and storing the sums |
//
// `load` and `multiply` call `enter_form` or `leave_form`, or wait for the barriers of the CTA and of its cluster in
// another way. `kClusters`: the form is launched in clusters; without them no warp touches a cluster's barrier.
template <class Form>
__device__ __forceinline__ void run_form(typename Form::Params const& params, char* memory) {
  uint32_t const shared = shared_address(memory);
  if (shared % 1024 != 0) {
    __trap();  // see `prologue` (product.hpp)
  }
  int const warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0);
  ClusterShape const cluster = Form::shape(params);
  ClusterPlace const place = Form::place(cluster);
  constexpr int kLoading = Form::kConsumers * 4;  // the warp that loads
  if (warp == 0) {
    if (elect_one()) {
      Form::init_barriers(params, cluster, shared);
      fence_barrier_init();
    }
    __syncwarp();
  } else if (warp == kLoading) {
    if (elect_one()) {
      Form::prefetch_maps(params);
    }
    __syncwarp();
  }
  if constexpr (Form::kClusters) {
    cluster_arrive();  // `enter_form` waits
  }
  if (warp < kLoading) {
    if constexpr (Form::kSetsRegisters) {
      take_registers<Form::kConsumerRegisters>();
    }
    Form::multiply(params, shared, cluster, place, warp / 4);
    return;
  }
  if constexpr (Form::kSetsRegisters) {
    keep_registers<Form::kProducerRegisters>();
  }
  Form::load(params, shared, cluster, place, warp == kLoading);
}

// Waits until the mbarriers of the CTA and of its cluster are initialised and the stream's previous kernel is done, as
// `enter` (product.hpp) does. Called by the warps that load or multiply, as late as they can.
template <class Form>
__device__ __forceinline__ void enter_form() {
  if constexpr (Form::kClusters) {
    cluster_wait();
  } else {
    named_barrier_sync(0, Form::kThreads);
  }
  if constexpr (Form::kPdl) {
    wait_for_previous_kernel();
    allow_next_kernel();
  }
}

// Called by the producer's other warps, which end afterwards. They must arrive, because `enter_form` counts them, but
// they read nothing: they do not wait for the previous kernel, and without clusters for no warp either.
template <class Form>
__device__ __forceinline__ void leave_form() {
  if constexpr (Form::kClusters) {
    cluster_wait();
  } else {
    named_barrier_arrive(0, Form::kThreads);
  }
}

}  // namespace tilewright::sm90

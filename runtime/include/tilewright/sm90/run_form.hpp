// How a CTA of a form begins. A form is a copy of a kernel's code for one kind of launches, short for launches behind
// other kernels: see gemm/plain_form.hpp and gemm/split_form.hpp. `run_product` (product.hpp) begins the general code.
#pragma once

#include <cstdint>

#include "tilewright/sm90/cluster.hpp"
#include "tilewright/sm90/ptx.hpp"

namespace tilewright::sm90 {

// Whether the warpgroups of a form change their numbers of registers. Up to some 100 accumulators a thread, the 168
// registers that each thread has at launch are enough, and the change takes 50 to 75 ns.
constexpr bool form_sets_registers(int consumers, int accumulators) { return consumers > 1 && accumulators > 104; }

// Runs a CTA of a form from start to end. A form says where a CTA is, and gives one static function for each phase:
//   shape, place                  the cluster as far as the form does not imply it, and the CTA's place in it
//   init_barriers, prefetch_maps  prologue, one thread each: of the first warp, and of the warp that loads
//   load                          by each of the producer's warps; `loads` is true in the first
//   multiply                      by each consumer warpgroup: products, and what becomes of the sums
// Without clusters (`kClusters`) no warp arrives at or waits for the barrier of a cluster. `load` and `multiply` wait
// for the barriers of the CTA and of its cluster, by `enter_form` or otherwise.
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

// What `enter` (product.hpp) does, for the warps that load or multiply.
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

// The same for the producer's other warps, which end then: they wait for no kernel, and without clusters for no warp.
template <class Form>
__device__ __forceinline__ void leave_form() {
  if constexpr (Form::kClusters) {
    cluster_wait();
  } else {
    named_barrier_arrive(0, Form::kThreads);
  }
}

}  // namespace tilewright::sm90

// What the host's side of persistent kernels shares whose clusters are run-time arguments.
#pragma once

#include "tilewright/abi.h"
#include "tilewright/launch.hpp"
#include "tilewright/sm90/cluster.hpp"
#include "tilewright/sm90/residency.hpp"
#include "tilewright/tactic.h"

namespace tilewright::sm90 {

constexpr int ceil_div(int x, int y) { return (x + y - 1) / y; }

inline ClusterShape cluster_of(tilewright_tactic const& tactic) {
  auto const side = [](int32_t given) { return given > 0 ? given : 1; };
  return ClusterShape(side(tactic.cluster_m), side(tactic.cluster_n), tactic.splits);
}

// Whether a kernel takes such a cluster, and such an order of tiles.
inline bool legal(tilewright_tactic const& tactic, ClusterShape const& cluster) {
  return cluster.legal() && tactic.swizzle > 0 && tactic.sm_count > 0;
}

// Makes ready to launch the kernel of `Traits` (what a generated file defines) in such clusters, and says how many of
// them the GPU runs at once.
template <class Traits>
cudaError_t prepare(Context& context, tilewright_tactic const& tactic, ClusterShape const& cluster, LaunchShape& shape,
                    int& at_once) {
  if (cudaError_t const error = current_context(context); error != cudaSuccess) {
    return error;
  }
  shape.block = dim3(Traits::Kernel::kThreads);
  shape.cluster = shape.preferred = dim3(cluster.size());
  shape.smem_bytes = Traits::Kernel::kSharedBytes;
  shape.pdl = Traits::kPdl;
  shape.spread = true;
  // Before the driver can say how many clusters the GPU holds.
  if (cudaError_t const error = allow<Traits>(context, Traits::entry(), shape); error != cudaSuccess) {
    return error;
  }
  at_once = Residency::clusters(context, Traits::entry(), shape, tactic.sm_count);
  return cudaSuccess;
}

}  // namespace tilewright::sm90

// Defines the kernel NAME, one CTA to an SM, and its descriptor; a generated file defines tilewright::NAME::Gemm, and
// ADAPTER is its family's.
#define TILEWRIGHT_CLUSTERED_KERNEL(NAME, ADAPTER)                                                   \
  extern "C" __global__ void __launch_bounds__(tilewright::NAME::Gemm::Kernel::kThreads, 1)          \
      NAME(__grid_constant__ typename tilewright::NAME::Gemm::Kernel::Params const params) {         \
    extern __shared__ __align__(1024) char tilewright_shared_memory[];                               \
    tilewright::sm90::run_product<tilewright::NAME::Gemm::Kernel>(params, tilewright_shared_memory); \
  }                                                                                                  \
  void const* tilewright::NAME::Gemm::entry() { return reinterpret_cast<void const*>(&::NAME); }     \
  extern "C" __attribute__((visibility("default"))) tilewright_kernel const tilewright_##NAME =      \
      ADAPTER<tilewright::NAME::Gemm>::descriptor(#NAME);

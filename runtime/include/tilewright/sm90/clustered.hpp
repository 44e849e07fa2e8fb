// The host side of persistent kernels whose cluster shape is a run-time argument: a tactic's cluster, and the launch.
#pragma once

#include "tilewright/adapter.hpp"
#include "tilewright/sm90/cluster_shape.hpp"
#include "tilewright/tactic.h"

namespace tilewright::sm90 {

constexpr int ceil_div(int x, int y) { return (x + y - 1) / y; }

// How many parts of k are added up through the workspace (parts.hpp); 1 if k is not split so.
inline int parts_of(tilewright_tactic const& tactic) {
  return tactic.decomposition == TILEWRIGHT_DECOMPOSE_SPLIT_K ? tactic.splits : 1;
}

// A tactic's cluster, with `splits` CTAs for each tile.
inline ClusterShape cluster_of(tilewright_tactic const& tactic, int splits) {
  auto const side = [](int32_t extent) { return extent > 0 ? extent : 1; };
  return ClusterShape(side(tactic.cluster_m), side(tactic.cluster_n), splits);
}

// A tactic's cluster. Parts in the workspace belong to different clusters.
inline ClusterShape cluster_of(tilewright_tactic const& tactic) {
  return cluster_of(tactic, parts_of(tactic) > 1 ? 1 : tactic.splits);
}

// Whether kernels accept the tactic's cluster and order of tiles.
inline bool legal(tilewright_tactic const& tactic, ClusterShape const& cluster) {
  return cluster.legal() && tactic.swizzle > 0 && tactic.sm_count > 0;
}

// Prepares a launch of the kernel `entry` in clusters, and sets `at_once` to how many clusters run at once in the
// context. `Kernel` is the type by which `allow` (launch.hpp) knows the kernel. `shape` says the threads and the shared
// memory of a CTA. Its cluster is set here, in place, because a copy costs 10 ns of a launch's 55.
template <class Kernel>
cudaError_t prepare(Context const& context, void const* entry, tilewright_tactic const& tactic,
                    ClusterShape const& cluster, LaunchShape& shape, int& at_once) {
  shape.cluster = shape.preferred = dim3(cluster.size());
  shape.spread = true;
  CUfunction function;  // `allow` must run before the driver is asked how many clusters the SMs hold
  if (cudaError_t const error = allow<Kernel>(context, entry, shape, function); error != cudaSuccess) {
    return error;
  }
  return clusters_at_once(context, entry, shape, tactic.sm_count, at_once);
}

// The launch shape of a kernel that adds up sums in the workspace: `blocks` CTAs of `threads`, no clusters.
inline LaunchShape combining_shape(int64_t blocks, int threads, bool pdl) {
  LaunchShape shape{};
  shape.grid = dim3(static_cast<unsigned>(blocks));
  shape.block = dim3(threads);
  shape.cluster = shape.preferred = dim3(1);
  shape.pdl = pdl;
  return shape;
}

// The properties of a launch that `Maker::make_params` needs.
struct Launching {
  ClusterShape cluster;
  int at_once;      // clusters that run at once
  bool all;         // `at_once` is the number of clusters that the context's SMs hold
  void* workspace;  // of `workspace_bytes`
  cudaStream_t stream;
};

// The `Host` (adapter.hpp) of persistent kernels that one launch starts. `Maker` has Args, can_implement,
// workspace_bytes, and these functions:
//   static cudaError_t make_params(Args const&, Launching const&, Params&);  // sets all parameters
//   static int clusters(Params const&);                                      // of the grid
// `make_params` may also enqueue kernels that fill the workspace.
template <class Traits, class Maker>
struct ClusteredHost {
  using Kernel = typename Traits::Kernel;
  using Args = typename Maker::Args;

  static bool can_implement(Args const& args) { return Maker::can_implement(args); }

  static int64_t workspace_bytes(Args const& args) { return Maker::workspace_bytes(args); }

  static cudaError_t enqueue(Context const& context, Args const& args, void* workspace, cudaStream_t stream) {
    Launching launching{cluster_of(args.tactic), 0, false, workspace, stream};
    LaunchShape shape = launch_shape<Traits>();
    cudaError_t error =
        prepare<Traits>(context, Traits::entry(), args.tactic, launching.cluster, shape, launching.at_once);
    if (error != cudaSuccess) {
      return error;
    }
    int most = 0;
    error = clusters_at_once(context, Traits::entry(), shape, INT32_MAX, most);
    if (error != cudaSuccess) {
      return error;
    }
    launching.all = most == launching.at_once;
    typename Kernel::Params params;
    error = Maker::make_params(args, launching, params);
    if (error != cudaSuccess) {
      return error;
    }
    shape.grid = dim3(Maker::clusters(params) * launching.cluster.size());
    return tilewright::launch<Traits>(context, Traits::entry(), &params, shape, stream);
  }
};

}  // namespace tilewright::sm90

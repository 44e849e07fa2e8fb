// Makes a `tilewright_kernel` of a kernel of our own, whatever its family.
//
// `Traits` is the struct that a generated file defines: `Kernel`, `kPdl`, and `entry()`, the kernel's address. A
// `Kernel` has `kThreads`, `kSharedBytes` (dynamic shared memory), `Params`, its parameter, and
//   __device__ void operator()(Params const&, char* shared_memory) const;
// A family's `Host` checks and launches problems:
//   using Kernel, Args (its family's struct);
//   static bool can_implement(Args const&);
//   static int64_t workspace_bytes(Args const&);
//   static cudaError_t enqueue(Context const&, Args const&, void* workspace, cudaStream_t);
#pragma once

#include "tilewright/abi.h"
#include "tilewright/descriptor.hpp"
#include "tilewright/launch.hpp"

namespace tilewright {

// A kernel's launch shape without the grid. Thread blocks may share SMs, and each is a cluster of its own, unless a
// family changes that.
template <class Traits>
LaunchShape launch_shape() {
  LaunchShape shape{};
  shape.block = dim3(Traits::Kernel::kThreads);
  shape.cluster = shape.preferred = dim3(1);
  shape.smem_bytes = Traits::Kernel::kSharedBytes;
  shape.pdl = Traits::kPdl;
  return shape;
}

// The `Host` of families with one launch and no workspace. `Maker` (which may be the kernel itself) has Args,
// can_implement and
//   static cudaError_t make_params(Args const&, Params&, LaunchShape&);  // which sets the grid
template <class Traits, class Maker = typename Traits::Kernel>
struct LaunchedOnce {
  using Kernel = typename Traits::Kernel;
  using Args = typename Maker::Args;

  static bool can_implement(Args const& args) { return Maker::can_implement(args); }

  static int64_t workspace_bytes(Args const&) { return 0; }

  static cudaError_t enqueue(Context const& context, Args const& args, void*, cudaStream_t stream) {
    typename Kernel::Params params{};
    LaunchShape shape = launch_shape<Traits>();
    if (cudaError_t const error = Maker::make_params(args, params, shape); error != cudaSuccess) {
      return error;
    }
    return tilewright::launch<Traits>(context, Traits::entry(), &params, shape, stream);
  }
};

// The functions of a `tilewright_kernel`, by a `Host` object. Where kernels share a Host's code, the object knows the
// kernel.
template <class Host>
struct Entries {
  using Args = typename Host::Args;

  static int32_t can_implement(Host const& host, void const* args) {
    return host.can_implement(*static_cast<Args const*>(args)) ? TILEWRIGHT_OK : TILEWRIGHT_NOT_SUPPORTED;
  }

  static int64_t workspace_bytes(Host const& host, void const* args) {
    return host.workspace_bytes(*static_cast<Args const*>(args));
  }

  static int32_t launch(Host const& host, void const* args, void* workspace, void* stream) {
    return answer(enqueue(host, *static_cast<Args const*>(args), workspace, static_cast<cudaStream_t>(stream)));
  }

 private:
  static int32_t enqueue(Host const& host, Args const& args, void* workspace, cudaStream_t stream) {
    if (!host.can_implement(args)) {
      return TILEWRIGHT_NOT_SUPPORTED;
    }
    if (workspace == nullptr && host.workspace_bytes(args) > 0) {
      return TILEWRIGHT_WORKSPACE_MISSING;
    }
    Context context;
    if (cudaError_t const error = current_context(context, stream); error != cudaSuccess) {
      return error;
    }
    return host.enqueue(context, args, workspace, stream);
  }
};

// The same for a kernel with a `Host` type of its own.
template <class Host>
struct Adapter {
  using Args = typename Host::Args;
  using Kernel = typename Host::Kernel;

  static int32_t can_implement(void const* args) { return Entries<Host>::can_implement({}, args); }

  static int64_t workspace_bytes(void const* args) { return Entries<Host>::workspace_bytes({}, args); }

  static int32_t launch(void const* args, void* workspace, void* stream) {
    return Entries<Host>::launch({}, args, workspace, stream);
  }
};

}  // namespace tilewright

// TILEWRIGHT_DEFINE_KERNEL with a family's `Host` template.
#define TILEWRIGHT_KERNEL(NAME, TRAITS, HOST, MIN_BLOCKS, ALIGNMENT) \
  TILEWRIGHT_DEFINE_KERNEL(NAME, TRAITS, tilewright::Adapter<HOST<TRAITS>>, MIN_BLOCKS, ALIGNMENT)

// What turns a kernel of our own into a `tilewright_kernel`, whatever its family.
//
// `Traits` is what a generated file defines: `Kernel`, `kPdl`, and `entry()`, the kernel's address. A `Kernel` has
// `kThreads`, `kSharedBytes` (of dynamic shared memory), `Params`, which it gets, and
//   __device__ void operator()(Params const&, char* shared_memory) const;
// A family's `Host` says how it is launched:
//   using Kernel, Args (its family's struct);
//   static bool can_implement(Args const&);
//   static int64_t workspace_bytes(Args const&);
//   static cudaError_t enqueue(Context const&, Args const&, void* workspace, cudaStream_t);
#pragma once

#include "tilewright/abi.h"
#include "tilewright/launch.hpp"

namespace tilewright {

// Without its grid. Its thread blocks may share SMs, and each is a cluster of its own, unless a family says otherwise.
template <class Traits>
LaunchShape launch_shape() {
  LaunchShape shape{};
  shape.block = dim3(Traits::Kernel::kThreads);
  shape.cluster = shape.preferred = dim3(1);
  shape.smem_bytes = Traits::Kernel::kSharedBytes;
  shape.pdl = Traits::kPdl;
  return shape;
}

// The `Host` of kernels that one launch starts, without a workspace. `Maker` (the kernel itself, if it says so) has
// Args, can_implement and
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

template <class Host>
struct Adapter {
  using Args = typename Host::Args;
  using Kernel = typename Host::Kernel;

  static int32_t can_implement(void const* args) {
    return Host::can_implement(*static_cast<Args const*>(args)) ? TILEWRIGHT_OK : TILEWRIGHT_NOT_SUPPORTED;
  }

  static int64_t workspace_bytes(void const* args) { return Host::workspace_bytes(*static_cast<Args const*>(args)); }

  static int32_t launch(void const* args, void* workspace, void* stream) {
    return answer(enqueue(*static_cast<Args const*>(args), workspace, static_cast<cudaStream_t>(stream)));
  }

  static constexpr tilewright_kernel descriptor(char const* name) {
    return {TILEWRIGHT_ABI_VERSION, sizeof(Args),     Kernel::kThreads, Kernel::kSharedBytes, name,
            &can_implement,         &workspace_bytes, &launch};
  }

 private:
  static int32_t enqueue(Args const& args, void* workspace, cudaStream_t stream) {
    if (!Host::can_implement(args)) {
      return TILEWRIGHT_NOT_SUPPORTED;
    }
    if (workspace == nullptr && Host::workspace_bytes(args) > 0) {
      return TILEWRIGHT_WORKSPACE_MISSING;
    }
    Context context;
    if (cudaError_t const error = current_context(context); error != cudaSuccess) {
      return error;
    }
    return Host::enqueue(context, args, workspace, stream);
  }
};

}  // namespace tilewright

// Defines the kernel NAME and its descriptor. TRAITS: the struct that a generated file defines. HOST: the template of
// its host. MIN_BLOCKS: thread blocks that an SM is to hold at least. ALIGNMENT: of the dynamic shared memory.
#define TILEWRIGHT_KERNEL(NAME, TRAITS, HOST, MIN_BLOCKS, ALIGNMENT)                            \
  extern "C" __global__ void __launch_bounds__(TRAITS::Kernel::kThreads, MIN_BLOCKS)            \
      NAME(__grid_constant__ typename TRAITS::Kernel::Params const params) {                    \
    extern __shared__ __align__(ALIGNMENT) char tilewright_shared_memory[];                     \
    typename TRAITS::Kernel kernel;                                                             \
    kernel(params, tilewright_shared_memory);                                                   \
  }                                                                                             \
  void const* TRAITS::entry() { return reinterpret_cast<void const*>(&::NAME); }                \
  extern "C" __attribute__((visibility("default"))) tilewright_kernel const tilewright_##NAME = \
      tilewright::Adapter<HOST<TRAITS>>::descriptor(#NAME);

// What turns a kernel of our own into a `tilewright_kernel`, whatever its family.
#pragma once

#include "tilewright/abi.h"
#include "tilewright/launch.hpp"

namespace tilewright {

// `Traits` is what a generated file defines: `Kernel` and `entry()`, the kernel's address. A `Kernel` has `Args` (its
// family's struct), `Params` (what it gets), `kThreads`, `kSharedBytes` (static and dynamic ones are its own matter:
// these are dynamic), `kPdl`, and
//   static bool can_implement(Args const&);
//   static cudaError_t make_params(Args const&, Params&, dim3& grid);
template <class Traits>
struct Adapter {
  using Kernel = typename Traits::Kernel;
  using Args = typename Kernel::Args;

  static int32_t can_implement(void const* opaque) {
    return Kernel::can_implement(*static_cast<Args const*>(opaque)) ? TILEWRIGHT_OK : TILEWRIGHT_NOT_SUPPORTED;
  }

  static int64_t workspace_bytes(void const*) { return 0; }

  static int32_t launch(void const* args, void*, void* stream) {
    return answer(enqueue(*static_cast<Args const*>(args), static_cast<cudaStream_t>(stream)));
  }

  static constexpr tilewright_kernel descriptor(char const* name) {
    return {TILEWRIGHT_ABI_VERSION, sizeof(Args),     Kernel::kThreads, Kernel::kSharedBytes, name,
            &can_implement,         &workspace_bytes, &launch};
  }

 private:
  static int32_t enqueue(Args const& args, cudaStream_t stream) {
    if (!Kernel::can_implement(args)) {
      return TILEWRIGHT_NOT_SUPPORTED;
    }
    Context context;
    if (cudaError_t const error = current_context(context); error != cudaSuccess) {
      return error;
    }
    typename Kernel::Params params{};
    LaunchShape shape{};
    if (cudaError_t const error = Kernel::make_params(args, params, shape.grid); error != cudaSuccess) {
      return error;
    }
    shape.block = dim3(Kernel::kThreads);
    shape.cluster = shape.preferred = dim3(1);
    shape.smem_bytes = Kernel::kSharedBytes;
    shape.pdl = Kernel::kPdl;
    return tilewright::launch<Traits>(context, Traits::entry(), &params, shape, stream);
  }
};

}  // namespace tilewright

// Defines the kernel NAME and its descriptor; TRAITS is the struct that a generated file defines.
#define TILEWRIGHT_KERNEL(NAME, TRAITS)                                                         \
  extern "C" __global__ void __launch_bounds__(TRAITS::Kernel::kThreads)                        \
      NAME(__grid_constant__ typename TRAITS::Kernel::Params const params) {                    \
    typename TRAITS::Kernel{}(params);                                                          \
  }                                                                                             \
  void const* TRAITS::entry() { return reinterpret_cast<void const*>(&::NAME); }                \
  extern "C" __attribute__((visibility("default"))) tilewright_kernel const tilewright_##NAME = \
      tilewright::Adapter<TRAITS>::descriptor(#NAME);

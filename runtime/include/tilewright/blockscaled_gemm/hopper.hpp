// What a generated `blockscaled_gemm` kernel for sm_90a includes: the kernel (ours: see sm90/kernel.hpp), and
// what turns it into a `tilewright_kernel`.
#pragma once

#include "tilewright/abi.h"
#include "tilewright/blockscaled_gemm/args.h"
#include "tilewright/blockscaled_gemm/sm90/kernel.hpp"
#include "tilewright/launch.hpp"

namespace tilewright::blockscaled_gemm {

// `Traits` is what a generated file defines: Kernel, kPdl and the entry point.
template <class Traits>
struct HopperAdapter {
  using Args = tilewright_blockscaled_gemm_args;
  using Kernel = typename Traits::Kernel;

  static int32_t can_implement(void const* opaque) {
    return Kernel::can_implement(*static_cast<Args const*>(opaque)) ? TILEWRIGHT_OK : TILEWRIGHT_NOT_SUPPORTED;
  }

  static int64_t workspace_bytes(void const*) { return 0; }  // the parts of a split k meet in shared memory

  static int32_t launch(void const* args, void*, void* stream) {
    return answer(enqueue(*static_cast<Args const*>(args), static_cast<cudaStream_t>(stream)));
  }

  static int32_t enqueue(Args const& args, cudaStream_t stream) {
    if (can_implement(&args) != TILEWRIGHT_OK) {
      return TILEWRIGHT_NOT_SUPPORTED;
    }
    Context context;
    if (cudaError_t const error = current_context(context); error != cudaSuccess) {
      return error;
    }
    typename Kernel::Params params;
    if (cudaError_t const error = Kernel::make_params(args, params); error != cudaSuccess) {
      return error;
    }
    LaunchShape shape{};
    shape.grid = Kernel::grid(args);
    shape.block = dim3(Kernel::kThreads);
    shape.cluster = shape.preferred = Kernel::cluster(args);
    shape.smem_bytes = Kernel::kSharedBytes;
    shape.pdl = Traits::kPdl;
    shape.spread = true;
    return tilewright::launch<Traits>(context, Traits::entry(), &params, shape, stream);
  }

  static constexpr tilewright_kernel descriptor(char const* name) {
    return {TILEWRIGHT_ABI_VERSION, sizeof(Args),     Kernel::kThreads, Kernel::kSharedBytes, name,
            &can_implement,         &workspace_bytes, &launch};
  }
};

}  // namespace tilewright::blockscaled_gemm

// As TILEWRIGHT_CUTLASS_KERNEL (tilewright/cutlass.hpp), for a kernel of ours.
#define TILEWRIGHT_BLOCKSCALED_GEMM_HOPPER_KERNEL(NAME)                                          \
  extern "C" __global__ void __launch_bounds__(tilewright::NAME::Gemm::Kernel::kThreads,         \
                                               tilewright::NAME::Gemm::Kernel::kMinBlocks)       \
      NAME(__grid_constant__ typename tilewright::NAME::Gemm::Kernel::Params const params) {     \
    extern __shared__ __align__(1024) char tilewright_shared_memory[];                           \
    typename tilewright::NAME::Gemm::Kernel kernel;                                              \
    kernel(params, tilewright_shared_memory);                                                    \
  }                                                                                              \
  void const* tilewright::NAME::Gemm::entry() { return reinterpret_cast<void const*>(&::NAME); } \
  extern "C" __attribute__((visibility("default"))) tilewright_kernel const tilewright_##NAME =  \
      tilewright::blockscaled_gemm::HopperAdapter<tilewright::NAME::Gemm>::descriptor(#NAME);

// What a generated `quantize` kernel includes: the kernels, and what turns one into a `tilewright_kernel`.
#pragma once

#include "tilewright/abi.h"
#include "tilewright/launch.hpp"
#include "tilewright/quantize/args.h"
#include "tilewright/quantize/dequantize.hpp"
#include "tilewright/quantize/fused_norm.hpp"
#include "tilewright/quantize/square.hpp"
#include "tilewright/quantize/tma.hpp"
#include "tilewright/quantize/vector.hpp"

namespace tilewright::quantize {

// `Traits` is what a generated file defines: Kernel, kPdl and the entry point.
template <class Traits>
struct Adapter {
  using Args = tilewright_quantize_args;
  using Kernel = typename Traits::Kernel;

  static int32_t can_implement(void const* opaque) {
    return Kernel::can_implement(*static_cast<Args const*>(opaque)) ? TILEWRIGHT_OK : TILEWRIGHT_NOT_SUPPORTED;
  }

  static int64_t workspace_bytes(void const*) { return 0; }

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
    Params params{};
    LaunchShape shape{};
    if (cudaError_t const error = Kernel::make_params(args, params, shape.grid); error != cudaSuccess) {
      return error;
    }
    shape.block = dim3(Kernel::kThreads);
    shape.cluster = shape.preferred = dim3(1);
    shape.smem_bytes = Kernel::kSharedBytes;
    shape.pdl = Traits::kPdl;
    shape.spread = false;  // many small thread blocks, of which several keep an SM busy
    return tilewright::launch<Traits>(context, Traits::entry(), &params, shape, stream);
  }

  static constexpr tilewright_kernel descriptor(char const* name) {
    return {TILEWRIGHT_ABI_VERSION, sizeof(Args),     Kernel::kThreads, Kernel::kSharedBytes, name,
            &can_implement,         &workspace_bytes, &launch};
  }
};

}  // namespace tilewright::quantize

#define TILEWRIGHT_QUANTIZE_KERNEL(NAME)                                                             \
  extern "C" __global__ void __launch_bounds__(tilewright::NAME::Quantize::Kernel::kThreads,         \
                                               tilewright::NAME::Quantize::Kernel::kMinBlocks)       \
      NAME(__grid_constant__ tilewright::quantize::Params const params) {                            \
    extern __shared__ __align__(128) char tilewright_shared_memory[];                                \
    typename tilewright::NAME::Quantize::Kernel kernel;                                              \
    kernel(params, tilewright_shared_memory);                                                        \
  }                                                                                                  \
  void const* tilewright::NAME::Quantize::entry() { return reinterpret_cast<void const*>(&::NAME); } \
  extern "C" __attribute__((visibility("default"))) tilewright_kernel const tilewright_##NAME =      \
      tilewright::quantize::Adapter<tilewright::NAME::Quantize>::descriptor(#NAME);

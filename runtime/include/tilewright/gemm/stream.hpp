// What a generated `gemm` kernel of few rows for sm_90a includes: the kernel, and what turns it into a
// `tilewright_kernel`.
#pragma once

#include "tilewright/abi.h"
#include "tilewright/gemm/args.h"
#include "tilewright/gemm/epilogue_params.hpp"
#include "tilewright/gemm/stream_kernel.hpp"
#include "tilewright/launch.hpp"

namespace tilewright::gemm::stream {

// `Traits` is what a generated file defines: Kernel, kPdl and the entry point.
template <class Traits>
struct Adapter {
  using Args = tilewright_gemm_args;
  using Kernel = typename Traits::Kernel;
  static constexpr int kElementBytes = Kernel::ElementA::kBytes;
  static constexpr int kVector = 16 / kElementBytes;  // elements of a load

  static int32_t can_implement(void const* opaque) {
    auto const& args = *static_cast<Args const*>(opaque);
    bool const sizes = args.m > 0 && args.m <= Kernel::kRows && args.n > 0 && args.k > 0 && args.batch > 0 &&
                       args.batch <= 65535 && args.k % kVector == 0;
    bool const aligned =
        args.ld_a % kVector == 0 && args.ld_b % kVector == 0 &&
        (args.batch == 1 || (args.batch_stride_a % kVector == 0 && args.batch_stride_b % kVector == 0));
    int const splits = args.tactic.splits;
    bool const cluster = splits > 0 && splits <= 8 && (splits & (splits - 1)) == 0;
    return sizes && aligned && cluster && known_addends(args) ? TILEWRIGHT_OK : TILEWRIGHT_NOT_SUPPORTED;
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
    typename Kernel::Params params{args.a,
                                   args.b,
                                   args.ld_a * kElementBytes,
                                   args.ld_b * kElementBytes,
                                   args.batch > 1 ? args.batch_stride_a * kElementBytes : 0,
                                   args.batch > 1 ? args.batch_stride_b * kElementBytes : 0,
                                   args.k / kVector,
                                   args.tactic.splits,
                                   epilogue_params(args, 0)};
    LaunchShape shape{};
    shape.grid = dim3((args.n + Kernel::kColumns - 1) / Kernel::kColumns * args.tactic.splits, args.batch);
    shape.block = dim3(Kernel::kThreads);
    shape.cluster = shape.preferred = dim3(args.tactic.splits);
    shape.smem_bytes = Kernel::kSharedBytes;
    shape.pdl = Traits::kPdl;
    return tilewright::launch<Traits>(context, Traits::entry(), &params, shape, stream);
  }

  static constexpr tilewright_kernel descriptor(char const* name) {
    return {TILEWRIGHT_ABI_VERSION, sizeof(Args),     Kernel::kThreads, Kernel::kSharedBytes, name,
            &can_implement,         &workspace_bytes, &launch};
  }
};

}  // namespace tilewright::gemm::stream

// As TILEWRIGHT_CUTLASS_KERNEL (tilewright/cutlass.hpp), for the kernel of few rows.
#define TILEWRIGHT_STREAM_GEMM_KERNEL(NAME)                                                      \
  extern "C" __global__ void __launch_bounds__(tilewright::NAME::Gemm::Kernel::kThreads, 2)      \
      NAME(__grid_constant__ typename tilewright::NAME::Gemm::Kernel::Params const params) {     \
    extern __shared__ __align__(16) char tilewright_shared_memory[];                             \
    typename tilewright::NAME::Gemm::Kernel kernel;                                              \
    kernel(params, tilewright_shared_memory);                                                    \
  }                                                                                              \
  void const* tilewright::NAME::Gemm::entry() { return reinterpret_cast<void const*>(&::NAME); } \
  extern "C" __attribute__((visibility("default"))) tilewright_kernel const tilewright_##NAME =  \
      tilewright::gemm::stream::Adapter<tilewright::NAME::Gemm>::descriptor(#NAME);

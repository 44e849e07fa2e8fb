// The header that generated `gemm` kernels for few rows on sm_90a include: the kernel, and its adapter to
// `tilewright_kernel` (abi.h).
#pragma once

#include "tilewright/adapter.hpp"
#include "tilewright/alignment.hpp"
#include "tilewright/gemm/args.h"
#include "tilewright/gemm/epilogue_params.hpp"
#include "tilewright/gemm/stream_kernel.hpp"

namespace tilewright::gemm::stream {

// Checks problems and makes the parameters of a launch.
template <class Traits>
struct Maker {
  using Args = tilewright_gemm_args;
  using Kernel = typename Traits::Kernel;
  static constexpr int kElementBytes = Kernel::ElementA::kBytes;
  static constexpr int kVector = 16 / kElementBytes;  // elements of a load

  static bool can_implement(Args const& args) {
    bool const sizes = args.m > 0 && args.m <= Kernel::kRows && args.n > 0 && args.k > 0 && args.batch > 0 &&
                       args.batch <= 65535 && args.k % kVector == 0;
    bool const aligned =
        args.ld_a % kVector == 0 && args.ld_b % kVector == 0 &&
        (args.batch == 1 || (args.batch_stride_a % kVector == 0 && args.batch_stride_b % kVector == 0)) &&
        is_aligned(args.a, 16) && is_aligned(args.b, 16);
    int const splits = args.tactic.splits;
    bool const cluster = splits > 0 && splits <= static_cast<int>(kPortableCluster);
    return sizes && aligned && cluster && known_epilogue(args, Kernel::kActivation);
  }

  static cudaError_t make_params(Args const& args, typename Kernel::Params& params, LaunchShape& shape) {
    params = {args.a,
              args.b,
              args.ld_a * kElementBytes,
              args.ld_b * kElementBytes,
              args.batch > 1 ? args.batch_stride_a * kElementBytes : 0,
              args.batch > 1 ? args.batch_stride_b * kElementBytes : 0,
              args.k / kVector,
              args.tactic.splits,
              epilogue_params(args, 0)};
    shape.grid = dim3((args.n + Kernel::kColumns - 1) / Kernel::kColumns * args.tactic.splits, args.batch);
    shape.cluster = shape.preferred = dim3(args.tactic.splits);
    return cudaSuccess;
  }
};

template <class Traits>
using Host = LaunchedOnce<Traits, Maker<Traits>>;

}  // namespace tilewright::gemm::stream

#define TILEWRIGHT_STREAM_GEMM_KERNEL(NAME) \
  TILEWRIGHT_KERNEL(NAME, tilewright::NAME::Gemm, tilewright::gemm::stream::Host, 2, 16)

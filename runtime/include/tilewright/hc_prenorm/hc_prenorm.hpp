// The header of generated `hc_prenorm` kernels: the kernel, and its adapter to `tilewright_kernel`.
#pragma once

#include "tilewright/adapter.hpp"
#include "tilewright/alignment.hpp"
#include "tilewright/hc_prenorm/args.h"
#include "tilewright/hc_prenorm/kernel.hpp"
#include "tilewright/sm90/matrices.hpp"

namespace tilewright::hc_prenorm {

// Launches a kernel, and after it the kernel that adds up the sums of tiles that several CTAs share.
template <class Traits>
struct Host {
  using Args = tilewright_hc_prenorm_args;
  using Kernel = typename Traits::Kernel;

  static bool can_implement(Args const& args) {
    bool const sizes = args.m > 0 && args.n > 0 && args.k > 0 && args.splits > 0 && args.tactic.sm_count > 0;
    return sizes && args.n <= Kernel::N && args.n % 8 == 0 && args.ld_a % 8 == 0 && args.ld_b % 4 == 0 &&
           args.ld_d % 2 == 0 && args.batch_stride_d % 2 == 0 && is_aligned(args.d, 8) &&
           (args.splits == 1 || args.normalizes == 0) &&
           ceil_div(args.m, Kernel::TileM) * (blocks(args) + args.splits) < INT32_MAX;
  }

  static int64_t workspace_bytes(Args const& args) {
    Plan const plan = make_plan(args);
    return plan.cut ? int64_t{plan.ctas} * 2 * Kernel::Apart::kFloats * 4 : 0;
  }

  static cudaError_t enqueue(Context const& context, Args const& args, void* workspace, cudaStream_t stream) {
    Params params;
    params.plan = make_plan(args);
    params.apart = static_cast<float*>(workspace);
    params.ways = params.plan.cut ? AddUp::ways(params.plan) : 1;
    if (cudaError_t const error = set_params(args, params); error != cudaSuccess) {
      return error;
    }
    LaunchShape shape = launch_shape<Traits>();
    shape.grid = dim3(params.plan.ctas);
    shape.spread = true;
    cudaError_t const error = tilewright::launch<Traits>(context, Traits::entry(), &params, shape, stream);
    if (error != cudaSuccess || !params.plan.cut) {
      return error;
    }
    int const pairs = AddUp::kThreads / params.ways;
    shape.grid = dim3(params.plan.tiles, (Kernel::TileM * Kernel::N / 2 + pairs - 1) / pairs);
    shape.block = dim3(AddUp::kThreads);
    shape.smem_bytes = 0;
    shape.spread = false;
    void const* const entry = reinterpret_cast<void const*>(&add_up<Kernel>);
    return tilewright::launch<AddingUp>(context, entry, &params, shape, stream);
  }

 private:
  struct AddingUp {};  // the key of this kernel's own list of contexts in `allow`

  static constexpr int64_t ceil_div(int64_t x, int64_t y) { return (x + y - 1) / y; }
  static int64_t blocks(Args const& args) { return ceil_div(args.k, kBlockK); }

  static Plan make_plan(Args const& args) {
    return Plan(ceil_div(args.m, Kernel::TileM), blocks(args), args.splits, args.tactic.sm_count);
  }

  static cudaError_t set_params(Args const& args, Params& params) {
    params.d = args.d;
    params.squares = args.squares;
    params.ld_d = args.ld_d;
    params.split_stride_d = args.batch_stride_d;
    params.m = args.m;
    params.n = args.n;
    params.normalizes = args.normalizes != 0;
    params.epsilon = args.epsilon;
    params.inverse_k = 1.0f / static_cast<float>(args.k);
    sm90::Matrices const a{args.a, int64_t{args.k} * 2, args.m, 1, args.ld_a * 2, 0};
    sm90::Matrices const b{args.b, int64_t{args.k} * 4, args.n, 1, args.ld_b * 4, 0};
    if (cudaError_t const error = sm90::encode_matrices(params.a, a, 128, Kernel::TileM, CU_TENSOR_MAP_SWIZZLE_128B);
        error != cudaSuccess) {
      return error;
    }
    return sm90::encode_matrices(params.b, b, 128, Kernel::N, CU_TENSOR_MAP_SWIZZLE_128B, 4, true);
  }
};

}  // namespace tilewright::hc_prenorm

#define TILEWRIGHT_HC_PRENORM_KERNEL(NAME) \
  TILEWRIGHT_KERNEL(NAME, tilewright::NAME::Prenorm, tilewright::hc_prenorm::Host, 1, 1024)

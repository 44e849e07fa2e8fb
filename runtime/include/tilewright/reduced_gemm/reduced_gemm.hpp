// What a generated `reduced_gemm` kernel includes: the two kernels, and what turns them into one `tilewright_kernel`.
#pragma once

#include "tilewright/abi.h"
#include "tilewright/launch.hpp"
#include "tilewright/reduced_gemm/args.h"
#include "tilewright/reduced_gemm/kernel.hpp"
#include "tilewright/sm90/matrices.hpp"

namespace tilewright::reduced_gemm {

// `Traits` is what a generated file defines: Kernel, its entry point, and those of the kernel that combines.
template <class Traits>
struct Adapter {
  using Args = tilewright_reduced_gemm_args;
  using Kernel = typename Traits::Kernel;
  using Combiner = Combine<Kernel>;
  static constexpr int kVector = 16 / Kernel::Element::kBytes;  // elements that TMA's alignment wants

  static int32_t can_implement(void const* opaque) {
    auto const& args = *static_cast<Args const*>(opaque);
    auto const aligned = [&](int64_t leading, int64_t batch_stride) {
      return leading % kVector == 0 && (args.batch == 1 || batch_stride % kVector == 0);
    };
    bool const sizes = args.m > 0 && args.n > 0 && args.k > 0 && args.batch > 0 && args.tactic.sm_count > 0;
    bool const fits = sizes && k_tiles(args) * args.batch < INT32_MAX &&
                      tiles(args) * Combiner::kBlocksOfTile < INT32_MAX && aligned(args.ld_a, args.batch_stride_a) &&
                      aligned(args.ld_b, args.batch_stride_b);
    return fits ? TILEWRIGHT_OK : TILEWRIGHT_NOT_SUPPORTED;
  }

  static int64_t workspace_bytes(void const* opaque) {
    auto const& args = *static_cast<Args const*>(opaque);
    return parts(args) * tiles(args) * Kernel::kTileSums * int64_t(sizeof(float4));
  }

  static int32_t launch(void const* opaque, void* workspace, void* stream) {
    auto const& args = *static_cast<Args const*>(opaque);
    if (can_implement(&args) != TILEWRIGHT_OK) {
      return TILEWRIGHT_NOT_SUPPORTED;
    }
    if (workspace == nullptr) {
      return TILEWRIGHT_WORKSPACE_MISSING;
    }
    return answer(enqueue(args, static_cast<float4*>(workspace), static_cast<cudaStream_t>(stream)));
  }

  static constexpr tilewright_kernel descriptor(char const* name) {
    return {TILEWRIGHT_ABI_VERSION, sizeof(Args),     Kernel::kThreads, Kernel::kSharedBytes, name,
            &can_implement,         &workspace_bytes, &launch};
  }

 private:
  struct Combining {};  // a name for what is remembered of the second kernel

  static constexpr int64_t ceil_div(int64_t x, int64_t y) { return (x + y - 1) / y; }
  static int64_t k_tiles(Args const& args) {
    return ceil_div(int64_t(args.k) * Kernel::Element::kBytes, Kernel::kTileBytesK);
  }
  static int64_t tiles(Args const& args) { return ceil_div(args.m, Kernel::TileM) * ceil_div(args.n, Kernel::TileN); }

  // As many as keep every SM at work once, and no part without a k tile.
  static int64_t parts(Args const& args) {
    int64_t const most = args.tactic.sm_count / tiles(args), k = k_tiles(args) * args.batch;
    return most < 1 ? 1 : most < k ? most : k;
  }

  static cudaError_t enqueue(Args const& args, float4* sums, cudaStream_t stream) {
    Context context;
    if (cudaError_t const error = current_context(context); error != cudaSuccess) {
      return error;
    }
    int const tile_count = static_cast<int>(tiles(args)), part_count = static_cast<int>(parts(args));
    int const tiles_down = static_cast<int>(ceil_div(args.m, Kernel::TileM));
    int const total = static_cast<int>(k_tiles(args) * args.batch);
    constexpr int kBytes = Kernel::Element::kBytes;
    sm90::Matrices const a{args.a,     int64_t(args.k) * kBytes, args.m,
                           args.batch, args.ld_a * kBytes,       args.batch_stride_a * kBytes};
    sm90::Matrices const b{args.b,     int64_t(args.k) * kBytes, args.n,
                           args.batch, args.ld_b * kBytes,       args.batch_stride_b * kBytes};
    Params params{};
    params.sums = sums;
    params.tiles = tile_count;
    params.tiles_down = tiles_down;
    params.k_tiles = static_cast<int>(k_tiles(args));
    params.each = total / part_count;
    params.more = total % part_count;
    params.one_a = a.one();
    params.one_b = b.one();
    // What one tile reads once need not stay in L2.
    bool const a_again = args.n > Kernel::TileN || a.one(), b_again = args.m > Kernel::TileM || b.one();
    params.policy_a = a_again ? sm90::kKeepNormal : sm90::kEvictFirst;
    params.policy_b = b_again ? sm90::kKeepNormal : sm90::kEvictFirst;
    cudaError_t error = sm90::encode_matrices(params.a, a, 128, Kernel::TileM, CU_TENSOR_MAP_SWIZZLE_128B);
    if (error == cudaSuccess) {
      error = sm90::encode_matrices(params.b, b, 128, Kernel::TileN, CU_TENSOR_MAP_SWIZZLE_128B);
    }
    if (error != cudaSuccess) {
      return error;
    }
    LaunchShape shape{};
    shape.grid = dim3(static_cast<unsigned>(tile_count * part_count));
    shape.block = dim3(Kernel::kThreads);
    shape.cluster = shape.preferred = dim3(1);
    shape.smem_bytes = Kernel::kSharedBytes;
    shape.pdl = Kernel::kPdl;
    shape.spread = true;
    error = tilewright::launch<Traits>(context, Traits::entry(), &params, shape, stream);
    if (error != cudaSuccess) {
      return error;
    }
    CombineParams combine{
        sums,          args.d,     args.beta != 0.0f ? args.c : nullptr,
        args.ld_c,     args.ld_d,  args.m,
        args.n,        tile_count, tiles_down,
        part_count,    args.alpha, args.beta,
        args.f32 != 0,
    };
    LaunchShape second{};
    second.grid = dim3(static_cast<unsigned>(tile_count * Combiner::kBlocksOfTile));
    second.block = dim3(Combiner::kThreads);
    second.cluster = second.preferred = dim3(1);
    second.pdl = Kernel::kPdl;
    return tilewright::launch<Combining>(context, Traits::combining_entry(), &combine, second, stream);
  }
};

}  // namespace tilewright::reduced_gemm

#define TILEWRIGHT_REDUCED_GEMM_KERNEL(NAME)                                                        \
  extern "C" __global__ void __launch_bounds__(tilewright::NAME::Reduced::Kernel::kThreads, 1)      \
      NAME(__grid_constant__ tilewright::reduced_gemm::Params const params) {                       \
    extern __shared__ __align__(1024) char tilewright_shared_memory[];                              \
    typename tilewright::NAME::Reduced::Kernel kernel;                                              \
    kernel(params, tilewright_shared_memory);                                                       \
  }                                                                                                 \
  extern "C" __global__ void __launch_bounds__(256)                                                 \
      NAME##_combine(__grid_constant__ tilewright::reduced_gemm::CombineParams const params) {      \
    tilewright::reduced_gemm::Combine<typename tilewright::NAME::Reduced::Kernel> kernel;           \
    kernel(params);                                                                                 \
  }                                                                                                 \
  void const* tilewright::NAME::Reduced::entry() { return reinterpret_cast<void const*>(&::NAME); } \
  void const* tilewright::NAME::Reduced::combining_entry() {                                        \
    return reinterpret_cast<void const*>(&::NAME##_combine);                                        \
  }                                                                                                 \
  extern "C" __attribute__((visibility("default"))) tilewright_kernel const tilewright_##NAME =     \
      tilewright::reduced_gemm::Adapter<tilewright::NAME::Reduced>::descriptor(#NAME);

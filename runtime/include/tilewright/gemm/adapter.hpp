// Turns a CUTLASS 3.x GEMM kernel into a `tilewright_kernel`.
#pragma once

#include "cutlass/gemm/gemm.h"
#include "cutlass/kernel_hardware_info.hpp"
#include "tilewright/abi.h"
#include "tilewright/gemm/args.h"
#include "tilewright/launch.hpp"

namespace tilewright::gemm {

// A stride of CUTLASS's (major, other, batch) kind from a leading dimension and a batch stride.
template <class Stride>
Stride make_stride(int64_t leading, int64_t batch) {
  Stride stride{};
  if constexpr (cute::is_static<cute::remove_cvref_t<decltype(cute::get<0>(Stride{}))>>::value) {
    cute::get<1>(stride) = leading;
  } else {
    cute::get<0>(stride) = leading;
  }
  cute::get<2>(stride) = batch;
  return stride;
}

// `Traits` is what a generated file defines: Kernel, Fusion, kSwapAB, kPdl and the entry point.
template <class Traits>
struct Adapter {
  using Kernel = typename Traits::Kernel;
  using Scheduler = typename Kernel::TileScheduler;
  static constexpr bool kStreamK = cute::is_same_v<typename Kernel::TileSchedulerTag, cutlass::gemm::StreamKScheduler>;

  static typename Kernel::Arguments arguments(tilewright_gemm_args const& args) {
    using ElementA = typename Kernel::ElementA;
    using ElementB = typename Kernel::ElementB;
    using ElementC = typename Kernel::ElementC;
    using ElementD = typename Kernel::ElementD;

    typename Kernel::Arguments out{};
    out.mode = args.batch > 1 ? cutlass::gemm::GemmUniversalMode::kBatched : cutlass::gemm::GemmUniversalMode::kGemm;
    out.hw_info.sm_count = args.sm_count;

    // Without C the tensor map still wants a valid address; beta = 0 keeps it from being read.
    bool const has_c = args.c != nullptr;
    out.epilogue.thread = Traits::Fusion::arguments(args);
    out.epilogue.ptr_C = static_cast<ElementC const*>(has_c ? args.c : args.d);
    out.epilogue.dC = make_stride<typename Kernel::StrideC>(has_c ? args.ld_c : args.ld_d,
                                                            has_c ? args.batch_stride_c : args.batch_stride_d);
    out.epilogue.ptr_D = static_cast<ElementD*>(args.d);
    out.epilogue.dD = make_stride<typename Kernel::StrideD>(args.ld_d, args.batch_stride_d);

    if constexpr (Traits::kSwapAB) {  // D^T = B^T A^T
      out.problem_shape = {args.n, args.m, args.k, args.batch};
      out.mainloop.ptr_A = static_cast<ElementA const*>(args.b);
      out.mainloop.dA = make_stride<typename Kernel::StrideA>(args.ld_b, args.batch_stride_b);
      out.mainloop.ptr_B = static_cast<ElementB const*>(args.a);
      out.mainloop.dB = make_stride<typename Kernel::StrideB>(args.ld_a, args.batch_stride_a);
    } else {
      out.problem_shape = {args.m, args.n, args.k, args.batch};
      out.mainloop.ptr_A = static_cast<ElementA const*>(args.a);
      out.mainloop.dA = make_stride<typename Kernel::StrideA>(args.ld_a, args.batch_stride_a);
      out.mainloop.ptr_B = static_cast<ElementB const*>(args.b);
      out.mainloop.dB = make_stride<typename Kernel::StrideB>(args.ld_b, args.batch_stride_b);
    }

    using Raster = cutlass::gemm::kernel::detail::RasterOrderOptions;
    if (args.raster != TILEWRIGHT_RASTER_HEURISTIC) {
      bool const along_m = (args.raster == TILEWRIGHT_RASTER_ALONG_M) != Traits::kSwapAB;
      out.scheduler.raster_order = along_m ? Raster::AlongM : Raster::AlongN;
    }
    out.scheduler.max_swizzle_size = args.swizzle;
    if constexpr (kStreamK) {
      using Decomposition = typename Scheduler::DecompositionMode;
      using Reduction = typename Scheduler::ReductionMode;
      out.scheduler.splits = args.splits;
      switch (args.decomposition) {
        case TILEWRIGHT_DECOMPOSE_DATA_PARALLEL:
          out.scheduler.decomposition_mode = Decomposition::DataParallel;
          break;
        case TILEWRIGHT_DECOMPOSE_SPLIT_K:
          out.scheduler.decomposition_mode = Decomposition::SplitK;
          break;
        case TILEWRIGHT_DECOMPOSE_STREAM_K:
          out.scheduler.decomposition_mode = Decomposition::StreamK;
          break;
        default:
          out.scheduler.decomposition_mode = Decomposition::Heuristic;
      }
      out.scheduler.reduction_mode =
          args.reduction == TILEWRIGHT_REDUCE_NONDETERMINISTIC ? Reduction::Nondeterministic : Reduction::Deterministic;
    }
    return out;
  }

  static int32_t can_implement(void const* opaque) {
    auto const& args = *static_cast<tilewright_gemm_args const*>(opaque);
    bool const sane = args.m > 0 && args.n > 0 && args.k > 0 && args.batch > 0 && args.sm_count > 0 &&
                      args.swizzle > 0 && args.splits > 0;
    return sane && Kernel::can_implement(arguments(args)) ? TILEWRIGHT_OK : TILEWRIGHT_NOT_SUPPORTED;
  }

  static int64_t workspace_bytes(void const* opaque) {
    return static_cast<int64_t>(
        Kernel::get_workspace_size(arguments(*static_cast<tilewright_gemm_args const*>(opaque))));
  }

  static int32_t launch(void const* opaque, void* workspace, void* stream_handle) {
    auto const& args = *static_cast<tilewright_gemm_args const*>(opaque);
    auto const stream = static_cast<cudaStream_t>(stream_handle);
    if (cudaError_t const error = prepare<Traits>(Traits::entry(), Kernel::SharedStorageSize); error != cudaSuccess) {
      return error;
    }
    auto const arguments_ = arguments(args);
    if constexpr (kStreamK) {
      if (workspace == nullptr && Kernel::get_workspace_size(arguments_) != 0) {
        return TILEWRIGHT_WORKSPACE_MISSING;
      }
      if (Kernel::initialize_workspace(arguments_, workspace, stream) != cutlass::Status::kSuccess) {
        cudaError_t const error = cudaGetLastError();  // CUTLASS may have taken it already
        return error != cudaSuccess ? error : cudaErrorUnknown;
      }
    }
    typename Kernel::Params params = Kernel::to_underlying_arguments(arguments_, workspace);

    using Cluster = typename Kernel::ClusterShape;
    LaunchShape const shape{Kernel::get_grid_shape(params),
                            Kernel::get_block_shape(),
                            {cute::size<0>(Cluster{}), cute::size<1>(Cluster{}), 1},
                            Kernel::SharedStorageSize,
                            Traits::kPdl};
    return tilewright::launch(Traits::entry(), &params, shape, stream);
  }

  static constexpr tilewright_kernel descriptor(char const* name) {
    return {TILEWRIGHT_ABI_VERSION,
            sizeof(tilewright_gemm_args),
            Kernel::MaxThreadsPerBlock,
            Kernel::SharedStorageSize,
            name,
            &can_implement,
            &workspace_bytes,
            &launch};
  }
};

}  // namespace tilewright::gemm

// Defines the entry point NAME, under which profilers and SASS show the kernel, and the descriptor
// `tilewright_NAME`, which the module's table binds. The kernel is `tilewright::NAME::Gemm`.
#define TILEWRIGHT_GEMM_KERNEL(NAME)                                                                       \
  extern "C" __global__ void __launch_bounds__(tilewright::NAME::Gemm::Kernel::MaxThreadsPerBlock,         \
                                               tilewright::NAME::Gemm::Kernel::MinBlocksPerMultiprocessor) \
      NAME(__grid_constant__ typename tilewright::NAME::Gemm::Kernel::Params const params) {               \
    extern __shared__ char tilewright_shared_memory[];                                                     \
    typename tilewright::NAME::Gemm::Kernel kernel;                                                        \
    kernel(params, tilewright_shared_memory);                                                              \
  }                                                                                                        \
  void const* tilewright::NAME::Gemm::entry() { return reinterpret_cast<void const*>(&::NAME); }           \
  extern "C" __attribute__((visibility("default"))) tilewright_kernel const tilewright_##NAME =            \
      tilewright::gemm::Adapter<tilewright::NAME::Gemm>::descriptor(#NAME);

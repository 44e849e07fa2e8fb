// Turns a CUTLASS 3.x kernel into a `tilewright_kernel`, whatever its family.
#pragma once

#include "cutlass/gemm/gemm.h"
#include "cutlass/kernel_hardware_info.hpp"
#include "tilewright/abi.h"
#include "tilewright/launch.hpp"
#include "tilewright/tactic.h"
#include "tilewright/tensor_map.hpp"

namespace tilewright {

// Makes a CUTLASS stride, with a static or dynamic major mode, from a leading dimension and a batch stride.
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

// Assigns a void pointer to a typed pointer among CUTLASS's arguments.
template <class Pointer, class Void>
void assign(Pointer& pointer, Void* address) {
  pointer = static_cast<Pointer>(address);
}

template <class Kernel>
inline constexpr bool kStreamK = cute::is_same_v<typename Kernel::TileSchedulerTag, cutlass::gemm::StreamKScheduler>;

template <class Kernel>
inline constexpr bool kDynamicCluster = !cute::is_static_v<typename Kernel::ClusterShape>;

// Clusters must have a multiple of this many thread blocks: 2 for kernels whose MMA instructions span two SMs,
// otherwise 1.
template <class Kernel>
constexpr int cluster_multiple() {
  if constexpr (kDynamicCluster<Kernel>) {
    return cute::size(typename Kernel::AtomThrShapeMNK{});
  } else {
    return 1;
  }
}

// Sets the arguments of CUTLASS that follow from the tactic alone. `swap_ab`: the kernel's m and n are the caller's n
// and m.
template <class Kernel>
void set_tactic(typename Kernel::Arguments& out, tilewright_tactic const& tactic, bool swap_ab) {
  out.hw_info.sm_count = tactic.sm_count;
  if constexpr (kDynamicCluster<Kernel>) {
    int const least = cluster_multiple<Kernel>();
    auto const shape = [least](int m, int n) { return dim3(m > 0 ? m : least, n > 0 ? n : 1, 1); };
    out.hw_info.cluster_shape = shape(tactic.cluster_m, tactic.cluster_n);
    out.hw_info.cluster_shape_fallback = shape(tactic.fallback_m, tactic.fallback_n);
  }

  using Raster = cutlass::gemm::kernel::detail::RasterOrderOptions;
  if (tactic.raster != TILEWRIGHT_RASTER_HEURISTIC) {
    bool const along_m = (tactic.raster == TILEWRIGHT_RASTER_ALONG_M) != swap_ab;
    out.scheduler.raster_order = along_m ? Raster::AlongM : Raster::AlongN;
  }
  out.scheduler.max_swizzle_size = tactic.swizzle;
  if constexpr (kStreamK<Kernel>) {
    using Decomposition = cute::remove_cvref_t<decltype(out.scheduler.decomposition_mode)>;
    using Reduction = cute::remove_cvref_t<decltype(out.scheduler.reduction_mode)>;
    out.scheduler.splits = tactic.splits;
    switch (tactic.decomposition) {
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
        tactic.reduction == TILEWRIGHT_REDUCE_NONDETERMINISTIC ? Reduction::Nondeterministic : Reduction::Deterministic;
  }
}

// `Traits` is the struct that a generated file defines: Kernel, Fusion, kSwapAB, kPdl and the entry point.
// `Problem<Traits>` belongs to the family: Args, its C struct; `possible`, which checks what CUTLASS does not check;
// and `arguments`, which converts Args to CUTLASS's arguments.
template <class Traits, template <class> class Problem>
struct CutlassAdapter {
  using Kernel = typename Traits::Kernel;
  using Args = typename Problem<Traits>::Args;

  static bool clusters_fit(typename Kernel::Arguments const& arguments) {
    if constexpr (kDynamicCluster<Kernel>) {
      // CUTLASS accepts any fallback that divides the preferred shape, even one that splits a pair of SMs.
      unsigned const multiple = cluster_multiple<Kernel>();
      dim3 const preferred = arguments.hw_info.cluster_shape;
      dim3 const fallback = arguments.hw_info.cluster_shape_fallback;
      return fallback.x % multiple == 0 && preferred.x % fallback.x == 0 && preferred.y % fallback.y == 0;
    } else {
      return true;
    }
  }

  // Checks what CUTLASS's own checks assume; they divide by some of these numbers.
  static bool sane(Args const& args) {
    tilewright_tactic const& tactic = args.tactic;
    return args.m > 0 && args.n > 0 && args.k > 0 && args.batch > 0 && tactic.sm_count > 0 && tactic.swizzle > 0 &&
           tactic.splits > 0 && Problem<Traits>::possible(args);
  }

  static bool takes(typename Kernel::Arguments const& arguments) {
    return clusters_fit(arguments) && Kernel::can_implement(arguments);
  }

  static int32_t can_implement(void const* opaque) {
    auto const& args = *static_cast<Args const*>(opaque);
    return sane(args) && takes(Problem<Traits>::arguments(args)) ? TILEWRIGHT_OK : TILEWRIGHT_NOT_SUPPORTED;
  }

  static int64_t workspace_bytes(void const* opaque) {
    return static_cast<int64_t>(
        Kernel::get_workspace_size(Problem<Traits>::arguments(*static_cast<Args const*>(opaque))));
  }

  static int32_t launch(void const* args, void* workspace, void* stream) {
    return answer(enqueue(*static_cast<Args const*>(args), workspace, static_cast<cudaStream_t>(stream)));
  }

  static int32_t enqueue(Args const& args, void* workspace, cudaStream_t stream) {
    if (!sane(args)) {
      return TILEWRIGHT_NOT_SUPPORTED;
    }
    auto const planned = Problem<Traits>::arguments(args);
    if (!takes(planned)) {
      return TILEWRIGHT_NOT_SUPPORTED;
    }
    if constexpr (kStreamK<Kernel>) {
      if (workspace == nullptr && Kernel::get_workspace_size(planned) != 0) {
        return TILEWRIGHT_WORKSPACE_MISSING;
      }
    }
    Context context;
    if (cudaError_t const error = current_context(context, stream); error != cudaSuccess) {
      return error;
    }
    LaunchShape shape = launch_shape(planned);
    Args resident = args;
    if (cudaError_t const error = keep_resident(context, shape, resident); error != cudaSuccess) {
      return error;
    }
    auto const arguments = Problem<Traits>::arguments(resident);
    if constexpr (kStreamK<Kernel>) {
      if (Kernel::initialize_workspace(arguments, workspace, stream) != cutlass::Status::kSuccess) {
        cudaError_t const error = cudaGetLastError();  // CUTLASS may have cleared it already
        return error != cudaSuccess ? error : cudaErrorUnknown;
      }
    }
    tensor_map_error() = CUDA_SUCCESS;
    typename Kernel::Params params = Kernel::to_underlying_arguments(arguments, workspace);
    if (tensor_map_error() != CUDA_SUCCESS) {
      return cudaErrorInvalidValue;
    }
    shape.grid = Kernel::get_grid_shape(params);
    return tilewright::launch<Traits>(context, Traits::entry(), &params, shape, stream);
  }

  // The launch shape without the grid.
  static LaunchShape launch_shape(typename Kernel::Arguments const& arguments) {
    LaunchShape shape{};
    shape.block = Kernel::get_block_shape();
    shape.smem_bytes = Kernel::SharedStorageSize;
    shape.pdl = Traits::kPdl;
    shape.spread = true;
    shape.large_clusters = kDynamicCluster<Kernel>;
    if constexpr (kDynamicCluster<Kernel>) {
      shape.cluster = arguments.hw_info.cluster_shape_fallback;
      shape.preferred = arguments.hw_info.cluster_shape;
    } else {
      using Cluster = typename Kernel::ClusterShape;
      shape.cluster = shape.preferred = dim3(cute::size<0>(Cluster{}), cute::size<1>(Cluster{}), 1);
    }
    return shape;
  }

  // Lowers the tactic's number of SMs to that of the stream's context. Thread blocks of a stream-K kernel wait for each
  // other's sums, so it hangs unless all thread blocks of its grid run at once. The caller sized the workspace for the
  // number of SMs that `args` had. If fewer SMs need a larger workspace, tiles are computed without splitting k and
  // without a workspace.
  static cudaError_t keep_resident(Context const& context, LaunchShape const& shape, Args& args) {
    CUfunction function;
    if (cudaError_t const error = allow<Traits>(context, Traits::entry(), shape, function); error != cudaSuccess) {
      return error;
    }
    int resident = Occupancy::of(context, Traits::entry(), shape.block).sms;
    if constexpr (kStreamK<Kernel>) {
      int at_once = 0;
      cudaError_t const error = clusters_at_once(context, Traits::entry(), shape, args.tactic.sm_count, at_once);
      if (error != cudaSuccess) {
        return error;
      }
      resident = at_once * static_cast<int>(shape.cluster.x * shape.cluster.y);
    }
    if (resident == 0 || resident >= args.tactic.sm_count) {  // 0: the driver does not say
      return cudaSuccess;
    }
    if constexpr (kStreamK<Kernel>) {
      int64_t const held = workspace_bytes(&args);
      args.tactic.sm_count = resident;
      if (workspace_bytes(&args) > held) {
        args.tactic.decomposition = TILEWRIGHT_DECOMPOSE_DATA_PARALLEL;
        args.tactic.splits = 1;
      }
    }
    args.tactic.sm_count = resident;
    return cudaSuccess;
  }

  static constexpr tilewright_kernel descriptor(char const* name) {
    return {TILEWRIGHT_ABI_VERSION,    sizeof(Args), Kernel::MaxThreadsPerBlock,
            Kernel::SharedStorageSize, name,         &can_implement,
            &workspace_bytes,          &launch};
  }
};

}  // namespace tilewright

// Defines the entry point NAME, under which profilers and SASS show the kernel, and the descriptor
// `tilewright_NAME`, which the module's table binds. The kernel is `tilewright::NAME::Gemm`.
#define TILEWRIGHT_CUTLASS_KERNEL(NAME, PROBLEM)                                                           \
  extern "C" __global__ void __launch_bounds__(tilewright::NAME::Gemm::Kernel::MaxThreadsPerBlock,         \
                                               tilewright::NAME::Gemm::Kernel::MinBlocksPerMultiprocessor) \
      NAME(__grid_constant__ typename tilewright::NAME::Gemm::Kernel::Params const params) {               \
    extern __shared__ char tilewright_shared_memory[];                                                     \
    typename tilewright::NAME::Gemm::Kernel kernel;                                                        \
    kernel(params, tilewright_shared_memory);                                                              \
  }                                                                                                        \
  void const* tilewright::NAME::Gemm::entry() { return reinterpret_cast<void const*>(&::NAME); }           \
  extern "C" __attribute__((visibility("default"))) tilewright_kernel const tilewright_##NAME =            \
      tilewright::CutlassAdapter<tilewright::NAME::Gemm, PROBLEM>::descriptor(#NAME);

// The host side of forms: which form a launch runs, and how it is launched.
#pragma once

#include "tilewright/adapter.hpp"
#include "tilewright/grouped_gemm/args.h"
#include "tilewright/grouped_gemm/form.hpp"
#include "tilewright/sm90/clustered.hpp"

namespace tilewright::grouped_gemm {

// The entry point of a form's code. `Traits`: a FormTraits.
template <class Traits>
__global__ void __launch_bounds__(Traits::Kernel::kThreads, 1)
    run_form(__grid_constant__ typename Traits::Kernel::Params const params) {
  TILEWRIGHT_DEVICE_CODE(extern __shared__ __align__(1024) char tilewright_shared_memory[];
                         typename Traits::Kernel kernel; kernel(params, tilewright_shared_memory);)
}

// The traits (adapter.hpp) of a form of the kernel that `Traits` describes.
template <class Traits, Form kForm>
struct FormTraits {
  using Kernel = typename Traits::Kernel::template Of<kForm>;
  static constexpr bool kPdl = Traits::kPdl;
  static void const* entry() { return reinterpret_cast<void const*>(&run_form<FormTraits>); }
};

// Enqueues a kernel as tilewright::launch does, but not in clusters of one thread block.
template <class Traits>
cudaError_t launch_without_clusters(Context const& context, void* params, LaunchShape const& shape,
                                    cudaStream_t stream) {
  static auto const enqueue = driver_function<decltype(&cuLaunchKernelEx)>("cuLaunchKernelEx");
  CUfunction function = nullptr;
  if (cudaError_t const error = allow<Traits>(context, Traits::entry(), shape, function); error != cudaSuccess) {
    return error;
  }
  CUlaunchAttribute pdl{};
  pdl.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  pdl.value.programmaticStreamSerializationAllowed = 1;
  CUlaunchConfig config{};
  config.gridDimX = shape.grid.x, config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = shape.block.x, config.blockDimY = config.blockDimZ = 1;
  config.sharedMemBytes =
      shape.pdl ? spread_bytes(shape, Occupancy::of(context, Traits::entry(), shape.block)) : shape.smem_bytes;
  config.hStream = stream;
  config.attrs = &pdl;
  config.numAttrs = shape.pdl ? 1 : 0;
  return enqueue == nullptr ? cudaErrorNotSupported
                            : static_cast<cudaError_t>(enqueue(&config, function, &params, nullptr));
}

// The `Host` (adapter.hpp) of a kernel that may have forms. `Maker` is as sm90::ClusteredHost's, and has
//   static bool epilogue_through_smem(Args const&, sm90::ClusterShape const&);
template <class Traits, template <class> class Maker>
struct FormHost : sm90::ClusteredHost<Traits, Maker<Traits>> {
  using Any = sm90::ClusteredHost<Traits, Maker<Traits>>;
  using Args = typename Any::Args;

  static cudaError_t enqueue(Context const& context, Args const& args, void* workspace, cudaStream_t stream) {
    if constexpr (Traits::Kernel::kHasForms) {
      switch (form_of(args)) {
        case Form::kDense:
          return enqueue_form<Form::kDense>(context, args, stream);
        case Form::kRows:
          return enqueue_form<Form::kRows>(context, args, stream);
        case Form::kCounts:
          return enqueue_form<Form::kCounts>(context, args, stream);
        case Form::kAny:
          break;
      }
    }
    return Any::enqueue(context, args, workspace, stream);
  }

 private:
  static Form form_of(Args const& args) {
    sm90::ClusterShape const cluster = sm90::cluster_of(args.tactic);
    if (cluster.size() > 1 || Maker<Traits>::epilogue_through_smem(args, cluster) || args.head_gap != 0) {
      return Form::kAny;
    }
    switch (args.grouping) {
      case TILEWRIGHT_GROUPING_NONE:
        return Form::kDense;
      case TILEWRIGHT_GROUPING_ROW_INDEX:
        return Form::kRows;
      case TILEWRIGHT_GROUPING_ROWS_VALID:
      case TILEWRIGHT_GROUPING_ENDS:
        return Form::kCounts;
      default:
        return Form::kAny;
    }
  }

  template <Form kForm>
  static cudaError_t enqueue_form(Context const& context, Args const& args, cudaStream_t stream) {
    using Own = FormTraits<Traits, kForm>;
    sm90::Launching launching{sm90::ClusterShape(1, 1, 1), 0, false, nullptr, stream};
    LaunchShape shape = launch_shape<Own>();
    cudaError_t error =
        sm90::prepare<Own>(context, Own::entry(), args.tactic, launching.cluster, shape, launching.at_once);
    int most = 0;
    if (error == cudaSuccess) {
      error = clusters_at_once(context, Own::entry(), shape, INT32_MAX, most);
    }
    launching.all = most == launching.at_once;
    typename Own::Kernel::Params params;
    if (error == cudaSuccess) {
      error = Maker<Traits>::make_params(args, launching, params);
    }
    shape.grid = dim3(Maker<Traits>::clusters(params));
    return error != cudaSuccess ? error : launch_without_clusters<Own>(context, &params, shape, stream);
  }
};

}  // namespace tilewright::grouped_gemm

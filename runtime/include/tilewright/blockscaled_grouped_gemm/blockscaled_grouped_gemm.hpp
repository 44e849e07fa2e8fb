// The header of generated `blockscaled_grouped_gemm` kernels: CUTLASS's grouped block-scaled kernels for tcgen05.
//
// grouped_gemm/tcgen05_groups.hpp says how they learn of groups on the device. Scale factors lie in the 128x4 layout,
// as CUTLASS reads them, so the first kernel writes their addresses alone; and the factor of each run's group.
#pragma once

#include "tilewright/grouped_gemm/tcgen05_groups.hpp"
// After the tensor maps of the above.
#include "cutlass/detail/sm100_blockscaled_layout.hpp"
#include "cutlass/epilogue/fusion/sm90_visitor_load_tma_warpspecialized.hpp"
#include "tilewright/blockscaled_grouped_gemm/args.h"
#include "tilewright/blockscaled_grouped_gemm/groups.hpp"

namespace tilewright::blockscaled_grouped_gemm {

namespace fusion = cutlass::epilogue::fusion;

// D = factor of the run * sum.
template <class ElementD>
struct Epilogue {
  using Factor = fusion::Sm90ScalarBroadcastPtrArray<float, cute::Stride<cute::_0, cute::_0, int64_t>>;
  using Multiply =
      fusion::Sm90Compute<cutlass::multiplies, ElementD, float, cutlass::FloatRoundStyle::round_to_nearest>;
  using Callbacks = fusion::Sm90EVT<Multiply, Factor, fusion::Sm90AccFetch>;

  // `factors`: one for each run.
  static typename Callbacks::Arguments arguments(float const* factors) {
    typename Factor::Arguments factor{};
    factor.scalar_ptrs[0] = factors;
    // With a stride, each tile reads the factor of its run.
    cute::get<2>(factor.dScalar[0]) = 1;
    typename Callbacks::Arguments out{};
    out.op_0 = factor;
    return out;
  }
};

// Where the scale factors of runs lie, and the factors of their groups: see `Factors` in tcgen05_groups.hpp.
template <class Traits>
struct GroupFactors {
  using Args = tilewright_grouped_gemm_args;
  using Mainloop = typename Traits::Kernel::CollectiveMainloop;
  using Scales = typename Mainloop::Sm1xxBlkScaledConfig;

  struct Lists {
    Caller caller;
    float* alpha;
    typename Mainloop::ElementSF const** scale_a;  // of the kernel's own A and B
    typename Mainloop::ElementSF const** scale_b;
    typename Mainloop::InternalLayoutSFA* layout_a;
    typename Mainloop::InternalLayoutSFB* layout_b;
  };

  template <class Take>
  static Lists lists(Args const& args, Take const& take) {
    Lists lists{};
    int const runs = grouped_gemm::runs_of(args);
    take(lists.alpha, runs);
    take(lists.scale_a, runs), take(lists.scale_b, runs);
    take(lists.layout_a, runs), take(lists.layout_b, runs);
    return lists;
  }

  static int64_t blocks(Args const&) { return 0; }

  static __device__ void convert(Args const&, Lists const&, int) {}

  // The entries of one run.
  static __device__ void write(Args const& args, Lists const& lists, int index, grouped_gemm::Run run) {
    using grouped_gemm::assign;
    auto const* const of_a = lists.caller.scale_a + offset_of_a(args, lists.caller, run, Traits::kBlock);
    auto const* const of_b = lists.caller.scale_b + run.group * scale_bytes(args.n, args.k, Traits::kBlock);
    constexpr bool kSwapped = Traits::kSwapAB;
    assign(lists.scale_a, index, kSwapped ? of_b : of_a), assign(lists.scale_b, index, kSwapped ? of_a : of_b);
    int const m = kSwapped ? args.n : run.rows, n = kSwapped ? run.rows : args.n;
    lists.layout_a[index] = Scales::tile_atom_to_shape_SFA(cute::make_shape(m, n, args.k, 1));
    lists.layout_b[index] = Scales::tile_atom_to_shape_SFB(cute::make_shape(m, n, args.k, 1));
    lists.alpha[index] = lists.caller.alpha == nullptr ? 1.f : lists.caller.alpha[run.group];
  }

  static void set(typename Mainloop::Arguments& out, Lists const& lists) {
    out.ptr_SFA = lists.scale_a, out.ptr_SFB = lists.scale_b;
    out.layout_SFA = lists.layout_a, out.layout_SFB = lists.layout_b;
  }
};

// Checks a problem, and launches the kernel that lists products, and the product.
template <class Traits>
struct Host {
  using Args = tilewright_blockscaled_grouped_gemm_args;
  using Product = typename Traits::Kernel;
  using Factors = GroupFactors<Traits>;
  using Groups = grouped_gemm::Tcgen05Host<Traits, Factors>;
  using First = grouped_gemm::Prepare<Traits, Factors>;
  using Lists = grouped_gemm::Lists<Product, Factors>;
  using Kernel = typename Groups::Kernel;

  static bool can_implement(Args const& args) { return possible(args) && Groups::can_implement(checked(args)); }

  static int64_t workspace_bytes(Args const& args) { return Groups::workspace_bytes(as_groups(args)); }

  static cudaError_t enqueue(Context const& context, Args const& args, void* workspace, cudaStream_t stream) {
    Lists const at = lists(args, workspace);
    auto first = First::params(as_groups(args), at);
    LaunchShape shape{};
    shape.grid = dim3(static_cast<unsigned>(First::blocks(first)));
    shape.block = dim3(First::kThreads);
    shape.cluster = shape.preferred = dim3(1);
    auto const* const entry = reinterpret_cast<void const*>(&grouped_gemm::prepare<Traits, Factors>);
    if (cudaError_t const error = tilewright::launch<First>(context, entry, &first, shape, stream);
        error != cudaSuccess) {
      return error;
    }
    auto planned = arguments(args, at);
    int const sms = Occupancy::of(context, Traits::entry(), Product::get_block_shape()).sms;
    if (sms > 0 && sms < planned.hw_info.sm_count) {  // 0: the driver does not say
      planned.hw_info.sm_count = sms;
    }
    tensor_map_error() = CUDA_SUCCESS;
    typename Product::Params params = Product::to_underlying_arguments(planned, workspace);
    if (tensor_map_error() != CUDA_SUCCESS) {
      return cudaErrorInvalidValue;
    }
    // No programmatic launch: CUTLASS's scheduler reads the extents of the products before griddepcontrol.wait.
    shape = LaunchShape{};
    shape.block = Product::get_block_shape();
    shape.smem_bytes = Product::SharedStorageSize;
    shape.large_clusters = true;
    shape.spread = true;  // Occupancy asks about all shared memory
    shape.cluster = planned.hw_info.cluster_shape_fallback;
    shape.preferred = planned.hw_info.cluster_shape;
    shape.grid = Product::get_grid_shape(params);
    return tilewright::launch<Traits>(context, Traits::entry(), &params, shape, stream);
  }

 private:
  // CUTLASS's part of the workspace, tensor maps of each thread block, lies before the lists, which end it.
  static Lists lists(Args const& args, void* workspace) {
    auto const groups = as_groups(args);
    uintptr_t size = 0;
    Lists::at(groups, size);
    uintptr_t next = reinterpret_cast<uintptr_t>(workspace) + Groups::workspace_bytes(groups) - size;
    Lists at = Lists::at(groups, next);
    at.factors.caller = caller(args);
    return at;
  }

  static typename Product::Arguments arguments(Args const& args, Lists const& at) {
    typename Product::Arguments out{};
    out.mode = cutlass::gemm::GemmUniversalMode::kGrouped;
    set_tactic<Product>(out, args.tactic, Traits::kSwapAB);
    out.problem_shape = {grouped_gemm::runs_of(as_groups(args)), at.shapes, nullptr};
    out.mainloop.ptr_A = at.a, out.mainloop.ptr_B = at.b;
    out.mainloop.dA = at.stride_a, out.mainloop.dB = at.stride_b;
    Factors::set(out.mainloop, at.factors);
    out.epilogue.thread = Traits::Fusion::arguments(at.factors.alpha);
    out.epilogue.ptr_D = at.d, out.epilogue.dD = at.stride_d;
    return out;
  }
};

}  // namespace tilewright::blockscaled_grouped_gemm

// Defines the product NAME and the descriptor `tilewright_NAME`, as TILEWRIGHT_CUTLASS_KERNEL does.
#define TILEWRIGHT_BLOCKSCALED_GROUPED_GEMM_KERNEL(NAME)                                                               \
  extern "C" __global__ void __launch_bounds__(tilewright::NAME::Gemm::Kernel::MaxThreadsPerBlock,                     \
                                               tilewright::NAME::Gemm::Kernel::MinBlocksPerMultiprocessor)             \
      NAME(__grid_constant__ typename tilewright::NAME::Gemm::Kernel::Params const params) {                           \
    extern __shared__ char tilewright_shared_memory[];                                                                 \
    typename tilewright::NAME::Gemm::Kernel kernel;                                                                    \
    kernel(params, tilewright_shared_memory);                                                                          \
  }                                                                                                                    \
  void const* tilewright::NAME::Gemm::entry() { return reinterpret_cast<void const*>(&::NAME); }                       \
  extern "C" __attribute__((visibility("default"))) tilewright_kernel const tilewright_##NAME =                        \
      tilewright::descriptor<tilewright::Adapter<tilewright::blockscaled_grouped_gemm::Host<tilewright::NAME::Gemm>>>( \
          #NAME);

// The host code of `grouped_gemm` kernels for tcgen05, which are CUTLASS's kernels of groups (tcgen05.hpp,
// tcgen05_plain.hpp).
//
// CUTLASS reads the extents, addresses, strides and scale layouts of each product from arrays on the device. A first
// kernel writes these into the workspace, from what the caller says of rows and groups; the product follows it on the
// stream. So nothing waits for the device, and a CUDA graph can be replayed with other groups.
//
// `Factors` says where scale factors lie, and what the first kernel does to them. It has
//
//   Lists                 addresses of its arrays in the workspace, which `lists(args, take)` lays out
//   blocks(args)          thread blocks that convert factors, each by `convert(args, lists, block)`
//   write(...)            sets the entries of a run
//   set(mainloop, lists)  sets CUTLASS's arguments
#pragma once

#include "tilewright/tensor_map.hpp"  // before the rest of CUTLASS

#include "cutlass/cutlass.h"
#include "cutlass/epilogue/collective/collective_builder.hpp"
#include "cutlass/gemm/collective/collective_builder.hpp"
#include "cutlass/gemm/group_array_problem_shape.hpp"
#include "cutlass/gemm/kernel/gemm_universal.hpp"
#include "tilewright/adapter.hpp"
#include "tilewright/cutlass.hpp"
#include "tilewright/epilogue.hpp"
#include "tilewright/grouped_gemm/args.h"
#include "tilewright/grouped_gemm/runs.hpp"

namespace tilewright::grouped_gemm {

// Sets an entry of a list of addresses.
template <class Entry>
__device__ void assign(Entry* list, int index, void const* address) {
  list[index] = reinterpret_cast<Entry>(const_cast<void*>(address));
}

// Addresses in the workspace. The arrays, which CUTLASS reads, have an entry for each run.
template <class Kernel, class Factors>
struct Lists {
  using Mainloop = typename Kernel::CollectiveMainloop;
  using Epilogue = typename Kernel::CollectiveEpilogue;

  typename Kernel::ProblemShape::UnderlyingProblemShape* shapes;
  typename Mainloop::ArrayElementA const** a;
  typename Mainloop::ArrayElementB const** b;
  typename Epilogue::ElementD** d;
  typename Kernel::InternalStrideA* stride_a;
  typename Kernel::InternalStrideB* stride_b;
  typename Kernel::InternalStrideD* stride_d;
  typename Factors::Lists factors;

  // Lays the lists out from the address `next` on, and sets it to the address behind them.
  static Lists at(tilewright_grouped_gemm_args const& args, uintptr_t& next) {
    Lists lists{};
    auto const take = [&next](auto*& list, int64_t count) {
      list = reinterpret_cast<cute::remove_cvref_t<decltype(list)>>(next);
      next += round_up_to(sizeof(*list) * count, 128);
    };
    int const runs = runs_of(args);
    take(lists.shapes, runs);
    take(lists.a, runs), take(lists.b, runs), take(lists.d, runs);
    take(lists.stride_a, runs), take(lists.stride_b, runs), take(lists.stride_d, runs);
    lists.factors = Factors::lists(args, take);
    return lists;
  }
};

// The first kernel. A thread block of 128 threads converts scale factors; or it takes a share of one run: the first
// share writes the run's entries, and all zero its padding.
template <class Traits, class Factors>
struct Prepare {
  using Kernel = typename Traits::Kernel;
  using Args = tilewright_grouped_gemm_args;
  static constexpr int kThreads = kScaleRows;
  static constexpr int kShares = 8;  // thread blocks of a run

  struct Params {
    Args args;
    Lists<Kernel, Factors> lists;
    int converting;  // thread blocks that convert factors
  };

  static Params params(Args const& args, Lists<Kernel, Factors> const& lists) {
    return {args, lists, static_cast<int>(Factors::blocks(args))};
  }

  static int64_t blocks(Params const& params) { return params.converting + int64_t(runs_of(params.args)) * kShares; }

  static __device__ void run(Params const& params) {
    Args const& args = params.args;
    int const block = static_cast<int>(blockIdx.x) - params.converting;
    if (block < 0) {
      Factors::convert(args, params.lists.factors, blockIdx.x);
      return;
    }
    int const index = block / kShares, share = block % kShares;
    Padding padding{};
    bool broken = false;
    Run const run = args.grouping == TILEWRIGHT_GROUPING_ROW_INDEX ? run_of_rows(args, index, padding, broken)
                                                                   : run_of_group(args, index, padding);
    if (share == 0 && threadIdx.x == 0) {
      write(args, params.lists, index, run);
    }
    fill(args, run.matrix, padding, share, broken ? ~0u : 0u);
  }

 private:
  // The run of 128 rows by the index of each: rows of one group, and behind them padding. Rows that lie otherwise would
  // need several products; they become NaN, so that no result is wrong unnoticed.
  static __device__ Run run_of_rows(Args const& args, int index, Padding& padding, bool& broken) {
    int const begin = index * kScaleRows, row = begin + threadIdx.x;
    int const end = begin + kScaleRows < args.m ? begin + kScaleRows : args.m;
    auto const valid = [&args](int group) { return group >= 0 && group < args.groups; };
    int const first = args.group_of_row[begin], own = row < end ? args.group_of_row[row] : -1;
    int const rows = __syncthreads_count(row < end && valid(own));
    bool const kept = valid(own) == (static_cast<int>(threadIdx.x) < rows) && (!valid(own) || own == first);
    broken = __syncthreads_or(!kept) != 0;
    padding = {broken ? begin : begin + rows, rows == 0 && args.zero_padding == 0 ? begin : end};
    return {0, begin, broken ? 0 : rows, valid(first) ? first : 0};
  }

  static __device__ void fill(Args const& args, int matrix, Padding padding, int share, uint32_t value) {
    using Element = typename Kernel::CollectiveEpilogue::ElementD;
    int const row_words = args.n * int(sizeof(Element)) / 16;
    for (int row = padding.begin + share; row < padding.end; row += kShares) {
      auto* const d = static_cast<Element*>(args.d) + matrix * args.batch_stride_d + row * args.ld_d;
      for (int i = threadIdx.x; i < row_words; i += kThreads) {
        reinterpret_cast<uint4*>(d)[i] = make_uint4(value, value, value, value);
      }
    }
  }

  // The entries of one run.
  static __device__ void write(Args const& args, Lists<Kernel, Factors> const& lists, int index, Run run) {
    auto const* const a = moved(args.a, run.matrix * args.batch_stride_a + run.begin * args.ld_a, Traits::kBitsA);
    auto const* const b = moved(args.b, run.group * args.batch_stride_b, Traits::kBitsB);
    auto* const d = const_cast<char*>(
        moved(args.d, run.matrix * args.batch_stride_d + run.begin * args.ld_d, 8 * int(sizeof(**lists.d))));
    if constexpr (Traits::kSwapAB) {  // D^T = B A^T
      set(lists, index, args.n, run.rows, args.k, b, args.ld_b, a, args.ld_a);
      cute::get<1>(lists.stride_d[index]) = args.ld_d;
    } else {
      set(lists, index, run.rows, args.n, args.k, a, args.ld_a, b, args.ld_b);
      cute::get<0>(lists.stride_d[index]) = args.ld_d;
    }
    lists.d[index] = reinterpret_cast<cute::remove_cvref_t<decltype(lists.d[index])>>(d);
    Factors::write(args, lists.factors, index, run);
  }

  // The address `elements` of `bits` each behind `address`.
  static __device__ char const* moved(void const* address, int64_t elements, int bits) {
    return static_cast<char const*>(address) + elements * bits / 8;
  }

  static __device__ void set(Lists<Kernel, Factors> const& lists, int index, int m, int n, int k, char const* a,
                             int64_t ld_a, char const* b, int64_t ld_b) {
    lists.shapes[index] = cute::make_shape(m, n, k);
    assign(lists.a, index, a), assign(lists.b, index, b);
    cute::get<0>(lists.stride_a[index]) = ld_a;
    cute::get<0>(lists.stride_b[index]) = ld_b;
  }
};

template <class Traits, class Factors>
__global__ void __launch_bounds__(Prepare<Traits, Factors>::kThreads)
    prepare(__grid_constant__ typename Prepare<Traits, Factors>::Params const params) {
  TILEWRIGHT_DEVICE_CODE(Prepare<Traits, Factors>::run(params);)
}

// Checks a problem, and launches both kernels.
template <class Traits, class Factors>
struct Tcgen05Host {
  using Args = tilewright_grouped_gemm_args;
  using Product = typename Traits::Kernel;
  using First = Prepare<Traits, Factors>;

  struct Kernel {
    static constexpr int kThreads = Product::MaxThreadsPerBlock;
    static constexpr int kSharedBytes = Product::SharedStorageSize;
  };

  static bool can_implement(Args const& args) {
    bool const positive = args.m > 0 && args.n > 0 && args.k > 0 && args.groups > 0 && args.tactic.sm_count > 0;
    bool const grouped =
        args.grouping == TILEWRIGHT_GROUPING_ROWS_VALID || args.grouping == TILEWRIGHT_GROUPING_NONE ||
        ((args.grouping == TILEWRIGHT_GROUPING_ENDS || args.grouping == TILEWRIGHT_GROUPING_ROW_INDEX) &&
         args.row_alignment > 0 && args.row_alignment % kScaleRows == 0);
    bool const plain = args.c == nullptr && args.head_gap == 0 && args.tactic.splits == 1 && args.tactic.swizzle > 0;
    return positive && grouped && plain && aligned(args) && Product::can_implement(arguments(args, nullptr));
  }

  static int64_t workspace_bytes(Args const& args) {
    uintptr_t next = product_bytes(args);
    Lists<Product, Factors>::at(args, next);
    return static_cast<int64_t>(next);
  }

  static cudaError_t enqueue(Context const& context, Args const& args, void* workspace, cudaStream_t stream) {
    auto first = First::params(args, lists(args, workspace));
    LaunchShape shape{};
    shape.grid = dim3(static_cast<unsigned>(First::blocks(first)));
    shape.block = dim3(First::kThreads);
    shape.cluster = shape.preferred = dim3(1);
    auto const* const entry = reinterpret_cast<void const*>(&prepare<Traits, Factors>);
    if (cudaError_t const error = tilewright::launch<First>(context, entry, &first, shape, stream);
        error != cudaSuccess) {
      return error;
    }
    auto planned = arguments(args, workspace);
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
  // CUTLASS's own checks of alignment need extents on the host.
  static bool aligned(Args const& args) {
    auto const all = [](int64_t multiple, int64_t extent, int64_t ld, int64_t stride) {
      return extent % multiple == 0 && ld % multiple == 0 && stride % multiple == 0;
    };
    return all(Traits::kAlignmentA, args.k, args.ld_a, args.batch_stride_a) &&
           all(Traits::kAlignmentB, args.k, args.ld_b, args.batch_stride_b) &&
           all(Traits::kAlignmentD, args.n, args.ld_d, args.batch_stride_d);
  }

  // CUTLASS's part of the workspace: tensor maps of each thread block. The lists lie behind it.
  static int64_t product_bytes(Args const& args) {
    return round_up_to(static_cast<int64_t>(Product::get_workspace_size(arguments(args, nullptr))), 128);
  }

  static Lists<Product, Factors> lists(Args const& args, void* workspace) {
    uintptr_t next = reinterpret_cast<uintptr_t>(workspace) + product_bytes(args);
    return Lists<Product, Factors>::at(args, next);
  }

  // CUTLASS's arguments. Without a workspace the arrays have no addresses, which suffices to check and to measure.
  static typename Product::Arguments arguments(Args const& args, void* workspace) {
    typename Product::Arguments out{};
    out.mode = cutlass::gemm::GemmUniversalMode::kGrouped;
    set_tactic<Product>(out, args.tactic, Traits::kSwapAB);
    out.problem_shape = {runs_of(args), nullptr, nullptr};
    out.epilogue.thread = Traits::Fusion::arguments({});
    if (workspace != nullptr) {
      Lists<Product, Factors> const at = lists(args, workspace);
      out.problem_shape.problem_shapes = at.shapes;
      out.mainloop.ptr_A = at.a, out.mainloop.ptr_B = at.b;
      out.mainloop.dA = at.stride_a, out.mainloop.dB = at.stride_b;
      Factors::set(out.mainloop, at.factors);
      out.epilogue.ptr_D = at.d, out.epilogue.dD = at.stride_d;
    }
    return out;
  }
};

}  // namespace tilewright::grouped_gemm

// Defines the product NAME and the descriptor `tilewright_NAME`, as TILEWRIGHT_CUTLASS_KERNEL does.
#define TILEWRIGHT_KERNEL_OF_GROUPS(NAME, FACTORS)                                                         \
  extern "C" __global__ void __launch_bounds__(tilewright::NAME::Gemm::Kernel::MaxThreadsPerBlock,         \
                                               tilewright::NAME::Gemm::Kernel::MinBlocksPerMultiprocessor) \
      NAME(__grid_constant__ typename tilewright::NAME::Gemm::Kernel::Params const params) {               \
    extern __shared__ char tilewright_shared_memory[];                                                     \
    typename tilewright::NAME::Gemm::Kernel kernel;                                                        \
    kernel(params, tilewright_shared_memory);                                                              \
  }                                                                                                        \
  void const* tilewright::NAME::Gemm::entry() { return reinterpret_cast<void const*>(&::NAME); }           \
  extern "C" __attribute__((visibility("default"))) tilewright_kernel const tilewright_##NAME =            \
      tilewright::descriptor<                                                                              \
          tilewright::Adapter<tilewright::grouped_gemm::Tcgen05Host<tilewright::NAME::Gemm, FACTORS>>>(#NAME);

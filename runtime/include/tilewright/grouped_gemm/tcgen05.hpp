// The header of generated `grouped_gemm` kernels for tcgen05: CUTLASS's grouped block-scaled kernels.
//
// CUTLASS reads the extents, addresses, strides and scale layouts of each product from arrays on the device, and scale
// factors in the 128x4 layout. A first kernel writes both into the workspace, from what the caller says of rows and
// groups, and from its words of UE8M0 factors; the product follows it on the stream. So nothing waits for the device,
// and a CUDA graph can be replayed with other groups.
#pragma once

#include "tilewright/tensor_map.hpp"  // before the rest of CUTLASS

#include "cutlass/cutlass.h"
#include "cutlass/detail/sm100_blockscaled_layout.hpp"
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

// Addresses in the workspace. The arrays, which CUTLASS reads, have an entry for each run.
template <class Kernel>
struct Lists {
  using Mainloop = typename Kernel::CollectiveMainloop;
  using Epilogue = typename Kernel::CollectiveEpilogue;

  uint8_t* factors_a;  // of the caller's A, then B, in the 128x4 layout
  uint8_t* factors_b;
  typename Kernel::ProblemShape::UnderlyingProblemShape* shapes;
  typename Mainloop::ArrayElementA const** a;
  typename Mainloop::ArrayElementB const** b;
  typename Mainloop::ElementSF const** scale_a;
  typename Mainloop::ElementSF const** scale_b;
  typename Epilogue::ElementD** d;
  typename Kernel::InternalStrideA* stride_a;
  typename Kernel::InternalStrideB* stride_b;
  typename Kernel::InternalStrideD* stride_d;
  typename Mainloop::InternalLayoutSFA* layout_a;
  typename Mainloop::InternalLayoutSFB* layout_b;

  // Lays the lists out from the address `next` on, and sets it to the address behind them.
  static Lists at(tilewright_grouped_gemm_args const& args, uintptr_t& next) {
    Lists lists{};
    auto const take = [&next](auto*& list, int64_t count) {
      list = reinterpret_cast<cute::remove_cvref_t<decltype(list)>>(next);
      next += round_up_to(sizeof(*list) * count, 128);
    };
    bool const own = args.grouping == TILEWRIGHT_GROUPING_ROWS_VALID || args.grouping == TILEWRIGHT_GROUPING_NONE;
    take(lists.factors_a, (own ? args.groups : 1) * scale_bytes(args.m, args.k));
    take(lists.factors_b, args.groups * scale_bytes(args.n, args.k));
    int const runs = runs_of(args);
    take(lists.shapes, runs);
    take(lists.a, runs), take(lists.b, runs), take(lists.scale_a, runs), take(lists.scale_b, runs);
    take(lists.d, runs);
    take(lists.stride_a, runs), take(lists.stride_b, runs), take(lists.stride_d, runs);
    take(lists.layout_a, runs), take(lists.layout_b, runs);
    return lists;
  }
};

// The first kernel. A thread block of 128 threads converts the factors of 128 rows; or it takes a share of one run: the
// first share writes the run's entries, and all zero its padding.
template <class Traits>
struct Prepare {
  using Kernel = typename Traits::Kernel;
  using Args = tilewright_grouped_gemm_args;
  using Scales = typename Kernel::CollectiveMainloop::Sm1xxBlkScaledConfig;
  static constexpr int kThreads = kScaleRows;
  static constexpr int kShares = 8;  // thread blocks of a run

  struct Params {
    Args args;
    Lists<Kernel> lists;
    int matrices_a, tiles_a, tiles_b;  // matrices of A; tiles of 128 rows of all matrices of A, and of B
  };

  static Params params(Args const& args, Lists<Kernel> const& lists) {
    bool const own = args.grouping == TILEWRIGHT_GROUPING_ROWS_VALID || args.grouping == TILEWRIGHT_GROUPING_NONE;
    int const matrices = own ? args.groups : 1;
    return {args, lists, matrices, matrices * tiles(args.m), args.groups * tiles(args.n)};
  }

  static int64_t blocks(Params const& params) {
    return int64_t(params.tiles_a) + params.tiles_b + int64_t(runs_of(params.args)) * kShares;
  }

  static __device__ void run(Params const& params) {
    Args const& args = params.args;
    int block = blockIdx.x;
    if (block < params.tiles_a) {
      convert(args, args.scale_a, args.m, args.ld_scale_a, args.batch_stride_scale_a, params.lists.factors_a, block);
      return;
    }
    block -= params.tiles_a;
    if (block < params.tiles_b) {
      convert(args, args.scale_b, args.n, args.ld_scale_b, args.batch_stride_scale_b, params.lists.factors_b, block);
      return;
    }
    block -= params.tiles_b;
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
  static __host__ __device__ int tiles(int rows) { return (rows + kScaleRows - 1) / kScaleRows; }

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

  // Converts the words of 128 rows.
  static __device__ void convert(Args const& args, float const* scales, int rows, int64_t ld, int64_t stride,
                                 uint8_t* factors, int tile) {
    int const columns = (args.k + kBlockOfMma - 1) / kBlockOfMma, atoms = (columns + 3) / 4;
    int const matrix = tile / tiles(rows), row = tile % tiles(rows) * kScaleRows + threadIdx.x;
    auto const* const words = reinterpret_cast<uint32_t const*>(scales) + matrix * stride + row;
    auto* const out = reinterpret_cast<uint32_t*>(factors + int64_t(tile) * atoms * kAtomBytes + place_in_atom(row));
#pragma unroll 4
    for (int atom = 0; atom < atoms; ++atom) {
      out[atom * (kAtomBytes / 4)] = row < rows ? factors_of_atom(words, ld, atom, columns, Traits::kBlock) : 0;
    }
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

  // The entries of one run, which begins with an atom of scale factors.
  static __device__ void write(Args const& args, Lists<Kernel> const& lists, int index, Run run) {
    auto const* const a = moved(args.a, run.matrix * args.batch_stride_a + run.begin * args.ld_a, Traits::kBitsA);
    auto const* const b = moved(args.b, run.group * args.batch_stride_b, Traits::kBitsB);
    auto* const d = const_cast<char*>(
        moved(args.d, run.matrix * args.batch_stride_d + run.begin * args.ld_d, 8 * int(sizeof(**lists.d))));
    auto const* const of_a =
        lists.factors_a + run.matrix * scale_bytes(args.m, args.k) + scale_bytes(run.begin, args.k);
    auto const* const of_b = lists.factors_b + run.group * scale_bytes(args.n, args.k);
    if constexpr (Traits::kSwapAB) {  // D^T = B A^T
      set(lists, index, args.n, run.rows, args.k, b, args.ld_b, of_b, a, args.ld_a, of_a);
      cute::get<1>(lists.stride_d[index]) = args.ld_d;
    } else {
      set(lists, index, run.rows, args.n, args.k, a, args.ld_a, of_a, b, args.ld_b, of_b);
      cute::get<0>(lists.stride_d[index]) = args.ld_d;
    }
    lists.d[index] = reinterpret_cast<cute::remove_cvref_t<decltype(lists.d[index])>>(d);
  }

  // The address `elements` of `bits` each behind `address`.
  static __device__ char const* moved(void const* address, int64_t elements, int bits) {
    return static_cast<char const*>(address) + elements * bits / 8;
  }

  static __device__ void set(Lists<Kernel> const& lists, int index, int m, int n, int k, char const* a, int64_t ld_a,
                             uint8_t const* scale_a, char const* b, int64_t ld_b, uint8_t const* scale_b) {
    auto const assign = [index](auto** list, auto const* address) {
      list[index] = reinterpret_cast<cute::remove_cvref_t<decltype(list[index])>>(address);
    };
    lists.shapes[index] = cute::make_shape(m, n, k);
    assign(lists.a, a), assign(lists.b, b), assign(lists.scale_a, scale_a), assign(lists.scale_b, scale_b);
    cute::get<0>(lists.stride_a[index]) = ld_a;
    cute::get<0>(lists.stride_b[index]) = ld_b;
    lists.layout_a[index] = Scales::tile_atom_to_shape_SFA(cute::make_shape(m, n, k, 1));
    lists.layout_b[index] = Scales::tile_atom_to_shape_SFB(cute::make_shape(m, n, k, 1));
  }
};

template <class Traits>
__global__ void __launch_bounds__(Prepare<Traits>::kThreads)
    prepare(__grid_constant__ typename Prepare<Traits>::Params const params) {
  TILEWRIGHT_DEVICE_CODE(Prepare<Traits>::run(params);)
}

// Checks a problem, and launches both kernels.
template <class Traits>
struct Tcgen05Host {
  using Args = tilewright_grouped_gemm_args;
  using Product = typename Traits::Kernel;

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
    Lists<Product>::at(args, next);
    return static_cast<int64_t>(next);
  }

  static cudaError_t enqueue(Context const& context, Args const& args, void* workspace, cudaStream_t stream) {
    auto first = Prepare<Traits>::params(args, lists(args, workspace));
    LaunchShape shape{};
    shape.grid = dim3(static_cast<unsigned>(Prepare<Traits>::blocks(first)));
    shape.block = dim3(Prepare<Traits>::kThreads);
    shape.cluster = shape.preferred = dim3(1);
    auto const* const entry = reinterpret_cast<void const*>(&prepare<Traits>);
    if (cudaError_t const error = tilewright::launch<Prepare<Traits>>(context, entry, &first, shape, stream);
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

  static Lists<Product> lists(Args const& args, void* workspace) {
    uintptr_t next = reinterpret_cast<uintptr_t>(workspace) + product_bytes(args);
    return Lists<Product>::at(args, next);
  }

  // CUTLASS's arguments. Without a workspace the arrays have no addresses, which suffices to check and to measure.
  static typename Product::Arguments arguments(Args const& args, void* workspace) {
    typename Product::Arguments out{};
    out.mode = cutlass::gemm::GemmUniversalMode::kGrouped;
    set_tactic<Product>(out, args.tactic, Traits::kSwapAB);
    out.problem_shape = {runs_of(args), nullptr, nullptr};
    out.epilogue.thread = Traits::Fusion::arguments({});
    if (workspace != nullptr) {
      Lists<Product> const at = lists(args, workspace);
      out.problem_shape.problem_shapes = at.shapes;
      out.mainloop.ptr_A = at.a, out.mainloop.ptr_B = at.b;
      out.mainloop.ptr_SFA = at.scale_a, out.mainloop.ptr_SFB = at.scale_b;
      out.mainloop.dA = at.stride_a, out.mainloop.dB = at.stride_b;
      out.mainloop.layout_SFA = at.layout_a, out.mainloop.layout_SFB = at.layout_b;
      out.epilogue.ptr_D = at.d, out.epilogue.dD = at.stride_d;
    }
    return out;
  }
};

}  // namespace tilewright::grouped_gemm

// Defines the product NAME and the descriptor `tilewright_NAME`, as TILEWRIGHT_CUTLASS_KERNEL does.
#define TILEWRIGHT_GROUPED_TCGEN05_KERNEL(NAME)                                                                   \
  extern "C" __global__ void __launch_bounds__(tilewright::NAME::Gemm::Kernel::MaxThreadsPerBlock,                \
                                               tilewright::NAME::Gemm::Kernel::MinBlocksPerMultiprocessor)        \
      NAME(__grid_constant__ typename tilewright::NAME::Gemm::Kernel::Params const params) {                      \
    extern __shared__ char tilewright_shared_memory[];                                                            \
    typename tilewright::NAME::Gemm::Kernel kernel;                                                               \
    kernel(params, tilewright_shared_memory);                                                                     \
  }                                                                                                               \
  void const* tilewright::NAME::Gemm::entry() { return reinterpret_cast<void const*>(&::NAME); }                  \
  extern "C" __attribute__((visibility("default"))) tilewright_kernel const tilewright_##NAME =                   \
      tilewright::descriptor<tilewright::Adapter<tilewright::grouped_gemm::Tcgen05Host<tilewright::NAME::Gemm>>>( \
          #NAME);

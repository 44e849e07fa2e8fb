// The header of generated `grouped_gemm` kernels for tcgen05 with UE8M0 factors and a D of F32. Groups are rows of A,
// as those of tcgen05.hpp; or they divide k, and each has a D and perhaps a C, to which its product is added.
//
// A first kernel reads the sizes of groups along k, converts their factors to the 128x4 layout, and lists a product for
// each group; the product of a group without k is C, or 0, which the first kernel writes.
#pragma once

#include "tilewright/grouped_gemm/parts.hpp"
#include "tilewright/grouped_gemm/tcgen05.hpp"

namespace tilewright::grouped_gemm {

// Addresses in the workspace. The arrays, which CUTLASS reads, have an entry for each group.
template <class Traits>
struct PartLists {
  using Kernel = typename Traits::Kernel;
  using Mainloop = typename Kernel::CollectiveMainloop;
  using Epilogue = typename Kernel::CollectiveEpilogue;
  using Args = tilewright_grouped_gemm_args;

  uint8_t* factors_a;
  uint8_t* factors_b;
  typename Kernel::ProblemShape::UnderlyingProblemShape* shapes;
  typename Mainloop::ArrayElementA const** a;
  typename Mainloop::ArrayElementB const** b;
  float const** c;
  float** d;
  typename Kernel::InternalStrideA* stride_a;
  typename Kernel::InternalStrideB* stride_b;
  typename Kernel::InternalStrideC* stride_c;
  typename Kernel::InternalStrideD* stride_d;
  typename Mainloop::ElementSF const** scale_a;
  typename Mainloop::ElementSF const** scale_b;
  typename Mainloop::InternalLayoutSFA* layout_a;
  typename Mainloop::InternalLayoutSFB* layout_b;

  // Lays the lists out from the address `next` on, and sets it to the address behind them.
  static PartLists at(Args const& args, uintptr_t& next) {
    PartLists lists{};
    auto const take = [&next](auto*& list, int64_t count) {
      list = reinterpret_cast<cute::remove_cvref_t<decltype(list)>>(next);
      next += round_up_to(sizeof(*list) * count, 128);
    };
    take(lists.factors_a, scale_bytes(args.m, args.k)), take(lists.factors_b, scale_bytes(args.n, args.k));
    int const groups = args.groups;
    take(lists.shapes, groups);
    take(lists.a, groups), take(lists.b, groups), take(lists.c, groups), take(lists.d, groups);
    take(lists.stride_a, groups), take(lists.stride_b, groups);
    take(lists.stride_c, groups), take(lists.stride_d, groups);
    take(lists.scale_a, groups), take(lists.scale_b, groups);
    take(lists.layout_a, groups), take(lists.layout_b, groups);
    return lists;
  }
};

// The first kernel. A thread block of 128 threads converts factors of 128 rows and some units of k; or it takes a share
// of one group: the first share writes the group's entries, and all write the D of a group without k.
template <class Traits>
struct PrepareParts {
  using Args = tilewright_grouped_gemm_args;
  using Scales = typename Traits::Kernel::CollectiveMainloop::Sm1xxBlkScaledConfig;
  static constexpr int kThreads = kScaleRows;
  static constexpr int kShares = 8;  // thread blocks of a group
  static constexpr int kSlice = 32;  // units of k that a thread block converts

  struct Params {
    Args args;
    PartLists<Traits> lists;
  };

  static __host__ __device__ int slices(Args const& args) { return (units_of(args) + kSlice - 1) / kSlice; }

  static __host__ __device__ int converting(Args const& args) {
    return (row_tiles(args.m) + row_tiles(args.n)) * slices(args);
  }

  static int64_t blocks(Args const& args) { return converting(args) + int64_t(args.groups) * kShares; }

  static __device__ void run(Params const& params) {
    Args const& args = params.args;
    int const block = static_cast<int>(blockIdx.x), behind = block - converting(args);
    if (behind >= 0) {
      int const group = behind / kShares;
      Part const part = part_of(args, group);
      if (behind % kShares == 0 && threadIdx.x == 0) {
        write(args, params.lists, group, part);
      }
      if (part.units == 0) {
        fill(args, group, behind % kShares);
      }
      return;
    }
    int const tile = block / slices(args), slice = block % slices(args), tiles_a = row_tiles(args.m);
    if (tile < tiles_a) {
      convert(args, args.scale_a, args.m, args.ld_scale_a, params.lists.factors_a, tile, slice);
    } else {
      convert(args, args.scale_b, args.n, args.ld_scale_b, params.lists.factors_b, tile - tiles_a, slice);
    }
  }

 private:
  // Words of four factors of 32 of k, of 128 rows. Each unit has a word of each row.
  static __device__ void convert(Args const& args, float const* scales, int rows, int64_t ld, uint8_t* factors,
                                 int tile, int slice) {
    int const row = tile * kScaleRows + static_cast<int>(threadIdx.x), begin = slice * kSlice, end = begin + kSlice;
    auto const* const words = reinterpret_cast<uint32_t const*>(scales) + row;
    Part part{0, 0};
    for (int group = 0; group < args.groups && part.begin + part.units < end; ++group) {
      part = part_from(args, group, part.begin + part.units);
      int const last = part.begin + part.units < end ? part.begin + part.units : end;
      for (int unit = part.begin > begin ? part.begin : begin; unit < last; ++unit) {
        auto* const atom = factors + place_of_atom(rows, tile, part, unit) + place_in_atom(row);
        *reinterpret_cast<uint32_t*>(atom) = row < rows ? words[unit * ld] : 0;
      }
    }
  }

  // The D of a group without k.
  static __device__ void fill(Args const& args, int group, int share) {
    for (int row = share; row < args.m; row += kShares) {
      auto* const d = static_cast<float*>(args.d) + group * args.batch_stride_d + row * args.ld_d;
      auto const* const c = static_cast<float const*>(args.c) + group * args.batch_stride_c + row * args.ld_c;
      for (int i = threadIdx.x; i < args.n; i += kThreads) {
        d[i] = args.c == nullptr ? 0.0f : c[i];
      }
    }
  }

  // The entries of a group. One without k has no rows, and so no tiles.
  static __device__ void write(Args const& args, PartLists<Traits> const& lists, int group, Part part) {
    bool const empty = part.units == 0;
    int const m = empty ? 0 : args.m, k = empty ? kPartUnit : part.units * kPartUnit;
    int64_t const begin = int64_t(part.begin) * kPartUnit;
    lists.shapes[group] = cute::make_shape(m, args.n, k);
    assign(lists.a, group, static_cast<char const*>(args.a) + args.m * begin);
    assign(lists.b, group, static_cast<char const*>(args.b) + args.n * begin);
    cute::get<0>(lists.stride_a[group]) = k, cute::get<0>(lists.stride_b[group]) = k;
    lists.d[group] = static_cast<float*>(args.d) + group * args.batch_stride_d;
    cute::get<0>(lists.stride_d[group]) = args.ld_d;
    lists.c[group] = args.c == nullptr ? nullptr : static_cast<float const*>(args.c) + group * args.batch_stride_c;
    cute::get<0>(lists.stride_c[group]) = args.ld_c;
    assign(lists.scale_a, group, lists.factors_a + factors_of_part(args.m, part));
    assign(lists.scale_b, group, lists.factors_b + factors_of_part(args.n, part));
    lists.layout_a[group] = Scales::tile_atom_to_shape_SFA(cute::make_shape(m, args.n, k, 1));
    lists.layout_b[group] = Scales::tile_atom_to_shape_SFB(cute::make_shape(m, args.n, k, 1));
  }
};

template <class Traits>
__global__ void __launch_bounds__(PrepareParts<Traits>::kThreads)
    prepare_parts(__grid_constant__ typename PrepareParts<Traits>::Params const params) {
  TILEWRIGHT_DEVICE_CODE(PrepareParts<Traits>::run(params);)
}

// Checks a problem, and launches both kernels.
template <class Traits>
struct PartsHost {
  using Args = tilewright_grouped_gemm_args;
  using Product = typename Traits::Kernel;
  using Rows = Tcgen05Host<Traits, PackedFactors<Traits>>;
  using First = PrepareParts<Traits>;
  using Kernel = typename Rows::Kernel;

  static bool can_implement(Args const& args) {
    if (args.grouping != TILEWRIGHT_GROUPING_K_SIZES) {
      return Rows::can_implement(args);
    }
    auto const whole = [](int64_t extent, int64_t ld, int64_t stride) {
      constexpr int kMultiple = Traits::kAlignmentD;
      return extent % kMultiple == 0 && ld % kMultiple == 0 && stride % kMultiple == 0;
    };
    bool const positive = args.m > 0 && args.n > 0 && args.k > 0 && args.groups > 0 && args.tactic.sm_count > 0;
    bool const bytes = Traits::kBitsA == 8 && Traits::kBitsB == 8 && Traits::kBlock == kBlockOfMma;
    bool const plain = args.head_gap == 0 && args.tactic.splits == 1 && args.tactic.swizzle > 0;
    return positive && bytes && plain && args.k % kPartUnit == 0 && whole(args.n, args.ld_d, args.batch_stride_d) &&
           (args.c == nullptr || whole(args.n, args.ld_c, args.batch_stride_c)) &&
           Product::can_implement(arguments(args, nullptr));
  }

  static int64_t workspace_bytes(Args const& args) {
    if (args.grouping != TILEWRIGHT_GROUPING_K_SIZES) {
      return Rows::workspace_bytes(args);
    }
    uintptr_t next = product_bytes(args);
    PartLists<Traits>::at(args, next);
    return static_cast<int64_t>(next);
  }

  static cudaError_t enqueue(Context const& context, Args const& args, void* workspace, cudaStream_t stream) {
    if (args.grouping != TILEWRIGHT_GROUPING_K_SIZES) {
      return Rows::enqueue(context, args, workspace, stream);
    }
    typename First::Params first{args, lists(args, workspace)};
    LaunchShape shape{};
    shape.grid = dim3(static_cast<unsigned>(First::blocks(args)));
    shape.block = dim3(First::kThreads);
    shape.cluster = shape.preferred = dim3(1);
    auto const* const entry = reinterpret_cast<void const*>(&prepare_parts<Traits>);
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
  // CUTLASS's part of the workspace: tensor maps of each thread block. The lists lie behind it.
  static int64_t product_bytes(Args const& args) {
    return round_up_to(static_cast<int64_t>(Product::get_workspace_size(arguments(args, nullptr))), 128);
  }

  static PartLists<Traits> lists(Args const& args, void* workspace) {
    uintptr_t next = reinterpret_cast<uintptr_t>(workspace) + product_bytes(args);
    return PartLists<Traits>::at(args, next);
  }

  // CUTLASS's arguments. Without a workspace the arrays have no addresses, which suffices to check and to measure.
  static typename Product::Arguments arguments(Args const& args, void* workspace) {
    typename Product::Arguments out{};
    out.mode = cutlass::gemm::GemmUniversalMode::kGrouped;
    set_tactic<Product>(out, args.tactic, Traits::kSwapAB);
    out.problem_shape = {args.groups, nullptr, nullptr};
    typename Traits::Fusion::Inputs inputs{};
    inputs.beta = args.c == nullptr ? 0.0f : 1.0f;
    out.epilogue.thread = Traits::Fusion::arguments(inputs);
    if (workspace != nullptr) {
      PartLists<Traits> const at = lists(args, workspace);
      out.problem_shape.problem_shapes = at.shapes;
      out.mainloop.ptr_A = at.a, out.mainloop.ptr_B = at.b;
      out.mainloop.dA = at.stride_a, out.mainloop.dB = at.stride_b;
      out.mainloop.ptr_SFA = at.scale_a, out.mainloop.ptr_SFB = at.scale_b;
      out.mainloop.layout_SFA = at.layout_a, out.mainloop.layout_SFB = at.layout_b;
      out.epilogue.ptr_C = at.c, out.epilogue.dC = at.stride_c;
      out.epilogue.ptr_D = at.d, out.epilogue.dD = at.stride_d;
    }
    return out;
  }
};

}  // namespace tilewright::grouped_gemm

// Defines the product NAME and the descriptor `tilewright_NAME`, as TILEWRIGHT_KERNEL_OF_GROUPS does.
#define TILEWRIGHT_GROUPED_TCGEN05_PARTS_KERNEL(NAME)                                                      \
  extern "C" __global__ void __launch_bounds__(tilewright::NAME::Gemm::Kernel::MaxThreadsPerBlock,         \
                                               tilewright::NAME::Gemm::Kernel::MinBlocksPerMultiprocessor) \
      NAME(__grid_constant__ typename tilewright::NAME::Gemm::Kernel::Params const params) {               \
    extern __shared__ char tilewright_shared_memory[];                                                     \
    typename tilewright::NAME::Gemm::Kernel kernel;                                                        \
    kernel(params, tilewright_shared_memory);                                                              \
  }                                                                                                        \
  void const* tilewright::NAME::Gemm::entry() { return reinterpret_cast<void const*>(&::NAME); }           \
  extern "C" __attribute__((visibility("default"))) tilewright_kernel const tilewright_##NAME =            \
      tilewright::descriptor<tilewright::Adapter<tilewright::grouped_gemm::PartsHost<tilewright::NAME::Gemm>>>(#NAME);

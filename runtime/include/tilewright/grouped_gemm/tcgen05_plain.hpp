// The header of generated `grouped_gemm` kernels for tcgen05 whose instruction multiplies without scale factors: FP8
// with F32 factors for 128 of k, which CUTLASS's blockwise kernels apply to sums in registers, and BF16.
#pragma once

#include "tilewright/grouped_gemm/tcgen05_groups.hpp"
// After the tensor maps of the above.
#include "cutlass/detail/blockwise_scale_layout.hpp"

namespace tilewright::grouped_gemm {

// F32 factors. Those of A, and of single rows of B, are read where they lie; blocks of 128x128 of B are copied, because
// the caller may have k or n contiguous.
template <class Traits>
struct FloatFactors {
  using Args = tilewright_grouped_gemm_args;
  using Mainloop = typename Traits::Kernel::CollectiveMainloop;
  static constexpr int kBlock = 128;          // elements of k that share a factor, and rows of a block
  static constexpr int kCopiedAtOnce = 1024;  // factors that a thread block copies

  struct Lists {
    float* blocks_b;        // [groups, k/128, n/128]
    float const** scale_a;  // of the kernel's own A and B
    float const** scale_b;
    typename Mainloop::InternalLayoutSFA* layout_a;
    typename Mainloop::InternalLayoutSFB* layout_b;
  };

  template <class Take>
  static Lists lists(Args const& args, Take const& take) {
    Lists lists{};
    take(lists.blocks_b, copied(args));
    int const runs = runs_of(args);
    take(lists.scale_a, runs), take(lists.scale_b, runs);
    take(lists.layout_a, runs), take(lists.layout_b, runs);
    return lists;
  }

  static int64_t blocks(Args const& args) { return (copied(args) + kCopiedAtOnce - 1) / kCopiedAtOnce; }

  static __device__ void convert(Args const& args, Lists const& lists, int block) {
    int const across = blocks_of(args.n), down = blocks_of(args.k);
    for (int i = threadIdx.x; i < kCopiedAtOnce; i += blockDim.x) {
      int64_t const at = int64_t(block) * kCopiedAtOnce + i;
      if (at >= copied(args)) {
        return;
      }
      int64_t const column = at % across, row = at / across % down, group = at / across / down;
      int64_t const from = args.scales_k_major ? column * args.ld_scale_b + row : row * args.ld_scale_b + column;
      lists.blocks_b[at] = args.scale_b[group * args.batch_stride_scale_b + from];
    }
  }

  static __device__ void write(Args const& args, Lists const& lists, int index, Run run) {
    auto const* const of_a = args.scale_a + run.matrix * args.batch_stride_scale_a + run.begin;
    int64_t const across = blocks_of(args.n);
    auto const* const of_b = Traits::kBlocksOfB ? lists.blocks_b + run.group * across * blocks_of(args.k)
                                                : args.scale_b + run.group * args.batch_stride_scale_b;
    int64_t const ld_b = Traits::kBlocksOfB ? across : args.ld_scale_b;
    if constexpr (Traits::kSwapAB) {
      set(lists, index, of_b, args.n, ld_b, of_a, run.rows, args.ld_scale_a, args.k);
    } else {
      set(lists, index, of_a, run.rows, args.ld_scale_a, of_b, args.n, ld_b, args.k);
    }
  }

  static void set(typename Mainloop::Arguments& out, Lists const& lists) {
    out.ptr_SFA = lists.scale_a, out.ptr_SFB = lists.scale_b;
    out.layout_SFA = lists.layout_a, out.layout_SFB = lists.layout_b;
  }

 private:
  static __host__ __device__ int blocks_of(int extent) { return (extent + kBlock - 1) / kBlock; }

  // Factors of B that the first kernel copies.
  static __host__ __device__ int64_t copied(Args const& args) {
    return Traits::kBlocksOfB ? int64_t(args.groups) * blocks_of(args.k) * blocks_of(args.n) : 0;
  }

  static __device__ void set(Lists const& lists, int index, float const* a, int m, int64_t ld_a, float const* b, int n,
                             int64_t ld_b, int k) {
    lists.scale_a[index] = a, lists.scale_b[index] = b;
    lists.layout_a[index] = layout<typename Mainloop::InternalLayoutSFA, Mainloop::ScaleGranularityM>(m, k, ld_a);
    lists.layout_b[index] = layout<typename Mainloop::InternalLayoutSFB, Mainloop::ScaleGranularityN>(n, k, ld_b);
  }

  // ((rows that share a factor, their number), (128 of k, their number), 1), rows contiguous.
  template <class Layout, int kRows>
  static __device__ Layout layout(int rows, int k, int64_t ld) {
    using namespace cute;
    return make_layout(
        make_shape(make_shape(Int<kRows>{}, (rows + kRows - 1) / kRows), make_shape(Int<kBlock>{}, blocks_of(k)), 1),
        make_stride(make_stride(_0{}, _1{}), make_stride(_0{}, static_cast<int>(ld)), 0));
  }
};

// Operands of 16 bits have none.
template <class Traits>
struct NoFactors {
  using Args = tilewright_grouped_gemm_args;

  struct Lists {};

  template <class Take>
  static Lists lists(Args const&, Take const&) {
    return {};
  }

  static int64_t blocks(Args const&) { return 0; }

  static __device__ void convert(Args const&, Lists const&, int) {}

  static __device__ void write(Args const&, Lists const&, int, Run) {}

  template <class Arguments>
  static void set(Arguments&, Lists const&) {}
};

}  // namespace tilewright::grouped_gemm

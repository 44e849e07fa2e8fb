// The header of generated `grouped_gemm` kernels for tcgen05 that multiply by UE8M0 factors: CUTLASS's grouped
// block-scaled kernels, which read factors in the 128x4 layout. The first kernel converts the caller's words to it.
#pragma once

#include "tilewright/grouped_gemm/tcgen05_groups.hpp"
// After the tensor maps of the above.
#include "cutlass/detail/sm100_blockscaled_layout.hpp"

namespace tilewright::grouped_gemm {

template <class Traits>
struct PackedFactors {
  using Args = tilewright_grouped_gemm_args;
  using Mainloop = typename Traits::Kernel::CollectiveMainloop;
  using Scales = typename Mainloop::Sm1xxBlkScaledConfig;

  struct Lists {
    uint8_t* factors_a;  // of the caller's A, then B, in the 128x4 layout
    uint8_t* factors_b;
    typename Mainloop::ElementSF const** scale_a;  // of the kernel's own A and B
    typename Mainloop::ElementSF const** scale_b;
    typename Mainloop::InternalLayoutSFA* layout_a;
    typename Mainloop::InternalLayoutSFB* layout_b;
  };

  template <class Take>
  static Lists lists(Args const& args, Take const& take) {
    Lists lists{};
    take(lists.factors_a, matrices_a(args) * scale_bytes(args.m, args.k));
    take(lists.factors_b, args.groups * scale_bytes(args.n, args.k));
    int const runs = runs_of(args);
    take(lists.scale_a, runs), take(lists.scale_b, runs);
    take(lists.layout_a, runs), take(lists.layout_b, runs);
    return lists;
  }

  // A thread block converts the factors of 128 rows.
  static int64_t blocks(Args const& args) {
    return int64_t(matrices_a(args)) * tiles(args.m) + int64_t(args.groups) * tiles(args.n);
  }

  static __device__ void convert(Args const& args, Lists const& lists, int block) {
    int const tiles_a = matrices_a(args) * tiles(args.m);
    if (block < tiles_a) {
      convert(args, args.scale_a, args.m, args.ld_scale_a, args.batch_stride_scale_a, lists.factors_a, block);
    } else {
      convert(args, args.scale_b, args.n, args.ld_scale_b, args.batch_stride_scale_b, lists.factors_b, block - tiles_a);
    }
  }

  // The entries of one run, which begins with an atom of scale factors.
  static __device__ void write(Args const& args, Lists const& lists, int index, Run run) {
    auto const* const of_a =
        lists.factors_a + run.matrix * scale_bytes(args.m, args.k) + scale_bytes(run.begin, args.k);
    auto const* const of_b = lists.factors_b + run.group * scale_bytes(args.n, args.k);
    constexpr bool kSwapped = Traits::kSwapAB;
    assign(lists.scale_a, index, kSwapped ? of_b : of_a), assign(lists.scale_b, index, kSwapped ? of_a : of_b);
    int const m = kSwapped ? args.n : run.rows, n = kSwapped ? run.rows : args.n;
    lists.layout_a[index] = Scales::tile_atom_to_shape_SFA(cute::make_shape(m, n, args.k, 1));
    lists.layout_b[index] = Scales::tile_atom_to_shape_SFB(cute::make_shape(m, n, args.k, 1));
  }

  static void set(typename Mainloop::Arguments& out, Lists const& lists) {
    out.ptr_SFA = lists.scale_a, out.ptr_SFB = lists.scale_b;
    out.layout_SFA = lists.layout_a, out.layout_SFB = lists.layout_b;
  }

 private:
  static __host__ __device__ int tiles(int rows) { return (rows + kScaleRows - 1) / kScaleRows; }

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
};

}  // namespace tilewright::grouped_gemm

#define TILEWRIGHT_GROUPED_TCGEN05_KERNEL(NAME) \
  TILEWRIGHT_KERNEL_OF_GROUPS(NAME, tilewright::grouped_gemm::PackedFactors<tilewright::NAME::Gemm>)

// What the forms for groups that divide k share (along_k.hpp, mn_along_k.hpp).
#pragma once

#include <cstdint>
#include <type_traits>

#include "tilewright/grouped_gemm/along_k_params.hpp"
#include "tilewright/grouped_gemm/form.hpp"
#include "tilewright/grouped_gemm/tile.hpp"
#include "tilewright/sm90/ptx.hpp"

namespace tilewright::grouped_gemm {

// The most k tiles of a group with which L2 is asked for D ahead (request_d). Time with it, of the time without it, on
// an H200, FP8:
//
// | k tiles | time |
// |---|---|
// | 1 to 8 | 0.76 to 0.97 |
// | 9 to 12 | 0.96 to 1.04 |
// | 18 to 46 | 0.99 to 1.03 |
constexpr int kShortOfK = 12;

// The part of k that belongs to group `group`, in k tiles of `kUnit` elements. The lanes read 32 groups at a time,
// where size_of_group (work.hpp) goes from group to group, with the same result. Called by all threads of a warp, when
// the stream's previous kernel is done.
template <int kUnit>
__device__ __forceinline__ Tile::KRange k_range(Groups const& groups, int group) {
  int const lane = threadIdx.x % 32, whole = groups.k / kUnit;
  int first = 0;  // k tile of the group
#pragma unroll 1
  for (int left = group;; left -= 32) {  // groups before `group`, starting with this round's first
    int const requested = lane <= left ? __ldg(groups.layout + (group - left + lane)) : 0;
    int const count = min(max(requested, 0) / kUnit, whole);
    first = min(first + static_cast<int>(__reduce_add_sync(~0u, lane < left ? count : 0)), whole);
    if (left < 32) {
      return {min(__shfl_sync(~0u, count, left), whole - first), first};
    }
  }
}

// Prefetches the CTA's tile of D, to which sums are added, to L2. TMA's additions wait for lines that L2 does not have,
// and load few of them at a time. Called by all threads of a warp. `Kernel`: a form of kernel.hpp's. `column`: the
// tile's first column.
template <class Kernel>
__device__ __forceinline__ void request_d(typename Kernel::Params const& params, Tile const& tile, int column) {
  constexpr int kLine = 32;                                    // floats
  constexpr int kLines = (Kernel::TileN + kLine - 1) / kLine;  // of a row
  sm90::EpilogueParams const& epilogue = params.epilogue;
  float const* const d = static_cast<float const*>(epilogue.d) + tile.matrix * epilogue.batch_stride_d;
#pragma unroll 1
  for (int line = threadIdx.x % 32; line < Kernel::TileM * kLines; line += 32) {
    int const row = tile.row + line / kLines, first = column + line % kLines * kLine;
    if (row < epilogue.m && first < epilogue.n) {
      sm90::prefetch_line(d + row * epilogue.ld_d + first);
    }
  }
}

// Stands for the forms that such a kernel does not have: calls.hpp needs an entry for each form. Nothing launches it,
// because other groupings run the general code.
struct NoForm {
  using Params = AlongKParamsOf<Heads>;
  static constexpr int kThreads = 32;
  __device__ void operator()(Params const&, char*) const {}
};

// The kernel `Base` (kernel.hpp's Kernel) with a form for groups that divide k, which takes the place of the dense
// form. FormOf<Dense> is that form, made of the dense one.
template <class Base, template <class> class FormOf>
struct WithFormOfK : Base {
  static constexpr bool kHasForms = true;
  template <Form kForm, bool kClusters>
  using Of =
      std::conditional_t<kForm == Form::kDense, FormOf<typename Base::template Of<Form::kDense, kClusters>>, NoForm>;
};

}  // namespace tilewright::grouped_gemm

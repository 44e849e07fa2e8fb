// What the forms for groups that divide k share (along_k.hpp, mn_along_k.hpp).
#pragma once

#include <cstdint>
#include <type_traits>

#include "tilewright/grouped_gemm/along_k_params.hpp"
#include "tilewright/grouped_gemm/form.hpp"
#include "tilewright/grouped_gemm/tile.hpp"
#include "tilewright/sm90/ptx.hpp"

namespace tilewright::grouped_gemm {

// Up to how many k tiles of a group D is asked for ahead. On an H200 products of FP8 with 1 to 8 k tiles took 0.76 to
// 0.97 of the time with it, those of 9 to 12 0.96 to 1.04, and those of 18 to 46 0.99 to 1.03.
constexpr int kShortOfK = 12;

// The part of k that belongs to group `group`, in k tiles of `kUnit` elements: what size_of_group (work.hpp) computes
// one group after another. Called by all threads of a warp, after the stream's previous kernel is done.
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

// Asks L2 for the tile of D that sums are added to, by all threads of a warp. TMA's additions wait for lines that L2
// does not have, and few of them at a time. `Kernel`: a form of kernel.hpp's. `column`: the CTA's first.
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

// What calls.hpp enters for other groupings, which run the general code. Nothing launches it.
struct NoForm {
  using Params = AlongKParamsOf<Heads>;
  static constexpr int kThreads = 32;
  __device__ void operator()(Params const&, char*) const {}
};

// A kernel with a form for groups that divide k, in the place of the dense one. `Base`: kernel.hpp's Kernel. `FormOf`
// makes the form of its dense one.
template <class Base, template <class> class FormOf>
struct WithFormOfK : Base {
  static constexpr bool kHasForms = true;
  template <Form kForm, bool kClusters>
  using Of =
      std::conditional_t<kForm == Form::kDense, FormOf<typename Base::template Of<Form::kDense, kClusters>>, NoForm>;
};

}  // namespace tilewright::grouped_gemm

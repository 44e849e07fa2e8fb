// The header of generated `mixed_grouped_gemm` kernels: the kernel, and its adapter to `tilewright_kernel`.
#pragma once

#include "tilewright/mixed_grouped_gemm/args.h"
#include "tilewright/mixed_grouped_gemm/kernel.hpp"
#include "tilewright/mixed_grouped_gemm/maker.hpp"
#include "tilewright/sm90/clustered.hpp"

namespace tilewright::mixed_grouped_gemm {

static_assert(int(TILEWRIGHT_MIXED_GROUPING_ROW_INDEX) == int(Grouping::kRowIndex) &&
              int(TILEWRIGHT_MIXED_GROUPING_ENDS) == int(Grouping::kEnds) &&
              int(TILEWRIGHT_MIXED_GROUPING_ROWS_VALID) == int(Grouping::kRowsValid));

// Maker for `mixed_grouped_gemm`: the problem's activation must be the kernel's. A gated kernel needs a multiple of 8
// rows of W each for gate and up.
template <class Traits>
struct OwnMaker : Maker<Traits, tilewright_mixed_grouped_gemm_args, 2> {
  using Base = Maker<Traits, tilewright_mixed_grouped_gemm_args, 2>;
  using typename Base::Args;

  static bool can_implement(Args const& args) {
    constexpr bool kGated = Base::Kernel::kSumsOfElement > 1;
    bool const activation = kGated ? args.activation == TILEWRIGHT_MIXED_GROUPED_ACTIVATION_SILU_MUL && args.n % 16 == 0
                                   : args.activation == TILEWRIGHT_MIXED_GROUPED_ACTIVATION_NONE;
    return activation && Base::can_implement(args);
  }
};

template <class Traits>
using Host = sm90::ClusteredHost<Traits, OwnMaker<Traits>>;

}  // namespace tilewright::mixed_grouped_gemm

// The first declaration says `__cluster_dims__`: see TILEWRIGHT_LEAN_GEMM_KERNEL.
#define TILEWRIGHT_MIXED_GROUPED_GEMM_KERNEL(NAME)                                           \
  extern "C" __global__ void __cluster_dims__()                                              \
      NAME(__grid_constant__ typename tilewright::NAME::Mixed::Kernel::Params const params); \
  TILEWRIGHT_KERNEL(NAME, tilewright::NAME::Mixed, tilewright::mixed_grouped_gemm::Host, 1, 1024)

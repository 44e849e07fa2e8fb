// A `gemm` problem as CUTLASS's arguments.
#pragma once

#include "tilewright/cutlass.hpp"
#include "tilewright/gemm/args.h"

namespace tilewright::gemm {

template <class Traits>
struct Problem {
  using Args = tilewright_gemm_args;
  using Kernel = typename Traits::Kernel;

  static bool possible(Args const&) { return true; }

  static typename Kernel::Arguments arguments(Args const& args) {
    typename Kernel::Arguments out{};
    out.mode = args.batch > 1 ? cutlass::gemm::GemmUniversalMode::kBatched : cutlass::gemm::GemmUniversalMode::kGemm;
    set_tactic<Kernel>(out, args.tactic, Traits::kSwapAB);

    typename Traits::Fusion::Inputs epilogue{};
    epilogue.alpha = args.alpha;
    epilogue.factors[0] = args.scale_a;
    epilogue.factors[1] = args.scale_b;
    epilogue.beta = args.beta;
    epilogue.bias = args.bias;
    out.epilogue.thread = Traits::Fusion::arguments(epilogue);

    // Without C, the tensor map still needs a valid address. With beta = 0, C is not read.
    bool const has_c = args.c != nullptr;
    assign(out.epilogue.ptr_C, has_c ? args.c : args.d);
    out.epilogue.dC = make_stride<typename Kernel::StrideC>(has_c ? args.ld_c : args.ld_d,
                                                            has_c ? args.batch_stride_c : args.batch_stride_d);
    assign(out.epilogue.ptr_D, args.d);
    out.epilogue.dD = make_stride<typename Kernel::StrideD>(args.ld_d, args.batch_stride_d);

    if constexpr (Traits::kSwapAB) {  // D^T = B^T A^T
      out.problem_shape = {args.n, args.m, args.k, args.batch};
      assign(out.mainloop.ptr_A, args.b);
      out.mainloop.dA = make_stride<typename Kernel::StrideA>(args.ld_b, args.batch_stride_b);
      assign(out.mainloop.ptr_B, args.a);
      out.mainloop.dB = make_stride<typename Kernel::StrideB>(args.ld_a, args.batch_stride_a);
    } else {
      out.problem_shape = {args.m, args.n, args.k, args.batch};
      assign(out.mainloop.ptr_A, args.a);
      out.mainloop.dA = make_stride<typename Kernel::StrideA>(args.ld_a, args.batch_stride_a);
      assign(out.mainloop.ptr_B, args.b);
      out.mainloop.dB = make_stride<typename Kernel::StrideB>(args.ld_b, args.batch_stride_b);
    }
    return out;
  }
};

}  // namespace tilewright::gemm

#define TILEWRIGHT_GEMM_KERNEL(NAME) TILEWRIGHT_CUTLASS_KERNEL(NAME, tilewright::gemm::Problem)

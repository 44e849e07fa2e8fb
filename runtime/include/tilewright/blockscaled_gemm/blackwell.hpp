// The header of generated `blockscaled_gemm` kernels for sm_100, sm_103, sm_110 and sm_12x. It includes the CUTLASS
// headers that their collectives need, and converts a problem to CUTLASS's arguments.
#pragma once

#include "tilewright/tensor_map.hpp"  // before the rest of CUTLASS

#include "cutlass/cutlass.h"
#include "cutlass/detail/sm100_blockscaled_layout.hpp"
#include "cutlass/epilogue/collective/collective_builder.hpp"
#include "cutlass/gemm/collective/collective_builder.hpp"
#include "cutlass/gemm/kernel/gemm_universal.hpp"
#include "tilewright/blockscaled_gemm/args.h"
#include "tilewright/cutlass.hpp"
#include "tilewright/epilogue.hpp"

namespace cute::SM120::BLOCKSCALED {

// In a product of FP4 and FP8, the mma of sm_12x expects FP4 in the middle of a byte. The functions for this in
// CUTLASS 4.2 to 4.5 do not compile, because they transform a temporary. These overloads are more specialised, so the
// compiler selects them instead.
template <class Tensor>
CUTE_DEVICE void shift_fp4(Tensor&& tensor) {
  auto words = recast<uint32_t>(tensor);
  CUTE_UNROLL
  for (int i = 0; i < size(words); ++i) {
    words(i) <<= 2;
  }
}

template <class TypeB, class TypeC, class TypeScale, int Block, class Tensor>
CUTE_DEVICE void fp4_shift_A(SM120_16x8x32_TN_VS<cutlass::float_e2m1_t, TypeB, TypeC, TypeScale, Block> const&,
                             Tensor&& tensor) {
  shift_fp4(tensor);
}

template <class TypeA, class TypeC, class TypeScale, int Block, class Tensor>
CUTE_DEVICE void fp4_shift_B(SM120_16x8x32_TN_VS<TypeA, cutlass::float_e2m1_t, TypeC, TypeScale, Block> const&,
                             Tensor&& tensor) {
  shift_fp4(tensor);
}

}  // namespace cute::SM120::BLOCKSCALED

namespace tilewright::blockscaled_gemm {

// An epilogue that quantises D. Blocks of `Block` elements along n share a scale factor of type ElementScale.
template <int Block, class ElementC, class ElementD, class ElementScale>
struct QuantizingEpilogue {
  using Callbacks = cutlass::epilogue::fusion::LinCombBlockScaleFactor<Block, ElementD, float, ElementScale,
                                                                       cutlass::layout::RowMajor, ElementC>;
};

template <class Traits>
struct Problem {
  using Args = tilewright_blockscaled_gemm_args;
  using Kernel = typename Traits::Kernel;
  using Scales = typename Kernel::CollectiveMainloop::Sm1xxBlkScaledConfig;

  // CUTLASS's epilogue for a quantised D would read alpha at an offset of the tile's batch index, but there is only one
  // alpha, so batches are not supported.
  static bool possible(Args const& args) { return !Traits::kQuantizes || args.batch == 1; }

  static typename Kernel::Arguments arguments(Args const& args) {
    typename Kernel::Arguments out{};
    out.mode = args.batch > 1 ? cutlass::gemm::GemmUniversalMode::kBatched : cutlass::gemm::GemmUniversalMode::kGemm;
    set_tactic<Kernel>(out, args.tactic, Traits::kSwapAB);
    set_epilogue(out.epilogue, args);
    if constexpr (Traits::kSwapAB) {  // D^T = B A^T
      out.problem_shape = {args.n, args.m, args.k, args.batch};
      assign(out.mainloop.ptr_A, args.b);
      assign(out.mainloop.ptr_B, args.a);
      assign(out.mainloop.ptr_SFA, args.scale_b);
      assign(out.mainloop.ptr_SFB, args.scale_a);
      out.mainloop.dA = make_stride<typename Kernel::StrideA>(args.ld_b, args.batch_stride_b);
      out.mainloop.dB = make_stride<typename Kernel::StrideB>(args.ld_a, args.batch_stride_a);
    } else {
      out.problem_shape = {args.m, args.n, args.k, args.batch};
      assign(out.mainloop.ptr_A, args.a);
      assign(out.mainloop.ptr_B, args.b);
      assign(out.mainloop.ptr_SFA, args.scale_a);
      assign(out.mainloop.ptr_SFB, args.scale_b);
      out.mainloop.dA = make_stride<typename Kernel::StrideA>(args.ld_a, args.batch_stride_a);
      out.mainloop.dB = make_stride<typename Kernel::StrideB>(args.ld_b, args.batch_stride_b);
    }
    out.mainloop.layout_SFA = Scales::tile_atom_to_shape_SFA(out.problem_shape);
    out.mainloop.layout_SFB = Scales::tile_atom_to_shape_SFB(out.problem_shape);
    return out;
  }

 private:
  static void set_epilogue(typename Kernel::EpilogueArguments& out, Args const& args) {
    // Without C, the tensor map still needs a valid address. With beta = 0, C is not read.
    bool const has_c = args.c != nullptr;
    assign(out.ptr_C, has_c ? args.c : args.d);
    out.dC = make_stride<typename Kernel::StrideC>(has_c ? args.ld_c : args.ld_d,
                                                   has_c ? args.batch_stride_c : args.batch_stride_d);
    assign(out.ptr_D, args.d);
    out.dD = make_stride<typename Kernel::StrideD>(args.ld_d, args.batch_stride_d);
    if constexpr (Traits::kQuantizes) {
      out.thread.alpha_ptr = args.alpha;
      // With a batch stride other than 0, the epilogue reads alpha in each tile. With 0 it would read alpha in its
      // constructor, which runs before griddepcontrol.wait (see tilewright/epilogue.hpp).
      cute::get<2>(out.thread.dAlpha) = 1;
      out.thread.beta = args.beta;
      assign(out.thread.block_scale_factor_ptr, args.scale_d);
      out.thread.norm_constant_ptr = args.scale_d_global;
    } else {
      typename Traits::Fusion::Inputs inputs{};
      inputs.factors[0] = args.alpha;
      inputs.beta = args.beta;
      out.thread = Traits::Fusion::arguments(inputs);
    }
  }
};

}  // namespace tilewright::blockscaled_gemm

#define TILEWRIGHT_BLOCKSCALED_GEMM_KERNEL(NAME) TILEWRIGHT_CUTLASS_KERNEL(NAME, tilewright::blockscaled_gemm::Problem)

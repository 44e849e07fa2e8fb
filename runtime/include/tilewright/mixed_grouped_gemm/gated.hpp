// The header of generated gated `mixed_grouped_gemm` kernels: D = silu(gate) * up, the products by the two halves of
// the rows of each W. A gated weight has 8 rows of gate and 8 of up in turn (docs/packed_kernels.md). The kernel's rows
// are W's, so rows r and r + 8 of a thread's accumulators are gate and up of the same element of D.
#pragma once

#include "tilewright/mixed_grouped_gemm/mixed_grouped_gemm.hpp"
#include "tilewright/sm90/gated_epilogue.hpp"

namespace tilewright::mixed_grouped_gemm {

// The types and constants of a gated kernel: those of Types (kernel.hpp), with another store policy.
template <class Type, class Format, class ElementD, int TileM, int TileN, int Pieces, int Stages, int Consumers,
          int Groups, bool kPdl>
struct GatedTypes : Types<Type, Format, ElementD, TileM, TileN, Pieces, Stages, Consumers, Groups, kPdl> {
  using Plain = Types<Type, Format, ElementD, TileM, TileN, Pieces, Stages, Consumers, Groups, kPdl>;
  static constexpr int kRows = Plain::kRows, kColumns = Plain::kColumns, kSumsOfElement = 2;
  using Store = sm90::Epilogue<ElementD, kRows, kColumns, true, sm90::kSiluMul>;
  using Layout = mixed_gemm::Layout<Format, TileM / 64, TileN, Pieces, Stages, Plain::kOfGroup * Store::kBytes>;
  using Mainloop = mixed_gemm::Mainloop<Type, Format, Layout, kRows, kColumns, Stages, Groups>;
};

template <class Type, class Format, class ElementD, int TileM, int TileN, int Pieces, int Stages, int Consumers,
          int Groups, bool kPdl>
using GatedKernel = Phases<GatedTypes<Type, Format, ElementD, TileM, TileN, Pieces, Stages, Consumers, Groups, kPdl>>;

}  // namespace tilewright::mixed_grouped_gemm

// Gated `mixed_gemm` kernels for sm_90a: D[m, n/2] = silu(gate) * up, the products by the two halves of W's rows.
//
// A gated weight has 8 rows of gate and 8 of up in turn (docs/packed_kernels.md). The kernel's rows are W's, so rows r
// and r + 8 of a thread's accumulators are gate and up of the same element of D, as sm90/gated_epilogue.hpp wants them.
#pragma once

#include "tilewright/mixed_gemm/kernel.hpp"
#include "tilewright/sm90/gated_epilogue.hpp"

namespace tilewright::mixed_gemm {

// The store policy of a gated kernel.
template <class ElementD, int Rows, int N, int SubtileColumns>
struct GatedStore : sm90::Epilogue<ElementD, Rows, N, true, sm90::kSiluMul, 2, SubtileColumns> {
  using Epilogue = sm90::Epilogue<ElementD, Rows, N, true, sm90::kSiluMul, 2, SubtileColumns>;
  using Epilogue::Epilogue;

  // Stores one subtile; there is no C.
  __device__ __forceinline__ void store_any(float (&values)[Epilogue::kColumnGroups * 4], int row, int column,
                                            int matrix) {
    Epilogue::store_any(values, typename Epilogue::Addends{}, row, column, matrix);
  }
};

// The types and constants of a gated kernel: those of Types (kernel.hpp), with other store policies.
template <class Type, class Format, class ElementD, int TileM, int TileN, int Pieces, int Stages, int Consumers,
          int Groups, bool kPdl>
struct GatedTypes : Types<Type, Format, ElementD, TileM, TileN, Pieces, Stages, Consumers, Groups, kPdl> {
  using Plain = Types<Type, Format, ElementD, TileM, TileN, Pieces, Stages, Consumers, Groups, kPdl>;
  static constexpr int kRows = Plain::kRows, kColumns = Plain::kColumns;
  using Store = GatedStore<ElementD, kRows, kColumns, sm90::subtile_columns(kColumns, true)>;
  // The store policy for sums that go through the memory of the stages: with a split k, or a D that TMA cannot store.
  using SharedStore = GatedStore<ElementD, kRows, kColumns, sm90::shared_subtile_columns(kColumns, true, false)>;
  using Layout = mixed_gemm::Layout<Format, TileM / 64, TileN, Pieces, Stages, Plain::kOfGroup * Store::kBytes>;
  using Mainloop = mixed_gemm::Mainloop<Type, Format, Layout, kRows, kColumns, Stages, Groups>;
};

template <class Type, class Format, class ElementD, int TileM, int TileN, int Pieces, int Stages, int Consumers,
          int Groups, bool kPdl>
using GatedKernel = Phases<GatedTypes<Type, Format, ElementD, TileM, TileN, Pieces, Stages, Consumers, Groups, kPdl>>;

}  // namespace tilewright::mixed_gemm

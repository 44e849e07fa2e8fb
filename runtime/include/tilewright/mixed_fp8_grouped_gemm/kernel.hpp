// The `mixed_fp8_grouped_gemm` kernel for sm_90a: FP8 activations by packed 4-bit weights of groups.
// mixed_grouped_gemm/phases.hpp says how a CTA works, mixed_fp8_gemm/mainloop.hpp how it multiplies.
#pragma once

#include <cstdint>

#include "tilewright/mixed_fp8_gemm/decode.hpp"
#include "tilewright/mixed_fp8_gemm/layout.hpp"
#include "tilewright/mixed_fp8_gemm/row_factors.hpp"
#include "tilewright/mixed_grouped_gemm/phases.hpp"
#include "tilewright/sm90/epilogue.hpp"
#include "tilewright/sm90/product.hpp"

namespace tilewright::mixed_fp8_grouped_gemm {

struct Params : sm90::ProductParams, mixed_grouped_gemm::OwnParams, mixed_fp8_gemm::RowFactors, sm90::ProductMaps {};

// Template arguments are those of mixed_fp8_gemm::Kernel.
template <class Format_, class ElementD_, int TileM_, int TileN_, int Stages_, bool kPdl_, class Schedule>
struct Types {
  using Format = Format_;
  using ElementD = ElementD_;
  static constexpr int TileM = TileM_, TileN = TileN_, Stages = Stages_, kTileK = mixed_gemm::kUnitK;
  static constexpr bool kPdl = kPdl_;
  static constexpr int kConsumers = TileM / 64, kGroups = 1, kOfGroup = kConsumers;
  static constexpr int kRows = 1, kColumns = TileN;  // of a warpgroup: 64-row slices, columns
  static_assert(kConsumers == 1 || kConsumers == 2);

  using Store = sm90::Epilogue<ElementD, kRows, kColumns, true, sm90::Activation::kNone>;
  using Layout =
      mixed_fp8_gemm::Layout<Format, kConsumers, TileN, Stages, kConsumers * Store::kBytes, Schedule::kBuffers>;
  static_assert(Schedule::kBuffers == 0, "no warpgroup of groups decodes ahead");
  using Mainloop = typename Schedule::template Mainloop<Format, Layout, kColumns, Stages>;
  using Params = mixed_fp8_grouped_gemm::Params;
  // Registers of a thread, of the 65536: three warpgroups start with 168 each.
  static constexpr int kProducerRegisters = 56, kConsumerRegisters = 224;

  static __device__ __forceinline__ void scale_rows(Params const& params, mixed_grouped_gemm::CtaTile const& tile,
                                                    float (&sums)[kRows][kColumns / 2]) {
    int const rows = params.epilogue.m;  // of each matrix
    params.scale_rows(tile.row, rows, sums[0], static_cast<long>(tile.matrix) * rows);
  }
};

template <class Format, class ElementD, int TileM, int TileN, int Stages, bool kPdl, class Schedule>
using Kernel = mixed_grouped_gemm::Phases<Types<Format, ElementD, TileM, TileN, Stages, kPdl, Schedule>>;

}  // namespace tilewright::mixed_fp8_grouped_gemm

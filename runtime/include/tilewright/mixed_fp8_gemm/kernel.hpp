// The `mixed_fp8_gemm` kernel for sm_90a: FP8 activations by packed 4-bit weights. mixed_gemm/phases.hpp says how a CTA
// works, and the headers of the schedules how a warpgroup multiplies:
//
//   schedule         header             with `fast_accum`
//   at_will          mainloop.hpp       fast.hpp
//   quick                               quick_fast.hpp
//   in_turn          in_turn.hpp
//   parts_in_turn    parts_in_turn.hpp
//   ahead            ahead.hpp
#pragma once

#include <type_traits>

#include "tilewright/mixed_fp8_gemm/decode.hpp"
#include "tilewright/mixed_fp8_gemm/layout.hpp"
#include "tilewright/mixed_fp8_gemm/row_factors.hpp"
#include "tilewright/mixed_gemm/phases.hpp"
#include "tilewright/sm90/epilogue.hpp"
#include "tilewright/sm90/product.hpp"

namespace tilewright::mixed_fp8_gemm {

struct Params : sm90::ProductParams, mixed_gemm::OwnParams, RowFactors, sm90::ProductMaps {};

namespace detail {

// The parameters of a schedule's launches: the schedule's own type, or Params.
template <class Schedule, class = void>
struct ParamsOf {
  using Type = Params;
};
template <class Schedule>
struct ParamsOf<Schedule, std::void_t<typename Schedule::Params>> {
  using Type = typename Schedule::Params;
};

// Whether elements are relative to the weight's largest scale, and so are the sums, which stay in the tensor core
// (fast.hpp).
template <class Params, class = void>
constexpr bool kIsRelative = false;
template <class Params>
constexpr bool kIsRelative<Params, std::void_t<decltype(Params::largest_scale)>> = true;

}  // namespace detail

// The types and constants of a kernel. `TileM`: the tile's size along n, 64 for each of the warpgroups that multiply;
// `TileN`: its size along m. `Schedule`: AtWill, Ahead, InTurn, PartsInTurn, Fast or QuickFast, from the headers above.
template <class Format_, class ElementD_, int TileM_, int TileN_, int Stages_, bool kPdl_, class Schedule>
struct Types {
  using Format = Format_;
  using ElementD = ElementD_;
  static constexpr int TileM = TileM_, TileN = TileN_, Stages = Stages_, kTileK = kUnitK;
  static constexpr bool kPdl = kPdl_;
  static constexpr int kConsumers = TileM / 64, kGroups = 1, kOfGroup = kConsumers;
  static constexpr int kRows = 1, kColumns = TileN;  // 64-row slices and columns of a warpgroup
  static_assert(kConsumers == 1 || kConsumers == 2);

  using Store = sm90::Epilogue<ElementD, kRows, kColumns, true, sm90::Activation::kNone>;
  // See mixed_gemm::Types.
  using SharedStore = sm90::Epilogue<ElementD, kRows, kColumns, true, sm90::Activation::kGiven, 2,
                                     sm90::shared_subtile_columns(kColumns, true, false)>;
  using Layout =
      mixed_fp8_gemm::Layout<Format, kConsumers, TileN, Stages, kConsumers * Store::kBytes, Schedule::kBuffers>;
  using Mainloop = typename Schedule::template Mainloop<Format, Layout, kColumns, Stages>;
  using Params = typename detail::ParamsOf<Schedule>::Type;
  // Registers of a thread. Three warpgroups share the SM's 65,536 registers: a thread starts with 168.
  static constexpr int kProducerRegisters = 24, kConsumerRegisters = 240;

  // Multiplies sums by the factors of D's rows, which are the kernel's columns, starting with `column`.
  static __device__ __forceinline__ void finish(Params const& params, int column, float (&sums)[1][kColumns / 2]) {
    params.scale_rows(column, params.epilogue.m, sums[0]);
  }
};

template <class Format, class ElementD, int TileM, int TileN, int Stages, bool kPdl, class Schedule>
using Kernel = typename Schedule::template Kernel<Types<Format, ElementD, TileM, TileN, Stages, kPdl, Schedule>>;

}  // namespace tilewright::mixed_fp8_gemm

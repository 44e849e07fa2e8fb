// The `mixed_fp8_grouped_gemm` kernel for sm_90a: it multiplies FP8 activations by packed 4-bit weights of groups.
// mixed_grouped_gemm/phases.hpp says how a CTA works, the main loops of mixed_fp8_gemm/kernel.hpp how it multiplies.
#pragma once

#include <cstdint>
#include <type_traits>

#include "tilewright/mixed_fp8_gemm/decode.hpp"
#include "tilewright/mixed_fp8_gemm/layout.hpp"
#include "tilewright/mixed_fp8_gemm/row_factors.hpp"
#include "tilewright/mixed_grouped_gemm/phases.hpp"
#include "tilewright/sm90/epilogue.hpp"
#include "tilewright/sm90/product.hpp"

namespace tilewright::mixed_fp8_grouped_gemm {

struct Params : sm90::ProductParams, mixed_grouped_gemm::OwnParams, mixed_fp8_gemm::RowFactors, sm90::ProductMaps {};

struct FastParams : Params {
  uint32_t largest_scale;  // the byte of UE8M0, in both halves
};

namespace detail {

// The main loop of a schedule. `kFast`: its sums stay in the tensor core (mixed_fp8_gemm/fast.hpp).
template <class Schedule, class Format, class Layout, int N, int Stages, class = void>
struct MainloopOf {
  static constexpr bool kFast = false;
  using Type = typename Schedule::template Mainloop<Format, Layout, N, Stages>;
};
template <class Schedule, class Format, class Layout, int N, int Stages>
struct MainloopOf<Schedule, Format, Layout, N, Stages,
                  std::void_t<typename Schedule::template RelativeMainloop<Format, Layout, N, Stages>>> {
  static constexpr bool kFast = true;
  using Type = typename Schedule::template RelativeMainloop<Format, Layout, N, Stages>;
};

// The main loop of a kernel of groups. The last tile of a group may have few rows of activations. With `kFewer`, the
// loop multiplies such a tile by fewer columns (`Loop::run_rows`), in less time.
template <class Loop, class Layout, bool kFewer>
struct OfGroups : Loop {
  using Loop::Loop;
};
template <class Loop, class Layout>
struct OfGroups<Loop, Layout, true> : Loop {
  using Loop::Loop;
  using Tile = mixed_grouped_gemm::Tile;

  __device__ __forceinline__ void run(int stages, float (&tile)[1][Loop::kCount]) {
    // The tile's slot of the queue, which phases.hpp pops after `run` returns.
    uint32_t const own = this->shared + (Layout::kBytes + 15) / 16 * 16 + slot * Tile::kBytes;
    slot = (slot + 1) % mixed_grouped_gemm::TileQueue::kSlots;
    uint32_t const first = sm90::load_word(own), end = sm90::load_word(own + 16);
    this->run_rows(static_cast<int>(end - first), stages, tile);
  }

 private:
  int slot = 0;  // the current tile's, of the queue
};

template <class Loop, class = void>
constexpr bool kHasFewer = false;
template <class Loop>
constexpr bool kHasFewer<Loop, std::void_t<decltype(Loop::kHasFewer)>> = true;

}  // namespace detail

// The types and constants of a kernel. Template arguments are those of mixed_fp8_gemm::Types.
template <class Format_, class ElementD_, int TileM_, int TileN_, int Stages_, bool kPdl_, class Schedule>
struct Types {
  using Format = Format_;
  using ElementD = ElementD_;
  static constexpr int TileM = TileM_, TileN = TileN_, Stages = Stages_, kTileK = mixed_gemm::kUnitK;
  static constexpr bool kPdl = kPdl_;
  static constexpr int kGroups = Schedule::kGroups, kOfGroup = TileM / 64;  // warpgroups of a group
  static constexpr int kConsumers = kGroups * kOfGroup;
  static constexpr int kRows = 1, kColumns = TileN;  // 64-row slices and columns of a warpgroup
  static_assert(kOfGroup == 1 || kOfGroup == 2);

  using Store = sm90::Epilogue<ElementD, kRows, kColumns, true, sm90::Activation::kNone>;
  using Layout = mixed_fp8_gemm::Layout<Format, kOfGroup, TileN, Stages, kOfGroup * Store::kBytes, Schedule::kBuffers>;
  static_assert(Schedule::kBuffers == 0, "no warpgroup of groups decodes ahead");
  using MainloopOf = detail::MainloopOf<Schedule, Format, Layout, kColumns, Stages>;
  using Mainloop = detail::OfGroups<typename MainloopOf::Type, Layout, detail::kHasFewer<typename MainloopOf::Type>>;
  using Params = std::conditional_t<MainloopOf::kFast, FastParams, mixed_fp8_grouped_gemm::Params>;
  // Registers of a thread: see mixed_gemm::Types.
  static constexpr int kProducerRegisters = 56, kConsumerRegisters = kConsumers <= 2 ? 224 : 104;

  // Tells a main loop what it needs to know of a launch.
  static __device__ __forceinline__ void prepare(Params const& params, Mainloop& mainloop) {
    if constexpr (MainloopOf::kFast) {
      mainloop.relative_to(params.largest_scale);
    }
  }

  static constexpr int kSumsOfElement = 1;
  // Whether factors of rows are loaded before the main loop, and two warpgroups store one after the other. The faster
  // the main loops are, the more the time between two of them counts.
  static constexpr bool kApart = MainloopOf::kFast || kGroups > 1;

  struct NoFactors {};
  using Factors = std::conditional_t<kApart, mixed_fp8_gemm::FactorsOfTile<kColumns>, NoFactors>;
  static __device__ __forceinline__ Factors load_factors(Params const& params, mixed_grouped_gemm::Tile const& tile) {
    if constexpr (kApart) {
      int const rows = params.epilogue.m;  // rows of each matrix
      return params.template of_tile<kColumns>(tile.row, rows, static_cast<long>(tile.matrix) * rows);
    } else {
      return {};
    }
  }

  static __device__ __forceinline__ void scale_rows(Params const& params, mixed_grouped_gemm::CtaTile const& tile,
                                                    Factors const& factors, float (&sums)[kRows][kColumns / 2]) {
    if constexpr (kApart) {
      if (params.row_factors != nullptr) {
        factors.multiply(sums[0]);
      }
    } else {
      int const rows = params.epilogue.m;  // rows of each matrix
      params.scale_rows(tile.row, rows, sums[0], static_cast<long>(tile.matrix) * rows);
    }
  }
};

template <class Format, class ElementD, int TileM, int TileN, int Stages, bool kPdl, class Schedule>
using Kernel = mixed_grouped_gemm::Phases<Types<Format, ElementD, TileM, TileN, Stages, kPdl, Schedule>>;

}  // namespace tilewright::mixed_fp8_grouped_gemm

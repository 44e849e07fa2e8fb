// The `mixed_grouped_gemm` kernel for sm_90a: it multiplies activations of 16 bits by packed weights of groups.
// phases.hpp says how a CTA works, mixed_gemm/mainloop.hpp how it multiplies.
#pragma once

#include "tilewright/mixed_gemm/decode.hpp"
#include "tilewright/mixed_gemm/decode8.hpp"
#include "tilewright/mixed_gemm/layout.hpp"
#include "tilewright/mixed_gemm/mainloop.hpp"
#include "tilewright/mixed_grouped_gemm/phases.hpp"
#include "tilewright/sm90/epilogue.hpp"
#include "tilewright/sm90/product.hpp"

namespace tilewright::mixed_grouped_gemm {

struct Params : sm90::ProductParams, OwnParams, sm90::ProductMaps {};

// The types and constants of a kernel. Template arguments are those of mixed_gemm::Types.
template <class Type_, class Format_, class ElementD_, int TileM_, int TileN_, int Pieces, int Stages_, int Consumers,
          int Groups, bool kPdl_>
struct Types {
  using Type = Type_;
  using Format = Format_;
  using ElementD = ElementD_;
  static constexpr int TileM = TileM_, TileN = TileN_, Stages = Stages_, kTileK = Pieces * mixed_gemm::kPieceK;
  static constexpr bool kPdl = kPdl_;
  static constexpr int kGroups = Groups, kOfGroup = Consumers / Groups;  // groups of warpgroups; warpgroups of a group
  using Warpgroups = sm90::Cooperative<TileM, TileN, kOfGroup>;
  static_assert(Warpgroups::kAcross == 1, "warpgroups divide the rows of a tile");
  static constexpr int kConsumers = Consumers, kRows = Warpgroups::kRows, kColumns = TileN;

  using Store = sm90::Epilogue<ElementD, kRows, kColumns, true, sm90::Activation::kNone>;
  using Layout = mixed_gemm::Layout<Format, TileM / 64, TileN, Pieces, Stages, kOfGroup * Store::kBytes>;
  using Mainloop = mixed_gemm::Mainloop<Type, Format, Layout, kRows, kColumns, Stages, Groups>;
  using Params = mixed_grouped_gemm::Params;
  // Registers of a thread: see mixed_gemm::Types.
  static constexpr int kProducerRegisters = kConsumers <= 2 ? 56 : kConsumers == 3 ? 32 : 56;
  static constexpr int kConsumerRegisters = kConsumers <= 2 ? 224 : kConsumers == 3 ? 160 : 104;

  static constexpr int kSumsOfElement = 1;
  // Rows of activations have no factors.
  static constexpr bool kApart = false;
  struct NoFactors {};
  template <class Loop>
  static __device__ __forceinline__ void prepare(Params const&, Loop&) {}
  static __device__ __forceinline__ NoFactors load_factors(Params const&, Tile const&) { return {}; }
  static __device__ __forceinline__ void scale_rows(Params const&, CtaTile const&, NoFactors,
                                                    float (&)[kRows][kColumns / 2]) {}
};

template <class Type, class Format, class ElementD, int TileM, int TileN, int Pieces, int Stages, int Consumers,
          int Groups, bool kPdl>
using Kernel = Phases<Types<Type, Format, ElementD, TileM, TileN, Pieces, Stages, Consumers, Groups, kPdl>>;

}  // namespace tilewright::mixed_grouped_gemm

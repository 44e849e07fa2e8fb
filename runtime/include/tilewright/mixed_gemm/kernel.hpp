// The `mixed_gemm` kernel for sm_90a: activations of 16 bits by packed weights. phases.hpp says how a CTA works.
#pragma once

#include "tilewright/mixed_gemm/decode.hpp"
#include "tilewright/mixed_gemm/decode8.hpp"
#include "tilewright/mixed_gemm/layout.hpp"
#include "tilewright/mixed_gemm/mainloop.hpp"
#include "tilewright/mixed_gemm/phases.hpp"
#include "tilewright/sm90/epilogue.hpp"
#include "tilewright/sm90/product.hpp"

namespace tilewright::mixed_gemm {

struct Params : sm90::ProductParams, OwnParams, sm90::ProductMaps {};

// The types and constants of a kernel. `TileM`: the tile's size along n, a multiple of 64; `TileN`: its size along m. A
// stage has `Pieces` pieces of 64 of k. `Consumers` warpgroups in `Groups` groups multiply: the warpgroups of a group
// divide the tile's rows, the groups divide its k.
template <class Type_, class Format_, class ElementD_, int TileM_, int TileN_, int Pieces, int Stages_, int Consumers,
          int Groups, bool kPdl_>
struct Types {
  using Type = Type_;
  using Format = Format_;
  using ElementD = ElementD_;
  static constexpr int TileM = TileM_, TileN = TileN_, Stages = Stages_, kTileK = Pieces * kPieceK;
  static constexpr bool kPdl = kPdl_;
  static constexpr int kGroups = Groups, kOfGroup = Consumers / Groups;  // groups; warpgroups of a group
  using Warpgroups = sm90::Cooperative<TileM, TileN, kOfGroup>;
  static_assert(Warpgroups::kAcross == 1, "warpgroups divide the rows of a tile");
  static constexpr int kConsumers = Consumers, kRows = Warpgroups::kRows, kColumns = TileN;

  using Store = sm90::Epilogue<ElementD, kRows, kColumns, true, sm90::Activation::kNone>;
  // The store policy for sums that go through the memory of the stages: with a split k, an activation, or a D that TMA
  // cannot store. Its code is in a loop, so that it takes little room.
  using SharedStore = sm90::Epilogue<ElementD, kRows, kColumns, true, sm90::Activation::kGiven, 2,
                                     sm90::shared_subtile_columns(kColumns, true, false)>;
  using Layout = mixed_gemm::Layout<Format, TileM / 64, TileN, Pieces, Stages, kOfGroup * Store::kBytes>;
  using Mainloop = mixed_gemm::Mainloop<Type, Format, Layout, kRows, kColumns, Stages, Groups>;
  using Params = mixed_gemm::Params;
  // Registers of a thread. The SM's 65,536 registers are shared by all warpgroups, so a thread starts with 168 of them
  // in three warpgroups, 128 in four, 96 in five.
  static constexpr int kProducerRegisters = kConsumers <= 2 ? 40 : kConsumers == 3 ? 32 : 24;
  static constexpr int kConsumerRegisters = kConsumers <= 2 ? 232 : kConsumers == 3 ? 160 : 112;

  static __device__ __forceinline__ void finish(Params const&, int, float (&)[kRows][kColumns / 2]) {}
};

template <class Type, class Format, class ElementD, int TileM, int TileN, int Pieces, int Stages, int Consumers,
          int Groups, bool kPdl>
using Kernel = Phases<Types<Type, Format, ElementD, TileM, TileN, Pieces, Stages, Consumers, Groups, kPdl>>;

}  // namespace tilewright::mixed_gemm

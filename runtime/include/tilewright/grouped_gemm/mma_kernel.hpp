// The `grouped_gemm` kernel of mma.sync: TMA, mbarriers, ldmatrix and mma.sync in plain PTX, for GPUs without wgmma and
// tcgen05 (sm_120f). It runs on sm_90a, too, where it serves to try the code.
//
// It has the parameters, producers and groups of the kernel of kernel.hpp, and differs in the following:
//
// - It has no clusters, and k is not split.
// - The sums of its main loop are ordinary registers. Every epilogue stores them from there, without the memory of the
//   stages.
#pragma once

#include <cstdint>

#include "tilewright/grouped_gemm/cta_tile.hpp"
#include "tilewright/grouped_gemm/kernel.hpp"
#include "tilewright/grouped_gemm/producers.hpp"
#include "tilewright/grouped_gemm/tile.hpp"
#include "tilewright/grouped_gemm/work.hpp"
#include "tilewright/sm120/scaled_mainloop.hpp"
#include "tilewright/sm120/warpgroups.hpp"
#include "tilewright/sm90/epilogue.hpp"
#include "tilewright/sm90/float_boxes.hpp"
#include "tilewright/sm90/producer.hpp"
#include "tilewright/sm90/product.hpp"
#include "tilewright/sm90/scaled_layout.hpp"

namespace tilewright::grouped_gemm {

constexpr int kSharedBytesOfMmaBlock = 99 * 1024;  // of sm_120, for one CTA

// Loads without multicast, because multicast is slow on sm_120. Each CTA is a cluster of its own.
template <class Base>
struct LoneProducer : Base {
  __device__ __forceinline__ explicit LoneProducer(uint32_t shared) : Base{shared} {}

  __device__ __forceinline__ void run(sm90::ClusterShape const&, sm90::OperandLoads const& loads,
                                      sm90::TileKRange const& range) {
    Base::template run<false, false>(loads.a, loads.b, range);
  }
};

// A policy that says what the stages of a kernel hold, and how they are loaded and multiplied. Here these are operands
// in boxes of 128 bytes of k, which may have scale factors of F32.
template <class A, class B, int Boxes_, bool kMnA_, bool kMnB_, Scales kScalesA, Scales kScalesB>
struct FloatStage {
  using ElementA = A;
  using ElementB = B;
  static constexpr int Boxes = Boxes_, kTileBytesK = Boxes * 128;
  static constexpr int kBitsA = A::kBytes * 8, kBitsB = B::kBytes * 8, kRowBytesA = 128, kRowBytesB = 128;  // in a box
  static constexpr int kPackedBlock = 0;             // elements of k that share a packed factor, if factors are packed
  static constexpr bool kMnA = kMnA_, kMnB = kMnB_;  // whether the operand is MN-major
  static constexpr bool kScaled = kScalesA != Scales::kNone;
  static constexpr Scales kOwnScalesA = kScalesA, kOwnScalesB = kScalesB;
  // Whether a group along k may have tensor maps of its own.
  static constexpr bool kMapsOfGroups = kScalesA == Scales::kRows && kScalesB == Scales::kRows && Boxes == 1;
  static_assert(A::kBytes == B::kBytes);
  static_assert((kScalesA == Scales::kNone) == (kScalesB == Scales::kNone));
  static_assert(!(kMnA || kMnB) || (A::kBytes == 2 && !kScaled), "ldmatrix transposes 16-bit operands alone");

  template <int TileM, int TileN, int Stages, int StoreBytes>
  using Layout = sm90::ScaledLayout<TileM, TileN, Boxes, Stages, StoreBytes, kScalesA, kScalesB>;
  template <class Layout, int TileM, int TileN, int Rows, int N, int Stages>
  using Mainloop =
      sm120::ScaledMainloop<A, B, Layout, kScalesA, kScalesB, TileM, TileN, Rows, N, Boxes, Stages, kMnA, kMnB>;
  template <class Layout, int TileM, int TileN, int Stages>
  using Producer = LoneProducer<sm90::Producer<Layout, Boxes, Stages, kMnA ? TileM / 64 : 0, kMnB ? TileN / 64 : 0>>;
  template <class Kernel>
  using Producers = grouped_gemm::Producers<Kernel>;
};

// `Stage`: a policy as FloatStage. The other parameters are those of `Kernel` (kernel.hpp).
template <class Stage, class ElementD_, int TileM_, int TileN_, int Stages_, bool kSwapped_, int kStoreBuffers,
          bool kPdl_>
struct StagedKernel : Stage {
  using ElementD = ElementD_;
  using Stage::Boxes, Stage::kMnA, Stage::kMnB, Stage::kScaled, Stage::kOwnScalesA, Stage::kOwnScalesB;
  static constexpr int TileM = TileM_, TileN = TileN_, Stages = Stages_;
  static constexpr bool kSwapped = kSwapped_;
  static constexpr Scales kRowScales = kSwapped ? kOwnScalesB : kOwnScalesA;     // of the caller's A
  static constexpr Scales kColumnScales = kSwapped ? kOwnScalesA : kOwnScalesB;  // and B
  static constexpr int kTileRows = kSwapped ? TileN : TileM, kTileColumns = kSwapped ? TileM : TileN;  // of D
  using Warpgroups = sm120::Cooperative<TileM, TileN, kMnB>;
  static constexpr int kConsumers = Warpgroups::kConsumers, kDown = Warpgroups::kDown, kAcross = Warpgroups::kAcross;
  static constexpr int kRows = Warpgroups::kRows, kColumns = Warpgroups::kColumns, kThreads = Warpgroups::kThreads;
  static constexpr bool kPdl = kPdl_;
  static constexpr Form kForm = Form::kAny;
  using Cluster = FormCluster<kForm>;

  using Store = sm90::Epilogue<ElementD, kRows, kColumns, kSwapped, sm90::Activation::kNone, kStoreBuffers,
                               sm90::subtile_columns(kColumns, kSwapped), kSwapped || ElementD::kBytes == 2>;
  static constexpr bool kFloats = ElementD::kBytes == 4 && !kSwapped;
  using FloatBoxes = sm90::FloatBoxes<kRows, kColumns, kStoreBuffers>;
  static constexpr int kStoreBytes = kConsumers * (kFloats ? FloatBoxes::kBytes : Store::kBytes);
  using Layout = typename Stage::template Layout<TileM, TileN, Stages, kStoreBytes>;
  using Mainloop = typename Stage::template Mainloop<Layout, TileM, TileN, kRows, kColumns, Stages>;
  using Producer = typename Stage::template Producer<Layout, TileM, TileN, Stages>;
  using TileScheduler = grouped_gemm::TileScheduler<kTileRows>;
  using Params = grouped_gemm::Params;
  static constexpr int kQueueAt = (Layout::kBytes + 15) / 16 * 16, kSharedBytes = kQueueAt + TileQueue::kBytes;
  using Tiles = FormTiles<kForm, true, kTileRows, kQueueAt, kSwapped>;
  // The host code reads `kSplits` as: the kernel has every epilogue.
  static constexpr bool kSplits = true, kClusters = false, kHasForms = false;
  static_assert(Stages >= 2 && Stages <= 32 && kSharedBytes <= kSharedBytesOfMmaBlock,
                "the stages exceed the shared memory of sm_120");

  // Whether groups may divide k: as in kernel.hpp.
  static constexpr bool kOwnMaps = Stage::kMapsOfGroups && ElementD::kBytes == 4;
  static constexpr bool kGroupsOfK = kOwnMaps || (kMnA && kMnB && Boxes == 1 && ElementD::kBytes == 4);

  // Registers of a thread; an SM has 65,536.
  static constexpr int kProducerRegisters = 56, kConsumerRegisters = 224;

  __device__ __forceinline__ void operator()(Params const& params, char* memory) const {
    sm90::run_product<StagedKernel>(params, memory);
  }

  // Prologue, one thread: makes the barriers of the stages and of the tile queue.
  static __device__ __forceinline__ void init_barriers(Params const& params, uint32_t shared) {
    sm90::start_stages<Layout, Stages>(params.cluster, shared,
                                       1 + (Layout::kScaleBytes > 0) + (Layout::kBlocks > 0 ? Boxes : 0),
                                       kConsumers * sm120::kReadersOfWarpgroup);
#pragma unroll
    for (int slot = 0; slot < TileQueue::kSlots; ++slot) {
      TileQueue::start(shared + kQueueAt, slot, kConsumers * 4 + 1 + kScaled);
    }
  }

  // Prologue, another thread.
  static __device__ __forceinline__ void prefetch_maps(Params const& params) {
    sm90::prefetch_map(&params.a);
    sm90::prefetch_map(&params.b);
    if (params.epilogue.n_boxes > 0 || params.floats != Floats::kThreads) {
      sm90::prefetch_map(&params.d);
    }
    if constexpr (kOwnScalesA == Scales::kRows) {
      sm90::prefetch_map(&params.scales_a);
    }
    if constexpr (kOwnScalesB == Scales::kRows) {
      sm90::prefetch_map(&params.scales_b);
    }
  }

  // Load: the producer's warps.
  static __device__ __forceinline__ void load(Params const& params, uint32_t shared, sm90::ClusterPlace const& place,
                                              bool loading_warp) {
    sm90::enter<kPdl>(params.cluster);
    Stage::template Producers<StagedKernel>::run(params, shared, place, loading_warp, false);
  }

  // Multiply: a consumer warpgroup.
  static __device__ __forceinline__ void multiply(Params const& params, uint32_t shared,
                                                  sm90::ClusterPlace const& place, int warpgroup) {
    int const first_row = kDown == 1 ? 0 : warpgroup * kRows * 64;
    int const first_column = kAcross == 1 ? 0 : warpgroup * kColumns;
    Mainloop mainloop(shared, first_row, first_column);
    sm90::enter<kPdl>(params.cluster);
    Store store(params.epilogue, &params.d, shared + Layout::kStoresAt, warpgroup);
    FloatBoxes floats(&params.d, shared + Layout::kStoresAt);
    // This warpgroup's bits of Tile::row_slices.
    uint32_t const own_slices = kSwapped ? ~0u : ((1u << kRows) - 1) << first_row / 64;
    TileQueue queue(shared + kQueueAt);
    Tile tile, next;
    for (bool more = queue.wait(tile); more; tile = next) {
      float sums[kRows][kColumns / 2];
      multiply_tile(mainloop, CtaTile(params, place, tile), (tile.row_slices & own_slices) != 0, sums);
      queue.read(tile);
      // Before the stores: an LDS that is issued after STGs waits for them in the load/store queue.
      more = queue.pop_and_wait(tile, next);
      CtaTile const cta_tile(params, place, tile);
      int const row = cta_tile.a_row + first_row, column = cta_tile.b_row + first_column;
      TileRowFates const rows{tile, params.groups.layout, params.groups.groups, params.heads};
      if (params.epilogue_through_smem) {  // there is a C of 16 bits
        sm120::store_any(store, sums, row, column, tile.matrix, rows);
      } else if (kFloats && params.floats != Floats::kThreads && rows.every()) {
        if (params.floats == Floats::kAdded) {
          floats.template store<true>(sums, row, column, tile.matrix);
        } else {
          floats.template store<false>(sums, row, column, tile.matrix);
        }
      } else {
        store.store_rows(sums, row, column, tile.matrix, rows);
      }
    }
    // Finish: TMA has read the shared memory of the last stores.
    store.drain();
    if constexpr (kFloats) {
      floats.drain();
    }
  }

 private:
  using CtaTile = grouped_gemm::CtaTile<StagedKernel>;

  // Multiplies the stages of a tile. `stores`: whether this warpgroup stores any of its rows.
  static __device__ __forceinline__ void multiply_tile(Mainloop& mainloop, CtaTile const& tile, bool stores,
                                                       float (&sums)[kRows][kColumns / 2]) {
    if (stores && tile.k_tiles > 0) {
      mainloop.run(tile.k_tiles, tile.a_row, tile.b_row, sums);
    } else {
      sm120::skip_stages<Layout>(mainloop, tile.k_tiles);
      sm120::clear(sums);
    }
  }
};

// The parameters are those of `Kernel` (kernel.hpp).
template <class A, class B, class ElementD, int TileM, int TileN, int Boxes, int Stages, bool kSwapped, bool kMnA,
          bool kMnB, Scales kScalesA, Scales kScalesB, int kStoreBuffers, bool kPdl>
using MmaKernel = StagedKernel<FloatStage<A, B, Boxes, kMnA, kMnB, kScalesA, kScalesB>, ElementD, TileM, TileN, Stages,
                               kSwapped, kStoreBuffers, kPdl>;

}  // namespace tilewright::grouped_gemm

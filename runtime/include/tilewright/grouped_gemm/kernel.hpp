// The `grouped_gemm` kernel for sm_90a: products of FP8 with scale factors (1x128, 128x128) or of BF16, whose rows may
// belong to groups. TMA, mbarriers and wgmma in plain PTX, as gemm/lean_kernel.hpp, without CuTe.
//
// A CTA works as sm90/product.hpp says. What is added: stages hold scale factors beside the data (scaled_layout.hpp),
// and of the producer's four warps three have work (producers.hpp).
#pragma once

#include <cstdint>
#include <type_traits>

#include "tilewright/grouped_gemm/begin.hpp"
#include "tilewright/grouped_gemm/producers.hpp"
#include "tilewright/grouped_gemm/tile.hpp"
#include "tilewright/grouped_gemm/work.hpp"
#include "tilewright/sm90/cluster.hpp"
#include "tilewright/sm90/epilogue.hpp"
#include "tilewright/sm90/exchange.hpp"
#include "tilewright/sm90/float_boxes.hpp"
#include "tilewright/sm90/mainloop.hpp"
#include "tilewright/sm90/pipeline.hpp"
#include "tilewright/sm90/product.hpp"
#include "tilewright/sm90/producer.hpp"
#include "tilewright/sm90/scaled_layout.hpp"
#include "tilewright/sm90/scaled_mainloop.hpp"

namespace tilewright::grouped_gemm {

using sm90::Scales;

// How sums of F32 that all are stored come to D: by the threads, which add C if there is one; by TMA; or so, added to
// what D holds, which is C.
enum class Floats { kThreads, kBoxes, kAdded };

struct OwnParams {
  sm90::BlockScales blocks_a, blocks_b;
  Groups groups;
  CUtensorMap const* parts;  // of k: A's and B's map of each group
  Heads heads;
  Floats floats;
};

struct Params : sm90::ProductParams, OwnParams, sm90::ProductMaps {
  CUtensorMap scales_a, scales_b;  // those of rows
};

// Three warpgroups share a tile of 192 rows: while one of them promotes sums, two have instructions at work. Of two
// warpgroups one has, and the tensor core idles between its instructions.
constexpr int consumers_of(int tile_m) { return tile_m == 192 ? 3 : sm90::consumers_of(tile_m); }

// `A` and `B` are the kernel's own operands: the caller's B and A where they are swapped, as are their scales.
template <class A, class B, class ElementD_, int TileM_, int TileN_, int Boxes_, int Stages_, bool kSwapped_,
          bool kMnA_, bool kMnB_, Scales kScalesA, Scales kScalesB, sm90::Promotion kPromotion, int kStoreBuffers,
          bool kPdl_>
struct Kernel {
  using ElementA = A;
  using ElementB = B;
  using ElementD = ElementD_;
  static constexpr int TileM = TileM_, TileN = TileN_, Boxes = Boxes_, Stages = Stages_;
  static constexpr bool kSwapped = kSwapped_;
  static constexpr bool kMnA = kMnA_, kMnB = kMnB_;  // whether it is MN-major
  static constexpr bool kScaled = kScalesA != Scales::kNone;
  static constexpr Scales kOwnScalesA = kScalesA, kOwnScalesB = kScalesB;
  static constexpr Scales kRowScales = kSwapped ? kScalesB : kScalesA;     // of the caller's A
  static constexpr Scales kColumnScales = kSwapped ? kScalesA : kScalesB;  // and B
  static constexpr int kTileBytesK = Boxes * 128;
  static constexpr int kTileRows = kSwapped ? TileN : TileM, kTileColumns = kSwapped ? TileM : TileN;  // of D
  using Warpgroups = sm90::Cooperative<TileM, TileN, consumers_of(TileM)>;
  static constexpr int kConsumers = Warpgroups::kConsumers, kDown = Warpgroups::kDown, kAcross = Warpgroups::kAcross;
  static constexpr int kRows = Warpgroups::kRows, kColumns = Warpgroups::kColumns, kThreads = Warpgroups::kThreads;
  static constexpr bool kPdl = kPdl_;
  static_assert(A::kBytes == B::kBytes);
  static_assert((kScalesA == Scales::kNone) == (kScalesB == Scales::kNone));
  static_assert(!(kMnA || kMnB) || (A::kBytes == 2 && !kScaled), "wgmma reads FP8 with k contiguous alone");
  static_assert(!kMnB || kColumns % 64 == 0, "boxes of an MN-major operand have 64 rows");

  // A thread of a warpgroup tells TMA of 64 rows at a time: of 16, by each warp, a tile of 256x128 took 1,000 cycles.
  using Store = sm90::Epilogue<ElementD, kRows, kColumns, kSwapped, sm90::Activation::kNone, kStoreBuffers,
                               sm90::piece_columns(kColumns, kSwapped), kSwapped || ElementD::kBytes == 2>;
  static constexpr bool kFloats = ElementD::kBytes == 4 && !kSwapped;
  using FloatBoxes = sm90::FloatBoxes<kRows, kColumns, kStoreBuffers>;
  static constexpr int kStoreBytes = kConsumers * (kFloats ? FloatBoxes::kBytes : Store::kBytes);
  using Layout = sm90::ScaledLayout<TileM, TileN, Boxes, Stages, kStoreBytes, kScalesA, kScalesB>;
  using Exchange = sm90::Exchange<kRows, kColumns, kConsumers * 128>;
  using Scaled =
      sm90::ScaledMainloop<A, B, Layout, kScalesA, kScalesB, kPromotion, TileM, TileN, kRows, kColumns, Boxes, Stages>;
  using Plain = sm90::Mainloop<A, B, sm90::PlainSum, Layout, kRows, kColumns, Boxes, Stages, kMnA, kMnB>;
  using Mainloop = std::conditional_t<kScaled, Scaled, Plain>;
  using Producer = sm90::Producer<Layout, Boxes, Stages, kMnA ? TileM / 64 : 0, kMnB ? TileN / 64 : 0>;
  using Work = grouped_gemm::Work<kTileRows>;
  using Params = grouped_gemm::Params;
  static constexpr int kQueueAt = (Layout::kBytes + 15) / 16 * 16, kSharedBytes = kQueueAt + TileQueue::kBytes;
  // Whether sums can go through the stages' memory, to be added up along k.
  static constexpr bool kSplits = Exchange::kBytes <= Layout::kStoresAt;
  static_assert(Stages >= 2 && Stages <= 32 && kSharedBytes <= 227 * 1024,
                "the stages exceed the shared memory of sm_90");

  // Whether it multiplies parts of k, which are added up in F32, whole stages of one box. Parts that are matrices of
  // their own have maps of their own, and begin with rows' factors; of operands that are MN-major they are rows.
  static constexpr bool kOwnMaps =
      kScalesA == Scales::kRows && kScalesB == Scales::kRows && Boxes == 1 && ElementD::kBytes == 4;
  static constexpr bool kParts = kOwnMaps || (kMnA && kMnB && Boxes == 1 && ElementD::kBytes == 4);

  // Of a thread: 65,536 in all.
  static constexpr int kProducerRegisters = 56, kConsumerRegisters = kConsumers == 3 ? 152 : 224;

  __device__ __forceinline__ void operator()(Params const& params, char* memory) const {
    sm90::run_product<Kernel>(params, memory);
  }

  static __device__ __forceinline__ void start(Params const& params, uint32_t shared) {
    sm90::start_stages<Layout, Stages>(params.cluster, shared,
                                       1 + (Layout::kScaleBytes > 0) + (Layout::kBlocks > 0 ? Boxes : 0),
                                       kConsumers * kTellers);
#pragma unroll
    for (int slot = 0; slot < TileQueue::kSlots; ++slot) {
      TileQueue::start(shared + kQueueAt, slot,
                       kConsumers * 4 + 1 + (kScaled || exchanges_of(params)) + exchanges_of(params));
    }
  }

  static __device__ __forceinline__ void ask_for_maps(Params const& params) {
    sm90::prefetch_map(&params.a);
    sm90::prefetch_map(&params.b);
    if (params.epilogue.n_boxes > 0 || params.floats != Floats::kThreads) {
      sm90::prefetch_map(&params.d);
    }
    if constexpr (kScalesA == Scales::kRows) {
      sm90::prefetch_map(&params.scales_a);
    }
    if constexpr (kScalesB == Scales::kRows) {
      sm90::prefetch_map(&params.scales_b);
    }
  }

  static __device__ __forceinline__ void produce(Params const& params, uint32_t shared, sm90::ClusterPlace const& place,
                                                 bool loading_warp) {
    sm90::enter<kPdl>(params.cluster);
    Producers<Kernel>::run(params, shared, place, loading_warp, exchanges_of(params));
  }

  static __device__ __forceinline__ void multiply(Params const& params, uint32_t shared,
                                                  sm90::ClusterPlace const& place, int warpgroup) {
    sm90::enter<kPdl>(params.cluster);
    if (kSplits && params.exchanges) {
      consume<true>(params, shared, place, warpgroup);
    } else {
      consume<false>(params, shared, place, warpgroup);
    }
  }

 private:
  using Begin = grouped_gemm::Begin<Kernel>;

  // Who tells of a warpgroup that a stage has been read: one warp, where wgmma alone reads, which all warps begin
  // together; each, where they read factors: no warp knows what others' loads are waiting for.
  static constexpr int kTellers = kScaled ? 4 : 1;
  static constexpr int kAllConsumers = 4;  // a barrier of the CTA; 1 to 3 are the epilogues'

  static __device__ __forceinline__ bool exchanges_of(Params const& params) { return kSplits && params.exchanges; }

  static __device__ __forceinline__ void clear(float (&sums)[kRows][kColumns / 2]) {
#pragma unroll
    for (auto& row : sums) {
#pragma unroll
      for (float& sum : row) {
        sum = 0.0f;
      }
      if constexpr (kRows == 1) {
        sm90::hold(row);  // or ptxas would clear them once more, in front of the loop; of 128 rows, it is as fast so
      }
    }
  }

  // D of a part that has no k: C, or zeros; nothing where sums are added to D. Sums that were cleared for it would be a
  // second set to ptxas, beside those that wgmma leaves: 128x256 would spill 1,600 bytes of registers.
  static __device__ __forceinline__ void store_nothing(Params const& params, sm90::ClusterPlace const& place,
                                                       Tile const& tile, int first_row, int first_column) {
    if (params.floats == Floats::kAdded) {
      return;
    }
    sm90::EpilogueParams const& epilogue = params.epilogue;
    Begin const begin(params, place, tile);
    int const row = begin.a_row + first_row, column = begin.b_row + first_column;
    float* const d = static_cast<float*>(epilogue.d) + tile.matrix * epilogue.batch_stride_d;
    float const* const c = static_cast<float const*>(epilogue.c) + tile.matrix * epilogue.batch_stride_c;
#pragma unroll 1
    for (int m = row; m < min(row + kRows * 64, epilogue.m); ++m) {
#pragma unroll
      for (int n = column + static_cast<int>(threadIdx.x) % 128; n < column + kColumns; n += 128) {
        if (n < epilogue.n) {
          d[m * epilogue.ld_d + n] = epilogue.c == nullptr ? 0.0f : c[m * epilogue.ld_c + n];
        }
      }
    }
  }

  // `kExchange`: parts of a split k meet in shared memory.
  template <bool kExchange>
  static __device__ __forceinline__ void consume(Params const& params, uint32_t shared, sm90::ClusterPlace const& place,
                                                 int warpgroup) {
    sm90::ClusterShape const& cluster = params.cluster;
    int const first_row = kDown == 1 ? 0 : warpgroup * kRows * 64;
    int const first_column = kAcross == 1 ? 0 : warpgroup * kColumns;
    sm90::Release const release(Layout::empty(shared, 0), cluster.size(), place.sharers(cluster),
                                threadIdx.x % (128 / kTellers));
    Mainloop mainloop{shared, first_row, first_column, release};
    Store store(params.epilogue, &params.d, shared + Layout::kStoresAt, warpgroup);
    FloatBoxes floats(&params.d, shared + Layout::kStoresAt);
    // This warpgroup's bits of tile.parts (see Tile).
    int const part = kSwapped ? 0 : first_row / 64;
    uint32_t const own_parts = kSwapped ? ~0u : ((1u << kRows) - 1) << part;
    TileQueue queue(shared + kQueueAt);
    Tile tile, next;
    if constexpr (kScaled) {
      Mainloop::start_turns(warpgroup);
    }
    for (bool more = queue.wait(tile); more; tile = next) {
      int const tiles = Begin::k_tiles(params, place, tile);
      if constexpr (kParts && !kScaled && !kExchange) {
        if (tiles == 0) {
          store_nothing(params, place, tile, first_row, first_column);
          more = queue.follow(tile, next);
          continue;
        }
      }
      float sums[kRows][kColumns / 2];
      if constexpr (kScaled) {
        clear(sums);
        if ((tile.parts & own_parts) != 0 && tiles > 0) {
          mainloop.run(tiles, Begin(params, place, tile).b_row + first_column, tile.parts >> part, sums);
        } else {
          mainloop.skip(tiles);
        }
      } else {
        mainloop.run(tiles, sums, [] {});
      }
      queue.read(tile);
      if constexpr (!kExchange) {
        more = queue.follow(tile, next);  // before the stores: a load that is issued after them waits in their queue
      }
      // In the kernel's own plane.
      Begin const begin(params, place, tile);
      int const row = begin.a_row + first_row, column = begin.b_row + first_column;
      RowsOf const rows{tile, params.groups.layout, params.groups.groups, params.heads};
      if constexpr (kExchange) {
        sm90::meet(kAllConsumers, kConsumers * 128);  // nobody reads the stages any more
        Exchange::lay_down(shared, sums);
        sm90::cluster_barrier();
#pragma unroll 1
        for (int piece = place.split; piece < kRows * Store::kPieces; piece += cluster.splits) {
          int const r = piece / Store::kPieces, i = piece % Store::kPieces;
          float values[1][Store::kQuads * 4];
          Exchange::template add<1, Store::kQuads>(shared, piece, cluster.splits, cluster, place, values);
          store.store_any(values[0], row + r * 64, column + i * Store::kColumns, tile.matrix, rows);
        }
        sm90::fence_async_proxy();  // TMA writes there next
        sm90::cluster_barrier();
      } else if (kFloats && params.floats != Floats::kThreads && rows.every()) {
        if (params.floats == Floats::kAdded) {
          floats.template store<true>(sums, row, column, tile.matrix);
        } else {
          floats.template store<false>(sums, row, column, tile.matrix);
        }
      } else {
        store.store_rows(sums, row, column, tile.matrix, rows);
      }
      if constexpr (kExchange) {
        more = queue.follow(tile, next);  // the deciding warp goes on after the cluster's barriers
      }
    }
    store.drain();
    if constexpr (kFloats) {
      floats.drain();
    }
  }
};

}  // namespace tilewright::grouped_gemm

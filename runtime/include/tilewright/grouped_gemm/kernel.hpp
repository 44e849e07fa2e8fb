// The `grouped_gemm` kernel for sm_90a: products of FP8 with scale factors (1x128, 128x128) or of BF16, whose rows may
// belong to groups. TMA, mbarriers and wgmma in plain PTX, as gemm/lean_kernel.hpp, without CuTe.
//
// One producer warp loads stages of A, B and the factors of rows; one or two consumer warpgroups multiply, half of the
// tile's rows each, or half of its columns where 64 rows do not divide into two. CTAs are persistent. CTAs of a cluster
// share loads by multicast, or a tile along k.
#pragma once

#include <cstdint>
#include <type_traits>

#include "tilewright/grouped_gemm/work.hpp"
#include "tilewright/sm90/cluster.hpp"
#include "tilewright/sm90/epilogue.hpp"
#include "tilewright/sm90/exchange.hpp"
#include "tilewright/sm90/mainloop.hpp"
#include "tilewright/sm90/pipeline.hpp"
#include "tilewright/sm90/producer.hpp"
#include "tilewright/sm90/scaled_mainloop.hpp"

namespace tilewright::grouped_gemm {

using sm90::Scales;

struct Params {
  CUtensorMap a, b, d;
  CUtensorMap scales_a, scales_b;  // those of rows
  sm90::BlockScales blocks_a, blocks_b;
  sm90::EpilogueParams epilogue;
  sm90::ClusterShape cluster;
  sm90::Slices slices_a, slices_b;
  Groups groups;
  uint64_t policy_a, policy_b;
  int k_each, k_more;        // k tiles of a split, and how many of the first ones have one more
  bool exchanges;            // sums go through the stages' memory
  CUtensorMap const* parts;  // of k: A's and B's map of each group
  bool one_a, one_b;         // one matrix for every batch
};

// `A` and `B` are the kernel's own operands: the caller's B and A where they are swapped, as are their scales.
template <class A, class B, class ElementD_, int TileM_, int TileN_, int Boxes_, int Stages_, bool kSwapped_,
          Scales kScalesA, Scales kScalesB, sm90::Promotion kPromotion, int kStoreBuffers, bool kPdl>
struct Kernel {
  using ElementA = A;
  using ElementB = B;
  using ElementD = ElementD_;
  static constexpr int TileM = TileM_, TileN = TileN_, Boxes = Boxes_, Stages = Stages_;
  static constexpr bool kSwapped = kSwapped_;
  static constexpr bool kScaled = kScalesA != Scales::kNone;
  static constexpr Scales kRowScales = kSwapped ? kScalesB : kScalesA;     // of the caller's A
  static constexpr Scales kColumnScales = kSwapped ? kScalesA : kScalesB;  // and B
  static constexpr int kTileBytesK = Boxes * 128;
  static constexpr int kTileRows = kSwapped ? TileN : TileM, kTileColumns = kSwapped ? TileM : TileN;  // of D
  static constexpr int kConsumers = TileM == 64 ? 1 : 2;
  static constexpr int kDown = TileM % 128 == 0 ? 2 : 1;                        // warpgroups that divide the rows
  static constexpr int kAcross = kConsumers / kDown;                            // and the columns
  static constexpr int kRows = TileM / 64 / kDown, kColumns = TileN / kAcross;  // of 64, and of 1: a warpgroup's
  static constexpr int kThreads = (kConsumers + 1) * 128;
  static_assert(A::kBytes == B::kBytes && TileM % 64 == 0 && kColumns % 8 == 0 && TileN == kColumns * kAcross);
  static_assert((kScalesA == Scales::kNone) == (kScalesB == Scales::kNone));

  using Store = sm90::Epilogue<ElementD, kRows, kColumns, kSwapped, sm90::Activation::kNone, kStoreBuffers>;
  static constexpr int kStoreBytes = kConsumers * Store::kBytes;
  using Layout = sm90::ScaledLayout<TileM, TileN, Boxes, Stages, kStoreBytes, kScalesA, kScalesB>;
  using Exchange = sm90::Exchange<kRows, kColumns, kConsumers * 128>;
  using Scaled =
      sm90::ScaledMainloop<A, B, Layout, kScalesA, kScalesB, kPromotion, TileM, TileN, kRows, kColumns, Boxes, Stages>;
  using Plain = sm90::Mainloop<A, B, sm90::PlainSum, Layout, kRows, kColumns, Boxes, Stages>;
  using Mainloop = std::conditional_t<kScaled, Scaled, Plain>;
  using Producer = sm90::Producer<Layout, Boxes, Stages>;
  using Work = grouped_gemm::Work<kTileRows>;
  using Params = grouped_gemm::Params;
  static constexpr int kQueueAt = (Layout::kBytes + 15) / 16 * 16, kSharedBytes = kQueueAt + TileQueue::kBytes;
  // Whether sums can go through the stages' memory, to be added up along k.
  static constexpr bool kSplits = Exchange::kBytes <= Layout::kStoresAt;
  static_assert(Stages >= 2 && Stages <= 32 && kSharedBytes <= 227 * 1024,
                "the stages exceed the shared memory of sm_90");

  // Of a thread: 65536 in all. The one that loads keeps more coordinates where both operands have rows' factors.
  static constexpr bool kBothRows = kScalesA == Scales::kRows && kScalesB == Scales::kRows;
  static constexpr int kProducerRegisters = kBothRows ? 72 : 56, kConsumerRegisters = kBothRows ? 216 : 224;

  __device__ __forceinline__ void operator()(Params const& params, char* memory) const {
    uint32_t const shared = sm90::shared_address(memory);
    int const warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0);
    int const warpgroup = warp / 4;
    sm90::ClusterPlace const place(params.cluster);
    if (shared % 1024 != 0) {
      __trap();  // the swizzles count on it; there is no static shared memory to get in the way
    }
    if (warp == 0) {
      start(params, shared);
    }
    bool const clustered = params.cluster.size() > 1;
    if (clustered) {
      sm90::cluster_arrive();
      sm90::cluster_wait();
    } else {
      __syncthreads();
    }
    if constexpr (kPdl) {
      sm90::wait_for_previous_kernel();  // what it wrote: operands, groups, C; what it reads: D
    }
    if (warpgroup == kConsumers) {
      if constexpr (kConsumers > 1) {
        sm90::keep_registers<kProducerRegisters>();
      }
      produce(params, shared, place, warp == kConsumers * 4);
    } else {
      if constexpr (kConsumers > 1) {
        sm90::take_registers<kConsumerRegisters>();
      }
      if (kSplits && params.exchanges) {
        consume<true>(params, shared, place, warpgroup);
      } else {
        consume<false>(params, shared, place, warpgroup);
      }
    }
    if (clustered) {
      __syncwarp();
      sm90::cluster_arrive();
      sm90::cluster_wait();  // others may still tell this CTA's barriers
    }
  }

 private:
  // Who tells of a warpgroup that a stage has been read: one warp, where wgmma has read last, which all warps begin
  // together; each, where they read factors after it.
  static constexpr int kTellers = kScalesB == Scales::kRows ? 4 : 1;
  static constexpr int kAllConsumers = 4;  // a barrier of the CTA; 1 to 3 are the epilogues'

  // What a stage holds beside A and B.
  struct RowScales {
    static constexpr int kBytes = Layout::kScaleBytes;
    Params const& params;
    uint32_t shared;
    int a_row, b_row, a_matrix, b_matrix;
    int first;  // block of k

    __device__ __forceinline__ void operator()(int stage, uint32_t full, int k_tile) const {
      if constexpr (kScalesA == Scales::kRows) {
        sm90::copy_box(Layout::scales_a(shared, stage), &params.scales_a, full, a_row, first + k_tile * Boxes, a_matrix,
                       params.policy_a);
      }
      if constexpr (kScalesB == Scales::kRows) {
        sm90::copy_box(Layout::scales_b(shared, stage), &params.scales_b, full, b_row, first + k_tile * Boxes, b_matrix,
                       params.policy_b);
      }
    }
  };

  // One warp's work, before the others go on.
  static __device__ __forceinline__ void start(Params const& params, uint32_t shared) {
    int const lane = threadIdx.x;
    if (lane == 0) {
      sm90::prefetch_map(&params.a);
      sm90::prefetch_map(&params.b);
      if (kScalesA == Scales::kRows) {
        sm90::prefetch_map(&params.scales_a);
      }
      if (kScalesB == Scales::kRows) {
        sm90::prefetch_map(&params.scales_b);
      }
      if (params.epilogue.n_boxes > 0) {
        sm90::prefetch_map(&params.d);
      }
    }
    if (lane < Stages) {
      // Whoever loads a stage waits for all warpgroups that read it, in the CTAs of its row and of its column.
      sm90::barrier_init(Layout::full(shared, lane), 1);
      sm90::barrier_init(Layout::empty(shared, lane),
                         (params.cluster.m + params.cluster.n - 1) * kConsumers * kTellers);
    }
    if (lane < TileQueue::kSlots) {
      TileQueue::start(shared + kQueueAt, lane, kConsumers * 4 + (kSplits && params.exchanges ? 3 : 0));
    }
    sm90::fence_barrier_init();
    __syncwarp();
  }

  // The part of k of a split, in k tiles.
  static __device__ __forceinline__ int k_tiles(Params const& params, int split) {
    return params.k_each + (split < params.k_more ? 1 : 0);
  }
  static __device__ __forceinline__ int first_k_tile(Params const& params, int split) {
    return split * params.k_each + min(split, params.k_more);
  }

  // The first column of D of this CTA's tile.
  static __device__ __forceinline__ int column_of(Params const& params, sm90::ClusterPlace const& place,
                                                  Tile const& tile) {
    return (tile.column * (kSwapped ? params.cluster.m : params.cluster.n) + (kSwapped ? place.m : place.n)) *
           kTileColumns;
  }

  static __device__ __forceinline__ void produce(Params const& params, uint32_t shared, sm90::ClusterPlace const& place,
                                                 bool loading_warp) {
    sm90::ClusterShape const& cluster = params.cluster;
    bool const exchanges = kSplits && params.exchanges;
    if (kPdl) {
      sm90::allow_next_kernel();
    }
    if (!loading_warp) {
      if (exchanges) {
        idle(shared);
      }
      return;
    }
    sm90::Load a(&params.a, params.policy_a, params.slices_a, place.n, place.sharers_of_a(cluster));
    sm90::Load b(&params.b, params.policy_b, params.slices_b, place.m, place.sharers_of_b(cluster));
    bool const by_k = params.groups.grouping == TILEWRIGHT_GROUPING_K_SIZES;
    int const first = first_k_tile(params, place.split);
    Producer producer{shared};
    bool const loads = sm90::elect_one();
    Work work(params.groups, sm90::cluster_index(), sm90::cluster_count(), kSwapped ? cluster.n : cluster.m,
              kSwapped ? place.n : place.m);
    TileQueue queue(shared + kQueueAt);
    Tile tile;
    while (work.next(tile)) {
      if (loads) {
        queue.push(tile);
        int const column = column_of(params, place, tile);
        int const of_a = params.one_a ? 0 : tile.matrix, of_b = params.one_b ? 0 : tile.group;
        int const a_row = kSwapped ? column : tile.row, b_row = kSwapped ? tile.row : column;
        int const a_matrix = kSwapped ? of_b : of_a, b_matrix = kSwapped ? of_a : of_b;
        int const tiles = by_k ? tile.end : k_tiles(params, place.split);
        RowScales const scales{params, shared, a_row, b_row, a_matrix, b_matrix, by_k ? tile.cleared : 0};
        if (by_k && tiles > 0) {
          a.map = params.parts + tile.group * 2, b.map = a.map + 1;
          sm90::acquire_map(a.map), sm90::acquire_map(b.map);
        }
        if (cluster.n > 1 && cluster.m > 1) {
          producer.template run<true, true>(a, b, first, tiles, a_row, b_row, a_matrix, b_matrix, scales);
        } else if (cluster.n > 1) {
          producer.template run<true, false>(a, b, first, tiles, a_row, b_row, a_matrix, b_matrix, scales);
        } else if (cluster.m > 1) {
          producer.template run<false, true>(a, b, first, tiles, a_row, b_row, a_matrix, b_matrix, scales);
        } else {
          producer.template run<false, false>(a, b, first, tiles, a_row, b_row, a_matrix, b_matrix, scales);
        }
      }
      __syncwarp();
      if (exchanges) {
        sm90::cluster_barrier();
        sm90::cluster_barrier();  // the stages' memory holds sums in between
      }
    }
    if (loads) {
      tile.flags = Tile::kEnd;
      queue.push(tile);
    }
    __syncwarp();
  }

  // The producer's other warps are there where all threads of a cluster meet.
  static __device__ __forceinline__ void idle(uint32_t shared) {
    TileQueue queue(shared + kQueueAt);
    Tile tile;
    for (; queue.wait(tile); queue.pop()) {
      sm90::cluster_barrier();
      sm90::cluster_barrier();
    }
  }

  // `kExchange`: parts of a split k meet in shared memory.
  template <bool kExchange>
  static __device__ __forceinline__ void consume(Params const& params, uint32_t shared, sm90::ClusterPlace const& place,
                                                 int warpgroup) {
    sm90::ClusterShape const& cluster = params.cluster;
    bool const by_k = params.groups.grouping == TILEWRIGHT_GROUPING_K_SIZES;
    int const first_row = kDown == 1 ? 0 : warpgroup * kRows * 64;
    int const first_column = kAcross == 1 ? 0 : warpgroup * kColumns;
    sm90::Release const release(Layout::empty(shared, 0), cluster.size(),
                                place.sharers_of_a(cluster) | place.sharers_of_b(cluster),
                                threadIdx.x % (128 / kTellers));
    Mainloop mainloop{shared, first_row, first_column, release};
    Store store(params.epilogue, &params.d, shared + Layout::kStoresAt, warpgroup);
    // Of the bits that say which 64 rows of a tile have work: this warpgroup's.
    int const part = kSwapped ? 0 : first_row / 64;
    uint32_t const own_parts = kSwapped ? ~0u : ((1u << kRows) - 1) << part;
    TileQueue queue(shared + kQueueAt);
    Tile tile;
    if constexpr (kScaled) {
      Mainloop::start_turns(warpgroup);
    }
    for (; queue.wait(tile); queue.pop()) {
      float sums[kRows][kColumns / 2];
      int const tiles = by_k ? tile.end : k_tiles(params, place.split);
      if constexpr (kScaled) {
        int const of_a = params.one_a ? 0 : tile.matrix, of_b = params.one_b ? 0 : tile.group;
        int const d_column = column_of(params, place, tile);
        typename Mainloop::Blocks const blocks(params.blocks_a, params.blocks_b, kSwapped ? of_b : of_a,
                                               kSwapped ? of_a : of_b, (kSwapped ? d_column : tile.row) + first_row,
                                               (kSwapped ? tile.row : d_column) + first_column);
        if ((tile.parts & own_parts) != 0 && tiles > 0) {
          mainloop.run(tiles, first_k_tile(params, place.split) * Boxes, blocks, tile.parts >> part, sums);
        } else {
          mainloop.skip(tiles, sums);
        }
      } else {
        mainloop.run(tiles, sums, [] {});
      }
      queue.read(tile);
      // In the kernel's own plane.
      int const d_column = column_of(params, place, tile);
      int const row = (kSwapped ? d_column : tile.row) + first_row;
      int const column = (kSwapped ? tile.row : d_column) + first_column;
      RowsOf const rows{tile, params.groups.layout, params.groups.groups};
      if constexpr (kExchange) {
        sm90::meet(kAllConsumers, kConsumers * 128);  // nobody reads the stages any more
        Exchange::lay_down(shared, sums);
        sm90::cluster_barrier();
#pragma unroll 1
        for (int piece = place.split; piece < kRows * Store::kPieces; piece += cluster.splits) {
          int const r = piece / Store::kPieces, i = piece % Store::kPieces;
          float values[Store::kQuads * 4];
          Exchange::template add<Store::kQuads>(shared, r, i * Store::kQuads, cluster, place, values);
          store.store_any(values, row + r * 64, column + i * Store::kColumns, tile.matrix, rows);
        }
        sm90::fence_async_proxy();  // TMA writes there next
        sm90::cluster_barrier();
      } else {
        store.store_rows(sums, row, column, tile.matrix, rows);
      }
    }
    store.drain();
  }
};

}  // namespace tilewright::grouped_gemm

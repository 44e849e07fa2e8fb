// The lean `gemm` kernel for sm_90a: TMA, mbarriers and wgmma in plain PTX, without CuTe, so that a unit compiles in
// about a second and the set of tiles can be fine.
//
// One producer warp loads stages of A and B; one or two consumer warpgroups multiply. Cooperative: both work on one
// tile, half of its rows each, or half of its columns where 64 rows do not divide into two. Ping-pong: they take turns
// with a tile each, so that one stores while the other multiplies. CTAs are persistent. Tiles are compiled in; clusters
// (which share loads by multicast, or a tile along k) and the order of tiles are run-time arguments.
#pragma once

#include <cstdint>
#include <type_traits>

#include "tilewright/sm90/cluster.hpp"
#include "tilewright/sm90/epilogue.hpp"
#include "tilewright/sm90/exchange.hpp"
#include "tilewright/sm90/mainloop.hpp"
#include "tilewright/sm90/pipeline.hpp"
#include "tilewright/sm90/producer.hpp"
#include "tilewright/sm90/scheduler.hpp"

namespace tilewright::gemm::lean {

using sm90::Activation;

enum class Schedule { kCooperative, kPingpong };

struct Params {
  CUtensorMap a, b, d;
  CUtensorMap c;  // where `boxes_c`
  sm90::EpilogueParams epilogue;
  sm90::ClusterShape cluster;
  sm90::Slices slices_a, slices_b;
  sm90::Raster raster;
  uint64_t policy_a, policy_b;
  int k_each, k_more;  // k tiles of a split, and how many of the first ones have one more
  bool exchanges;
  bool boxes_c;              // C, of D's type, comes as D goes: in boxes
  bool one_a, one_b, one_c;  // one matrix for every batch
};

// `A` and `B` are the kernel's own operands: the caller's B and A where they are swapped. `Boxes` of 128 bytes of k
// make a stage. An operand that does not have k contiguous is MN-major.
template <class A, class B, bool kMnA_, bool kMnB_, class ElementD_, int TileM_, int TileN_, int Boxes_, int Stages_,
          Schedule kSchedule, bool kSwapped_, class Sum, Activation kActivation, bool kPdl>
struct Kernel {
  using ElementA = A;
  using ElementB = B;
  using ElementD = ElementD_;
  static constexpr int TileM = TileM_, TileN = TileN_, Boxes = Boxes_, Stages = Stages_;
  static constexpr bool kMnA = kMnA_, kMnB = kMnB_;
  static constexpr bool kSwapped = kSwapped_;
  static constexpr int kTileBytesK = Boxes * 128;
  static constexpr bool kPingpong = kSchedule == Schedule::kPingpong;
  static constexpr int kConsumers = !kPingpong && TileM == 64 ? 1 : 2;
  static constexpr int kDown = !kPingpong && TileM % 128 == 0 ? 2 : 1;          // warpgroups that divide the rows
  static constexpr int kAcross = kPingpong ? 1 : kConsumers / kDown;            // and the columns
  static constexpr int kRows = TileM / 64 / kDown, kColumns = TileN / kAcross;  // of 64, and of 1: a warpgroup's
  static constexpr int kThreads = (kConsumers + 1) * 128;
  static_assert(A::kBytes == B::kBytes && TileM % 64 == 0 && kColumns % 8 == 0 && TileN == kColumns * kAcross);
  static_assert(!kMnB || kColumns % 64 == 0, "boxes of an MN-major operand have 64 rows");

  using Store = sm90::Epilogue<ElementD, kRows, kColumns, kSwapped, kActivation>;
  // Of sums that go through the stages' memory.
  using SharedStore = sm90::Epilogue<ElementD, kRows, kColumns, kSwapped, kActivation, 2,
                                     sm90::shared_piece_columns(kColumns, kSwapped, ElementD::kBytes == 1)>;
  static_assert(SharedStore::kBytes <= Store::kBytes);
  using Layout = sm90::Layout<TileM, TileN, Boxes, Stages, kConsumers * Store::kBytes>;
  using Exchange = sm90::Exchange<kRows, kColumns, kConsumers * 128>;
  using Mainloop = sm90::Mainloop<A, B, Sum, Layout, kRows, kColumns, Boxes, Stages, kMnA, kMnB>;
  using Producer = sm90::Producer<Layout, Boxes, Stages, kMnA ? TileM / 64 : 0, kMnB ? TileN / 64 : 0>;
  using Params = lean::Params;
  static constexpr int kBarriersOfC = kConsumers * Store::kBarriers;
  static constexpr int kSharedBytes = Layout::kBytes + kBarriersOfC * 8;
  // Whether sums can go through the stages' memory: to be added up along k, and where the epilogue is not the plain
  // one.
  static constexpr bool kExchanges = !kPingpong && Exchange::kBytes <= Layout::kStoresAt;
  static_assert(Store::kBoxes || kExchanges, "F32 is stored by way of the stages' memory");
  static_assert(Stages >= 2 && Stages <= 32 && kSharedBytes <= 227 * 1024,
                "the stages exceed the shared memory of sm_90");

  // Registers of a thread. 65536 / kThreads at launch; the producer gives up what it does not need.
  static constexpr int kProducerRegisters = 40, kConsumerRegisters = 232;

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
    if (warpgroup == kConsumers) {
      if constexpr (kConsumers > 1) {
        sm90::keep_registers<kProducerRegisters>();
      }
      produce(params, shared, place, warp == kConsumers * 4);
    } else {
      if constexpr (kConsumers > 1) {
        sm90::take_registers<kConsumerRegisters>();
      }
      if constexpr (!Store::kBoxes) {
        consume<true>(params, shared, place, warpgroup);
      } else if (kExchanges && params.exchanges) {
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
  // The CTA's barriers. 1 to 3 are the epilogues'.
  static constexpr int kAllConsumers = 4, kTurn = 5;  // and 6, of the second warpgroup

  // One warp's work, before the others go on.
  static __device__ __forceinline__ void start(Params const& params, uint32_t shared) {
    int const lane = threadIdx.x;
    if (lane == 0) {
      sm90::prefetch_map(&params.a);
      sm90::prefetch_map(&params.b);
      if (params.epilogue.n_boxes > 0) {
        sm90::prefetch_map(&params.d);
      }
    }
    if (lane < Stages) {
      // Whoever loads a stage waits for all warpgroups that read it, in the CTAs of its row and of its column.
      sm90::barrier_init(Layout::full(shared, lane), 1);
      sm90::barrier_init(Layout::empty(shared, lane),
                         (params.cluster.m + params.cluster.n - 1) * (kPingpong ? 1 : kConsumers));
    }
    if (lane < kBarriersOfC) {
      sm90::barrier_init(shared + Layout::kBytes + lane * 8, 1);
    }
    sm90::fence_barrier_init();
    __syncwarp();
  }

  // The part of k of a split, in k tiles.
  static __device__ __forceinline__ int k_tiles(Params const& params, int split) {
    return params.k_each + (split < params.k_more ? 1 : 0);
  }

  static __device__ __forceinline__ void produce(Params const& params, uint32_t shared, sm90::ClusterPlace const& place,
                                                 bool loading_warp) {
    sm90::ClusterShape const& cluster = params.cluster;
    sm90::Load const a(&params.a, params.policy_a, params.slices_a, place.n, place.sharers_of_a(cluster));
    sm90::Load const b(&params.b, params.policy_b, params.slices_b, place.m, place.sharers_of_b(cluster));
    int const first = place.split * params.k_each + min(place.split, params.k_more);
    int const tiles = k_tiles(params, place.split);
    Producer producer{shared};
    if constexpr (kPdl) {
      sm90::wait_for_previous_kernel();
      sm90::allow_next_kernel();
    }
    bool const loads = loading_warp && sm90::elect_one();
    for (int index = sm90::cluster_index(); index < params.raster.blocks; index += sm90::cluster_count()) {
      if (loads) {
        sm90::Block const block(params.raster, index);
        int const a_row = (block.row * cluster.m + place.m) * TileM;
        int const b_row = (block.column * cluster.n + place.n) * TileN;
        int const a_matrix = params.one_a ? 0 : block.matrix, b_matrix = params.one_b ? 0 : block.matrix;
        if (cluster.n > 1 && cluster.m > 1) {
          producer.template run<true, true>(a, b, first, tiles, a_row, b_row, a_matrix, b_matrix);
        } else if (cluster.n > 1) {
          producer.template run<true, false>(a, b, first, tiles, a_row, b_row, a_matrix, b_matrix);
        } else if (cluster.m > 1) {
          producer.template run<false, true>(a, b, first, tiles, a_row, b_row, a_matrix, b_matrix);
        } else {
          producer.template run<false, false>(a, b, first, tiles, a_row, b_row, a_matrix, b_matrix);
        }
      }
      if (kExchanges && params.exchanges) {
        __syncwarp();
        sm90::cluster_barrier();
        sm90::cluster_barrier();  // the stages' memory holds sums in between
      }
    }
  }

  // `kExchange`: sums go through shared memory. Two loops, because ptxas would serialise the wgmmas of one that has
  // both ways out (C7511).
  template <bool kExchange>
  static __device__ __forceinline__ void consume(Params const& params, uint32_t shared, sm90::ClusterPlace const& place,
                                                 int warpgroup) {
    sm90::ClusterShape const& cluster = params.cluster;
    int const tiles = k_tiles(params, place.split);
    int const first_row = kDown == 1 ? 0 : warpgroup * kRows * 64;
    int const first_column = kAcross == 1 ? 0 : warpgroup * kColumns;
    sm90::Release const release(Layout::empty(shared, 0), cluster.size(),
                                place.sharers_of_a(cluster) | place.sharers_of_b(cluster), threadIdx.x % 128);
    Mainloop mainloop{shared, first_row, first_column, release};
    if constexpr (kPdl) {
      sm90::wait_for_previous_kernel();  // what it wrote: scales, bias, C; what it reads: D
    }
    using Way = std::conditional_t<kExchange, SharedStore, Store>;
    Way store(params.epilogue, &params.d, shared + Layout::kStoresAt, warpgroup,
              {&params.c, shared + Layout::kBytes, !kExchange && params.boxes_c, params.one_c});
    int turn = 0;
    if (kPingpong && warpgroup == 1) {
      sm90::let_go(kTurn, 256);  // the first tile is the other's
    }
    for (int index = sm90::cluster_index(); index < params.raster.blocks; index += sm90::cluster_count()) {
      if (kPingpong && turn++ % 2 != warpgroup) {
        mainloop.at.skip(tiles);
        continue;
      }
      if (params.epilogue.c != nullptr) {
        int apart = index;
        asm volatile("" : "+r"(apart));  // not to keep the block's place in registers until it is stored
        sm90::Block const block(params.raster, apart);
        int const row = (block.row * cluster.m + place.m) * TileM + first_row;
        int const column = (block.column * cluster.n + place.n) * TileN + first_column;
        if constexpr (kExchange) {
          store.prefetch_c(row, column, block.matrix);
        } else if constexpr (Store::kBarriers > 0) {
          store.ask_for_c(row, column, block.matrix);
        }
      }
      float sums[kRows][kColumns / 2];
      if constexpr (kPingpong) {
        // Not before the other has seen all of its stages arrive: barriers tell a phase from the next one only.
        sm90::meet(kTurn + warpgroup, 256);
        mainloop.run(tiles, sums, [warpgroup] { sm90::let_go(kTurn + 1 - warpgroup, 256); });
      } else {
        mainloop.run(tiles, sums, [] {});
      }
      sm90::Block const block(params.raster, index);
      int const row = (block.row * cluster.m + place.m) * TileM + first_row;
      int const column = (block.column * cluster.n + place.n) * TileN + first_column;
      if constexpr (kExchange) {
        sm90::meet(kAllConsumers, kConsumers * 128);  // nobody reads the stages any more
        Exchange::lay_down(shared, sums);
        sm90::cluster_barrier();
#pragma unroll 1
        for (int piece = place.split; piece < kRows * Way::kPieces; piece += cluster.splits) {
          int const r = piece / Way::kPieces, i = piece % Way::kPieces;
          int const piece_row = row + r * 64, piece_column = column + i * Way::kColumns;
          typename Way::Addends c;
          store.fetch_c(c, piece_row, piece_column, block.matrix);
          float values[Way::kQuads * 4];
          Exchange::template add<Way::kQuads>(shared, r, i * Way::kQuads, cluster, place, values);
          store.store_any(values, c, piece_row, piece_column, block.matrix);
        }
        sm90::fence_async_proxy();  // TMA writes there next
        sm90::cluster_barrier();
      } else {
        store.store(sums, row, column, block.matrix);
      }
    }
    store.drain();
  }
};

}  // namespace tilewright::gemm::lean

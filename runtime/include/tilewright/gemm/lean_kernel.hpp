// The lean `gemm` kernel for sm_90a: TMA, mbarriers and wgmma in plain PTX, without CuTe, so that a unit compiles in
// about a second and the set of tiles can be fine. Units are compiled as C++14 with `if constexpr`, so that nvcc's own
// headers are short (compile/commands.py).
//
// What sm90/product.hpp says; cooperative, where both warpgroups work on one tile, or ping-pong, where they take turns
// with a tile each, so that one stores while the other multiplies. Tiles are compiled in; clusters and the order of
// tiles are run-time arguments.
#pragma once

#include <cstdint>
#include <type_traits>

#include "tilewright/gemm/lean_params.hpp"
#include "tilewright/sm90/cluster.hpp"
#include "tilewright/sm90/epilogue.hpp"
#include "tilewright/sm90/exchange.hpp"
#include "tilewright/sm90/mainloop.hpp"
#include "tilewright/sm90/parts.hpp"
#include "tilewright/sm90/pipeline.hpp"
#include "tilewright/sm90/producer.hpp"
#include "tilewright/sm90/product.hpp"
#include "tilewright/sm90/scheduler.hpp"

namespace tilewright::gemm::lean {

using sm90::Activation;

enum class Schedule { kCooperative, kPingpong };

// `A` and `B` are the kernel's own operands: the caller's B and A where they are swapped. `Boxes` of 128 bytes of k
// make a stage. An operand that does not have k contiguous is MN-major.
template <class A, class B, bool kMnA_, bool kMnB_, class ElementD_, int TileM_, int TileN_, int Boxes_, int Stages_,
          Schedule kSchedule, bool kSwapped_, class Sum, Activation kActivation_, bool kPdl_>
struct Kernel {
  using ElementA = A;
  using ElementB = B;
  using ElementD = ElementD_;
  static constexpr int TileM = TileM_, TileN = TileN_, Boxes = Boxes_, Stages = Stages_;
  static constexpr bool kMnA = kMnA_, kMnB = kMnB_;
  static constexpr bool kSwapped = kSwapped_;
  static constexpr Activation kActivation = kActivation_;
  static constexpr int kTileBytesK = Boxes * 128;
  static constexpr bool kPingpong = kSchedule == Schedule::kPingpong;
  using Warpgroups = std::conditional_t<kPingpong, sm90::Pingpong<TileM, TileN>, sm90::Cooperative<TileM, TileN>>;
  static constexpr int kConsumers = Warpgroups::kConsumers, kDown = Warpgroups::kDown, kAcross = Warpgroups::kAcross;
  static constexpr int kRows = Warpgroups::kRows, kColumns = Warpgroups::kColumns, kThreads = Warpgroups::kThreads;
  static constexpr bool kPdl = kPdl_;
  static_assert(A::kBytes == B::kBytes);
  static_assert(!kMnB || kColumns % 64 == 0, "boxes of an MN-major operand have 64 rows");

  using Store = sm90::Epilogue<ElementD, kRows, kColumns, kSwapped, kActivation>;
  // Of sums that go through the stages' memory.
  using SharedStore = sm90::Epilogue<ElementD, kRows, kColumns, kSwapped, kActivation, 2,
                                     sm90::shared_piece_columns(kColumns, kSwapped, ElementD::kBytes == 1)>;
  static_assert(SharedStore::kBytes <= Store::kBytes);
  using Layout = sm90::Layout<TileM, TileN, Boxes, Stages, kConsumers * Store::kBytes>;
  using Exchange = sm90::Exchange<kRows, kColumns, kConsumers * 128>;
  using TileSums = sm90::TileSums<Warpgroups>;
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
    sm90::run_product<Kernel>(params, memory);
  }

  static __device__ __forceinline__ void start(Params const& params, uint32_t shared) {
    sm90::start_stages<Layout, Stages>(params.cluster, shared, 1, kPingpong ? 1 : kConsumers);
#pragma unroll
    for (int i = 0; i < kBarriersOfC; ++i) {
      sm90::barrier_init(shared + Layout::kBytes + i * 8, 1);
    }
  }

  static __device__ __forceinline__ void ask_for_maps(Params const& params) {
    sm90::prefetch_map(&params.a);
    sm90::prefetch_map(&params.b);
    if (params.epilogue.n_boxes > 0) {
      sm90::prefetch_map(&params.d);
    }
  }

  static __device__ __forceinline__ void produce(Params const& params, uint32_t shared, sm90::ClusterPlace const& place,
                                                 bool loading_warp) {
    sm90::ClusterShape const& cluster = params.cluster;
    sm90::OperandLoads const loads(params, place);
    Producer producer{shared, {}, params.stage_bytes};
    int index = sm90::cluster_index();
    sm90::Extract extract = extract_of(params, place, index);
    sm90::enter<kPdl>(cluster);
    while (index < params.raster.blocks) {
      if (loading_warp) {
        producer.run(cluster, loads, extract);
      }
      if (kExchanges && params.exchanges && params.parts.count == 1) {
        __syncwarp();
        sm90::cluster_barrier();  // all sums lie in the stages' memory
        if (stages_wait(params, index)) {
          sm90::cluster_barrier();  // nobody reads them any more
        }
      }
      index += sm90::cluster_count();
      extract = extract_of(params, place, index);
    }
    if (loading_warp && cluster.size() > 1) {
      producer.drain();
    }
  }

  static __device__ __forceinline__ void multiply(Params const& params, uint32_t shared,
                                                  sm90::ClusterPlace const& place, int warpgroup) {
    if constexpr (!Store::kBoxes) {
      consume<true>(params, shared, place, warpgroup);
    } else if (params.exchanges) {
      consume<true>(params, shared, place, warpgroup);
    } else {
      consume<false>(params, shared, place, warpgroup);
    }
  }

 private:
  // What a CTA loads of a block.
  static __device__ __forceinline__ sm90::Extract extract_of(Params const& params, sm90::ClusterPlace const& place,
                                                             int index) {
    sm90::Block const block(params.raster, index);
    bool const cut = params.exchanges;  // else k is not
    int const part = cut ? params.parts.of(index) : 0;
    int const matrix = cut ? block.matrix - part * params.parts.matrices : block.matrix;
    int const number = cut ? part_number(params, part, place) : 0;
    return {params.first_k_tile(number),
            params.k_tiles(number),
            (block.row * params.cluster.m + place.m) * TileM,
            (block.column * params.cluster.n + place.n) * TileN,
            params.one_a ? 0 : matrix,
            params.one_b ? 0 : matrix};
  }

  // The CTA's barriers. 1 to 3 are the epilogues'.
  static constexpr int kAllConsumers = 4, kTurn = 5;  // and 6, of the second warpgroup

  // Whether the cluster has another block, whose loads wait until sums have left the stages' memory.
  static __device__ __forceinline__ bool stages_wait(Params const& params, int index) {
    return index + sm90::cluster_count() < params.raster.blocks;
  }

  // Of the parts of k that meet in memory, or of those that a cluster has.
  static __device__ __forceinline__ int part_number(Params const& params, int part, sm90::ClusterPlace const& place) {
    return params.parts.count > 1 ? part : place.split;
  }

  // `kExchange`: sums go through shared memory, or to the parts' place. Two loops, because ptxas would serialise the
  // wgmmas of one that has both ways out (C7511).
  template <bool kExchange>
  static __device__ __forceinline__ void consume(Params const& params, uint32_t shared, sm90::ClusterPlace const& place,
                                                 int warpgroup) {
    sm90::ClusterShape const& cluster = params.cluster;
    int const first_row = kDown == 1 ? 0 : warpgroup * kRows * 64;
    int const first_column = kAcross == 1 ? 0 : warpgroup * kColumns;
    sm90::Release const release(Layout::empty(shared, 0), cluster.size(), place.sharers(cluster), threadIdx.x % 128);
    Mainloop mainloop{shared, first_row, first_column, release};
    sm90::enter<kPdl>(cluster);
    using Way = std::conditional_t<kExchange, SharedStore, Store>;
    Way store(params.epilogue, &params.d, shared + Layout::kStoresAt, warpgroup,
              {&params.c, shared + Layout::kBytes, !kExchange && params.boxes_c, params.one_c});
    int turn = 0;
    if (kPingpong && warpgroup == 1) {
      sm90::let_go(kTurn, 256);  // the first tile is the other's
    }
    for (int index = sm90::cluster_index(); index < params.raster.blocks; index += sm90::cluster_count()) {
      int const tiles = kExchange ? params.k_tiles(part_number(params, params.parts.of(index), place)) : params.k_each;
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
        if (params.parts.count > 1) {
          TileSums::leave(params.parts.tile(block.row * cluster.m + place.m, block.column * cluster.n + place.n,
                                            block.matrix, TileSums::kCount),
                          threadIdx.x % TileSums::kThreads, sums);
          continue;
        }
      }
      if constexpr (kExchange && kExchanges) {
        sm90::meet(kAllConsumers, kConsumers * 128);  // nobody reads the stages any more
        Exchange::lay_down(shared, sums);
        sm90::cluster_barrier();
        constexpr int kPieces = kRows * Way::kPieces;
        constexpr int kTogether = Exchange::together(Way::kQuads);
#pragma unroll 1
        for (int first = place.split; first < kPieces; first += kTogether * cluster.splits) {
          float values[kTogether][Way::kQuads * 4];
          Exchange::template add<kTogether, Way::kQuads>(shared, first, cluster.splits, cluster, place, values);
#pragma unroll
          for (int i = 0; i < kTogether; ++i) {
            int const piece = first + i * cluster.splits;
            if (piece < kPieces) {
              int const piece_row = row + piece / Way::kPieces * 64;
              int const piece_column = column + piece % Way::kPieces * Way::kColumns;
              typename Way::Addends c;
              c.fetch(params.epilogue, piece_row, piece_column, block.matrix);
              store.store_any(values[i], c, piece_row, piece_column, block.matrix);
            }
          }
        }
        if (stages_wait(params, index)) {
          sm90::fence_async_proxy();  // TMA writes there next
          sm90::cluster_barrier();
        }
      } else if constexpr (!kExchange) {
        store.store(sums, row, column, block.matrix);
      }
    }
    store.drain();
  }
};

}  // namespace tilewright::gemm::lean

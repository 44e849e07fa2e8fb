// The lean `gemm` kernel for sm_90a: TMA, mbarriers and wgmma in plain PTX, without CuTe, so that a unit compiles in a
// few seconds and specs can list many tiles. Units are compiled as C++14 with `if constexpr`, so that nvcc's own
// headers are short.
//
// A CTA runs the phases of sm90/product.hpp. The tile is compiled in. The cluster, the order of tiles and the number of
// k ranges are run-time arguments. There are two schedules:
//
// | schedule | the two consumer warpgroups |
// |---|---|
// | cooperative | compute one tile together |
// | ping-pong | compute a tile each, in alternation, so that one stores while the other multiplies |
//
// What becomes of a tile's sums is a run-time argument, too:
//
// | sums go | where | function of the epilogue |
// |---|---|---|
// | from registers to D | TMA stores all of D, and C needs no threads | `store` |
// | through the stages' memory | a cluster splits k; any C, bias or alignment | `store_any` |
// | to the workspace | k has more ranges than a cluster has CTAs (sm90/parts.hpp) | a second kernel's |
#pragma once

#include <cstdint>
#include <type_traits>

#include "tilewright/gemm/lean_params.hpp"
#include "tilewright/sm90/cluster.hpp"
#include "tilewright/sm90/epilogue.hpp"
#include "tilewright/sm90/cluster_reduction.hpp"
#include "tilewright/sm90/mainloop.hpp"
#include "tilewright/sm90/parts.hpp"
#include "tilewright/sm90/pipeline.hpp"
#include "tilewright/sm90/producer.hpp"
#include "tilewright/sm90/product.hpp"
#include "tilewright/sm90/scheduler.hpp"

namespace tilewright::gemm::lean {

using sm90::Activation;

enum class Schedule { kCooperative, kPingpong };

// `A` and `B` are the kernel's own operands: the caller's B and A where operands are swapped, and D is transposed. A
// stage holds `Boxes_` boxes of each operand, each of 128 bytes of k. `kMnA_`, `kMnB_`: the operand is MN-major, that
// is, m or n is contiguous instead of k.
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
  // Boxes of an MN-major operand have 64 rows, so a tile may load more rows of B than it needs.
  static constexpr int kLoadedN = kMnB ? (TileN + 63) / 64 * 64 : TileN;
  static_assert(!kMnB || kAcross == 1 || kColumns % 64 == 0, "a warpgroup's columns begin with a box");

  using Store = sm90::Epilogue<ElementD, kRows, kColumns, kSwapped, kActivation>;
  // The store policy for sums that go through the stages' memory.
  using SharedStore = sm90::Epilogue<ElementD, kRows, kColumns, kSwapped, kActivation, 2,
                                     sm90::shared_subtile_columns(kColumns, kSwapped, ElementD::kBytes == 1)>;
  static_assert(SharedStore::kBytes <= Store::kBytes);
  using Layout = sm90::Layout<TileM, kLoadedN, Boxes, Stages, kConsumers * Store::kBytes>;
  using ClusterReduction = sm90::ClusterReduction<kRows, kColumns, kConsumers * 128>;
  using TileSums = sm90::TileSums<Warpgroups>;
  using Mainloop = sm90::Mainloop<A, B, Sum, Layout, kRows, kColumns, Boxes, Stages, kMnA, kMnB>;
  using Producer = sm90::Producer<Layout, Boxes, Stages, kMnA ? TileM / 64 : 0, kMnB ? kLoadedN / 64 : 0>;
  using Params = lean::Params;
  static constexpr int kBarriersOfC = kConsumers * Store::kBarriers;
  static constexpr int kSharedBytes = Layout::kBytes + kBarriersOfC * 8;
  // Whether the stages' memory has room for the sums: for the split-k reduction, and for the epilogues that `Store`
  // does not have.
  static constexpr bool kEpilogueThroughSmem = !kPingpong && ClusterReduction::kBytes <= Layout::kStoresAt;
  static_assert(Store::kBoxes || kEpilogueThroughSmem, "F32 is stored by way of the stages' memory");
  static_assert(Stages >= 2 && Stages <= 32 && kSharedBytes <= 227 * 1024,
                "the stages exceed the shared memory of sm_90");

  // Registers of a thread after setmaxnreg. At launch, a thread has 65536 / kThreads; the producer's give up what they
  // do not need.
  static constexpr int kProducerRegisters = 40, kConsumerRegisters = 232;

  __device__ __forceinline__ void operator()(Params const& params, char* memory) const {
    sm90::run_product<Kernel>(params, memory);
  }

  // Prologue, one thread: initialises the mbarriers of the stages and of C's boxes.
  static __device__ __forceinline__ void init_barriers(Params const& params, uint32_t shared) {
    sm90::start_stages<Layout, Stages>(params.cluster, shared, 1, kPingpong ? 1 : kConsumers);
#pragma unroll
    for (int i = 0; i < kBarriersOfC; ++i) {
      sm90::barrier_init(shared + Layout::kBytes + i * 8, 1);
    }
  }

  // Prologue, another thread.
  static __device__ __forceinline__ void prefetch_maps(Params const& params) {
    sm90::prefetch_map(&params.a);
    sm90::prefetch_map(&params.b);
    if (params.epilogue.n_boxes > 0) {
      sm90::prefetch_map(&params.d);
    }
  }

  // Load: the producer's warps. One loads; the others only take part in the cluster's barriers.
  static __device__ __forceinline__ void load(Params const& params, uint32_t shared, sm90::ClusterPlace const& place,
                                              bool loading_warp) {
    sm90::ClusterShape const& cluster = params.cluster;
    sm90::OperandLoads const loads(params, place);
    Producer producer{shared, {}, params.stage_bytes};
    int index = sm90::cluster_index();
    sm90::TileKRange k_range = k_range_of(params, place, index);
    sm90::enter<kPdl>(cluster);
    while (index < params.raster.blocks) {
      if (loading_warp) {
        producer.run(cluster, loads, k_range);
      }
      if (kEpilogueThroughSmem && params.epilogue_through_smem && params.parts.count == 1) {
        __syncwarp();
        sm90::cluster_barrier();  // all CTAs have stored their sums to the stages' memory
        if (another_block(params, index)) {
          sm90::cluster_barrier();  // all CTAs have read them
        }
      }
      index += sm90::cluster_count();
      k_range = k_range_of(params, place, index);
    }
    if (loading_warp && cluster.size() > 1) {
      producer.drain();
    }
  }

  // Multiply: a consumer warpgroup.
  static __device__ __forceinline__ void multiply(Params const& params, uint32_t shared,
                                                  sm90::ClusterPlace const& place, int warpgroup) {
    if constexpr (!Store::kBoxes) {
      consume<true>(params, shared, place, warpgroup);
    } else if (params.epilogue_through_smem) {
      consume<true>(params, shared, place, warpgroup);
    } else {
      consume<false>(params, shared, place, warpgroup);
    }
  }

 private:
  // What this CTA loads for block number `index`.
  static __device__ __forceinline__ sm90::TileKRange k_range_of(Params const& params, sm90::ClusterPlace const& place,
                                                                int index) {
    sm90::Block const block(params.raster, index);
    bool const k_is_split = params.epilogue_through_smem;  // false: certainly not split
    int const part = k_is_split ? params.parts.of(index) : 0;
    int const matrix = k_is_split ? block.matrix - part * params.parts.matrices : block.matrix;
    int const split = k_is_split ? split_of(params, part, place) : 0;
    return {params.first_k_tile(split),
            params.k_tiles(split),
            (block.row * params.cluster.m + place.m) * TileM,
            (block.column * params.cluster.n + place.n) * TileN,
            params.broadcast_a ? 0 : matrix,
            params.broadcast_b ? 0 : matrix};
  }

  // Named barriers of the CTA; 1 to 3 are the epilogues'. kOrderBarrier + i: warpgroup i may multiply (ping-pong).
  static constexpr int kAllConsumers = 4, kOrderBarrier = 5;

  // Whether the cluster computes another block, whose loads overwrite the sums in the stages' memory.
  static __device__ __forceinline__ bool another_block(Params const& params, int index) {
    return index + sm90::cluster_count() < params.raster.blocks;
  }

  // The k range that this CTA computes: part `part` in the workspace, or its split in the cluster.
  static __device__ __forceinline__ int split_of(Params const& params, int part, sm90::ClusterPlace const& place) {
    return params.parts.count > 1 ? part : place.split;
  }

  // A consumer warpgroup's loop over tiles. `kThroughSmem`: sums go through the stages' memory, or to the workspace.
  // Each value has a loop of its own, because ptxas would serialise the wgmmas of a loop with both epilogues (C7511).
  template <bool kThroughSmem>
  static __device__ __forceinline__ void consume(Params const& params, uint32_t shared, sm90::ClusterPlace const& place,
                                                 int warpgroup) {
    sm90::ClusterShape const& cluster = params.cluster;
    int const first_row = kDown == 1 ? 0 : warpgroup * kRows * 64;
    int const first_column = kAcross == 1 ? 0 : warpgroup * kColumns;
    sm90::Release const release(Layout::empty(shared, 0), cluster.size(), place.sharers(cluster), threadIdx.x % 128);
    Mainloop mainloop{shared, first_row, first_column, release};
    sm90::enter<kPdl>(cluster);
    using StorePolicy = std::conditional_t<kThroughSmem, SharedStore, Store>;
    StorePolicy store(params.epilogue, &params.d, shared + Layout::kStoresAt, warpgroup,
                      {&params.c, shared + Layout::kBytes, !kThroughSmem && params.c_by_tma, params.broadcast_c});
    int tile = 0;
    if (kPingpong && warpgroup == 1) {
      sm90::named_barrier_arrive(kOrderBarrier, 256);  // warpgroup 0 begins
    }
    for (int index = sm90::cluster_index(); index < params.raster.blocks; index += sm90::cluster_count()) {
      int const k_tiles =
          kThroughSmem ? params.k_tiles(split_of(params, params.parts.of(index), place)) : params.k_tiles_per_split;
      if (kPingpong && tile++ % 2 != warpgroup) {
        mainloop.at.skip(k_tiles);
        continue;
      }
      if (params.epilogue.c != nullptr) {
        int copy = index;
        asm volatile("" : "+r"(copy));  // hides that it is `index`: else registers would keep the block until the store
        sm90::Block const block(params.raster, copy);
        int const row = (block.row * cluster.m + place.m) * TileM + first_row;
        int const column = (block.column * cluster.n + place.n) * TileN + first_column;
        if constexpr (kThroughSmem) {
          store.prefetch_c(row, column, block.matrix);
        } else if constexpr (Store::kBarriers > 0) {
          store.load_first_c(row, column, block.matrix);
        }
      }
      float sums[kRows][kColumns / 2];
      if constexpr (kPingpong) {
        // Begins when the other warpgroup has seen all of its stages arrive: a wait for a phase of an mbarrier can tell
        // it from the next phase, but not from the phase after that.
        sm90::named_barrier_sync(kOrderBarrier + warpgroup, 256);
        mainloop.run(k_tiles, sums, [warpgroup] { sm90::named_barrier_arrive(kOrderBarrier + 1 - warpgroup, 256); });
      } else {
        mainloop.run(k_tiles, sums, [] {});
      }
      sm90::Block const block(params.raster, index);
      int const row = (block.row * cluster.m + place.m) * TileM + first_row;
      int const column = (block.column * cluster.n + place.n) * TileN + first_column;
      if constexpr (kThroughSmem) {
        if (params.parts.count > 1) {
          TileSums::store(params.parts.tile(block.row * cluster.m + place.m, block.column * cluster.n + place.n,
                                            block.matrix, TileSums::kCount),
                          threadIdx.x % TileSums::kThreads, sums);
          continue;
        }
      }
      if constexpr (kThroughSmem && kEpilogueThroughSmem) {
        sm90::named_barrier_sync(kAllConsumers, kConsumers * 128);  // all products are done: the stages are free
        ClusterReduction::store_sums(shared, sums);
        sm90::cluster_barrier();
        constexpr int kSubtiles = kRows * StorePolicy::kSubtiles;
        constexpr int kTogether = ClusterReduction::together(StorePolicy::kColumnGroups);
#pragma unroll 1
        for (int first = place.split; first < kSubtiles; first += kTogether * cluster.splits) {
          float values[kTogether][StorePolicy::kColumnGroups * 4];
          ClusterReduction::template reduce<kTogether, StorePolicy::kColumnGroups>(shared, first, cluster.splits,
                                                                                   cluster, place, values);
#pragma unroll
          for (int i = 0; i < kTogether; ++i) {
            int const subtile = first + i * cluster.splits;
            if (subtile < kSubtiles) {
              int const subtile_row = row + subtile / StorePolicy::kSubtiles * 64;
              int const subtile_column = column + subtile % StorePolicy::kSubtiles * StorePolicy::kColumns;
              typename StorePolicy::Addends c;
              c.load_all(params.epilogue, subtile_row, subtile_column, block.matrix);
              store.store_any(values[i], c, subtile_row, subtile_column, block.matrix);
            }
          }
        }
        if (another_block(params, index)) {
          sm90::fence_async_proxy();  // TMA writes the stages next
          sm90::cluster_barrier();
        }
      } else if constexpr (!kThroughSmem) {
        store.store(sums, row, column, block.matrix);
      }
    }
    store.drain();  // finish
  }
};

}  // namespace tilewright::gemm::lean

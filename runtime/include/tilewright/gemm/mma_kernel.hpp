// The `gemm` kernel of mma.sync: TMA, mbarriers, ldmatrix and mma.sync in plain PTX, for GPUs without wgmma and tcgen05
// (sm_120f). It runs on sm_90a, too, where it serves to try the code.
//
// It is the lean kernel (lean_kernel.hpp) without clusters, with the same parameters and host code, and with a main
// loop whose sums are ordinary registers: every epilogue stores them from there, without the stages' memory. k is split
// through the workspace alone.
#pragma once

#include <cstdint>
#include <type_traits>

#include "tilewright/gemm/lean_params.hpp"
#include "tilewright/sm120/mainloop.hpp"
#include "tilewright/sm120/warpgroups.hpp"
#include "tilewright/sm90/epilogue.hpp"
#include "tilewright/sm90/parts.hpp"
#include "tilewright/sm90/pipeline.hpp"
#include "tilewright/sm90/producer.hpp"
#include "tilewright/sm90/product.hpp"
#include "tilewright/sm90/scheduler.hpp"

namespace tilewright::gemm::mma {

using lean::Params;
using sm90::Activation;

enum class Schedule { kCooperative, kPingpong };

constexpr int kSharedBytesOfBlock = 99 * 1024;  // of sm_120, for one thread block

// What the stages of a kernel hold, and how they are loaded and multiplied: operands in boxes of 128 bytes of k. `A`
// and `B` are the kernel's own operands: the caller's B and A where they are swapped. `kMnA_`, `kMnB_`: the operand is
// MN-major, that is, m or n is contiguous instead of k.
template <class A, class B, bool kMnA_, bool kMnB_, int Boxes, class Sum>
struct FloatStage {
  using ElementA = A;
  using ElementB = B;
  using Params = lean::Params;
  static constexpr bool kMnA = kMnA_, kMnB = kMnB_;
  static constexpr int kTileBytesK = Boxes * 128;
  static_assert(A::kBytes == B::kBytes);

  template <int TileM, int TileN, int Stages, int StoreBytes>
  using Layout = sm90::Layout<TileM, TileN, Boxes, Stages, StoreBytes>;
  template <class Layout, int TileM, int TileN, int Rows, int N, int Stages>
  using Mainloop = sm120::Mainloop<A, B, Sum, Layout, Rows, N, Boxes, Stages, kMnA, kMnB>;

  // Loads k ranges of tiles. Made and called by a whole warp.
  template <class Layout, int TileM, int TileN, int Stages>
  struct Producer {
    sm90::OperandLoads loads;
    sm90::Producer<Layout, Boxes, Stages, kMnA ? TileM / 64 : 0, kMnB ? TileN / 64 : 0> producer;

    __device__ __forceinline__ Producer(Params const& params, uint32_t shared, sm90::ClusterPlace const& place)
        : loads(params, place), producer{shared, {}, params.stage_bytes} {}

    __device__ __forceinline__ void run(sm90::TileKRange const& range) {
      producer.template run<false, false>(loads.a, loads.b, range);
    }
  };

  // Prefetches the tensor maps of what stages load.
  static __device__ __forceinline__ void prefetch_operands(Params const& params) {
    sm90::prefetch_map(&params.a);
    sm90::prefetch_map(&params.b);
  }

  // Multiplies `k_tiles` stages of a tile. Calls `issued` when all of them have arrived. The integers that follow are
  // the tile's first row and column, on which scale factors may depend.
  template <class Mainloop, class Sums, class Issued>
  static __device__ __forceinline__ void multiply_tile(Mainloop& mainloop, int k_tiles, int, int, Sums& sums,
                                                       Issued const& issued) {
    mainloop.run(k_tiles, sums, issued);
  }
};

// A kernel whose stages are those of `Stage`, as FloatStage.
template <class Stage, class ElementD_, int TileM_, int TileN_, int Stages, Schedule kSchedule, bool kSwapped_,
          Activation kActivation_, int kStoreBuffers, bool kPdl_>
struct StagedKernel : Stage {
  using typename Stage::Params;
  using ElementD = ElementD_;
  static constexpr int TileM = TileM_, TileN = TileN_;
  static constexpr bool kSwapped = kSwapped_;
  static constexpr Activation kActivation = kActivation_;
  static constexpr bool kPingpong = kSchedule == Schedule::kPingpong;
  using Warpgroups =
      std::conditional_t<kPingpong, sm90::Pingpong<TileM, TileN>, sm120::Cooperative<TileM, TileN, Stage::kMnB>>;
  static constexpr int kConsumers = Warpgroups::kConsumers, kDown = Warpgroups::kDown, kAcross = Warpgroups::kAcross;
  static constexpr int kRows = Warpgroups::kRows, kColumns = Warpgroups::kColumns, kThreads = Warpgroups::kThreads;
  static constexpr bool kPdl = kPdl_;

  using Store = sm90::Epilogue<ElementD, kRows, kColumns, kSwapped, kActivation, kStoreBuffers>;
  // For the host's Facts (lean_calls.hpp): the kernel takes every epilogue, because sums always stay in registers.
  using SharedStore = Store;
  static constexpr bool kEpilogueThroughSmem = true;
  using Layout = typename Stage::template Layout<TileM, TileN, Stages, kConsumers * Store::kBytes>;
  using TileSums = sm90::TileSums<Warpgroups>;
  using Mainloop = typename Stage::template Mainloop<Layout, TileM, TileN, kRows, kColumns, Stages>;
  using Producer = typename Stage::template Producer<Layout, TileM, TileN, Stages>;
  static constexpr int kBarriersOfC = kConsumers * Store::kBarriers;
  static constexpr int kSharedBytes = Layout::kBytes + kBarriersOfC * 8;
  static_assert(Stages >= 2 && Stages <= 32 && kSharedBytes <= kSharedBytesOfBlock,
                "the stages exceed the shared memory of sm_120");

  // Registers of a thread. At launch each has 65536 / kThreads; the producer gives up what it does not need.
  static constexpr int kProducerRegisters = 40, kConsumerRegisters = 232;

  __device__ __forceinline__ void operator()(Params const& params, char* memory) const {
    sm90::run_product<StagedKernel>(params, memory);
  }

  // Prologue, one thread: makes the barriers of the stages and of C's boxes.
  static __device__ __forceinline__ void init_barriers(Params const& params, uint32_t shared) {
    sm90::start_stages<Layout, Stages>(params.cluster, shared, 1,
                                       (kPingpong ? 1 : kConsumers) * sm120::kReadersOfWarpgroup);
#pragma unroll
    for (int i = 0; i < kBarriersOfC; ++i) {
      sm90::barrier_init(shared + Layout::kBytes + i * 8, 1);
    }
  }

  // Prologue, another thread.
  static __device__ __forceinline__ void prefetch_maps(Params const& params) {
    Stage::prefetch_operands(params);
    if (params.epilogue.n_boxes > 0) {
      sm90::prefetch_map(&params.d);
    }
  }

  // Load: the producer's warps, of which one loads.
  static __device__ __forceinline__ void load(Params const& params, uint32_t shared, sm90::ClusterPlace const& place,
                                              bool loading_warp) {
    Producer producer(params, shared, place);
    sm90::enter<kPdl>(params.cluster);
    if (!loading_warp) {
      return;
    }
    for (int index = blockIdx.x; index < params.raster.blocks; index += gridDim.x) {
      Tile const tile(params, index);
      int const part = params.parts.of(index), matrix = tile.matrix - part * params.parts.matrices;
      producer.run({params.first_k_tile(part), params.k_tiles(part), tile.row, tile.column,
                    params.broadcast_a ? 0 : matrix, params.broadcast_b ? 0 : matrix});
    }
  }

  // Multiply: a consumer warpgroup.
  static __device__ __forceinline__ void multiply(Params const& params, uint32_t shared, sm90::ClusterPlace const&,
                                                  int warpgroup) {
    int const first_row = kDown == 1 ? 0 : warpgroup * kRows * 64;
    int const first_column = kAcross == 1 ? 0 : warpgroup * kColumns;
    Mainloop mainloop(shared, first_row, first_column);
    sm90::enter<kPdl>(params.cluster);
    Store store(params.epilogue, &params.d, shared + Layout::kStoresAt, warpgroup,
                {&params.c, shared + Layout::kBytes, params.c_by_tma, params.broadcast_c});
    int number = 0;
    if (kPingpong && warpgroup == 1) {
      sm90::named_barrier_arrive(kOrderBarrier, 256);  // warpgroup 0 begins
    }
    for (int index = blockIdx.x; index < params.raster.blocks; index += gridDim.x) {
      int const k_tiles = params.k_tiles(params.parts.of(index));
      if (kPingpong && number++ % 2 != warpgroup) {
        mainloop.at.skip(k_tiles);
        continue;
      }
      Tile const tile(params, index);
      int const row = tile.row + first_row, column = tile.column + first_column;
      if (params.epilogue.c != nullptr) {
        if constexpr (Store::kBarriers > 0) {
          if (params.c_by_tma) {
            store.load_first_c(row, column, tile.matrix);
          }
        }
        if (!params.c_by_tma) {
          store.prefetch_c(row, column, tile.matrix);
        }
      }
      float sums[kRows][kColumns / 2];
      if constexpr (kPingpong) {
        // Begin only when the other warpgroup has seen all of its stages arrive: an mbarrier distinguishes a phase from
        // the next one only.
        sm90::named_barrier_sync(kOrderBarrier + warpgroup, 256);
        Stage::multiply_tile(mainloop, k_tiles, tile.row, tile.column, sums,
                             [warpgroup] { sm90::named_barrier_arrive(kOrderBarrier + 1 - warpgroup, 256); });
      } else {
        Stage::multiply_tile(mainloop, k_tiles, tile.row, tile.column, sums, [] {});
      }
      if (params.parts.count > 1) {
        TileSums::store(params.parts.tile(tile.row / TileM, tile.column / TileN, tile.matrix, TileSums::kCount),
                        threadIdx.x % TileSums::kThreads, sums);
      } else if (params.epilogue_through_smem) {
        sm120::store_any(store, sums, row, column, tile.matrix);
      } else if constexpr (Store::kBoxes) {
        store.store(sums, row, column, tile.matrix);
      }
    }
    store.drain();  // finish
  }

 private:
  // Named barriers of the CTA; 1 to 3 are the epilogues'. kOrderBarrier + i: warpgroup i may multiply (ping-pong).
  static constexpr int kOrderBarrier = 5;

  // A tile's place in D; `matrix` counts the matrices of all parts of k.
  struct Tile {
    int row, column, matrix;

    __device__ __forceinline__ Tile(Params const& params, int index) {
      sm90::Block const block(params.raster, index);
      row = block.row * TileM;
      column = block.column * TileN;
      matrix = block.matrix;
    }
  };
};

// The kernel for operands without scale factors. A stage holds `Boxes` boxes. Each warpgroup has two store buffers.
template <class A, class B, bool kMnA, bool kMnB, class ElementD, int TileM, int TileN, int Boxes, int Stages,
          Schedule kSchedule, bool kSwapped, class Sum, Activation kActivation, bool kPdl>
using Kernel = StagedKernel<FloatStage<A, B, kMnA, kMnB, Boxes, Sum>, ElementD, TileM, TileN, Stages, kSchedule,
                            kSwapped, kActivation, 2, kPdl>;

}  // namespace tilewright::gemm::mma

// The header that generated `grouped_gemm` kernels for sm_90a include: products of FP8 with scale factors (1x128,
// 128x128) or of BF16, whose rows may belong to groups. TMA, mbarriers and wgmma in plain PTX, without CuTe, as
// gemm/lean_kernel.hpp.
//
// A CTA runs the phases of sm90/product.hpp, with these differences:
//
// | part | here |
// |---|---|
// | a stage | holds scale factors beside the data (sm90/scaled_layout.hpp) |
// | the main loop | multiplies sums of 128 of k by them (sm90/scaled_mainloop.hpp) |
// | the producer | three of its four warps have work: operands, scale factors, tiles (producers.hpp) |
// | the order of tiles | depends on the groups, which the device reads: tiles come through a queue (tile.hpp) |
// | the code | has a general form and short ones (form.hpp) |
#pragma once

#include <cstdint>
#include <type_traits>

#include "tilewright/grouped_gemm/calls.hpp"
#include "tilewright/grouped_gemm/cta_tile.hpp"
#include "tilewright/grouped_gemm/form.hpp"
#include "tilewright/grouped_gemm/form_code.hpp"
#include "tilewright/grouped_gemm/params.hpp"
#include "tilewright/grouped_gemm/producers.hpp"
#include "tilewright/grouped_gemm/reduced_store.hpp"
#include "tilewright/grouped_gemm/tile.hpp"
#include "tilewright/grouped_gemm/work.hpp"
#include "tilewright/sm90/cluster.hpp"
#include "tilewright/sm90/epilogue.hpp"
#include "tilewright/sm90/cluster_reduction.hpp"
#include "tilewright/sm90/float_boxes.hpp"
#include "tilewright/sm90/mainloop.hpp"
#include "tilewright/sm90/pipeline.hpp"
#include "tilewright/sm90/product.hpp"
#include "tilewright/sm90/producer.hpp"
#include "tilewright/sm90/scaled_layout.hpp"
#include "tilewright/sm90/scaled_mainloop.hpp"

namespace tilewright::grouped_gemm {

using Params = ParamsOf<Heads>;
static_assert(sizeof(Params) == sizeof(HostParams));

// Three warpgroups share a tile of 192 rows: while one of them promotes sums, the other two keep the tensor core busy.
// With two warpgroups, one alone would, and the tensor core would idle between its wgmmas.
constexpr int consumers_of(int tile_m) { return tile_m == 192 ? 3 : sm90::consumers_of(tile_m); }

// `A`, `B` and their scales are those of the kernel's own operands: the caller's B and A where they are swapped.
template <class A, class B, class ElementD_, int TileM_, int TileN_, int Boxes_, int Stages_, bool kSwapped_,
          bool kMnA_, bool kMnB_, Scales kScalesA, Scales kScalesB, sm90::Promotion kPromotion, int kStoreBuffers,
          bool kPdl_, Form kForm_ = Form::kAny, bool kClusters_ = kForm_ == Form::kAny>
struct Kernel {
  using ElementA = A;
  using ElementB = B;
  using ElementD = ElementD_;
  static constexpr int TileM = TileM_, TileN = TileN_, Boxes = Boxes_, Stages = Stages_;
  static constexpr bool kSwapped = kSwapped_;
  static constexpr bool kMnA = kMnA_, kMnB = kMnB_;  // whether the operand is MN-major
  static constexpr int kBitsA = A::kBytes * 8, kBitsB = B::kBytes * 8, kRowBytesA = 128, kRowBytesB = 128;  // in a box
  static constexpr int kPackedBlock = 0;
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
  static constexpr Form kForm = kForm_;
  static constexpr bool kClusters = kClusters_;  // whether it is launched in clusters
  static_assert(A::kBytes == B::kBytes);
  static_assert((kScalesA == Scales::kNone) == (kScalesB == Scales::kNone));
  static_assert(!(kMnA || kMnB) || (A::kBytes == 2 && !kScaled), "wgmma reads FP8 with k contiguous alone");
  static_assert(!kMnB || kColumns % 64 == 0, "boxes of an MN-major operand have 64 rows");

  // One thread of a warpgroup issues TMA stores of 64 rows (kTogether). With stores of 16 rows by each warp, those of a
  // tile of 256x128 took 1,000 clocks.
  using Store = sm90::Epilogue<ElementD, kRows, kColumns, kSwapped, sm90::Activation::kNone, kStoreBuffers,
                               sm90::subtile_columns(kColumns, kSwapped), kSwapped || ElementD::kBytes == 2>;
  static constexpr bool kFloats = ElementD::kBytes == 4 && !kSwapped;
  using FloatBoxes = sm90::FloatBoxes<kRows, kColumns, kStoreBuffers>;
  static constexpr int kStoreBytes = kConsumers * (kFloats ? FloatBoxes::kBytes : Store::kBytes);
  using Layout = sm90::ScaledLayout<TileM, TileN, Boxes, Stages, kStoreBytes, kScalesA, kScalesB>;
  using ClusterReduction = sm90::ClusterReduction<kRows, kColumns, kConsumers * 128>;
  using Scaled =
      sm90::ScaledMainloop<A, B, Layout, kScalesA, kScalesB, kPromotion, TileM, TileN, kRows, kColumns, Boxes, Stages>;
  using Plain = sm90::Mainloop<A, B, sm90::PlainSum, Layout, kRows, kColumns, Boxes, Stages, kMnA, kMnB>;
  using Mainloop = std::conditional_t<kScaled, Scaled, Plain>;
  using Producer = sm90::Producer<Layout, Boxes, Stages, kMnA ? TileM / 64 : 0, kMnB ? TileN / 64 : 0>;
  using TileScheduler = grouped_gemm::TileScheduler<kTileRows, kForm, kClusters>;
  using Params = grouped_gemm::Params;
  static constexpr int kQueueAt = (Layout::kBytes + 15) / 16 * 16, kSharedBytes = kQueueAt + TileQueue::kBytes;
  using Cluster = FormCluster<kForm, kClusters>;
  using Tiles = FormTiles<kForm, kClusters, kTileRows, kQueueAt, kSwapped>;
  // Whether the stages' memory has room for the sums, so that a cluster can split k.
  static constexpr bool kSplits = ClusterReduction::kBytes <= Layout::kStoresAt;
  static_assert(Stages >= 2 && Stages <= 32 && kSharedBytes <= 227 * 1024,
                "the stages exceed the shared memory of sm_90");

  // Whether the kernel has forms beside Form::kAny. Kernels with factors of 128x128 blocks have them: their products
  // are short in a model, and other kernels run between them.
  static constexpr bool kHasForms =
      (kScalesA == Scales::kBlocks || kScalesB == Scales::kBlocks) && ElementD::kBytes == 2;
  template <Form kOther, bool kOtherClusters>
  using Of = Kernel<A, B, ElementD, TileM, TileN, Boxes, Stages, kSwapped, kMnA, kMnB, kScalesA, kScalesB, kPromotion,
                    kStoreBuffers, kPdl, kOther, kOtherClusters>;

  // kGroupsOfK: groups may divide k, into a D of F32, with stages of one box. A group's part of k is then rows of
  // MN-major operands, or (kOwnMaps) a matrix of its own, with tensor maps of its own and with scale factors of rows.
  static constexpr bool kOwnMaps =
      kScalesA == Scales::kRows && kScalesB == Scales::kRows && Boxes == 1 && ElementD::kBytes == 4;
  static constexpr bool kGroupsOfK = kOwnMaps || (kMnA && kMnB && Boxes == 1 && ElementD::kBytes == 4);

  // Registers of a thread after setmaxnreg. An SM has 65,536.
  static constexpr int kProducerRegisters = 56, kConsumerRegisters = kConsumers == 3 ? 152 : 224;

  __device__ __forceinline__ void operator()(Params const& params, char* memory) const {
    sm90::run_product<Kernel>(params, memory);
  }

  // Prologue, one thread: initialises the mbarriers of the stages and of the tile queue. A stage's `full` counts the
  // warp that loads operands, the one that loads factors of rows, and the lanes that store factors of blocks.
  static __device__ __forceinline__ void init_barriers(Params const& params, uint32_t shared) {
    sm90::start_stages<Layout, Stages>(Cluster::shape(params), shared,
                                       1 + (Layout::kScaleBytes > 0) + (Layout::kBlocks > 0 ? Boxes : 0),
                                       kConsumers * kReleasingWarps);
    if constexpr (kClusters && !Tiles::kKnown) {  // in a form without clusters, another warp does (run_reading)
      start_queue(params, shared);
    }
  }

  static __device__ __forceinline__ void start_queue(Params const& params, uint32_t shared) {
#pragma unroll
    for (int slot = 0; slot < TileQueue::kSlots; ++slot) {
      TileQueue::start(shared + kQueueAt, slot,
                       kConsumers * 4 + 1 + (kScaled || reduces_through_smem(params)) + reduces_through_smem(params));
    }
  }

  // Prologue, another thread.
  static __device__ __forceinline__ void prefetch_maps(Params const& params) {
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

  // Load: the producer's warps.
  static __device__ __forceinline__ void load(Params const& params, uint32_t shared, sm90::ClusterPlace const& place,
                                              bool loading_warp) {
    if constexpr (kForm == Form::kAny) {
      sm90::enter<false>(params.cluster);  // the producer's warps wait for the previous kernel themselves
    }
    Producers<Kernel>::run(params, shared, Cluster::place(place), loading_warp, reduces_through_smem(params));
  }

  // Multiply: a consumer warpgroup.
  static __device__ __forceinline__ void multiply(Params const& params, uint32_t shared,
                                                  sm90::ClusterPlace const& place, int warpgroup) {
    if constexpr (kForm == Form::kAny) {
      sm90::enter<kPdl>(params.cluster);
    }
    if (kOneLoop) {
      consume(params, shared, Cluster::place(place), warpgroup, reduces_through_smem(params));
    } else if (reduces_through_smem(params)) {
      consume(params, shared, Cluster::place(place), warpgroup, true);
    } else {
      consume(params, shared, Cluster::place(place), warpgroup, false);
    }
  }

 private:
  using CtaTile = grouped_gemm::CtaTile<Kernel>;

  // How many warps of a warpgroup release a stage. One where wgmma alone reads it, because the four warps issue wgmma
  // together. All four where threads load scale factors, because no warp knows whether another warp's loads have
  // returned.
  static constexpr int kReleasingWarps = kScaled ? 4 : 1;

  // Whether products with and without a split of k run the same copy of `consume`, so that a launch on cold code reads
  // less. With tiles of more rows than 64, ptxas orders the instructions of the main loop otherwise in such a copy, and
  // counts its stages in uniform registers, which is 2 to 6 % slower on an H200.
  static constexpr bool kOneLoop = TileM == 64;

  static __device__ __forceinline__ bool reduces_through_smem(Params const& params) {
    return kForm == Form::kAny && kSplits && params.epilogue_through_smem;
  }

  static __device__ __forceinline__ void clear(float (&sums)[kRows][kColumns / 2]) {
#pragma unroll
    for (auto& row : sums) {
#pragma unroll
      for (float& sum : row) {
        sum = 0.0f;
      }
      if constexpr (kRows == 1) {
        sm90::hold(row);  // without it, ptxas clears them again before the loop; with 128 rows that costs nothing
      }
    }
  }

  // Stores a warpgroup's part of D for a group that has no k: C, or zeros, or nothing where sums are added to D. If the
  // epilogue stored cleared sums, ptxas would have a second set of accumulators beside wgmma's: a tile of 128x256 would
  // spill 1,600 bytes.
  static __device__ __forceinline__ void store_without_products(Params const& params, sm90::ClusterPlace const& place,
                                                                Tile const& tile, int first_row, int first_column) {
    if (params.floats == Floats::kAdded) {
      return;
    }
    sm90::EpilogueParams const& epilogue = params.epilogue;
    CtaTile const cta_tile(params, place, tile);
    int const row = cta_tile.a_row + first_row, column = cta_tile.b_row + first_column;
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

  // A consumer warpgroup's loop over tiles. `through_smem`: the epilogue goes through shared memory, where the CTAs of
  // a split k add up their sums.
  static __device__ __forceinline__ void consume(Params const& params, uint32_t shared, sm90::ClusterPlace const& place,
                                                 int warpgroup, bool through_smem) {
    sm90::ClusterShape const& cluster = Cluster::shape(params);
    int const first_row = kDown == 1 ? 0 : warpgroup * kRows * 64;
    int const first_column = kAcross == 1 ? 0 : warpgroup * kColumns;
    sm90::Release const release(Layout::empty(shared, 0), cluster.size(), place.sharers(cluster),
                                threadIdx.x % (128 / kReleasingWarps));
    Mainloop mainloop{shared, first_row, first_column, release};
    Store store(params.epilogue, &params.d, shared + Layout::kStoresAt, warpgroup);
    FloatBoxes floats(&params.d, shared + Layout::kStoresAt);
    // This warpgroup's bits of Tile::row_slices.
    int const first_slice = kSwapped ? 0 : first_row / 64;
    uint32_t const own_slices = kSwapped ? ~0u : ((1u << kRows) - 1) << first_slice;
    auto queue = Tiles::source(params, shared, place);
    Tile tile, next;
    if constexpr (kScaled) {
      Mainloop::start_order(warpgroup);
    }
    Heads const no_heads{};
    for (bool more = Tiles::template first<kPdl>(params, queue, tile); more; tile = next) {
      int k_tiles = CtaTile::count_k_tiles(params, place, tile);
      if constexpr (kForm != Form::kAny && !Tiles::kKnown) {
        // Waits for the load of the tile's column from the queue, which products alone use before it is read again. So
        // that load returns on all paths before any barrier is arrived at, which the build can check.
        k_tiles += static_cast<int>(sm90::zero_after(tile.column));
      }
      if constexpr (kGroupsOfK && !kScaled) {
        if (k_tiles == 0 && !through_smem) {
          store_without_products(params, place, tile, first_row, first_column);
          more = queue.pop_and_wait(tile, next);
          continue;
        }
      }
      float sums[kRows][kColumns / 2];
      if constexpr (kScaled) {
        clear(sums);
        if ((tile.row_slices & own_slices) != 0 && k_tiles > 0) {
          mainloop.run(k_tiles, CtaTile(params, place, tile).b_row + first_column, tile.row_slices >> first_slice,
                       sums);
        } else {
          mainloop.skip(k_tiles);
        }
      } else {
        mainloop.run(k_tiles, sums, [] {});
      }
      queue.read(tile);
      if constexpr (kForm == Form::kCounts) {
        tile.flags &= ~Tile::kIndexed;  // it is 0 already: now the compiler knows
      }
      // Row and column of this warpgroup's sums, in the kernel's own plane: swapped, D's column and row.
      CtaTile const cta_tile(params, place, tile);
      int const row = cta_tile.a_row + first_row, column = cta_tile.b_row + first_column;
      TileRowFates const rows{tile, params.groups.layout, params.groups.groups,
                              kForm == Form::kAny ? params.heads : no_heads};
      if constexpr (kSplits && kForm == Form::kAny) {
        if (through_smem) {
          ReducedStore<Kernel>::run(params, shared, place, warpgroup, row, column, tile.matrix, rows, sums);
        }
      }
      // Before the stores, because an LDS that is issued after STGs waits for them in the load/store queue. After a
      // reduction, because the scheduling warp sends the next tile after the cluster's barriers.
      more = queue.pop_and_wait(tile, next);
      if (through_smem) {
        continue;
      }
      if (kFloats && params.floats != Floats::kThreads && rows.every()) {
        if (params.floats == Floats::kAdded) {
          floats.template store<true>(sums, row, column, tile.matrix);
        } else {
          floats.template store<false>(sums, row, column, tile.matrix);
        }
      } else {
        store.store_rows(sums, row, column, tile.matrix, rows);
      }
    }
    // Finish: waits until TMA has read the shared memory of the last stores.
    store.drain();
    if constexpr (kFloats) {
      floats.drain();
    }
  }
};

}  // namespace tilewright::grouped_gemm

// The `grouped_gemm` kernel of mma.sync for FP4 operands, and for FP8 beside FP4, with UE8M0 scale factors of 32 of k
// as DeepGEMM lays them. It is the kernel of mma_kernel.hpp with stages of its own (fp4_stage.hpp). Groups of k are
// refused: their tensor maps are those of bytes.
#pragma once

#include <cstdint>

#include "tilewright/grouped_gemm/fp4_stage.hpp"
#include "tilewright/grouped_gemm/mma_kernel.hpp"
#include "tilewright/sm120/block_scaled_mainloop.hpp"
#include "tilewright/sm120/box_words.hpp"

namespace tilewright::grouped_gemm {

// `A` and `B` are the elements of the kernel's own operands, E2m1 or E4m3: those of the caller's B and A where they are
// swapped.
template <class A, class B, class ElementD_, int TileM_, int TileN_, int TileK, int Stages_, bool kSwapped_,
          int kStoreBuffers, bool kPdl_>
struct Fp4Kernel {
  using Stage = Fp4Stage<A, B, TileK>;
  static constexpr bool kFp4A = Stage::template kIsFp4<A>, kFp4B = Stage::template kIsFp4<B>;
  // To the host code that other kernels share, an operand is one of bytes; it encodes FP4 anew (Fp4Maker).
  struct ElementA {
    static constexpr int kBytes = 1;
  };
  using ElementB = ElementA;
  using ElementD = ElementD_;
  static constexpr int TileM = TileM_, TileN = TileN_, Stages = Stages_;
  static constexpr int Boxes = Stage::kWords;  // to the code that loads scale factors: lines of them in a stage
  static constexpr bool kSwapped = kSwapped_;
  static constexpr bool kMnA = false, kMnB = false;
  static constexpr bool kScaled = true;
  static constexpr Scales kOwnScalesA = Scales::kRows, kOwnScalesB = Scales::kRows;
  static constexpr Scales kRowScales = Scales::kRows, kColumnScales = Scales::kRows;
  static constexpr int kTileBytesK = TileK;
  static constexpr int kTileRows = kSwapped ? TileN : TileM, kTileColumns = kSwapped ? TileM : TileN;  // of D
  using Warpgroups = sm120::Cooperative<TileM, TileN, false>;
  static constexpr int kConsumers = Warpgroups::kConsumers, kDown = Warpgroups::kDown, kAcross = Warpgroups::kAcross;
  static constexpr int kRows = Warpgroups::kRows, kColumns = Warpgroups::kColumns, kThreads = Warpgroups::kThreads;
  static constexpr bool kPdl = kPdl_;

  using Store = sm90::Epilogue<ElementD, kRows, kColumns, kSwapped, sm90::Activation::kNone, kStoreBuffers,
                               sm90::subtile_columns(kColumns, kSwapped), kSwapped || ElementD::kBytes == 2>;
  static constexpr bool kFloats = ElementD::kBytes == 4 && !kSwapped;
  using FloatBoxes = sm90::FloatBoxes<kRows, kColumns, kStoreBuffers>;
  static constexpr int kStoreBytes = kConsumers * (kFloats ? FloatBoxes::kBytes : Store::kBytes);
  static constexpr int kRowBytesA = Stage::Operands::RowsA::kBytes, kRowBytesB = Stage::Operands::RowsB::kBytes;
  using Layout = Fp4Layout<TileM, TileN, kRowBytesA, kRowBytesB, Stage::kBoxes, Stage::kWords, Stages, kStoreBytes>;
  using Words = sm120::BoxWordLines<Layout, TileM, TileN, kRows, kColumns, Stage::kWordsOfBox>;
  using Mainloop =
      sm120::BlockScaledMainloop<typename Stage::Operands, Words, Layout, kRows, kColumns, Stage::kBoxes, Stages>;
  using Producer = Fp4Producer<Layout, kRowBytesA, kRowBytesB, Stage::kBoxes, Stages>;
  using TileScheduler = grouped_gemm::TileScheduler<kTileRows>;
  using Params = grouped_gemm::Params;
  static constexpr int kQueueAt = (Layout::kBytes + 15) / 16 * 16, kSharedBytes = kQueueAt + TileQueue::kBytes;
  static constexpr bool kSplits = true;  // for the host code: any epilogue, though from registers
  static constexpr bool kOwnMaps = false, kGroupsOfK = false;
  static_assert(Stages >= 2 && Stages <= 32 && kSharedBytes <= kSharedBytesOfMmaBlock,
                "the stages exceed the shared memory of sm_120");

  // Registers of a thread; an SM has 65,536.
  static constexpr int kProducerRegisters = 56, kConsumerRegisters = 224;

  __device__ __forceinline__ void operator()(Params const& params, char* memory) const {
    sm90::run_product<Fp4Kernel>(params, memory);
  }

  // Prologue, one thread: makes the barriers of the stages and of the tile queue.
  static __device__ __forceinline__ void init_barriers(Params const& params, uint32_t shared) {
    constexpr int kLoadingWarps = 2;  // of operands, and of scale factors
    sm90::start_stages<Layout, Stages>(params.cluster, shared, kLoadingWarps, kConsumers * sm120::kReadersOfWarpgroup);
#pragma unroll
    for (int slot = 0; slot < TileQueue::kSlots; ++slot) {
      TileQueue::start(shared + kQueueAt, slot, kConsumers * 4 + kLoadingWarps);
    }
  }

  // Prologue, another thread.
  static __device__ __forceinline__ void prefetch_maps(Params const& params) {
    for (CUtensorMap const* map : {&params.a, &params.b, &params.scales_a, &params.scales_b}) {
      sm90::prefetch_map(map);
    }
    if (params.epilogue.n_boxes > 0 || params.floats != Floats::kThreads) {
      sm90::prefetch_map(&params.d);
    }
  }

  // Load: the producer's warps.
  static __device__ __forceinline__ void load(Params const& params, uint32_t shared, sm90::ClusterPlace const& place,
                                              bool loading_warp) {
    sm90::enter<kPdl>(params.cluster);
    Producers<Fp4Kernel>::run(params, shared, place, loading_warp, false);
  }

  // Multiply: a consumer warpgroup.
  static __device__ __forceinline__ void multiply(Params const& params, uint32_t shared,
                                                  sm90::ClusterPlace const& place, int warpgroup) {
    int const first_row = kDown == 1 ? 0 : warpgroup * kRows * 64;
    int const first_column = kAcross == 1 ? 0 : warpgroup * kColumns;
    Mainloop mainloop(shared, first_row, first_column);
    sm90::enter<kPdl>(params.cluster);
    Stores stores{Store(params.epilogue, &params.d, shared + Layout::kStoresAt, warpgroup),
                  FloatBoxes(&params.d, shared + Layout::kStoresAt)};
    // This warpgroup's bits of Tile::row_slices.
    uint32_t const own_slices = kSwapped ? ~0u : ((1u << kRows) - 1) << first_row / 64;
    TileQueue queue(shared + kQueueAt);
    Tile tile, next;
    for (bool more = queue.wait(tile); more; tile = next) {
      float sums[kRows][kColumns / 2];
      {
        CtaTile const cta_tile(params, place, tile);
        if ((tile.row_slices & own_slices) != 0 && cta_tile.k_tiles > 0) {
          mainloop.run(cta_tile.k_tiles, cta_tile.a_row, cta_tile.b_row, sums);
        } else {
          mainloop.skip(cta_tile.k_tiles);
          Mainloop::clear(sums);
        }
      }
      queue.read(tile);
      // Before the stores: an LDS that is issued after STGs waits for them in the load/store queue.
      more = queue.pop_and_wait(tile, next);
      CtaTile const cta_tile(params, place, tile);
      stores.store(params, tile, sums, cta_tile.a_row + first_row, cta_tile.b_row + first_column);
    }
    stores.drain();
  }

 private:
  using CtaTile = grouped_gemm::CtaTile<Fp4Kernel>;

  // How a warpgroup stores a tile.
  struct Stores {
    Store store_rows;
    FloatBoxes floats;

    __device__ __forceinline__ void store(Params const& params, Tile const& tile, float (&sums)[kRows][kColumns / 2],
                                          int row, int column) {
      TileRowFates const rows{tile, params.groups.layout, params.groups.groups, params.heads};
      if (params.epilogue_through_smem) {  // there is a C of 16 bits
        store_any(sums, row, column, tile.matrix, rows);
      } else if (kFloats && params.floats != Floats::kThreads && rows.every()) {
        if (params.floats == Floats::kAdded) {
          floats.template store<true>(sums, row, column, tile.matrix);
        } else {
          floats.template store<false>(sums, row, column, tile.matrix);
        }
      } else {
        store_rows.store_rows(sums, row, column, tile.matrix, rows);
      }
    }

    // Waits until TMA has read the shared memory of the last stores.
    __device__ __forceinline__ void drain() {
      store_rows.drain();
      if constexpr (kFloats) {
        floats.drain();
      }
    }

   private:
    // Stores sums plus a C of D's type.
    __device__ __forceinline__ void store_any(float const (&sums)[kRows][kColumns / 2], int row, int column, int matrix,
                                              TileRowFates const& rows) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
#pragma unroll
        for (int subtile = 0; subtile < Store::kSubtiles; ++subtile) {
          float values[Store::kColumnGroups * 4];
          Store::Subtile::take(sums[r], subtile, values);
          store_rows.store_any(values, row + r * 64, column + subtile * Store::kColumns, matrix, rows);
        }
      }
    }
  };
};

// As MmaMaker, to which every operand is one of bytes. The maps of FP4 are encoded anew.
template <class Traits>
struct Fp4Maker : MmaMaker<Traits> {
  using Base = MmaMaker<Traits>;
  using Args = typename Base::Args;
  using Kernel = typename Traits::Kernel;
  static constexpr bool kFp4A = Kernel::kSwapped ? Kernel::kFp4B : Kernel::kFp4A;  // whether the caller's A is of FP4
  static constexpr bool kFp4B = Kernel::kSwapped ? Kernel::kFp4A : Kernel::kFp4B;
  static constexpr int kVector = 32;  // elements of FP4 in TMA's 16 bytes

  static bool can_implement(Args const& args) {
    auto const aligned = [&](int64_t leading, int64_t batch_stride) {
      return leading % kVector == 0 && (args.groups == 1 || batch_stride % kVector == 0);
    };
    return args.k % kVector == 0 && (!kFp4A || aligned(args.ld_a, args.batch_stride_a)) &&
           (!kFp4B || aligned(args.ld_b, args.batch_stride_b)) && Base::can_implement(args);
  }

  static cudaError_t make_params(Args const& args, sm90::Launching const& launching, typename Kernel::Params& params) {
    cudaError_t error = Base::make_params(args, launching, params);
    bool const own = args.grouping == TILEWRIGHT_GROUPING_NONE || args.grouping == TILEWRIGHT_GROUPING_ROWS_VALID;
    auto const encode = [&](CUtensorMap& map, sm90::Matrices const& matrices, int row_bytes, int rows) {
      auto const swizzle = row_bytes == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B;
      if (error == cudaSuccess) {
        error = sm90::encode_matrices(map, matrices, row_bytes, rows, swizzle);
      }
    };
    if (kFp4A) {
      encode(Kernel::kSwapped ? params.b : params.a,
             {args.a, args.k / 2, args.m, own ? args.groups : 1, args.ld_a / 2, args.batch_stride_a / 2},
             Kernel::kSwapped ? Kernel::kRowBytesB : Kernel::kRowBytesA, Kernel::kTileRows);
    }
    if (kFp4B) {
      encode(Kernel::kSwapped ? params.a : params.b,
             {args.b, args.k / 2, args.n, args.groups, args.ld_b / 2, args.batch_stride_b / 2},
             Kernel::kSwapped ? Kernel::kRowBytesA : Kernel::kRowBytesB, Kernel::kTileColumns);
    }
    return error;
  }
};

template <class Traits>
using Fp4Host = sm90::ClusteredHost<Traits, Fp4Maker<Traits>>;

}  // namespace tilewright::grouped_gemm

#define TILEWRIGHT_GROUPED_FP4_KERNEL(NAME) \
  TILEWRIGHT_KERNEL(NAME, tilewright::NAME::Gemm, tilewright::grouped_gemm::Fp4Host, 1, 1024)

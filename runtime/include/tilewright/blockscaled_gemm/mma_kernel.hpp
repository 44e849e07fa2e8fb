// The `blockscaled_gemm` kernel of mma.sync: TMA, mbarriers, ldmatrix and mma.sync with block scales in plain PTX, for
// sm_12x. It is the `gemm` kernel of mma.sync (gemm/mma_kernel.hpp) with scale factors, which lie in the 128x4 layout
// and come by TMA with each stage's operands.
#pragma once

#include <cstdint>
#include <type_traits>

#include "tilewright/blockscaled_gemm/mma_params.hpp"
#include "tilewright/sm120/block_scaled_mainloop.hpp"
#include "tilewright/sm120/mainloop.hpp"
#include "tilewright/sm120/warpgroups.hpp"
#include "tilewright/sm90/epilogue.hpp"
#include "tilewright/sm90/parts.hpp"
#include "tilewright/sm90/pipeline.hpp"
#include "tilewright/sm90/product.hpp"
#include "tilewright/sm90/scheduler.hpp"

namespace tilewright::blockscaled_gemm::mma {

constexpr int kSharedBytesOfBlock = 99 * 1024;  // of sm_120, for one thread block

// Formats: bits of an element, elements of k that share a factor, and the element.
struct Nvfp4 {
  static constexpr int kBits = 4, kBlock = 16;
  using Element = sm120::E2m1;
};
struct Mxfp4 {
  static constexpr int kBits = 4, kBlock = 32;
  using Element = sm120::E2m1;
};
struct Mxfp8 {
  static constexpr int kBits = 8, kBlock = 32;
  using Element = sm90::E4m3;
};
struct Mxfp8E5m2 {
  static constexpr int kBits = 8, kBlock = 32;
  using Element = sm90::E5m2;
};

// The instruction that multiplies two formats.
template <class A, class B>
struct MmaOf {
  using Type = sm120::MmaMxf8<typename A::Element, typename B::Element>;
};
template <>
struct MmaOf<Nvfp4, Nvfp4> {
  using Type = sm120::MmaNvf4;
};
template <>
struct MmaOf<Mxfp4, Mxfp4> {
  using Type = sm120::MmaMxf4;
};

// How a stage of `TileK` elements lies in boxes. FP4 beside FP8 has boxes of half the bytes.
template <class A, class B, int TileK>
struct OperandsOf {
  static constexpr bool kMixed = A::kBits != B::kBits;
  static constexpr int kLine = TileK * (A::kBits > B::kBits ? A::kBits : B::kBits) / 8;  // bytes of k in a stage
  static constexpr int kBoxes = kLine <= 128 ? 1 : kLine / 128;
  static constexpr bool kNarrow = kLine == 64;
  static_assert(kNarrow || kLine % 128 == 0);
  template <class Format>
  using RowsOf =
      std::conditional_t<kNarrow, sm120::NarrowRows,
                         std::conditional_t<kMixed && Format::kBits == 4, sm120::UnpackedRows, sm120::WideRows>>;
  using Type =
      sm120::BlockScaledOperands<typename MmaOf<A, B>::Type, RowsOf<A>, RowsOf<B>, kNarrow ? 2 : sm120::kSteps>;
};

// The shared memory of a kernel: the stages of A, those of B, the epilogue's buffers, the stages of scale factors, the
// barriers. A stage has `AtomsA` bytes of A's scale factors for each of its `Atoms` atoms along k and block of 128
// rows.
template <int TileM, int TileN, int RowBytesA, int RowBytesB, int Boxes, int Stages, int Atoms, int StoreBytes>
struct Layout {
  static constexpr int kBoxA = TileM * RowBytesA, kBoxB = TileN * RowBytesB;
  static constexpr int kStageA = Boxes * kBoxA, kStageB = Boxes * kBoxB;
  static constexpr int kAtomRowsA = TileM < 32 ? TileM : 32, kAtomRowsB = TileN < 32 ? TileN : 32;
  static constexpr int kAtomA = kAtomRowsA * 16, kAtomB = kAtomRowsB * 16;
  static constexpr int kRowBlocksA = (TileM + 127) / 128, kRowBlocksB = (TileN + 127) / 128;
  static constexpr int kBlockScalesA = Atoms * kAtomA, kBlockScalesB = Atoms * kAtomB;  // of 128 rows
  static constexpr int kScalesA = kRowBlocksA * kBlockScalesA, kScalesB = kRowBlocksB * kBlockScalesB;
  static constexpr int kStoresAt = (Stages * (kStageA + kStageB) + 1023) / 1024 * 1024;
  static constexpr int kScalesAt = kStoresAt + (StoreBytes + 127) / 128 * 128;
  static constexpr int kBarriersAt = kScalesAt + Stages * (kScalesA + kScalesB);
  static constexpr int kBytes = kBarriersAt + Stages * 16;

  static __device__ __forceinline__ uint32_t a(uint32_t shared, int stage) { return shared + stage * kStageA; }
  static __device__ __forceinline__ uint32_t b(uint32_t shared, int stage) {
    return shared + Stages * kStageA + stage * kStageB;
  }
  static __device__ __forceinline__ uint32_t scales_a(uint32_t shared, int stage) {
    return shared + kScalesAt + stage * (kScalesA + kScalesB);
  }
  static __device__ __forceinline__ uint32_t scales_b(uint32_t shared, int stage) {
    return scales_a(shared, stage) + kScalesA;
  }
  static __device__ __forceinline__ uint32_t full(uint32_t shared, int stage) {
    return shared + kBarriersAt + stage * 8;
  }
  static __device__ __forceinline__ uint32_t empty(uint32_t shared, int stage) {
    return shared + kBarriersAt + (Stages + stage) * 8;
  }
};

// `FormatA` and `FormatB` are those of the kernel's own operands: the caller's B and A where they are swapped.
template <class FormatA_, class FormatB_, class ElementD_, int TileM_, int TileN_, int TileK_, int Stages,
          bool kSwapped_, sm90::Activation kActivation_, int kStoreBuffers, bool kPdl_>
struct Kernel {
  using FormatA = FormatA_;
  using FormatB = FormatB_;
  using ElementD = ElementD_;
  static constexpr int TileM = TileM_, TileN = TileN_, TileK = TileK_;
  static constexpr bool kSwapped = kSwapped_;
  static constexpr auto kActivation = kActivation_;
  static constexpr int kBlock = FormatA::kBlock;
  static_assert(FormatA::kBlock == FormatB::kBlock, "both operands must have scale blocks of the same size");
  using InStage = OperandsOf<FormatA, FormatB, TileK>;
  using Operands = typename InStage::Type;
  static constexpr int Boxes = InStage::kBoxes, kLineBytes = InStage::kLine;
  static constexpr int kRowBytesA = Operands::RowsA::kBytes, kRowBytesB = Operands::RowsB::kBytes;
  static constexpr int kAtoms = TileK / kBlock / 4;  // of scale factors along k
  static_assert(kAtoms % Boxes == 0 && TileK % (kBlock * 4) == 0);
  using Warpgroups = sm120::Cooperative<TileM, TileN, false>;
  static constexpr int kConsumers = Warpgroups::kConsumers, kDown = Warpgroups::kDown, kAcross = Warpgroups::kAcross;
  static constexpr int kRows = Warpgroups::kRows, kColumns = Warpgroups::kColumns, kThreads = Warpgroups::kThreads;
  static constexpr bool kPdl = kPdl_;

  using Store = sm90::Epilogue<ElementD, kRows, kColumns, kSwapped, kActivation, kStoreBuffers>;
  using SharedStore = Store;  // no sums go through the stages' memory
  using Layout = mma::Layout<TileM, TileN, kRowBytesA, kRowBytesB, Boxes, Stages, kAtoms, kConsumers * Store::kBytes>;
  using TileSums = sm90::TileSums<Warpgroups>;
  using Words = sm120::AtomWords<Layout, TileM, TileN, kRows, kColumns, kAtoms / Boxes>;
  using Mainloop = sm120::BlockScaledMainloop<Operands, Words, Layout, kRows, kColumns, Boxes, Stages>;
  using Params = mma::Params;
  static constexpr int kBarriersOfC = kConsumers * Store::kBarriers;
  static constexpr int kSharedBytes = Layout::kBytes + kBarriersOfC * 8;
  static_assert(Stages >= 2 && Stages <= 32 && kSharedBytes <= kSharedBytesOfBlock,
                "the stages exceed the shared memory of sm_120");

  // Registers of a thread. At launch each has 65536 / kThreads; the producer gives up what it does not need.
  static constexpr int kProducerRegisters = 40, kConsumerRegisters = 232;

  __device__ __forceinline__ void operator()(Params const& params, char* memory) const {
    sm90::run_product<Kernel>(params, memory);
  }

  // Prologue, one thread: makes the barriers of the stages and of C's boxes.
  static __device__ __forceinline__ void init_barriers(Params const& params, uint32_t shared) {
    sm90::start_stages<Layout, Stages>(params.cluster, shared, 1, kConsumers * sm120::kReadersOfWarpgroup);
#pragma unroll
    for (int i = 0; i < kBarriersOfC; ++i) {
      sm90::barrier_init(shared + Layout::kBytes + i * 8, 1);
    }
  }

  // Prologue, another thread.
  static __device__ __forceinline__ void prefetch_maps(Params const& params) {
    sm90::prefetch_map(&params.a);
    sm90::prefetch_map(&params.b);
    sm90::prefetch_map(&params.scales_a);
    sm90::prefetch_map(&params.scales_b);
    if (params.epilogue.n_boxes > 0) {
      sm90::prefetch_map(&params.d);
    }
  }

  // Load: the producer's warps, of which one loads.
  static __device__ __forceinline__ void load(Params const& params, uint32_t shared, sm90::ClusterPlace const&,
                                              bool loading_warp) {
    sm90::Position<Stages> at{};
    bool const loads = sm90::elect_one();
    sm90::enter<kPdl>(params.cluster);
    if (!loading_warp) {
      return;
    }
    for (int index = blockIdx.x; index < params.raster.blocks; index += gridDim.x) {
      Tile const tile(params, index);
      int const part = params.parts.of(index), matrix = tile.matrix - part * params.parts.matrices;
      Loads const of_tile(params, tile, params.broadcast_a ? 0 : matrix, params.broadcast_b ? 0 : matrix);
      int const first = params.first_k_tile(part);
#pragma unroll 1
      for (int i = 0; i < params.k_tiles(part); ++i) {
        sm90::barrier_wait(Layout::empty(shared, at.stage), at.phase ^ 1);
        if (loads) {
          of_tile.issue(params, shared, at.stage, first + i);
        }
        at.next();
      }
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
    for (int index = blockIdx.x; index < params.raster.blocks; index += gridDim.x) {
      int const k_tiles = params.k_tiles(params.parts.of(index));
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
      mainloop.run(k_tiles, tile.row, tile.column, sums);
      if (params.parts.count > 1) {
        TileSums::store(params.parts.tile(tile.row / TileM, tile.column / TileN, tile.matrix, TileSums::kCount),
                        threadIdx.x % TileSums::kThreads, sums);
      } else if (params.epilogue_through_smem) {
        store_any(store, sums, row, column, tile.matrix);
      } else if constexpr (Store::kBoxes) {
        store.store(sums, row, column, tile.matrix);
      }
    }
    store.drain();  // finish
  }

 private:
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

  // What the stages of a tile load.
  struct Loads {
    int a_row, b_row, a_matrix, b_matrix;  // of the operands
    int a_block, b_block;                  // of 128 rows of the scale factors of all matrices
    int b_word;                            // where B's scale factors begin in the rows of an atom

    __device__ __forceinline__ Loads(Params const& params, Tile const& tile, int matrix_a, int matrix_b)
        : a_row(tile.row),
          b_row(tile.column),
          a_matrix(matrix_a),
          b_matrix(matrix_b),
          a_block(matrix_a * params.row_blocks_a + tile.row / 128),
          b_block(matrix_b * params.row_blocks_b + tile.column / 128),
          b_word(Layout::kAtomRowsB < 32 ? tile.column % 32 * 4 : 0) {}

    // Loads k tile `k_tile` to a stage. Called by one thread.
    __device__ __forceinline__ void issue(Params const& params, uint32_t shared, int stage, int k_tile) const {
      uint32_t const full = Layout::full(shared, stage);
      sm90::barrier_expect(full, params.stage_bytes);
#pragma unroll
      for (int box = 0; box < Boxes; ++box) {
        int const line = k_tile * Boxes + box;
        sm90::copy_box(Layout::a(shared, stage) + box * Layout::kBoxA, &params.a, full, line * kRowBytesA, a_row,
                       a_matrix, params.policy_a);
        sm90::copy_box(Layout::b(shared, stage) + box * Layout::kBoxB, &params.b, full, line * kRowBytesB, b_row,
                       b_matrix, params.policy_b);
      }
      sm90::copy_box(Layout::scales_a(shared, stage), &params.scales_a, full, 0, k_tile * kAtoms, a_block,
                     sm90::kKeepNormal);
      sm90::copy_box(Layout::scales_b(shared, stage), &params.scales_b, full, b_word, k_tile * kAtoms, b_block,
                     sm90::kKeepNormal);
    }
  };

  // Stores sums with any C and alignment of D.
  static __device__ __forceinline__ void store_any(Store& store, float const (&sums)[kRows][kColumns / 2], int row,
                                                   int column, int matrix) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int subtile = 0; subtile < Store::kSubtiles; ++subtile) {
        float values[Store::kColumnGroups * 4];
        Store::Subtile::take(sums[r], subtile, values);
        store.store_any(values, row + r * 64, column + subtile * Store::kColumns, matrix);
      }
    }
  }
};

}  // namespace tilewright::blockscaled_gemm::mma

// The `blockscaled_gemm` kernel of mma.sync: TMA, mbarriers, ldmatrix and mma.sync with block scales in plain PTX, for
// sm_12x. It is the `gemm` kernel of mma.sync (gemm/mma_kernel.hpp) with scale factors, which lie in the 128x4 layout
// and come by TMA with each stage's operands.
#pragma once

#include <cstdint>
#include <type_traits>

#include "tilewright/blockscaled_gemm/mma_params.hpp"
#include "tilewright/gemm/mma_kernel.hpp"
#include "tilewright/sm120/block_scaled_mainloop.hpp"
#include "tilewright/sm120/scaled_stages.hpp"
#include "tilewright/sm90/pipeline.hpp"
#include "tilewright/sm90/producer.hpp"

namespace tilewright::blockscaled_gemm::mma {

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

// The scale factors of `rows` rows in a stage lie in atoms of 128 rows. Of each atom the tile's rows are loaded, at
// most 32 of 16 bytes.
constexpr int row_blocks(int rows) { return (rows + 127) / 128; }
constexpr int atom_rows(int rows) { return rows < 32 ? rows : 32; }
constexpr int block_scale_bytes(int rows, int atoms) { return atoms * atom_rows(rows) * 16; }  // of 128 rows

// The shared memory of a kernel. A stage has `Boxes` boxes of each operand, and `Atoms` atoms of scale factors along k
// for each block of 128 rows.
template <int TileM, int TileN, int RowBytesA, int RowBytesB, int Boxes, int Stages, int Atoms, int StoreBytes>
struct Layout : sm120::ScaledStages<Boxes * TileM * RowBytesA, Boxes * TileN * RowBytesB,
                                    row_blocks(TileM) * block_scale_bytes(TileM, Atoms),
                                    row_blocks(TileN) * block_scale_bytes(TileN, Atoms), Stages, StoreBytes> {
  static constexpr int kBoxA = TileM * RowBytesA, kBoxB = TileN * RowBytesB;
  static constexpr int kRowBlocksA = row_blocks(TileM), kRowBlocksB = row_blocks(TileN);
  static constexpr int kAtomRowsA = atom_rows(TileM), kAtomRowsB = atom_rows(TileN);
  static constexpr int kAtomA = kAtomRowsA * 16, kAtomB = kAtomRowsB * 16;
  static constexpr int kBlockScalesA = block_scale_bytes(TileM, Atoms), kBlockScalesB = block_scale_bytes(TileN, Atoms);
};

// As gemm::mma::FloatStage, with `TileK` elements of k and their scale factors. `FormatA` and `FormatB` are those of
// the kernel's own operands: the caller's B and A where they are swapped.
template <class FormatA_, class FormatB_, int TileK>
struct ScaledStage {
  using FormatA = FormatA_;
  using FormatB = FormatB_;
  using Params = mma::Params;
  // In the code that `gemm` shares, an operand is one of bytes.
  struct ElementA {
    static constexpr int kBytes = 1;
  };
  static constexpr bool kMnA = false, kMnB = false;
  static constexpr int kBlock = FormatA::kBlock;
  static_assert(FormatA::kBlock == FormatB::kBlock, "both operands must have scale blocks of the same size");
  using InStage = OperandsOf<FormatA, FormatB, TileK>;
  using Operands = typename InStage::Type;
  static constexpr int Boxes = InStage::kBoxes, kTileBytesK = InStage::kLine;
  static constexpr int kRowBytesA = Operands::RowsA::kBytes, kRowBytesB = Operands::RowsB::kBytes;
  static constexpr int kAtoms = TileK / kBlock / 4;  // of scale factors along k
  static_assert(kAtoms % Boxes == 0 && TileK % (kBlock * 4) == 0);

  template <int TileM, int TileN, int Stages, int StoreBytes>
  using Layout = mma::Layout<TileM, TileN, kRowBytesA, kRowBytesB, Boxes, Stages, kAtoms, StoreBytes>;
  template <class Layout, int TileM, int TileN, int Rows, int N, int Stages>
  using Mainloop = sm120::BlockScaledMainloop<Operands, sm120::AtomWords<Layout, TileM, TileN, Rows, N, kAtoms / Boxes>,
                                              Layout, Rows, N, Boxes, Stages>;

  // Loads k ranges of tiles. Made and called by a whole warp.
  template <class Layout, int TileM, int TileN, int Stages>
  struct Producer {
    Params const& params;
    uint32_t shared;
    sm90::Position<Stages> at{};
    bool loads = sm90::elect_one();  // whether this thread issues the loads

    __device__ __forceinline__ Producer(Params const& kernel_params, uint32_t memory, sm90::ClusterPlace const&)
        : params(kernel_params), shared(memory) {}

    __device__ __forceinline__ void run(sm90::TileKRange const& range) {
#pragma unroll 1
      for (int i = 0; i < range.count; ++i) {
        sm90::barrier_wait(Layout::empty(shared, at.stage), at.phase ^ 1);
        if (loads) {
          issue(range, range.first + i);
        }
        at.next();
      }
    }

   private:
    // Loads k tile `k_tile` to the current stage.
    __device__ __forceinline__ void issue(sm90::TileKRange const& range, int k_tile) const {
      uint32_t const full = Layout::full(shared, at.stage);
      // Blocks of 128 rows count from those of the first matrix. A narrow tile begins within the rows of an atom.
      int const a_block = range.a_matrix * params.row_blocks_a + range.a_row / 128;
      int const b_block = range.b_matrix * params.row_blocks_b + range.b_row / 128;
      int const b_word = Layout::kAtomRowsB < 32 ? range.b_row % 32 * 4 : 0;
      sm90::barrier_expect(full, params.stage_bytes);
#pragma unroll
      for (int box = 0; box < Boxes; ++box) {
        int const line = k_tile * Boxes + box;
        sm90::copy_box(Layout::a(shared, at.stage) + box * Layout::kBoxA, &params.a, full, line * kRowBytesA,
                       range.a_row, range.a_matrix, params.policy_a);
        sm90::copy_box(Layout::b(shared, at.stage) + box * Layout::kBoxB, &params.b, full, line * kRowBytesB,
                       range.b_row, range.b_matrix, params.policy_b);
      }
      sm90::copy_box(Layout::scales_a(shared, at.stage), &params.scales_a, full, 0, k_tile * kAtoms, a_block,
                     sm90::kKeepNormal);
      sm90::copy_box(Layout::scales_b(shared, at.stage), &params.scales_b, full, b_word, k_tile * kAtoms, b_block,
                     sm90::kKeepNormal);
    }
  };

  // Prefetches the tensor maps of what stages load.
  static __device__ __forceinline__ void prefetch_operands(Params const& params) {
    sm90::prefetch_map(&params.a);
    sm90::prefetch_map(&params.b);
    sm90::prefetch_map(&params.scales_a);
    sm90::prefetch_map(&params.scales_b);
  }

  // Multiplies `k_tiles` stages of the tile that begins at `row` and `column`. Only ping-pong kernels must know when
  // all of the stages have arrived.
  template <class Mainloop, class Sums, class Issued>
  static __device__ __forceinline__ void multiply_tile(Mainloop& mainloop, int k_tiles, int row, int column, Sums& sums,
                                                       Issued const&) {
    mainloop.run(k_tiles, row, column, sums);
  }
};

template <class FormatA, class FormatB, class ElementD, int TileM, int TileN, int TileK, int Stages, bool kSwapped,
          sm90::Activation kActivation, int kStoreBuffers, bool kPdl>
using Kernel = gemm::mma::StagedKernel<ScaledStage<FormatA, FormatB, TileK>, ElementD, TileM, TileN, Stages,
                                       gemm::mma::Schedule::kCooperative, kSwapped, kActivation, kStoreBuffers, kPdl>;

}  // namespace tilewright::blockscaled_gemm::mma

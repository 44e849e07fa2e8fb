// The main loop of a consumer warpgroup, by mma.sync, for operands that may have an F32 scale factor for 128 of k. It
// takes the place of sm90::ScaledMainloop, and each thread holds the same sums as after wgmma.
//
//   D[64 * Rows, N] = sum over blocks of 128 k of SA * SB * (A B^T of the block)
//
// The tensor core sums a block, which is a box of the stage. Then the sums are promoted: multiplied by their factors
// and added to F32 registers, in the order of operations of sm90::ScaledMainloop. The next block's products go to the
// same registers. So a few columns at a time are promoted, before the next block's first products of these columns.
// Without factors, the tensor core sums all of k.
#pragma once

#include <cstdint>

#include "tilewright/sm120/fragments.hpp"
#include "tilewright/sm120/mainloop.hpp"
#include "tilewright/sm90/pipeline.hpp"
#include "tilewright/sm90/ptx.hpp"
#include "tilewright/sm90/scaled_layout.hpp"

namespace tilewright::sm120 {

// The scale factors of a thread's sums, for 128 of k. A thread has two rows of each 64-row slice, and two columns of
// each group of 8.
template <class Layout, sm90::Scales kA, sm90::Scales kB, int TileM, int TileN, int Rows, int N>
struct Factors {
  using Scales = sm90::Scales;
  static constexpr bool kOfColumns = kB == Scales::kRows;  // else blocks of 128 columns share a factor
  // How many blocks of 128 columns a tile may overlap. Their factors are multiplied by those of the rows when they are
  // loaded.
  static constexpr int kBlocks = kB == Scales::kBlocks ? Layout::kBlocks : 1;

  float rows[kBlocks][Rows][2] = {};
  float columns[kOfColumns ? N / 4 : 1] = {};

  // Loads the factors of box `box` of stage `stage`. `row`, `column`: where the warpgroup's part begins. They count
  // from the beginning of the tile where rows have factors, and else from that of the block of 128 in which the tile
  // begins.
  __device__ __forceinline__ void load(uint32_t shared, int stage, int box, int row, int column) {
    int const lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    float of_blocks[kBlocks];
    if constexpr (kB == Scales::kBlocks) {
#pragma unroll
      for (int i = 0; i < kBlocks; ++i) {
        of_blocks[i] = sm90::load_float(Layout::blocks(shared, stage, box) + i * 4);
      }
    } else {
      of_blocks[0] = 1.0f;
      uint32_t const from = Layout::scales_b(shared, stage) + (box * TileN + column + lane % 4 * 2) * 4;
#pragma unroll
      for (int group = 0; group < N / 8; ++group) {
        columns[group * 2] = sm90::load_float(from + group * 32);
        columns[group * 2 + 1] = sm90::load_float(from + group * 32 + 4);
      }
    }
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
      float own[2];
      if constexpr (kA == Scales::kRows) {
        uint32_t const from = Layout::scales_a(shared, stage) + (box * TileM + row + r * 64 + warp * 16 + lane / 4) * 4;
        own[0] = sm90::load_float(from);
        own[1] = sm90::load_float(from + 32);
      } else {
        own[0] = own[1] = sm90::load_float(Layout::blocks(shared, stage, box) + (row + r * 64) / sm90::kScaleBlock * 4);
      }
#pragma unroll
      for (int i = 0; i < kBlocks; ++i) {
        rows[i][r][0] = kOfColumns ? own[0] : own[0] * of_blocks[i];
        rows[i][r][1] = kOfColumns ? own[1] : own[1] * of_blocks[i];
      }
    }
  }

  // The factor of sum `i` of 8-column group `group`, in 64-row slice `r`. `column`: as in `load`.
  __device__ __forceinline__ float of(int r, int group, int i, int column) const {
    float factor = rows[0][r][i / 2];
    if constexpr (kOfColumns) {
      factor *= columns[group * 2 + i % 2];
    }
#pragma unroll
    for (int block = 1; block < kBlocks; ++block) {
      factor = column + group * 8 >= block * sm90::kScaleBlock ? rows[block][r][i / 2] : factor;
    }
    return factor;
  }

  // A word that depends on all that `load` has loaded.
  __device__ __forceinline__ uint32_t loaded() const {
    uint32_t words = 0;
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
#pragma unroll
      for (int r = 0; r < Rows; ++r) {
        words |= __float_as_uint(rows[i][r][0]) | __float_as_uint(rows[i][r][1]);
      }
    }
#pragma unroll
    for (float const column : columns) {
      words |= __float_as_uint(column);
    }
    return words;
  }
};

// Operands without scale factors.
template <class Layout, int TileM, int TileN, int Rows, int N>
struct Factors<Layout, sm90::Scales::kNone, sm90::Scales::kNone, TileM, TileN, Rows, N> {
  __device__ __forceinline__ void load(uint32_t, int, int, int, int) {}
  __device__ __forceinline__ uint32_t loaded() const { return 0; }
};

// The steps of the loop are those of Mainloop (mainloop.hpp). A box's factors are loaded after its first step, when
// those of the previous box have been used.
template <class A, class B, class Layout, sm90::Scales kA, sm90::Scales kB, int TileM, int TileN, int Rows, int N,
          int Boxes, int Stages, bool kMnA = false, bool kMnB = false>
struct ScaledMainloop {
  using Mma = typename detail::MmaOf<A, B>::Type;
  using Factors = sm120::Factors<Layout, kA, kB, TileM, TileN, Rows, N>;
  static constexpr bool kPromotes = kA != sm90::Scales::kNone;
  static_assert(kPromotes == (kB != sm90::Scales::kNone));
  static constexpr int kCount = N / 2;  // sums of 64 rows
  static constexpr int kAllGroups = N / 8, kGroups = kAllGroups == 1 ? 1 : Rows == 1 && kAllGroups > 2 ? 4 : 2;
  static constexpr int kPortionsOfStep = (kAllGroups + kGroups - 1) / kGroups;
  static constexpr int kPortionsOfBox = kSteps * kPortionsOfStep, kPortions = Boxes * kPortionsOfBox;

  uint32_t shared;
  int first_row, first_column;  // of this warpgroup in the tile
  FragmentsA<Rows, kMnA> from_a;
  FragmentsB<N, kMnB> from_b;
  sm90::Position<Stages> at{};

  __device__ __forceinline__ ScaledMainloop(uint32_t memory, int row, int column)
      : shared(memory), first_row(row), first_column(column), from_a(row), from_b(column) {}

  // Multiplies the next `k_tiles` stages of the ring, at least one. `tile_row`, `tile_column`: the tile's first row
  // and column, in the plane of the kernel's own operands.
  __device__ __forceinline__ void run(int k_tiles, int tile_row, int tile_column, float (&sum)[Rows][kCount]) {
    int const row = first_row + (kA == sm90::Scales::kBlocks ? tile_row % sm90::kScaleBlock : 0);
    int const column = first_column + (kB == sm90::Scales::kBlocks ? tile_column % sm90::kScaleBlock : 0);
    State state;
    clear(sum);
    clear(state.part);
    wait_for_stage<Layout>(*this);
    load_portion<Layout>(*this, state.fragments, 0);
#pragma unroll 1
    for (int left = k_tiles; left > 1; --left) {
      multiply_stage<false>(state, row, column, sum);
    }
    multiply_stage<true>(state, row, column, sum);
    if constexpr (kPromotes) {
#pragma unroll
      for (int portion = 0; portion < kPortionsOfStep; ++portion) {
        promote(state.factors, column, state.part, sum, portion);
      }
    }
  }

 private:
  struct Fragments {
    uint32_t a[2][Rows][4], b[2][kGroups][2];
  };

  // What a stage leaves to the next.
  struct State {
    Fragments fragments;
    Factors factors;
    float part[kPromotes ? Rows : 1][kPromotes ? kCount : 1];  // sums of the current box
  };

  // Multiplies the current stage, whose first portion is loaded, and loads the first portion of the next stage.
  // `kLast`: no stage follows. A branch in one loop would not do: ptxas would see a path from the loads for a next
  // stage to the end of the loop, where they would be in flight at the next arrival at a barrier, which the build
  // reports.
  template <bool kLast>
  __device__ __forceinline__ void multiply_stage(State& state, int row, int column, float (&sum)[Rows][kCount]) {
    uint32_t factors = 0;  // depends on the factors of all boxes
#pragma unroll
    for (int portion = 0; portion < kPortions; ++portion) {
      int const in_box = portion % kPortionsOfBox;
      if (portion + 1 < kPortions) {
        load_portion<Layout>(*this, state.fragments, portion + 1);
      } else {
        if constexpr (kPromotes) {
          uint32_t const products = known_after(state.part) | (Boxes > 1 ? known_after(sum) : 0);
          release_stage<Layout>(*this, state.fragments, factors | products);
        } else {
          release_stage<Layout>(*this, state.fragments, known_after(sum));
        }
        at.next();
        if constexpr (!kLast) {
          wait_for_stage<Layout>(*this);
          load_portion<Layout>(*this, state.fragments, 0);
        }
      }
      if constexpr (kPromotes) {
        if (in_box < kPortionsOfStep) {  // a box begins, and all of the previous one is multiplied
          promote(state.factors, column, state.part, sum, in_box);
        }
        if (in_box == kPortionsOfStep) {
          state.factors.load(shared, at.stage, portion / kPortionsOfBox, row, column);
          factors |= state.factors.loaded();
        }
        multiply_portion<ScaledMainloop>(state.fragments, portion, state.part);
      } else {
        multiply_portion<ScaledMainloop>(state.fragments, portion, sum);
      }
    }
  }

  // Promotes the sums of a box, in the columns of portion `portion` of a step, and clears them.
  static __device__ __forceinline__ void promote(Factors const& factors, int column, float (&part)[Rows][kCount],
                                                 float (&sum)[Rows][kCount], int portion) {
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
#pragma unroll
      for (int i = portion * kGroups * 4; i < (portion + 1) * kGroups * 4 && i < kCount; ++i) {
        sum[r][i] += factors.of(r, i / 4, i % 4, column) * part[r][i];
        part[r][i] = 0.0f;
      }
    }
  }
};

}  // namespace tilewright::sm120

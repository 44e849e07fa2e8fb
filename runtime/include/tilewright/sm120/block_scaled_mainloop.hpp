// The main loop of a consumer warpgroup for FP8 and FP4 operands, by mma.sync with block scales. Each row of an operand
// has a scale factor for 16, 32 or 128 of k:
//
//   D[64 * Rows, N] = sum over blocks of k of SA * SB * (A B^T of the block)
//
// The instruction multiplies by the factors, so the tensor core sums all of k. How operands lie in a stage and where
// factors are loaded from are policies (block_scaled_operands.hpp, scale_words.hpp).
#pragma once

#include <cstdint>

#include "tilewright/sm120/block_scaled_operands.hpp"
#include "tilewright/sm120/mainloop.hpp"
#include "tilewright/sm120/scale_words.hpp"
#include "tilewright/sm90/pipeline.hpp"
#include "tilewright/sm90/ptx.hpp"

namespace tilewright::sm120 {

// `Operands`: BlockScaledOperands. `Words`: WordLines, BoxWordLines, NarrowWordLines or AtomWords. Words are loaded
// with the first portion that needs them. The loop and its portions are those of Mainloop (mainloop.hpp).
template <class Operands, class Words, class Layout, int Rows, int N, int Boxes, int Stages>
struct BlockScaledMainloop {
  using Mma = typename Operands::Mma;
  static constexpr int kSteps = Operands::kSteps;
  static constexpr int kCount = N / 2;  // sums of 64 rows
  static constexpr int kAllGroups = N / 8, kGroups = kAllGroups == 1 ? 1 : Rows == 1 && kAllGroups > 2 ? 4 : 2;
  static constexpr int kPortionsOfStep = (kAllGroups + kGroups - 1) / kGroups;
  static constexpr int kPortionsOfBox = kSteps * kPortionsOfStep, kPortions = Boxes * kPortionsOfBox;
  static constexpr int kPortionsOfWord = kPortionsOfBox / Words::kWordsOfBox;
  static constexpr int kRegistersA = Words::kRegistersA, kRegistersB = Words::kRegistersB;  // of words
  static_assert(kSteps % 2 == 0 && kSteps % Words::kWordsOfBox == 0);
  static constexpr bool kUnpacks = Operands::kUnpacks;

  uint32_t shared;
  Words from_words;
  typename Operands::RowsA::template FragmentsA<Rows> from_a;
  typename Operands::RowsB::template FragmentsB<N> from_b;
  sm90::Position<Stages> at{};

  // `row`, `column`: where this warpgroup's part begins in the tile.
  __device__ __forceinline__ BlockScaledMainloop(uint32_t memory, int row, int column)
      : shared(memory), from_words(row, column), from_a(row), from_b(column) {}

  // Multiplies the next `k_tiles` stages of the ring, at least one. `tile_row`, `tile_column`: the tile's first row
  // and column, in the plane of the kernel's own operands.
  __device__ __forceinline__ void run(int k_tiles, int tile_row, int tile_column, float (&sum)[Rows][kCount]) {
    State state;
    clear(sum);
    from_words.begin(tile_row, tile_column);
    wait_for_stage<Layout>(*this);
    load(state, 0);
    int box = 0;  // counted along all of k
#pragma unroll 1
    for (int left = k_tiles; left > 1; --left) {
      multiply_stage<false>(state, box, sum);
    }
    multiply_stage<true>(state, box, sum);
  }

 private:
  // Fragments of the current portion and of the next one. Words of scale factors that are in use, and the next ones.
  struct State {
    uint32_t a[2][Rows][4], b[2][kGroups][2];
    uint32_t scales_a[kRegistersA], scales_b[kRegistersB], next_a[kRegistersA], next_b[kRegistersB];
  };

  // Multiplies the current stage, whose first portion is loaded, and loads the first portion of the next stage.
  // `kLast`: no stage follows (why it is compiled in: scaled_mainloop.hpp).
  template <bool kLast>
  __device__ __forceinline__ void multiply_stage(State& state, int& box, float (&sum)[Rows][kCount]) {
    uint32_t words = 0;  // depends on all words of the stage
#pragma unroll
    for (int portion = 0; portion < kPortions; ++portion) {
      if (portion % kPortionsOfWord == 0) {
        take_words(state, box, words);
        box += portion % kPortionsOfBox == 0;
      }
      if (portion + 1 < kPortions) {
        load(state, portion + 1);
      } else {
        release_stage<Layout, kUnpacks>(*this, state, words | known_after<kUnpacks>(sum));
        at.next();
        if constexpr (!kLast) {
          wait_for_stage<Layout>(*this);
          load(state, 0);
        }
      }
      multiply(state, portion, sum);
    }
  }

  // Loads what portion `portion` of the current stage needs: its fragments and, if it begins a word, the words.
  __device__ __forceinline__ void load(State& state, int portion) const {
    if (portion % kPortionsOfWord == 0) {
      int const box = portion / kPortionsOfBox, word = portion % kPortionsOfBox / kPortionsOfWord;
#pragma unroll
      for (int i = 0; i < kRegistersA; ++i) {
        state.next_a[i] = sm90::load_word(from_words.a(shared, at.stage, box, word, i));
      }
#pragma unroll
      for (int i = 0; i < kRegistersB; ++i) {
        state.next_b[i] = sm90::load_word(from_words.b(shared, at.stage, box, word, i));
      }
    }
    load_portion<Layout>(*this, state, portion);
  }

  // Takes the words that were loaded, before the first products that need them. `box` counts along all of k.
  static __device__ __forceinline__ void take_words(State& state, int box, uint32_t& words) {
    int const shift = Words::shift(box);
#pragma unroll
    for (int i = 0; i < kRegistersA; ++i) {
      state.scales_a[i] = state.next_a[i] >> shift;
      words |= state.scales_a[i];
    }
#pragma unroll
    for (int i = 0; i < kRegistersB; ++i) {
      state.scales_b[i] = state.next_b[i] >> shift;
      words |= state.scales_b[i];
    }
  }

  // Multiplies the portion if it belongs to step `kStep` of a box, or else tries the next step. The step must be known
  // when the kernel is compiled, because the instruction names the bytes of its scale factors by constants.
  template <int kStep = 0>
  static __device__ __forceinline__ void multiply(State const& state, int portion, float (&d)[Rows][kCount]) {
    if constexpr (kStep < kSteps) {
      if (portion / kPortionsOfStep % kSteps == kStep) {
        multiply_groups<kStep, 0, 0>(state, portion, d);
      } else {
        multiply<kStep + 1>(state, portion, d);
      }
    }
  }

  // Multiplies slices `kThreadA`, `kThreadA` + 2 and so on by those column groups of the portion whose words are in
  // thread `kThreadB` of each quad. Then it calls itself for the other threads.
  template <int kStep, int kThreadA, int kThreadB>
  static __device__ __forceinline__ void multiply_groups(State const& state, int portion, float (&d)[Rows][kCount]) {
    int const first = portion % kPortionsOfStep * kGroups;
#pragma unroll
    for (int i = 0; i < kGroups; ++i) {
      int const group = first + i;
      if (group < kAllGroups && Words::thread_of(group) == kThreadB) {
#pragma unroll
        for (int r = kThreadA; r < Rows; r += 2) {
          float (&sums)[4] = *reinterpret_cast<float (*)[4]>(d[r] + group * 4);
          constexpr int kByte = Words::byte(kStep, Mma::kBlocks);
          Mma::template mma<kByte, kByte, kThreadA, kThreadB>(sums, state.a[kStep % 2][r], state.b[portion % 2][i],
                                                              state.scales_a[r / 2],
                                                              state.scales_b[Words::register_of(group)]);
        }
      }
    }
    if constexpr (kThreadA + 1 < 2 && kThreadA + 1 < Rows) {
      multiply_groups<kStep, kThreadA + 1, kThreadB>(state, portion, d);
    } else if constexpr (kThreadB + 1 < 4 && kThreadB + 1 < kAllGroups) {
      multiply_groups<kStep, 0, kThreadB + 1>(state, portion, d);
    }
  }
};

}  // namespace tilewright::sm120

// The main loop of a consumer warpgroup for FP8 operands with UE8M0 scale factors for 32 or 128 of k of each row and
// column, by mma.sync with block scales:
//
//   D[64 * Rows, N] = sum over blocks of k of SA * SB * (A B^T of the block)
//
// The instruction multiplies by the factors, so that the tensor core sums all of k. Factors come as words of four, the
// first block of k lowest. For blocks of 32, a box of 128 of k has a word of its own. For blocks of 128, a word serves
// four boxes, and is loaded again for each stage: a stage has one line of words.
//
// A lane holds the words of one row of a fragment of A, and of one column of a fragment of B (mma_definition.hpp,
// a_scale_lane and b_scale_lane). The lanes that one fragment leaves free hold those of others, so that one register of
// a warp has the words of two 64-row slices, or of four groups of 8 columns.
#pragma once

#include <cstdint>

#include "tilewright/sm120/fragments.hpp"
#include "tilewright/sm120/mma.hpp"
#include "tilewright/sm90/pipeline.hpp"
#include "tilewright/sm90/ptx.hpp"

namespace tilewright::sm120 {

// `kBlock`: elements of k that share a factor.
template <class A, class B, class Layout, int TileM, int TileN, int Rows, int N, int Boxes, int Stages, int kBlock>
struct BlockScaledMainloop {
  static_assert(kBlock == 32 || kBlock == 128);
  using Mma = MmaMxf8<A, B>;
  static constexpr int kCount = N / 2;  // sums of 64 rows
  static constexpr int kAllGroups = N / 8, kGroups = kAllGroups == 1 ? 1 : Rows == 1 && kAllGroups > 2 ? 4 : 2;
  static constexpr int kPortionsOfStep = (kAllGroups + kGroups - 1) / kGroups;
  static constexpr int kPortionsOfBox = kSteps * kPortionsOfStep, kPortions = Boxes * kPortionsOfBox;
  static constexpr int kWordsA = (Rows + 1) / 2, kWordsB = (kAllGroups + 3) / 4;  // registers of a thread

  uint32_t shared;
  uint32_t words_a, words_b;  // bytes from the words of a box to this lane's
  FragmentsA<Rows, false> from_a;
  FragmentsB<N, false> from_b;
  sm90::Position<Stages> at{};

  // `row`, `column`: the warpgroup's first ones in the tile.
  __device__ __forceinline__ BlockScaledMainloop(uint32_t memory, int row, int column)
      : shared(memory), from_a(row), from_b(column) {
    int const lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, thread = lane % 4;
    words_a = (row + thread / 2 % Rows * 64 + warp * 16 + thread % 2 * 8 + lane / 4) * 4;
    words_b = (column + thread % kAllGroups * 8 + lane / 4) * 4;
  }

  // Multiplies the next `k_tiles` stages of the ring, at least one. The other arguments are those of ScaledMainloop.
  __device__ __forceinline__ void run(int k_tiles, int, int, float (&sum)[Rows][kCount]) {
    State state;
    clear(sum);
    wait();
    load(state, 0);
    int block = 0;  // of 128 of k
#pragma unroll 1
    for (int left = k_tiles; left > 1; --left) {
      multiply_stage<false>(state, block, sum);
    }
    multiply_stage<true>(state, block, sum);
  }

  // Releases the next `k_tiles` stages, of which this warp stores nothing.
  __device__ __forceinline__ void skip(int k_tiles) {
#pragma unroll 1
    for (int i = 0; i < k_tiles; ++i) {
      wait();
      __syncwarp();  // no lane waits for this phase of the barrier any more
      if (threadIdx.x % 32 == 0) {
        sm90::barrier_arrive(Layout::empty(shared, at.stage));
      }
      at.next();
    }
  }

  static __device__ __forceinline__ void clear(float (&values)[Rows][kCount]) {
#pragma unroll
    for (auto& row : values) {
#pragma unroll
      for (float& value : row) {
        value = 0.0f;
      }
    }
  }

 private:
  // Fragments of the current portion and the next one; the words of the current box, and those that are loaded.
  struct State {
    uint32_t a[2][Rows][4], b[2][kGroups][2];
    uint32_t scales_a[kWordsA], scales_b[kWordsB], next_a[kWordsA], next_b[kWordsB];
  };

  // Multiplies the current stage, whose first portion is loaded, and loads the next stage's. `kLast`: no stage follows.
  template <bool kLast>
  __device__ __forceinline__ void multiply_stage(State& state, int& block, float (&sum)[Rows][kCount]) {
    uint32_t words = 0;  // depends on those of all boxes
#pragma unroll
    for (int portion = 0; portion < kPortions; ++portion) {
      if (portion % kPortionsOfBox == 0) {
        take_block(state, block++, words);
      }
      if (portion + 1 < kPortions) {
        load(state, portion + 1);
      } else {
        release(state, words | known_after(sum));
        at.next();
        if constexpr (!kLast) {
          wait();
          load(state, 0);
        }
      }
      multiply(state, portion, sum);
    }
  }

  // Waits for the current stage's data.
  __device__ __forceinline__ void wait() const { sm90::barrier_wait(Layout::full(shared, at.stage), at.phase); }

  // Loads what portion `portion` of the current stage adds to the registers: its fragments of B, if it begins a step,
  // those of A, and if it begins a box, its words.
  __device__ __forceinline__ void load(State& state, int portion) const {
    int const box = portion / kPortionsOfBox, step = portion / kPortionsOfStep % kSteps,
              in_step = portion % kPortionsOfStep;
    if (portion % kPortionsOfBox == 0) {
      int const line = kBlock == 32 ? box : 0;
#pragma unroll
      for (int i = 0; i < kWordsA; ++i) {
        state.next_a[i] = sm90::load_word(Layout::scales_a(shared, at.stage) + words_a + (line * TileM + i * 128) * 4);
      }
#pragma unroll
      for (int i = 0; i < kWordsB; ++i) {
        state.next_b[i] = sm90::load_word(Layout::scales_b(shared, at.stage) + words_b + (line * TileN + i * 32) * 4);
      }
    }
    if (in_step == 0) {
      from_a.load(Layout::a(shared, at.stage) + box * Layout::kBoxA, step, state.a[step % 2]);
    }
    from_b.load(Layout::b(shared, at.stage) + box * Layout::kBoxB, step, in_step * kGroups, state.b[portion % 2]);
  }

  // Before a box is multiplied: takes the words that were loaded for it. Of blocks of 128, the factor of the box, which
  // is number `block` along k, moves to the lowest byte.
  static __device__ __forceinline__ void take_block(State& state, int block, uint32_t& words) {
    int const shift = kBlock == 128 ? block % 4 * 8 : 0;
#pragma unroll
    for (int i = 0; i < kWordsA; ++i) {
      state.scales_a[i] = state.next_a[i] >> shift;
      words |= state.scales_a[i];
    }
#pragma unroll
    for (int i = 0; i < kWordsB; ++i) {
      state.scales_b[i] = state.next_b[i] >> shift;
      words |= state.scales_b[i];
    }
  }

  // Tells the producer that this warp has read the current stage, when the fragments of its last portion have come and
  // `others`, which depends on all other loads of the stage, is known.
  __device__ __forceinline__ void release(State const& state, uint32_t others) const {
    uint32_t loaded = others;
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
      loaded |= state.a[(kSteps - 1) % 2][r][0];
    }
#pragma unroll
    for (int i = 0; i < kGroups; i += 2) {
      if ((kPortionsOfStep - 1) * kGroups + i < kAllGroups) {
        loaded |= state.b[(kPortions - 1) % 2][i][0];
      }
    }
    if (threadIdx.x % 32 == 0) {
      sm90::barrier_arrive(Layout::empty(shared, at.stage) + sm90::zero_after(loaded));
    }
  }

  // A word of sums that are known when all fragments have come that were multiplied for them: of each portion's columns
  // and of each row.
  static __device__ __forceinline__ uint32_t known_after(float const (&sums)[Rows][kCount]) {
    uint32_t known = 0;
#pragma unroll
    for (int group = 0; group < kAllGroups; group += 2) {  // a load has two
      known |= __float_as_uint(sums[0][group * 4]);
    }
#pragma unroll
    for (int r = 1; r < Rows; ++r) {
      known |= __float_as_uint(sums[r][kCount - 4]);
    }
    return known;
  }

  __device__ __forceinline__ void multiply(State const& state, int portion, float (&d)[Rows][kCount]) const {
    multiply_in<0>(state, portion, d);
  }

  // The instruction names bytes and threads by constants: tries all steps of a box.
  template <int kStep>
  static __device__ __forceinline__ void multiply_in(State const& state, int portion, float (&d)[Rows][kCount]) {
    if constexpr (kStep < kSteps) {
      if (portion / kPortionsOfStep % kSteps == kStep) {
        multiply_groups<kStep, 0, 0>(state, portion, d);
      } else {
        multiply_in<kStep + 1>(state, portion, d);
      }
    }
  }

  // Groups `kThreadB`, `kThreadB` + 4 and so on of the portion, of slices `kThreadA`, `kThreadA` + 2 and so on.
  template <int kStep, int kThreadA, int kThreadB>
  static __device__ __forceinline__ void multiply_groups(State const& state, int portion, float (&d)[Rows][kCount]) {
    int const first = portion % kPortionsOfStep * kGroups;
#pragma unroll
    for (int i = 0; i < kGroups; ++i) {
      int const group = first + i;
      if (group < kAllGroups && group % 4 == kThreadB) {
#pragma unroll
        for (int r = kThreadA; r < Rows; r += 2) {
          float (&sums)[4] = *reinterpret_cast<float (*)[4]>(d[r] + group * 4);
          constexpr int kByte = kBlock == 32 ? kStep : 0;
          Mma::template mma<kByte, kByte, kThreadA, kThreadB>(sums, state.a[kStep % 2][r], state.b[portion % 2][i],
                                                              state.scales_a[r / 2], state.scales_b[group / 4]);
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

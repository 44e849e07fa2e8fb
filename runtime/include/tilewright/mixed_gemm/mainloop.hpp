// The main loop of a consumer warpgroup of `mixed_gemm` and `mixed_grouped_gemm`, with `schedule: at_will`:
// D[64 Rows, N] += W X^T, where W is decoded to registers and X, the activations, lies in shared memory.
//
// A stage is multiplied in batches, which are a piece of the packed weight (64 rows by 64 of k) or half of one. While
// the tensor core multiplies a batch, the threads decode the next batch to the other set of registers, and then load
// the piece of the batch after that:
//
//   tensor core      | batch 0        | batch 1        | batch 2        |
//   the warpgroup    | decode batch 1 | decode batch 2 | decode batch 3 |
//                    | load for 2     | load for 3     | load for 4     |
//
//   waits                      for                                            by
//   the first load of a stage  its data                                       the stage's `full` mbarrier
//   decoding a batch           the wgmmas that read the same registers        wgmma.wait_group 1
//   the producer               all warpgroups: the stage has been read        the stage's `empty` mbarrier
#pragma once

#include <cstdint>

#include "tilewright/mixed_gemm/layout.hpp"
#include "tilewright/mixed_gemm/quick.hpp"
#include "tilewright/mixed_gemm/wgmma.hpp"
#include "tilewright/sm90/mainloop.hpp"
#include "tilewright/sm90/wgmma.hpp"

namespace tilewright::mixed_gemm {

// `Groups` groups of warpgroups divide k: group i multiplies every `Groups`-th stage of the ring, starting with stage
// i.
template <class Type, class Format, class Layout, int Rows, int N, int Stages, int Groups>
struct Mainloop {
  static constexpr int kCount = N / 2, Pieces = Layout::Pieces;
  static constexpr bool kQuick = kHasUsualScales<Format>;
  // Whether the first product is added to zeros. If it overwrote the sums, ptxas would serialise the wgmmas of kernels
  // with several groups and the quick decoder (C7514).
  static constexpr bool kAddsFirst = kQuick && Groups > 1;
  // A batch has four steps of 16 of k, a whole piece. It has two steps where a stage would otherwise have an odd number
  // of batches, so that the two sets of registers alternate at the same places of every stage, and where the kernel
  // would spill.
  static constexpr int kWarpgroups = Layout::Slices / Rows * Groups;
  static constexpr int kMostColumns = kWarpgroups == 4 ? 24 : kWarpgroups == 3 || Rows == 2 ? 96 : 256;
  static constexpr bool kFewRegisters = kQuick && N > kMostColumns;
  static constexpr int kSteps = Rows * Pieces % 2 == 0 && !kFewRegisters ? 4 : 2, kBatchesOfPiece = 4 / kSteps;
  static constexpr int kBatches = Rows * Pieces * kBatchesOfPiece;  // batches of a stage
  static_assert(kBatches % 2 == 0 && Stages % Groups == 0);

  uint32_t shared;
  int first_slice;  // of this warpgroup in the tile
  sm90::Release release;
  sm90::Position<Stages> at{};

  __device__ __forceinline__ Mainloop(uint32_t memory, int slice, int group, sm90::Release const& readers)
      : shared(memory), first_slice(slice), release(readers) {
    at.stage = group;
  }

  // Multiplies the group's next `stages` stages of the ring; at least one if there is one group.
  __device__ __forceinline__ void run(int stages, float (&sums)[Rows][kCount]) {
    if (kAddsFirst || (Groups > 1 && stages == 0)) {
#pragma unroll
      for (float (&row)[kCount] : sums) {
#pragma unroll
        for (float& sum : row) {
          sum = 0.0f;
        }
      }
      if (stages == 0) {
        return;
      }
    }
    sm90::barrier_wait(Layout::full(shared, at.stage), at.phase);
    load(at.stage, 0);
    decode(0);
    load(at.stage, 1);
    for (int i = 0; i + 1 < stages; ++i) {
      stage<true>(i > 0, sums);
    }
    stage<false>(stages > 1, sums);
    sm90::wgmma_wait<0>();
    sm90::hold(fragments[0]);
    sm90::hold(fragments[1]);
#pragma unroll
    for (float (&row)[kCount] : sums) {
      sm90::hold(row);
    }
    release(last);
  }

 private:
  // The calling thread's packed elements and scales of a piece. With codes of 8 bits, a piece has two parts of 32 of k,
  // each with 16 bytes of a thread.
  static constexpr int kParts = Format::kBits / 4;
  uint32_t words[kParts][4];
  typename Format::Scales scales;
  uint32_t fragments[2][kSteps * 4];
  int last;  // the stage that is multiplied

  // Multiplies a stage whose first batch is decoded and whose second batch's piece is loaded. `kMore`: another stage
  // follows. `sum`: whether products are added to the sums, and otherwise overwrite them.
  template <bool kMore>
  __device__ __forceinline__ void stage(bool sum, float (&sums)[Rows][kCount]) {
    int const before = last, current = at.stage;
    last = current;
    advance();
#pragma unroll
    for (int batch = 0; batch < kBatches; ++batch) {
      sm90::wgmma_fence();
      multiply(current, batch, sum, fragments[batch % 2], sums);
      sm90::wgmma_commit();
      // The batch before this one is done: its registers are free.
      sm90::wgmma_wait<1>();
      sm90::hold(fragments[(batch + 1) % 2]);
      if (kMore || batch + 1 < kBatches) {
        decode((batch + 1) % kBatches);
      }
      if (batch == 0 && sum) {
        // The arrival at `empty` comes after the loads of the stage, because it depends on decoded registers: the first
        // one is made of all loads, or, with two parts, the first and the last together.
        sm90::Release after = release;
        uint32_t const decoded = kParts == 1 ? fragments[1][0] : fragments[1][0] | fragments[1][kSteps * 4 - 1];
        after.empty += sm90::zero_after(decoded);
        after(before);
      }
      if (kMore && batch == kBatches - 2) {
        sm90::barrier_wait(Layout::full(shared, at.stage), at.phase);
      }
      if (kMore || batch + 2 < kBatches) {
        load(batch + 2 < kBatches ? current : at.stage, (batch + 2) % kBatches);
      }
    }
  }

  static constexpr int piece(int batch) { return batch / kBatchesOfPiece / Rows; }
  static constexpr int row(int batch) { return batch / kBatchesOfPiece % Rows; }

  __device__ __forceinline__ void advance() {
    at.stage += Groups;
    if (at.stage >= Stages) {
      at.stage -= Stages;
      at.phase ^= 1;
    }
  }

  // Loads the piece of a batch, unless the batch before has the same piece.
  __device__ __forceinline__ void load(int stage, int batch) {
    if (batch % kBatchesOfPiece != 0) {
      return;
    }
    int const thread = threadIdx.x % 128, slice = first_slice + row(batch);
    uint32_t const from = Layout::weights(shared, stage, slice) + piece(batch) * Layout::kPieceBytes + thread * 16;
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      sm90::load_words(from + part * (Layout::kPieceBytes / kParts), words[part]);
    }
    int const half = Layout::kSliceScales == Layout::kPieceScales ? 0 : piece(batch);
    // The four threads of a quad have the same rows.
    uint32_t const own = thread / 4 * static_cast<int>(sizeof(scales));
    scales.load(Layout::scales(shared, stage, slice) + half * Layout::kPieceScales + own);
  }

  // Decodes a batch of the loaded piece to its set of registers.
  __device__ __forceinline__ void decode(int batch) {
    int const first = batch % kBatchesOfPiece * kSteps;
    if constexpr (kQuick) {
      decode_quickly<Format, kSteps>(words[0], scales, first, fragments[batch % 2]);
    } else {
#pragma unroll
      for (int i = 0; i < kSteps; ++i) {
        int const step = first + i;
        uint32_t out[4];
        Format::decode(words[step * kParts / 4] + step * kParts % 4, scales, step, out);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          fragments[batch % 2][i * 4 + j] = out[j];
        }
      }
    }
  }

  // Issues the wgmmas of a batch. Without `sum` and without kAddsFirst, the first wgmma overwrites the sums.
  __device__ __forceinline__ void multiply(int stage, int batch, bool sum, uint32_t const (&fragment)[kSteps * 4],
                                           float (&sums)[Rows][kCount]) const {
    uint64_t const b = sm90::swizzled_descriptor(Layout::activations(shared, stage) + piece(batch) * Layout::kBoxB);
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      int const step = batch % kBatchesOfPiece * kSteps + i;
      sm90::WideWgmma<Type, N>::run(sums[row(batch)], fragment + i * 4, sm90::behind(b, step * 2),
                                    kAddsFirst || sum || piece(batch) > 0 || step > 0);
    }
  }
};

}  // namespace tilewright::mixed_gemm

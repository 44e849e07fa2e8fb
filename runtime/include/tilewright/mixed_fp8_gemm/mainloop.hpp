// The main loop of a consumer warpgroup with FP8 activations, for the schedules `at_will` and `ahead`:
// D[64, N] += sum over blocks of k of S (W X^T of the block), where W is decoded to FP8 registers and X, the
// activations, lies in shared memory. The tensor core sums a block of kBlock of k. Then its accumulators are promoted:
// multiplied by the block's factors S of each row of W, and added to F32 registers.
//
// One block of 128 of k with a tile of two parts of the columns; time runs to the right, `s.0` is the first piece (64
// of k) of stage s:
//
//   tensor core      | part 0: s.0, s.1 |           | part 1: s.0, s.1       |           |
//   the warpgroup    | decode s.1       | promote 0 | load and decode s+1.0  | promote 1 |
//
// While a warpgroup promotes, the tensor core multiplies for another warpgroup.
//
//   waits                    for                                              by
//   a stage                  its data                                         the stage's `full` mbarrier
//   decoding s+1.0           the wgmmas that read the same registers          wgmma.wait_group
//   promotion                all wgmmas of the part                           wgmma.wait_group 0
//   fragments, with `ahead`  the warpgroup that decodes                       the buffer's `decoded` mbarrier
//   the producer             all warpgroups: the stage has been read          the stage's `empty` mbarrier
#pragma once

#include <cstdint>

#include "tilewright/mixed_fp8_gemm/decode.hpp"
#include "tilewright/mixed_fp8_gemm/decoding_warpgroup.hpp"
#include "tilewright/mixed_fp8_gemm/layout.hpp"
#include "tilewright/mixed_fp8_gemm/wgmma.hpp"
#include "tilewright/mixed_gemm/phases.hpp"
#include "tilewright/sm90/mainloop.hpp"
#include "tilewright/sm90/wgmma.hpp"

namespace tilewright::mixed_fp8_gemm {

// `Width`: columns of a part, which are multiplied and promoted at once, so that registers have room for the tensor
// core's accumulators and the promoted sums. `Groups` groups of warpgroups divide k: group i multiplies every
// `Groups`-th stage of the ring, starting with stage i.
template <class Format, class Layout, int N, int Width, int Stages, int Groups>
struct Mainloop {
  static constexpr int kCount = N / 2, kPart = Width / 2, kParts = N / Width;  // accumulators; parts of the columns
  static constexpr int kBlock = Format::kBlock, kBlocks = kUnitK / kBlock;
  static constexpr int kPieceK = kUnitK / 2, kSteps = 2;  // a piece's wgmmas
  static constexpr bool kAhead = Layout::Buffers > 0;     // another warpgroup decodes
  static_assert(Width % 8 == 0 && N % Width == 0 && Stages % Groups == 0 && (Groups == 1 || !kAhead));

  uint32_t shared;
  int slice;  // of this warpgroup in the tile
  sm90::Release release;
  sm90::Position<Stages> at{};
  sm90::Position<Layout::Buffers> buffer{};

  __device__ __forceinline__ Mainloop(uint32_t memory, int own_slice, int group, sm90::Release const& readers)
      : shared(memory), slice(own_slice), release(readers) {
    if constexpr (Groups > 1) {
      at.stage = group;
    }
  }

  // Multiplies the group's next `stages` stages of the ring; at least one if there is one group.
  __device__ __forceinline__ void run(int stages, float (&tile)[1][kCount]) {
    float (&sums)[kCount] = tile[0];
#pragma unroll
    for (float& sum : sums) {
      sum = 0.0f;
    }
    if (Groups > 1 && stages == 0) {
      return;
    }
    sm90::barrier_wait(Layout::full(shared, at.stage), at.phase);
    start(at.stage);
#pragma unroll 1
    for (int i = 0; i + 1 < stages; ++i) {
      unit<true>(sums);
    }
    unit<false>(sums);
  }

 private:
  // The address of the thread's first words in its warpgroup's first buffer.
  uint32_t decoded =
      Layout::buffer(shared, slice, 0) + fragment_offset(own_quad(), own_half(), static_cast<int>(threadIdx.x) % 2);
  typename Format::Scales scales;
  uint32_t fragments[2][kSteps * 4];  // operand A, by piece of a stage
  uint32_t read;                      // depends on all loads of `start`

  // Multiplies a stage whose scales are loaded and whose first piece is decoded. `kMore`: another stage follows.
  template <bool kMore>
  __device__ __forceinline__ void unit(float (&sums)[kCount]) {
    int const current = at.stage, own_buffer = buffer.stage;
    advance();
    buffer.next();
    float factors[kBlocks][2];
    uint32_t const before = read;
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      factors[block][0] = scales.factor(block, 0), factors[block][1] = scales.factor(block, 1);
    }
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      constexpr int kPiecesOfBlock = kBlock > kPieceK ? 2 : 1;
      int const first_piece = block * kBlock / kPieceK;
#pragma unroll
      for (int across = 0; across < kParts; ++across) {
        bool const last = block == kBlocks - 1 && across == kParts - 1;
        float part[kPart];
#pragma unroll
        for (int piece = first_piece; piece < first_piece + kPiecesOfBlock; ++piece) {
          sm90::wgmma_fence();
          multiply(current, block, across, piece, part);
          sm90::wgmma_commit();
          if (block == 0 && across == 0 && piece == 0) {
            decode(current, own_buffer, 1);
          }
        }
        if (kMore && last) {
          if (kPiecesOfBlock == 2) {
            sm90::wgmma_wait<1>();
          }
          sm90::hold(fragments[0]);
          sm90::barrier_wait(Layout::full(shared, at.stage), at.phase);
          start(at.stage);
        }
        sm90::wgmma_wait<0>();
        sm90::hold(part);
        if (kAhead && block == kBlocks - 1 && across == 0) {
          give_back(own_buffer);
        }
        if (last) {
          sm90::hold(fragments[1]);
          sm90::Release after = release;
          // The arrival comes after all loads so far, because it depends on words that they became.
          if constexpr (kAhead) {
            after.empty += sm90::zero_after(fragments[0][0] | fragments[0][4]);
          } else {
            after.empty += sm90::zero_after(before | read | fragments[1][0] | fragments[1][4]);
          }
          after(current);
        }
#pragma unroll
        for (int i = 0; i < kPart; ++i) {
          float& sum = sums[across * kPart + i];
          sum = fmaf(part[i], factors[block][i % 4 / 2], sum);
        }
      }
    }
  }

  __device__ __forceinline__ void advance() {
    if constexpr (Groups == 1) {
      at.next();
    } else {
      at.stage += Groups;
      if (at.stage >= Stages) {
        at.stage -= Stages;
        at.phase ^= 1;
      }
    }
  }

  // Loads a stage's scales and decodes its first piece.
  __device__ __forceinline__ void start(int stage) {
    scales.load(Layout::scales(shared, stage, slice), own_quad());
    if constexpr (kAhead) {
      sm90::barrier_wait(Layout::decoded(shared, slice, buffer.stage), buffer.phase);
    }
    decode(stage, buffer.stage, 0);
    read = scales.any() | fragments[0][0] | fragments[0][4];
  }

  // Gives a buffer back to the warpgroup that decodes: this warp has loaded its fragments.
  __device__ __forceinline__ void give_back(int own_buffer) const {
    uint32_t const loaded = fragments[0][0] | fragments[0][4] | fragments[1][0] | fragments[1][4];
    if (threadIdx.x % 32 == 0) {
      sm90::barrier_arrive(Layout::taken(shared, slice, own_buffer) + sm90::zero_after(loaded));
    }
  }

  // Decodes a piece to its fragments, or loads them from the buffer of the warpgroup that decodes.
  __device__ __forceinline__ void decode(int stage, int own_buffer, int piece) {
    if constexpr (kAhead) {
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        uint32_t words[4];
        sm90::load_words(decoded + own_buffer * Layout::kBuffer + (piece * kSteps + step) * kStepBytes, words);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          fragments[piece][step * 4 + i] = words[i];
        }
      }
      return;
    }
    Elements elements;
    elements.load(Layout::weights(shared, stage, slice), piece);
#pragma unroll
    for (int chunk = 0; chunk < 4; ++chunk) {
      elements.template decode<Format>(scales, piece, chunk, own_half(), fragments[piece] + chunk * 2);
    }
  }

  // Issues the wgmmas of the k range that a block and a piece share. The block's first wgmma overwrites the
  // accumulators.
  __device__ __forceinline__ void multiply(int stage, int block, int across, int piece, float (&part)[kPart]) const {
    uint64_t const b = sm90::swizzled_descriptor(Layout::activations(shared, stage) + across * Width * 128);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      int const k = piece * kPieceK + step * 32;
      if (k / kBlock == block) {
        sm90::WgmmaRegisters8<typename Format::Weight, Width>::run(part, fragments[piece] + step * 4,
                                                                   sm90::behind(b, k / 16), k % kBlock > 0);
      }
    }
  }
};

// The schedule `at_will`: warpgroups decode what they multiply.
template <int Width, int Groups = 1>
struct AtWill {
  static constexpr int kBuffers = 0, kGroups = Groups;
  template <class Types>
  using Kernel = mixed_gemm::Phases<Types>;
  template <class Format, class Layout, int N, int Stages>
  using Mainloop = mixed_fp8_gemm::Mainloop<Format, Layout, N, Width, Stages, Groups>;
};

}  // namespace tilewright::mixed_fp8_gemm

// A main loop as mainloop.hpp's, whose warpgroups take turns.
#pragma once

#include <cstdint>

#include "tilewright/mixed_fp8_gemm/decode.hpp"
#include "tilewright/mixed_fp8_gemm/layout.hpp"
#include "tilewright/mixed_fp8_gemm/wgmma.hpp"
#include "tilewright/sm90/mainloop.hpp"
#include "tilewright/sm90/wgmma.hpp"

namespace tilewright::mixed_fp8_gemm {

// A *part* is `Width` columns of a block: what is multiplied and promoted at once. Two warpgroups multiply parts in
// turn: while the parts of one run, the other promotes, so that the tensor core is never without work. Without turns
// both would multiply at the same time, and then promote and decode at the same time. The next stage is decoded
// meanwhile, a share of it with each part.
template <class Format, class Layout, int N, int Width, int Stages>
struct InTurnMainloop {
  static constexpr int kCount = N / 2, kPart = Width / 2;  // accumulators
  static constexpr int kBlock = Format::kBlock, kBlocks = kUnitK / kBlock, kAcross = N / Width;
  static constexpr int kParts = kBlocks * kAcross;  // of a stage
  static constexpr int kSteps = kBlock / 32;        // wgmmas of a part
  static constexpr int kPairs = 4;                  // pairs of 16 of k that a stage is decoded by
  static_assert(Width % 8 == 0 && N % Width == 0 && Layout::Slices == 2);

  uint32_t shared;
  int slice;  // of this warpgroup in the tile
  sm90::Release release;
  sm90::Position<Stages> at{};

  __device__ __forceinline__ InTurnMainloop(uint32_t memory, int own_slice, sm90::Release const& readers)
      : shared(memory), slice(own_slice), release(readers) {
    if (slice == 1) {
      sm90::named_barrier_arrive(kTurnBarrier, 256);  // the first warpgroup begins
    }
  }

  // Multiplies the next `stages` stages of the ring, at least one. Stages use the sets of fragments in turn.
  __device__ __forceinline__ void run(int stages, float (&sums)[kCount]) {
#pragma unroll
    for (float& sum : sums) {
      sum = 0.0f;
    }
    sm90::barrier_wait(Layout::full(shared, at.stage), at.phase);
    scales.load(Layout::scales(shared, at.stage, slice));
#pragma unroll
    for (int pair = 0; pair < kPairs; ++pair) {
      decode<0>(at.stage, pair);
    }
#pragma unroll 1
    for (int left = stages - 1;;) {
      unit<0>(left, sums);
      if (--left < 0) {
        return;
      }
      unit<1>(left, sums);
      if (--left < 0) {
        return;
      }
    }
  }

 private:
  // Named barriers: by kTurnBarrier + i, warpgroup i may issue products.
  static constexpr int kTurnBarrier = 6;

  // The other warpgroup's barrier, computed each time: ptxas would keep it in a register that it lacks.
  __device__ __forceinline__ int other_turn() const {
    int barrier;
    asm volatile("xor.b32 %0, %1, 1;" : "=r"(barrier) : "r"(kTurnBarrier + slice));
    return barrier;
  }

  typename Format::Scales scales;
  uint32_t fragments[2][16];

  // Multiplies a stage whose fragments are decoded to set `kSet`, and decodes the next one to the other set. `left`:
  // stages that follow; with none, this one is decoded once more, for nothing.
  template <int kSet>
  __device__ __forceinline__ void unit(int left, float (&sums)[kCount]) {
    int const stage = at.stage;
    float factors[kBlocks][2];
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      factors[block][0] = scales.factor(block, 0), factors[block][1] = scales.factor(block, 1);
    }
    at.next();
    int const ahead = left > 0 ? at.stage : stage;
#pragma unroll
    for (int index = 0; index < kParts; ++index) {
      float part[kPart];
      sm90::named_barrier_sync(kTurnBarrier + slice, 256);
      sm90::wgmma_fence();
      multiply<kSet>(stage, index, part);
      if (index == 0 && left > 0) {
        sm90::barrier_wait(Layout::full(shared, at.stage), at.phase);
        scales.load(Layout::scales(shared, at.stage, slice));
      }
      int const first = kPairs * index / kParts, end = kPairs * (index + 1) / kParts;
      int const middle = first < end ? first + 1 : end;
#pragma unroll
      for (int pair = first; pair < middle; ++pair) {
        decode<kSet ^ 1>(ahead, pair);
      }
      sm90::wgmma_wait<(kSteps > 1)>();  // the first half is done
      sm90::named_barrier_arrive(other_turn(), 256);
#pragma unroll
      for (int pair = middle; pair < end; ++pair) {
        decode<kSet ^ 1>(ahead, pair);
      }
      sm90::wgmma_wait<0>();
      sm90::hold(part);
      if (index == kParts - 1) {
        sm90::hold(fragments[kSet]);
        // The arrival comes after all loads so far: the words depend on those of scales and of elements.
        sm90::Release after = release;
        after.empty +=
            sm90::zero_after(__float_as_uint(factors[kBlocks - 1][0]) | scales.any() | fragments[kSet ^ 1][0] |
                             fragments[kSet ^ 1][4] | fragments[kSet ^ 1][8] | fragments[kSet ^ 1][12]);
        after(stage);
      }
#pragma unroll
      for (int i = 0; i < kPart; ++i) {
        float& sum = sums[index % kAcross * kPart + i];
        sum = fmaf(part[i], factors[index / kAcross][i % 4 / 2], sum);
      }
    }
  }

  // Loads two chunks of 16 of k of a stage, and decodes them to their part of a set.
  template <int kSet>
  __device__ __forceinline__ void decode(int stage, int pair) {
    Elements elements;
    elements.load(Layout::weights(shared, stage, slice), pair);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      uint32_t const words[2] = {elements.words[0][i], elements.words[1][i]};
      uint32_t out[2];
      Format::decode(words, scales, pair * 2 + i, out);
      fragments[kSet][pair * 4 + i * 2] = out[0], fragments[kSet][pair * 4 + i * 2 + 1] = out[1];
    }
  }

  // Issues the wgmmas of a part, in two groups if there are several. The first one overwrites the sums.
  template <int kSet>
  __device__ __forceinline__ void multiply(int stage, int index, float (&part)[kPart]) const {
    uint64_t const b = sm90::swizzled_descriptor(Layout::activations(shared, stage) + index % kAcross * Width * 128);
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      int const step = index / kAcross * kSteps + i;
      sm90::WgmmaRegisters8<typename Format::Weight, Width>::run(part, fragments[kSet] + step * 4,
                                                                 sm90::behind(b, step * 2), i > 0);
      if (i == kSteps - 1 || i == kSteps / 2 - 1) {
        sm90::wgmma_commit();
      }
    }
  }
};

// The policy of kernels whose warpgroups multiply in turn.
template <int Width>
struct InTurn {
  template <class Format, class Layout, int N, int Stages>
  using Mainloop = InTurnMainloop<Format, Layout, N, Width, Stages>;
};

}  // namespace tilewright::mixed_fp8_gemm

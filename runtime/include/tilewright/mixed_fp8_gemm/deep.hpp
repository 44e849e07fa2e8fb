// The main loop that decodes a whole stage before it is multiplied: while the tensor core multiplies a part of the
// columns by all of a stage, the threads decode a share of the next stage. So each wait for the tensor core comes
// behind all wgmmas of a part, and not behind half of them.
#pragma once

#include <cstdint>

#include "tilewright/mixed_fp8_gemm/decode.hpp"
#include "tilewright/mixed_fp8_gemm/layout.hpp"
#include "tilewright/mixed_fp8_gemm/wgmma.hpp"
#include "tilewright/mixed_gemm/phases.hpp"
#include "tilewright/sm90/mainloop.hpp"
#include "tilewright/sm90/wgmma.hpp"

namespace tilewright::mixed_fp8_gemm {

// `Width`: columns that are multiplied and promoted at once.
template <class Format, class Layout, int N, int Width, int Stages>
struct DeepMainloop {
  static constexpr int kCount = N / 2, kPart = Width / 2, kParts = N / Width;  // accumulators; parts of the columns
  static constexpr int kSteps = kUnitK / 32, kPieces = 2;
  static_assert(Width % 8 == 0 && N % Width == 0 && Format::kBlock == kUnitK);

  uint32_t shared;
  int slice;  // of this warpgroup in the tile
  sm90::Release release;
  sm90::Position<Stages> at{};

  __device__ __forceinline__ DeepMainloop(uint32_t memory, int own_slice, int, sm90::Release const& readers)
      : shared(memory), slice(own_slice), release(readers) {}

  // Multiplies the next `stages` stages of the ring; at least one.
  __device__ __forceinline__ void run(int stages, float (&tile)[1][kCount]) {
    float (&sums)[kCount] = tile[0];
#pragma unroll
    for (float& sum : sums) {
      sum = 0.0f;
    }
    sm90::barrier_wait(Layout::full(shared, at.stage), at.phase);
    scales.load(Layout::scales(shared, at.stage, slice), own_quad());
    decode(at.stage, 0, fragments[0]);
    decode(at.stage, 1, fragments[0]);
    int left = stages;
#pragma unroll 1
    for (; left > 2; left -= 2) {
      unit<true>(fragments[0], fragments[1], sums);
      unit<true>(fragments[1], fragments[0], sums);
    }
    if (left == 2) {
      unit<true>(fragments[0], fragments[1], sums);
      unit<false>(fragments[1], fragments[0], sums);
    } else {
      unit<false>(fragments[0], fragments[1], sums);
    }
  }

 private:
  using Fragments = uint32_t[kSteps * 4];  // of a stage
  typename Format::Scales scales;
  Fragments fragments[2];

  // Multiplies a stage that is decoded to `own`, whose scales are loaded. `kMore`: decodes the next one to `next`.
  template <bool kMore>
  __device__ __forceinline__ void unit(Fragments& own, Fragments& next, float (&sums)[kCount]) {
    int const current = at.stage;
    at.next();
    float const factors[2] = {scales.factor(0, 0), scales.factor(0, 1)};
    uint32_t read = any(own);  // depends on all loads so far
#pragma unroll
    for (int across = 0; across < kParts; ++across) {
      float part[kPart];
      sm90::wgmma_fence();
      multiply(current, across, own, part);
      sm90::wgmma_commit();
      if (kMore && across == 0) {
        sm90::barrier_wait(Layout::full(shared, at.stage), at.phase);
        scales.load(Layout::scales(shared, at.stage, slice), own_quad());
        decode(at.stage, 0, next);
      }
      if (kMore && across == kParts / 2) {
        decode(at.stage, 1, next);
      }
      sm90::wgmma_wait<0>();
      sm90::hold(part);
      if (across == kParts - 1) {
        sm90::hold(own);
        sm90::Release after = release;
        if (kMore) {
          read |= any(next);
        }
        after.empty += sm90::zero_after(read);  // the arrival comes after these loads
        after(current);
      }
#pragma unroll
      for (int i = 0; i < kPart; ++i) {
        float& sum = sums[across * kPart + i];
        sum = fmaf(part[i], factors[i % 4 / 2], sum);
      }
    }
  }

  // A word that depends on all loads of the latest stage whose scales are loaded, and which is decoded to `of`.
  __device__ __forceinline__ uint32_t any(Fragments const& of) const {
    return scales.any() | of[0] | of[4] | of[8] | of[12];
  }

  // Decodes a piece of a stage to its fragments.
  __device__ __forceinline__ void decode(int stage, int piece, Fragments& to) {
    Elements elements;
    elements.load(Layout::weights(shared, stage, slice), piece);
#pragma unroll
    for (int chunk = 0; chunk < 4; ++chunk) {
      uint32_t const words[2] = {elements.words[0][chunk], elements.words[1][chunk]};
      uint32_t out[2];
      Format::decode(words, scales, piece * 4 + chunk, own_half(), out);
      to[piece * 8 + chunk * 2] = out[0], to[piece * 8 + chunk * 2 + 1] = out[1];
    }
  }

  // Issues the wgmmas of a part of the columns. The first one overwrites the sums.
  __device__ __forceinline__ void multiply(int stage, int across, Fragments const& own, float (&part)[kPart]) const {
    uint64_t const b = sm90::swizzled_descriptor(Layout::activations(shared, stage) + across * Width * 128);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      sm90::WgmmaRegisters8<typename Format::Weight, Width>::run(part, own + step * 4, sm90::behind(b, step * 2),
                                                                 step > 0);
    }
  }
};

template <int Width>
struct Deep {
  static constexpr int kBuffers = 0, kGroups = 1;
  template <class Types>
  using Kernel = mixed_gemm::Phases<Types>;
  template <class Format, class Layout, int N, int Stages>
  using Mainloop = DeepMainloop<Format, Layout, N, Width, Stages>;
};

}  // namespace tilewright::mixed_fp8_gemm

// What a warp of a stream kernel does: `mixed_gemm` and `mixed_grouped_gemm` for few rows on sm_90a. Activations of 16
// bits are multiplied by packed weights, by mma.sync. With few rows, the time is the weights' way from HBM, and how
// soon their first bytes are requested.
//
// The warps of a thread block take units of 128 of k round robin. Each warp has stages of its own, which it fills by
// bulk copies and which only it reads, so that warps wait for memory and never for each other. Their sums are added up
// in the order of the warps, so that the bits are the same every time.
//
// The packed words are operand A of mma.m16n8k16 as they lie: the rows of A are W's, its columns those of D's rows.
#pragma once

#include <cstdint>

#include "tilewright/mixed_gemm/stream_multiplier.hpp"
#include "tilewright/sm90/pipeline.hpp"
#include "tilewright/sm90/ptx.hpp"

namespace tilewright::mixed_gemm::stream {

constexpr int kSliceRows = 64;  // of a unit of W, which is 128 of k wide

// The shared memory, from an address that is a multiple of 1024: stages of activations, in boxes of 64 of k in TMA's
// 128-byte swizzle; stages of units of `Slices` slices of the weight, with their scales; the thread block's sums;
// barriers. Each warp has a ring of stages of its own.
template <class Format, int Slices, int Rows, int Warps, int Stages>
struct Layout {
  static constexpr int kUnitBytes = kSliceRows * kUnitK * Format::kBits / 8;
  static constexpr int kPieceScales =
      kSliceRows * Format::kScaleBytes * (Format::kGroup < 64 ? 64 / Format::kGroup : 1);
  static constexpr int kUnitScales = Format::kGroup == kUnitK ? kPieceScales : 2 * kPieceScales;
  static constexpr int kBox = Rows * 128, kActivations = 2 * kBox;  // of a stage
  static constexpr int kScalesAt = Slices * kUnitBytes, kStage = kScalesAt + Slices * kUnitScales;
  static constexpr int kStagesAt = Warps * Stages * kActivations, kRing = Stages * kStage;
  // A row of sums: 64 or 128 floats, and four more against bank conflicts.
  static constexpr int kColumns = Slices * kSliceRows, kSumPitch = kColumns + 4, kSums = Rows * kSumPitch * 4;
  static constexpr int kTotalsAt = kStagesAt + Warps * kRing, kBarriersAt = kTotalsAt + kSums;
  static constexpr int kBytes = kBarriersAt + Warps * Stages * 8;
  // At multiples of 128 bytes: elsewhere, copies and loads took a third more time.
  static_assert(kSums <= kRing && kStage % 128 == 0);
};

// What warps do in a thread block whose tile is `Slices` slices of the weight by `Rows` rows of D.
template <class Type_, class Format_, int Slices, int Rows, int Warps, int Stages>
struct Warp {
  using Type = Type_;
  using Format = Format_;
  using Layout = stream::Layout<Format, Slices, Rows, Warps, Stages>;
  static constexpr int kTiles = Rows / 8, kColumns = Layout::kColumns;
  static constexpr float kFactor = Multiplier<Type, Format, kTiles>::kFactor;
  using Sums = float[Slices * 4][kTiles][4];

  // The memory of a warp's stages.
  struct Ring {
    uint32_t activations, stages, barriers;

    __device__ __forceinline__ Ring(uint32_t shared, int warp)
        : activations(shared + warp * Stages * Layout::kActivations),
          stages(shared + Layout::kStagesAt + warp * Layout::kRing),
          barriers(shared + Layout::kBarriersAt + warp * Stages * 8) {}

    // Initialises the warp's barriers. Called by the whole warp.
    __device__ __forceinline__ void init() const {
      if (int const lane = threadIdx.x % 32; lane < Stages) {
        sm90::barrier_init(barriers + lane * 8, 1);
        sm90::fence_barrier_init();
      }
      __syncwarp();
    }
  };

  // Where a tile's operands begin.
  struct Source {
    int slice, last_slice;  // of the weight: the tile's first, and the last that exists
    int row, matrix;        // of the activations
  };

  // Multiplies the warp's units, `first` and every Warps-th after it up to `end`, and adds to `sums`. The warp's ring
  // is empty, and `at` is where it stands. Called by the whole warp.
  template <class Params>
  static __device__ __forceinline__ void multiply(Params const& params, Ring const& ring, Source const& source,
                                                  int first, int end, sm90::Position<Stages>& at, Sums& sums) {
#pragma unroll 1
    for (int i = 0; i < Stages; ++i) {
      int const free = at.stage + i < Stages ? at.stage + i : at.stage + i - Stages;
      load(params, ring, free, source, first + i * Warps, end, 0);
    }
#pragma unroll 1
    for (int unit = first; unit < end; unit += Warps) {
      sm90::barrier_wait(ring.barriers + at.stage * 8, at.phase);
      uint32_t const read = multiply_unit(ring.activations + at.stage * Layout::kActivations,
                                          ring.stages + at.stage * Layout::kStage, sums);
      __syncwarp();  // the other lanes have read the stage, too
      load(params, ring, at.stage, source, unit + Stages * Warps, end, sm90::zero_after(read));
      at.next();
    }
  }

  // Stores a warp's sums where its ring was: all copies to it have arrived. Called by the whole warp.
  static __device__ __forceinline__ void store_sums(char* memory, Sums const& sums) {
    int const lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    __syncwarp();
    float* const own = reinterpret_cast<float*>(memory + Layout::kStagesAt + warp * Layout::kRing);
#pragma unroll
    for (int i = 0; i < Slices * 4; ++i) {
#pragma unroll
      for (int j = 0; j < kTiles; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          int const row = j * 8 + lane % 4 * 2 + e % 2, column = i * 16 + lane / 4 + e / 2 * 8;
          own[row * Layout::kSumPitch + column] = sums[i][j][e];
        }
      }
    }
  }

  // The total of all warps' sums at a place, in the order of the warps.
  static __device__ __forceinline__ float total(char const* memory, int place) {
    float const* const sums_of_warps = reinterpret_cast<float const*>(memory + Layout::kStagesAt);
    float total = 0.0f;
#pragma unroll
    for (int other = 0; other < Warps; ++other) {
      total += sums_of_warps[other * (Layout::kRing / 4) + place];
    }
    return total;
  }

 private:
  static constexpr int kLoads = Format::kBits / 4;  // of 16 bytes a thread, for 64 of k; words of a step

  // Fills a stage with unit `unit`, if it exists. Called by the whole warp, which has read what was there. `zero`: see
  // sm90::zero_after.
  template <class Params>
  static __device__ __forceinline__ void load(Params const& params, Ring const& ring, int stage, Source const& source,
                                              int unit, int end, uint32_t zero) {
    if (unit >= end || !sm90::elect_one()) {
      return;
    }
    uint32_t const barrier = ring.barriers + stage * 8 + zero, at = ring.stages + stage * Layout::kStage;
    sm90::barrier_expect(barrier, Layout::kStage + Layout::kActivations);
#pragma unroll
    for (int i = 0; i < Slices; ++i) {
      int const slice = min(source.slice + i, source.last_slice);
      sm90::copy_bytes(at + i * Layout::kUnitBytes,
                       params.weight + slice * params.row_bytes_weight + int64_t(unit) * Layout::kUnitBytes,
                       Layout::kUnitBytes, barrier, sm90::kEvictFirst);
      sm90::copy_bytes(at + Layout::kScalesAt + i * Layout::kUnitScales,
                       params.scale + slice * params.row_bytes_scale + int64_t(unit) * Layout::kUnitScales,
                       Layout::kUnitScales, barrier, sm90::kEvictFirst);
    }
#pragma unroll
    for (int box = 0; box < 2; ++box) {
      sm90::copy_box(ring.activations + stage * Layout::kActivations + box * Layout::kBox, &params.a, barrier,
                     (unit * 2 + box) * 128, source.row, source.matrix, sm90::kKeepNormal);
    }
  }

  // Multiplies a unit; returns a word that depends on all that was read.
  static __device__ __forceinline__ uint32_t multiply_unit(uint32_t activations_at, uint32_t at, Sums& sums) {
    if constexpr (kHasUsualScales<Format>) {
      bool usual = true;
#pragma unroll
      for (int part = 0; part < Slices * 4; ++part) {
#pragma unroll
        for (int piece = 0; piece < 2; ++piece) {
          typename Format::Scales scales;
          scales.load(scales_of(at, part, threadIdx.x % 32) + piece * Layout::kPieceScales);
          usual = usual && detail::Usual<Format>::are_usual(scales);
        }
      }
      if (__builtin_expect(__all_sync(0xFFFFFFFF, usual), 1)) {
        return multiply_unit_by<ScaledMultiplier<Type, Format, kTiles>>(activations_at, at, sums);
      }
    }
    return multiply_unit_by<Multiplier<Type, Format, kTiles>>(activations_at, at, sums);
  }

  // Where a lane's scales of 16 rows of W lie, in a stage at `at`.
  static __device__ __forceinline__ uint32_t scales_of(uint32_t at, int part, int lane) {
    return at + Layout::kScalesAt + part / 4 * Layout::kUnitScales +
           (part % 4 * 8 + lane / 4) * static_cast<int>(sizeof(typename Format::Scales));
  }

  template <class Multiplier>
  static __device__ __forceinline__ uint32_t multiply_unit_by(uint32_t activations_at, uint32_t at, Sums& sums) {
    int const lane = threadIdx.x % 32;
    uint32_t activations[kTiles][8][2], last = 0;
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {  // 32 of k: four vectors of each of 8 rows
        uint32_t const vector = (i % 2 * 4 + lane / 8) ^ (lane % 8);
        uint32_t words[4];
        sm90::load_matrices(activations_at + i / 2 * Layout::kBox + (j * 8 + lane % 8) * 128 + vector * 16, words);
        activations[j][2 * i][0] = words[0], activations[j][2 * i][1] = words[1];
        activations[j][2 * i + 1][0] = words[2], activations[j][2 * i + 1][1] = words[3];
        last |= words[0];
      }
    }
#pragma unroll
    for (int part = 0; part < Slices * 4; ++part) {  // 16 rows of W
      uint32_t const elements = at + part / 4 * Layout::kUnitBytes + part % 4 * 512 + lane * 16;
      uint32_t const scales_at = scales_of(at, part, lane);
      Multiplier multiplier(sums[part]);
#pragma unroll
      for (int load = 0; load < 2 * kLoads; ++load) {
        int const piece = load / kLoads;
        uint32_t words[4];
        sm90::load_words(elements + load * 2048, words);
        if (load == 0 || (load == kLoads && Layout::kUnitScales != Layout::kPieceScales)) {
          multiplier.load_scales(scales_at + piece * Layout::kPieceScales);
        }
#pragma unroll
        for (int i = 0; i < 4 / kLoads; ++i) {
          int const step = load % kLoads * (4 / kLoads) + i;
          multiplier.multiply(words + i * kLoads, step, activations, piece * 4 + step);
        }
        last |= words[3];
      }
      last |= multiplier.finish();
    }
    return last;
  }
};

}  // namespace tilewright::mixed_gemm::stream

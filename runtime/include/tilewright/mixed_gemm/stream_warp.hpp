// What a warp of a stream kernel does: the kernels of `mixed_gemm` and `mixed_grouped_gemm` for few rows on sm_90a.
// They multiply activations of 16 bits by packed weights with mma.sync. With few rows, the time of a product is that of
// the weights' way from HBM, and the time until their first bytes are requested.
//
// The warps of a thread block take units, which are 128 of k, round robin. Each warp has a ring of stages of its own:
// it fills a stage by bulk copies, and no other warp reads it. So a warp waits for memory, and never for another warp.
// The ring of warp w, of `Warps` warps with three stages; time runs to the right:
//
//   stage 0     | unit w           | multiplied, filled with unit w + 3 Warps | ...
//   stage 1     | unit w + Warps   |                  | multiplied, filled with unit w + 4 Warps | ...
//   stage 2     | unit w + 2 Warps |                  |                  | multiplied, ...
//
//   waits                          for                              by
//   a warp before it multiplies    the copies of a stage            the stage's mbarrier, one arrival and its bytes
//   a lane before it fills         all lanes have read the stage    __syncwarp
//   the sum over warps             all warps have stored theirs     __syncthreads (the kernel's)
//
// There is no `empty` barrier: the warp that reads a stage is the warp that fills it. Its sums over its units go to
// shared memory, where all warps' sums are added in the order of the warps, so the bits are the same every time.
//
// The packed words are operand A of mma.m16n8k16 as they lie in memory: A's rows are rows of W, and the rows of
// activations, which are D's rows, are the instruction's N.
#pragma once

#include <cstdint>

#include "tilewright/mixed_gemm/stream_multiplier.hpp"
#include "tilewright/sm90/pipeline.hpp"
#include "tilewright/sm90/ptx.hpp"

namespace tilewright::mixed_gemm::stream {

constexpr int kSliceRows = 64;  // rows of W in a slice; a unit is a slice by 128 of k

// The shared memory, from an address that is a multiple of 1024: the stages of activations, in boxes of 64 of k in
// TMA's 128-byte swizzle; the stages of the weight, each with units of `Slices` slices and their scales; the thread
// block's sums; the barriers. Each warp has a ring of stages of its own.
template <class Format, int Slices, int Rows, int Warps, int Stages>
struct Layout {
  static constexpr int kUnitBytes = kSliceRows * kUnitK * Format::kBits / 8;
  static constexpr int kPieceScales =
      kSliceRows * Format::kScaleBytes * (Format::kGroup < 64 ? 64 / Format::kGroup : 1);
  static constexpr int kUnitScales = Format::kGroup == kUnitK ? kPieceScales : 2 * kPieceScales;
  static constexpr int kBox = Rows * 128, kActivations = 2 * kBox;  // bytes of a box, of a stage
  static constexpr int kScalesAt = Slices * kUnitBytes, kStage = kScalesAt + Slices * kUnitScales;
  static constexpr int kStagesAt = Warps * Stages * kActivations, kRing = Stages * kStage;
  // A row of sums has 64 or 128 floats, and four more, which avoid bank conflicts.
  static constexpr int kColumns = Slices * kSliceRows, kSumPitch = kColumns + 4, kSums = Rows * kSumPitch * 4;
  static constexpr int kTotalsAt = kStagesAt + Warps * kRing, kBarriersAt = kTotalsAt + kSums;
  static constexpr int kBytes = kBarriersAt + Warps * Stages * 8;
  // Stages begin at multiples of 128 bytes: elsewhere, copies and loads took a third more time.
  static_assert(kSums <= kRing && kStage % 128 == 0);
};

// The work of a warp in a thread block whose tile is `Slices` slices of the weight by `Rows` rows of D.
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
    int slice, last_slice;  // the tile's first slice of the weight, and the last slice that the weight has
    int row, matrix;        // the tile's first row of activations, and their matrix
  };

  // Multiplies the warp's units, `first` and every Warps-th after it before `end`, and adds to `sums`. The warp's ring
  // is empty; `at` is its next stage. Called by the whole warp.
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

  // Stores a warp's sums over its ring, to which all copies have arrived. Called by the whole warp.
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

  // The total of all warps' sums of one element, in the order of the warps. `place`: the element's float in each
  // warp's sums.
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
  // Loads of 16 bytes that a thread needs for 64 of k; also the words of a step of 16 of k.
  static constexpr int kLoads = Format::kBits / 4;

  // Starts the copies of a unit to a stage, if the warp has that unit. Called by the whole warp, which has read what
  // was in the stage. `zero`: 0, and depends on those loads (sm90::zero_after), so that the copies start after them.
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

  // Multiplies a unit, by the quicker multiplier where all of its scales are usual ones (quick.hpp). Returns a word
  // that depends on all loads from the stage.
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

  // The address of a lane's scales of 16 rows of W in the stage at address `at`. `part`: which 16 rows of the tile.
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
      for (int i = 0; i < 4; ++i) {  // 32 of k: four vectors of 16 bytes of each of 8 rows
        uint32_t const vector = (i % 2 * 4 + lane / 8) ^ (lane % 8);
        uint32_t words[4];
        sm90::load_matrices(activations_at + i / 2 * Layout::kBox + (j * 8 + lane % 8) * 128 + vector * 16, words);
        activations[j][2 * i][0] = words[0], activations[j][2 * i][1] = words[1];
        activations[j][2 * i + 1][0] = words[2], activations[j][2 * i + 1][1] = words[3];
        last |= words[0];
      }
    }
#pragma unroll
    for (int part = 0; part < Slices * 4; ++part) {  // each 16 rows of W
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

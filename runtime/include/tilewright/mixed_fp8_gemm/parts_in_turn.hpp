// The main loop for FP8 activations with the schedule `parts_in_turn`: two warpgroups issue their wgmmas in turn
// (in_turn.hpp), each for a part of a tile's columns and 128 of k.
//
// A stage is decoded once and multiplied by all parts of the columns, so a tile may be as wide as its promoted sums
// allow: 256 columns in parts of 128. The next stage is decoded while the tensor core multiplies the last part. Time
// runs to the right:
//
//   tensor core   | 0: part 0 | 1: part 0  | 0: part 1      | 1: part 1      | 0: part 0 of the next stage
//   warpgroup 0   | issue     | promote 0  | issue, decode  | promote 1      | issue
//   warpgroup 1   |           | issue      | promote 0      | issue, decode  | promote 1
//
// Integer instructions bound these loops: while the tensor core multiplies, a scheduler of an H200 issues one in 3 to 5
// clocks (benchmarks/results/packed_fp8_fast.md). So a stage takes few of them: quick_int4.hpp makes FP8 of codes, a
// thread keeps its addresses in registers, and no instruction orders the arrival at `empty` after the loads.
#pragma once

#include <cstdint>

#include "tilewright/mixed_fp8_gemm/half_width.hpp"
#include "tilewright/mixed_fp8_gemm/in_turn.hpp"
#include "tilewright/mixed_fp8_gemm/layout.hpp"
#include "tilewright/mixed_fp8_gemm/quick_int4.hpp"
#include "tilewright/mixed_fp8_gemm/wide_wgmma.hpp"
#include "tilewright/sm90/mainloop.hpp"
#include "tilewright/sm90/wgmma.hpp"

namespace tilewright::mixed_fp8_gemm {

template <class Format, class Layout, int N, int Width, int Stages>
struct PartsInTurnMainloop {
  static constexpr int kCount = N / 2, kParts = N / Width;  // accumulators; parts of the columns
  static constexpr int kSteps = kUnitK / 32;
  static_assert(Format::kBlock == kUnitK && Format::kOfGroup == 1 && Layout::Slices == 2 && N % Width == 0);

  uint32_t shared;
  int slice;  // of this warpgroup in the tile
  sm90::Release release;
  sm90::Position<Stages> at{};

  __device__ __forceinline__ PartsInTurnMainloop(uint32_t memory, int own_slice, int, sm90::Release const& readers)
      : shared(memory), slice(own_slice), release(readers) {
    if (slice == 1) {
      sm90::named_barrier_arrive(kTurn, 256);  // the first warpgroup begins
    }
  }

  // Multiplies the next `stages` stages of the ring; at least one.
  __device__ __forceinline__ void run(int stages, float (&tile)[1][kCount]) { run_parts<Width, kParts>(stages, tile); }

  // Says that `run_rows` exists.
  static constexpr bool kHasFewer = true;
  // Multiplies by the fewest columns that hold `rows` rows of activations: half a part, one, or all. The sums of other
  // columns are 0.
  __device__ __forceinline__ void run_rows(int rows, int stages, float (&tile)[1][kCount]) {
    constexpr int kHalf = kHalfWidth<Width>;
    if (rows <= kHalf) {
      run_parts<kHalf, 1>(stages, tile);
    } else if (kParts > 1 && rows <= Width) {
      run_parts<Width, 1>(stages, tile);
    } else {
      run_parts<Width, kParts>(stages, tile);
    }
  }

 private:
  static constexpr int kTurn = 6;  // named barriers: warpgroup i waits at kTurn + i

  // Multiplies by the first `Parts` parts of `Columns` columns.
  template <int Columns, int Parts>
  __device__ __forceinline__ void run_parts(int stages, float (&tile)[1][kCount]) {
    float (&sums)[kCount] = tile[0];
#pragma unroll
    for (float& sum : sums) {
      sum = 0.0f;
    }
    start();
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      decode(step);
    }
#pragma unroll 1
    for (int left = stages - 1; left > 0; --left) {
      stage<true, Columns, Parts>(sums);
    }
    stage<false, Columns, Parts>(sums);
  }

  // The addresses of the thread's elements (see Elements) and scales in the first stage, and the descriptor of its
  // activations.
  uint32_t own_weights = kept(Layout::weights(shared, 0, slice) + threadIdx.x % 128 / 4 * 64 + threadIdx.x % 2 * 32);
  uint32_t own_scales = Layout::scales(shared, 0, slice) + own_quad() * 4;

  uint64_t activations = sm90::swizzled_descriptor(Layout::activations(shared, 0));

  typename Format::Scales scales;  // of the stage that is decoded
  Elements elements;               // of the next two steps that are decoded
  uint32_t fragments[kSteps * 4];  // operand A of a stage's wgmmas

  // Multiplies a stage that is decoded and whose scales are loaded. `kMore`: decodes the next stage meanwhile.
  template <bool kMore, int Columns, int Parts>
  __device__ __forceinline__ void stage(float (&sums)[kCount]) {
    int const current = at.stage;
    at.next();
    float const factors[2] = {scales.factor(0, 0), scales.factor(0, 1)};
#pragma unroll
    for (int across = 0; across < Parts; ++across) {
      constexpr int kPart = Columns / 2;
      bool const last = across == Parts - 1;
      float part[kPart];
      multiply<Columns>(current, across, part);
      if (kMore && last) {
        start();
        decode_behind<1>();
        decode_behind<2>();
        decode_behind<3>();
      } else {
        sm90::wgmma_wait<kSteps - 1>();
        pass_turn();
      }
      sm90::wgmma_wait<0>();
      sm90::hold(part);
      if (last) {
        sm90::hold(fragments);
        if constexpr (kMore) {
          decode(kSteps - 1);
        }
        // The loads of this stage have returned: wgmmas read what was decoded from the elements, and the factors are
        // those of the scales.
        release(current);
      }
#pragma unroll
      for (int i = 0; i < kPart; ++i) {
        float& sum = sums[across * kPart + i];
        sum = fmaf(part[i], factors[i % 4 / 2], sum);
      }
    }
  }

  // Issues the wgmmas of a part of the columns when it is this warpgroup's turn. The first wgmma overwrites the
  // accumulators, `part`.
  template <int Columns>
  __device__ __forceinline__ void multiply(int current, int across, float (&part)[Columns / 2]) const {
    sm90::named_barrier_sync(kTurn + slice, 256);
    sm90::wgmma_fence();
    uint64_t const b = sm90::behind(activations, (current * Layout::kStageB + across * Columns * 128) / 16);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      sm90::WideWgmma8<typename Format::Weight, Columns>::run(part, fragments + step * 4, sm90::behind(b, step * 2),
                                                              step > 0);
      sm90::wgmma_commit();
    }
  }

  // Lets the other warpgroup issue its wgmmas.
  __device__ __forceinline__ void pass_turn() const { sm90::named_barrier_arrive(kTurn + 1 - slice, 256); }

  // Waits for the stage at `at` and loads its scales.
  __device__ __forceinline__ void start() {
    sm90::barrier_wait(Layout::full(shared, at.stage), at.phase);
    scales.words[0][0] = sm90::load_word(own_scales + at.stage * Layout::kStageScales);
  }

  // Decodes a step of the stage at `at` when `Done` wgmmas are done: the last of them read the step's registers.
  template <int Done>
  __device__ __forceinline__ void decode_behind() {
    sm90::wgmma_wait<kSteps - Done>();
    if (Done == 1) {
      pass_turn();
    }
    uint32_t (&own)[4] = reinterpret_cast<uint32_t (&)[4]>(fragments[(Done - 1) * 4]);
    sm90::hold(own);
    decode(Done - 1);
    // As in InTurnMainloop: without this use of the registers, ptxas decodes after the last wait.
    asm volatile(
        "{\n.reg .pred odd;\n.reg .b32 bit;\nand.b32 bit, %0, 1;\nsetp.ne.b32 odd, bit, 0;\n"
        "@odd st.shared.v4.u32 [%0], {%1, %2, %3, %4};\n}\n" ::"r"(shared),
        "r"(own[0]), "r"(own[1]), "r"(own[2]), "r"(own[3])
        : "memory");
  }

  // Decodes the fragments of a wgmma. Steps follow one another, because two of them share loads.
  __device__ __forceinline__ void decode(int step) {
    if (step % 2 == 0) {
      elements.load(own_weights + at.stage * Layout::kStageA + step / 2 * kPieceBytes);
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      elements.template decode<Format>(scales, step / 2, step % 2 * 2 + i, own_half(), fragments + step * 4 + i * 2);
    }
  }
};

template <int Width>
struct PartsInTurn {
  static constexpr int kBuffers = 0, kGroups = 1;
  template <class Types>
  using Kernel = InTurnKernel<Types>;
  template <class Format, class Layout, int N, int Stages>
  using Mainloop = PartsInTurnMainloop<Format, Layout, N, Width, Stages>;
};

}  // namespace tilewright::mixed_fp8_gemm

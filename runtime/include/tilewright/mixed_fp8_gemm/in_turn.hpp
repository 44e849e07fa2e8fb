// The main loop for FP8 activations with the schedule `in_turn`: two warpgroups issue their wgmmas in turn, each for
// all columns of a tile and 128 of k.
//
// Sums of 128 of k are promoted: the tensor core's accumulators are multiplied by scales and added to F32 registers.
// The tensor core alternates between the wgmmas that two warpgroups have issued. If both issued theirs at the same
// time, both would have their accumulators at the same time, and the tensor core would wait while both promote. So a
// warpgroup issues its four wgmmas of a stage when the first of the other warpgroup's is done. Time runs to the right;
// `d0` to `d3` decode the weights of the next stage for wgmma 0 to 3:
//
//   tensor core   |  0: wgmma 0 1 2 3  |  1: wgmma 0 1 2 3  |  0: wgmma 0 1 2 3  |
//   warpgroup 0   | issue  d0  d1  d2  | d3, promote        | issue  d0  d1  d2  |
//   warpgroup 1   | d3, promote        | issue  d0  d1  d2  | d3, promote        |
//
//   waits                     for                                          by
//   a warpgroup's issue       its turn: the other's first wgmma is done    named barrier kTurn + slice
//   d0                        the next stage's data                        the stage's `full` mbarrier
//   d0, d1, d2                the own wgmma that reads the same registers  wgmma.wait_group
//   d3, promotion             all own wgmmas                               wgmma.wait_group
//   the producer              both warpgroups: the stage has been read     the stage's `empty` mbarrier
//
// Decoding step by step needs one set of registers for decoded weights, which leaves room for 160 columns.
#pragma once

#include <cstdint>

#include "tilewright/mixed_fp8_gemm/decode.hpp"
#include "tilewright/mixed_fp8_gemm/layout.hpp"
#include "tilewright/mixed_fp8_gemm/wide_wgmma.hpp"
#include "tilewright/mixed_gemm/phases.hpp"
#include "tilewright/sm90/mainloop.hpp"
#include "tilewright/sm90/product.hpp"
#include "tilewright/sm90/wgmma.hpp"

namespace tilewright::mixed_fp8_gemm {

template <class Format, class Layout, int N, int Stages>
struct InTurnMainloop {
  static constexpr int kCount = N / 2, kSteps = kUnitK / 32;
  static_assert(Format::kBlock == kUnitK && Layout::Slices == 2);

  uint32_t shared;
  int slice;  // of this warpgroup in the tile
  sm90::Release release;
  sm90::Position<Stages> at{};

  __device__ __forceinline__ InTurnMainloop(uint32_t memory, int own_slice, int, sm90::Release const& readers)
      : shared(memory), slice(own_slice), release(readers) {
    if (slice == 1) {
      sm90::named_barrier_arrive(kTurn, 256);  // the first warpgroup begins
    }
  }

  // Multiplies the next `stages` stages of the ring; at least one.
  __device__ __forceinline__ void run(int stages, float (&tile)[1][kCount]) {
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
    for (int i = 0; i + 1 < stages; ++i) {
      stage<true>(sums);
    }
    stage<false>(sums);
  }

 private:
  static constexpr int kTurn = 6;  // named barriers: warpgroup i waits at kTurn + i
  typename Format::Scales scales;  // of the stage that is decoded
  Elements elements;               // of the next two steps that are decoded
  uint32_t fragments[kSteps * 4];  // operand A of a stage's wgmmas

  // Multiplies a stage that is decoded and whose scales are loaded. `kMore`: decodes the next stage meanwhile.
  template <bool kMore>
  __device__ __forceinline__ void stage(float (&sums)[kCount]) {
    int const current = at.stage;
    at.next();
    uint32_t read = scales.any();
    float const factors[2] = {scales.factor(0, 0), scales.factor(0, 1)};
    float part[kCount];
    multiply(current, part);
    if constexpr (kMore) {
      start();
      decode_behind<1>();
      decode_behind<2>();
      decode_behind<3>();
      read |= scales.any();
    } else {
      sm90::wgmma_wait<kSteps - 1>();
      pass_turn();
    }
    sm90::wgmma_wait<0>();
    sm90::hold(part);
    sm90::hold(fragments);
    if constexpr (kMore) {
      decode(kSteps - 1);
    }
    sm90::Release after = release;
    after.empty += sm90::zero_after(read);  // the arrival comes after the loads
    after(current);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      sums[i] = fmaf(part[i], factors[i % 4 / 2], sums[i]);
    }
  }

  // Issues a stage's wgmmas when it is this warpgroup's turn. The first wgmma overwrites the accumulators, `part`.
  __device__ __forceinline__ void multiply(int current, float (&part)[kCount]) const {
    sm90::named_barrier_sync(kTurn + slice, 256);
    sm90::wgmma_fence();
    uint64_t const b = sm90::swizzled_descriptor(Layout::activations(shared, current));
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      sm90::WideWgmma8<typename Format::Weight, N>::run(part, fragments + step * 4, sm90::behind(b, step * 2),
                                                        step > 0);
      sm90::wgmma_commit();
    }
  }

  // Lets the other warpgroup issue its wgmmas.
  __device__ __forceinline__ void pass_turn() const { sm90::named_barrier_arrive(kTurn + 1 - slice, 256); }

  // Waits for the stage at `at` and loads its scales.
  __device__ __forceinline__ void start() {
    sm90::barrier_wait(Layout::full(shared, at.stage), at.phase);
    scales.load(Layout::scales(shared, at.stage, slice), own_quad());
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
    // Without this use of the registers, ptxas decodes after the last wait. No thread stores: `shared` is even, which
    // ptxas does not know.
    asm volatile(
        "{\n.reg .pred odd;\n.reg .b32 bit;\nand.b32 bit, %0, 1;\nsetp.ne.b32 odd, bit, 0;\n"
        "@odd st.shared.v4.u32 [%0], {%1, %2, %3, %4};\n}\n" ::"r"(shared),
        "r"(own[0]), "r"(own[1]), "r"(own[2]), "r"(own[3])
        : "memory");
  }

  // Decodes the fragments of a wgmma. Steps follow one another, because two of them share loads.
  __device__ __forceinline__ void decode(int step) {
    if (step % 2 == 0) {
      elements.load(Layout::weights(shared, at.stage, slice), step / 2);
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      elements.template decode<Format>(scales, step / 2, step % 2 * 2 + i, own_half(), fragments + step * 4 + i * 2);
    }
  }
};

// A warp that does not load brings the factors of D's rows to the L1 cache, from which `finish` reads them at once.
template <class Types>
struct InTurnKernel : mixed_gemm::Phases<Types> {
  using Base = mixed_gemm::Phases<Types>;
  using typename Base::Params;

  __device__ __forceinline__ void operator()(Params const& params, char* memory) const {
    sm90::run_product<InTurnKernel>(params, memory);
  }

  static __device__ __forceinline__ void load(Params const& params, uint32_t shared, sm90::ClusterPlace const& place,
                                              bool loading_warp) {
    Base::load(params, shared, place, loading_warp);
    if (threadIdx.x / 32 % 4 != 1 || params.row_factors == nullptr) {
      return;
    }
    for (int index = sm90::cluster_index(); index < params.raster.blocks; index += sm90::cluster_count()) {
      int const row = sm90::Block(params.raster, index).column * Types::TileN + static_cast<int>(threadIdx.x) % 32 * 8;
      params.bring(row, params.epilogue.m, shared);
    }
  }
};

struct InTurn {
  static constexpr int kBuffers = 0, kGroups = 1;
  template <class Types>
  using Kernel = InTurnKernel<Types>;
  template <class Format, class Layout, int N, int Stages>
  using Mainloop = InTurnMainloop<Format, Layout, N, Stages>;
};

}  // namespace tilewright::mixed_fp8_gemm

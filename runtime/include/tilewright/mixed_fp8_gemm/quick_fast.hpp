// The schedule `quick` of kernels with `fast_accum`: fast.hpp with fewer instructions. They bound it, because a
// scheduler issues few of them while the tensor core multiplies (benchmarks/results/packed_fp8_fast.md). One
// instruction makes the factors of two rows, a thread keeps its addresses in registers, and no instruction orders the
// arrival at `empty` after the loads.
#pragma once

#include <cstdint>

#include "tilewright/mixed_fp8_gemm/fast.hpp"
#include "tilewright/mixed_fp8_gemm/half_width.hpp"

namespace tilewright::mixed_fp8_gemm {

// Mxfp4Whole in fewer instructions. `largest` holds 30 - largest in each half. One instruction adds that to the scales
// of two rows, and limits the sums to 0 to 31, which are F16's exponents of 0 and of infinity.
struct QuickMxfp4Whole : Mxfp4Whole {
  struct Scales : Mxfp4Whole::Scales {
    static __device__ __forceinline__ uint32_t below(uint32_t largest) {
      return (0x801E801E - largest) ^ 0x80008000;  // 30 - largest: no half borrows from the other
    }
    __device__ __forceinline__ uint32_t powers(int group) const {
      return __viaddmin_s16x2_relu(pair(group), largest, 0x001F001F) << 10;
    }
  };
};

// FastMainloop (fast.hpp) for one group of warpgroups, in fewer instructions.
template <class Format, class Layout, int N, int Stages>
struct QuickFastMainloop {
  static constexpr int kCount = N / 2, kSteps = 2;
  uint32_t shared;
  int slice;  // of this warpgroup in the tile
  sm90::Release release;
  sm90::Position<Stages> at{};

  __device__ __forceinline__ QuickFastMainloop(uint32_t memory, int own_slice, int, sm90::Release const& readers)
      : shared(memory), slice(own_slice), release(readers) {}

  // `largest_scale`: as in FastParams.
  __device__ __forceinline__ void relative_to(uint32_t largest_scale) {
    scales.largest = Format::Scales::below(largest_scale);
  }

  // Multiplies the next `stages` stages of the ring; at least one.
  __device__ __forceinline__ void run(int stages, float (&tile)[1][kCount]) { run_columns<N>(stages, tile[0]); }

  // Says that `run_rows` exists, which multiplies by about half of the columns where they hold all rows.
  static constexpr bool kHasFewer = true;
  __device__ __forceinline__ void run_rows(int rows, int stages, float (&tile)[1][kCount]) {
    constexpr int kHalf = N >= 192 ? N / 2 : kHalfWidth<N>;
    if (rows > kHalf) {
      run_columns<N>(stages, tile[0]);
      return;
    }
    run_columns<kHalf>(stages, reinterpret_cast<float (&)[kHalf / 2]>(tile[0]));
#pragma unroll
    for (int i = kHalf / 2; i < kCount; ++i) {
      tile[0][i] = 0.0f;
    }
  }

 private:
  template <int Columns>
  __device__ __forceinline__ void run_columns(int stages, float (&sums)[Columns / 2]) {
    sm90::barrier_wait(Layout::full(shared, at.stage), at.phase);
    load_scales();
    load(0);
    decode(0);
    load(1);
    bool sum = false;
#pragma unroll 1
    for (int left = stages - 1; left > 0; --left) {
      stage<true, Columns>(sum, sums);
      sum = true;
    }
    stage<false, Columns>(sum, sums);
    sm90::wgmma_wait<0>();
    sm90::hold(fragments[0]);
    sm90::hold(fragments[1]);
    sm90::hold(sums);
    release(last);
  }

  // The addresses of the thread's elements (see Elements) and scales in the first stage.
  uint32_t own_weights = kept(Layout::weights(shared, 0, slice) + threadIdx.x % 128 / 4 * 64 + threadIdx.x % 2 * 32);
  uint32_t own_scales = kept(Layout::scales(shared, 0, slice) + own_quad() * 4);

  typename Format::Scales scales;
  Elements elements;                  // of the next piece that is decoded
  uint32_t fragments[2][kSteps * 4];  // operand A, by piece of a stage
  int last;                           // the stage that is multiplied

  // As FastMainloop::stage. A stage is given back after wgmmas were issued that read what its loads became. So its
  // loads have returned.
  template <bool kMore, int Columns>
  __device__ __forceinline__ void stage(bool sum, float (&sums)[Columns / 2]) {
    int const before = last, current = at.stage;
    last = current;
    at.next();
#pragma unroll
    for (int piece = 0; piece < 2; ++piece) {
      sm90::wgmma_fence();
      uint64_t const b = sm90::swizzled_descriptor(Layout::activations(shared, current));
#pragma unroll
      for (int i = 0; i < kSteps; ++i) {
        int const step = piece * kSteps + i;
        sm90::WideWgmma8<typename Format::Weight, Columns>::run(sums, fragments[piece] + i * 4,
                                                                sm90::behind(b, step * 2), sum || step > 0);
      }
      sm90::wgmma_commit();
      sm90::wgmma_wait<1>();  // the piece before this one is done: its registers are free
      sm90::hold(fragments[1 - piece]);
      if (piece == 0 && sum) {
        release(before);
      }
      if (kMore || piece == 0) {
        decode(1 - piece);
      }
      if (kMore && piece == 0) {
        sm90::barrier_wait(Layout::full(shared, at.stage), at.phase);
        load_scales();
        load(0);
      }
      if (kMore && piece == 1) {
        load(1);
      }
    }
  }

  __device__ __forceinline__ void load_scales() {
    uint32_t const own = own_scales + at.stage * Layout::kStageScales;
    scales.raw.words[0][0] = sm90::load_word(own);
    scales.raw.words[1][0] = sm90::load_word(own + 128);
  }

  __device__ __forceinline__ void load(int piece) {
    elements.load(own_weights + at.stage * Layout::kStageA + piece * kPieceBytes);
  }

  __device__ __forceinline__ void decode(int piece) {
#pragma unroll
    for (int chunk = 0; chunk < 4; ++chunk) {
      elements.template decode<Format>(scales, piece, chunk, own_half(), fragments[piece] + chunk * 2);
    }
  }
};

// The main loop of `mixed_fp8_gemm`: reads the largest scale as DenseFastMainloop does.
template <class Format, class Layout, int N, int Stages>
struct DenseQuickFastMainloop : QuickFastMainloop<Format, Layout, N, Stages> {
  using Base = QuickFastMainloop<Format, Layout, N, Stages>;
  using Base::Base;

  __device__ __forceinline__ void run(int stages, float (&tile)[1][Base::kCount]) {
    this->relative_to(sm90::load_word(this->shared + Layout::kBytes));
    Base::run(stages, tile);
  }
};

struct QuickFast {
  static constexpr int kBuffers = 0, kGroups = 1;
  using Params = FastParams;
  template <class Types>
  using Kernel = FastKernel<Types>;
  template <class Format, class Layout, int N, int Stages>
  using Mainloop = DenseQuickFastMainloop<Format, Layout, N, Stages>;
  // For `mixed_fp8_grouped_gemm`, whose kernels call `relative_to`.
  template <class Format, class Layout, int N, int Stages>
  using RelativeMainloop = QuickFastMainloop<Format, Layout, N, Stages>;
};

}  // namespace tilewright::mixed_fp8_gemm

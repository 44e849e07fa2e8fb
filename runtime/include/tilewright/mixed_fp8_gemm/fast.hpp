// The kernel of MXFP4 weights with `fast_accum`: the sums of all of k stay in the tensor core. It keeps 13 bits after
// the leading bit of the largest number that it adds.
//
// No scale multiplies the sums. So the scales are applied to the elements, and all elements are relative to one scale
// of the weight, its largest one.
//
// A warpgroup decodes one piece (64 of k) of a stage while the tensor core multiplies the other one. Time runs to the
// right, `s.0` is piece 0 of stage s:
//
//   tensor core      | s.0         | s.1           | s+1.0         | s+1.1         |
//   the warpgroup    | decode s.1  | decode s+1.0  | decode s+1.1  | decode s+2.0  |
//                    | load s+1.0  | load s+1.1    | load s+2.0    | load s+2.1    |
//   gives back       | s-1         |               | s             |               |
//
// Waits are those of mixed_gemm/mainloop.hpp.
#pragma once

#include <cstdint>

#include "tilewright/mixed_fp8_gemm/decode.hpp"
#include "tilewright/mixed_fp8_gemm/kernel.hpp"
#include "tilewright/mixed_fp8_gemm/layout.hpp"
#include "tilewright/mixed_fp8_gemm/wide_wgmma.hpp"
#include "tilewright/mixed_gemm/phases.hpp"
#include "tilewright/sm90/mainloop.hpp"
#include "tilewright/sm90/product.hpp"
#include "tilewright/sm90/wgmma.hpp"

namespace tilewright::mixed_fp8_gemm {

struct FastParams : Params {
  uint32_t largest_scale;  // the byte of UE8M0, in both halves
};

// MXFP4 relative to the largest scale of the whole weight. Elements become 2 * E2M1 * 2^(scale - largest) as E5M2,
// which is exact where a scale is at least 2^-16 of the largest. With smaller scales, bits are cut off that are less
// than 2^-17 of the largest. A scale above `largest`, such as NaN, gives infinity or NaN.
struct Mxfp4Whole : Mxfp4 {
  struct Scales : Mxfp4::Scales {
    __device__ __forceinline__ void load(uint32_t address, int quad) { raw.load(address, quad); }

    // As Mxfp4::Scales::powers, with infinity for scales above the largest.
    __device__ __forceinline__ uint32_t powers(int group) const {
      uint32_t const exponents = larger(pair(group) + 0x801E801E - largest, 0x80008000);
      return (smaller(exponents, 0x801F801F) & 0x001F001F) << 10;
    }

   private:
    static __device__ __forceinline__ uint32_t smaller(uint32_t x, uint32_t y) {
      uint32_t result;
      asm("min.u16x2 %0, %1, %2;" : "=r"(result) : "r"(x), "r"(y));
      return result;
    }
  };
};

// The main loop of a consumer warpgroup: D[64, N] += W X^T. `relative_to` is called before `run`. `Groups` groups of
// warpgroups divide k: group i multiplies every `Groups`-th stage of the ring, starting with stage i.
template <class Format, class Layout, int N, int Stages, int Groups>
struct FastMainloop {
  static_assert(Stages % Groups == 0);
  static constexpr int kCount = N / 2, kSteps = 2;
  uint32_t shared;
  int slice;  // of this warpgroup in the tile
  sm90::Release release;
  sm90::Position<Stages> at{};

  __device__ __forceinline__ FastMainloop(uint32_t memory, int own_slice, int group, sm90::Release const& readers)
      : shared(memory), slice(own_slice), release(readers) {
    at.stage = group;
  }

  // `largest_scale`: as in FastParams.
  __device__ __forceinline__ void relative_to(uint32_t largest_scale) { scales.largest = largest_scale; }

  // Multiplies the group's next `stages` stages of the ring; at least one if there is one group.
  __device__ __forceinline__ void run(int stages, float (&tile)[1][kCount]) {
    float (&sums)[kCount] = tile[0];
    if (Groups > 1 && stages == 0) {
#pragma unroll
      for (float& sum : sums) {
        sum = 0.0f;
      }
      return;
    }
    sm90::barrier_wait(Layout::full(shared, at.stage), at.phase);
    scales.load(Layout::scales(shared, at.stage, slice), own_quad());
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
    sm90::hold(sums);
    release(last);
  }

 private:
  typename Format::Scales scales;
  Elements elements;                  // of the next piece that is decoded
  uint32_t fragments[2][kSteps * 4];  // operand A, by piece of a stage
  int last;                           // the stage that is multiplied

  // Multiplies a stage whose first piece is decoded and whose second piece is loaded. `kMore`: another stage follows.
  // `sum`: whether products are added to the sums, and otherwise overwrite them.
  template <bool kMore>
  __device__ __forceinline__ void stage(bool sum, float (&sums)[kCount]) {
    int const before = last, current = at.stage;
    last = current;
    advance();
#pragma unroll
    for (int piece = 0; piece < 2; ++piece) {
      sm90::wgmma_fence();
      uint64_t const b = sm90::swizzled_descriptor(Layout::activations(shared, current));
#pragma unroll
      for (int i = 0; i < kSteps; ++i) {
        int const step = piece * kSteps + i;
        sm90::WideWgmma8<typename Format::Weight, N>::run(sums, fragments[piece] + i * 4, sm90::behind(b, step * 2),
                                                          sum || step > 0);
      }
      sm90::wgmma_commit();
      sm90::wgmma_wait<1>();  // the piece before this one is done: its registers are free
      sm90::hold(fragments[1 - piece]);
      if (kMore || piece == 0) {
        decode(1 - piece);
      }
      if (piece == 0 && sum) {
        // The arrival comes after all loads of the stage, because it depends on words that the last loads became.
        sm90::Release after = release;
        after.empty += sm90::zero_after(fragments[1][0] | fragments[1][4]);
        after(before);
      }
      if (kMore && piece == 0) {
        sm90::barrier_wait(Layout::full(shared, at.stage), at.phase);
        scales.load(Layout::scales(shared, at.stage, slice), own_quad());
        load(at.stage, 0);
      }
      if (kMore && piece == 1) {
        load(at.stage, 1);
      }
    }
  }

  __device__ __forceinline__ void advance() {
    at.stage += Groups;
    if (at.stage >= Stages) {
      at.stage -= Stages;
      at.phase ^= 1;
    }
  }

  __device__ __forceinline__ void load(int stage, int piece) {
    elements.load(Layout::weights(shared, stage, slice), piece);
  }

  __device__ __forceinline__ void decode(int piece) {
#pragma unroll
    for (int chunk = 0; chunk < 4; ++chunk) {
      elements.template decode<Format>(scales, piece, chunk, own_half(), fragments[piece] + chunk * 2);
    }
  }
};

// The main loop of `mixed_fp8_gemm`: reads the largest scale from shared memory, after the layout's. `run` reads it,
// not the constructor: the thread that stores it may do so after the constructor, and before `enter`. With a read in
// the constructor, 0.2 to 2.5 % of hammered runs had wrong bits on an H200.
template <class Format, class Layout, int N, int Stages>
struct DenseFastMainloop : FastMainloop<Format, Layout, N, Stages, 1> {
  using Base = FastMainloop<Format, Layout, N, Stages, 1>;
  using Base::Base;

  __device__ __forceinline__ void run(int stages, float (&tile)[1][Base::kCount]) {
    this->relative_to(sm90::load_word(this->shared + Layout::kBytes));
    Base::run(stages, tile);
  }
};

// A thread stores the largest scale to shared memory, after the layout's, before any warp multiplies.
template <class Types>
struct FastKernel : mixed_gemm::Phases<Types> {
  using Base = mixed_gemm::Phases<Types>;
  using typename Base::Layout;
  using typename Base::Params;
  static constexpr int kSharedBytes = Layout::kBytes + 16;

  __device__ __forceinline__ void operator()(Params const& params, char* memory) const {
    sm90::run_product<FastKernel>(params, memory);
  }

  static __device__ __forceinline__ void init_barriers(Params const& params, uint32_t shared) {
    Base::init_barriers(params, shared);
    sm90::store_word(shared + Layout::kBytes, params.largest_scale);
  }
};

template <int Groups>
struct Fast {
  static constexpr int kBuffers = 0, kGroups = Groups;
  using Params = FastParams;
  template <class Types>
  using Kernel = FastKernel<Types>;
  template <class Format, class Layout, int N, int Stages>
  using Mainloop = DenseFastMainloop<Format, Layout, N, Stages>;
  // For `mixed_fp8_grouped_gemm`, whose kernels call `relative_to`.
  template <class Format, class Layout, int N, int Stages>
  using RelativeMainloop = FastMainloop<Format, Layout, N, Stages, Groups>;
};

}  // namespace tilewright::mixed_fp8_gemm

// Split k whose parts meet in memory, because a tile has more of them than a cluster holds. A CTA leaves its part's
// sums in the workspace, as the threads hold them; a second kernel adds them up in the order of k, so that the same
// bits come out every time, and stores D. No CTA waits for another: the sums are complete when the first kernel is
// done.
#pragma once

#include <cstdint>

#include "tilewright/descriptor.hpp"
#include "tilewright/sm90/element_epilogue.hpp"
#include "tilewright/sm90/parts_params.hpp"
#include "tilewright/sm90/ptx.hpp"

namespace tilewright::sm90 {

// A tile's sums in memory: float4s, each four accumulators of a thread, two neighbours of a row and those 8 rows below.
// `Warpgroups` says how the consumers divide the tile.
template <class Warpgroups>
struct TileSums {
  static constexpr int kThreads = Warpgroups::kOfTile * 128;
  static constexpr int kQuads = Warpgroups::kColumns / 8;  // of 64 rows of a warpgroup
  static constexpr int kCount = Warpgroups::kRows * kQuads * kThreads;

  // By each thread, its sums, to where those of the tile begin. `thread` counts those of the tile.
  static __device__ __forceinline__ void leave(float4* tile, uint32_t thread,
                                               float const (&sums)[Warpgroups::kRows][kQuads * 4]) {
    float4* const first = tile + thread;
#pragma unroll
    for (int r = 0; r < Warpgroups::kRows; ++r) {
#pragma unroll
      for (int quad = 0; quad < kQuads; ++quad) {
        float const* const v = sums[r] + quad * 4;
        store_quad(first + (r * kQuads + quad) * kThreads, v[0], v[1], v[2], v[3]);
      }
    }
  }

  // Of float4 `place`: its first accumulator's row and column in the tile.
  static __device__ __forceinline__ int row(int place) {
    int const thread = place % kThreads, r = place / kThreads / kQuads;
    int const first = Warpgroups::kDown == 1 ? 0 : thread / 128 * Warpgroups::kRows * 64;
    return first + r * 64 + thread % 128 / 32 * 16 + thread % 32 / 4;
  }
  static __device__ __forceinline__ int column(int place) {
    int const thread = place % kThreads, quad = place / kThreads % kQuads;
    return (Warpgroups::kAcross == 1 ? 0 : thread / 128 * Warpgroups::kColumns) + quad * 8 + thread % 4 * 2;
  }
};

// The second kernel. `Kernel` is the first. L2 answers after a microsecond, and what hides it are many warps that have
// a few parts on their way each.
template <class Kernel>
struct Combine {
  using Sums = TileSums<typename Kernel::Warpgroups>;
  using ElementD = typename Kernel::ElementD;
  static constexpr int kThreads = kCombineThreads, kWarps = kCombineWarps, kAtOnce = kCombineAtOnce;
  static_assert(Sums::kCount % kThreads == 0);

  __device__ __forceinline__ void operator()(CombineParams const& params) const {
    __shared__ float4 shared[kWarps][32];
    Parts const& parts = params.parts;
    int const lane = threadIdx.x % 32, warp = threadIdx.x / 32, share = warp % params.shares;
    int const groups = kWarps / params.shares;  // of 32 float4s, in a thread block
    int const blocks_of_tile = Sums::kCount / 32 / groups;
    int const tile = blockIdx.x / blocks_of_tile;
    int const place = (blockIdx.x % blocks_of_tile * groups + warp / params.shares) * 32 + lane;
    int const tile_row = tile % parts.tiles_down, rest = tile / parts.tiles_down;
    int const matrix = rest / parts.tiles_across, tile_column = rest - matrix * parts.tiles_across;
    int const row = tile_row * Kernel::TileM + Sums::row(place);
    int const column = tile_column * Kernel::TileN + Sums::column(place);
    EpilogueParams const& epilogue = params.epilogue;
    bool const there = Kernel::kSwapped ? row < epilogue.n && column < epilogue.m  //
                                        : row < epilogue.m && column < epilogue.n;
    int const each = (parts.count + params.shares - 1) / params.shares, begin = share * each;
    int const end = there ? min(parts.count, begin + each) : begin;
    float4 const* const from = parts.sums + int64_t(tile) * Sums::kCount + place;
    int64_t const step = int64_t(parts.tiles()) * Sums::kCount;
    if constexpr (Kernel::kPdl) {
      allow_next_kernel();  // which waits for this one: its launch goes beside the end of the first
      wait_for_previous_kernel();
    }
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (int first = begin; first < end; first += kAtOnce) {
      float4 more[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (first + i < end) {
          more[i] = __ldcg(from + (first + i) * step);
        }
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (first + i < end) {
          add(sum, more[i]);
        }
      }
    }
    if (params.shares > 1) {
      shared[warp][lane] = sum;
      __syncthreads();
      if (share != 0) {
        return;
      }
      for (int other = 1; other < params.shares; ++other) {
        add(sum, shared[warp + other][lane]);
      }
    }
    float const values[4] = {sum.x, sum.y, sum.z, sum.w};
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      int const r = row + e / 2 * 8, c = column + e % 2;
      store_element<ElementD, Kernel::kActivation>(epilogue, values[e], Kernel::kSwapped ? c : r,
                                                   Kernel::kSwapped ? r : c, matrix);
    }
  }

 private:
  static __device__ __forceinline__ void add(float4& sum, float4 const& more) {
    sum.x += more.x, sum.y += more.y, sum.z += more.z, sum.w += more.w;
  }
};

}  // namespace tilewright::sm90

// Defines NAME_combine, which adds up what kernel NAME leaves in the workspace, and says where it is. TRAITS: the
// struct that a generated file defines. COMBINE: the kernel, of `kThreads`, which gets PARAMS.
#define TILEWRIGHT_COMBINING_KERNEL(NAME, TRAITS, COMBINE, PARAMS) \
  extern "C" __global__ void __launch_bounds__(COMBINE::kThreads)  \
      NAME##_combine(__grid_constant__ PARAMS const params) {      \
    TILEWRIGHT_DEVICE_CODE(COMBINE kernel; kernel(params);)        \
  }                                                                \
  void const* TRAITS::combining_entry() { return reinterpret_cast<void const*>(&::NAME##_combine); }

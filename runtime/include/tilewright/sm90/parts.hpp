// Split k through a workspace, for tiles whose k is divided into more ranges ("parts") than a cluster has CTAs.
//
// | kernel | what it does |
// |---|---|
// | the first one, such as gemm/lean_kernel.hpp's | each CTA stores the sums of a part, as its threads hold them |
// | the second one: Combine, or AddParts (add_parts.hpp) | adds the parts up in the order of k, and stores D |
//
// The order is fixed, so the bits are the same every time. No CTA waits for another one: when the first kernel is done,
// all sums are in the workspace.
#pragma once

#include <cstdint>

#include "tilewright/descriptor.hpp"
#include "tilewright/sm90/element_epilogue.hpp"
#include "tilewright/sm90/parts_params.hpp"
#include "tilewright/sm90/ptx.hpp"

namespace tilewright::sm90 {

// The layout of a tile's sums in the workspace. A float4 holds a thread's four accumulators of a column group: two
// neighbours in a row, and the two that lie 8 rows below. The float4s of a column group follow one another in the order
// of threads, so that a warp stores 512 contiguous bytes. `Warpgroups` (product.hpp) says how the consumers divide the
// tile.
template <class Warpgroups>
struct TileSums {
  static constexpr int kThreads = Warpgroups::kOfTile * 128;
  static constexpr int kColumnGroups = Warpgroups::kColumns / 8;  // of a warpgroup's columns
  static constexpr int kCount = Warpgroups::kRows * kColumnGroups * kThreads;

  // Stores the calling thread's sums. `tile`: where the tile's sums begin. `thread`: its number among the tile's
  // threads.
  static __device__ __forceinline__ void store(float4* tile, uint32_t thread,
                                               float const (&sums)[Warpgroups::kRows][kColumnGroups * 4]) {
    float4* const first = tile + thread;
#pragma unroll
    for (int r = 0; r < Warpgroups::kRows; ++r) {
#pragma unroll
      for (int column_group = 0; column_group < kColumnGroups; ++column_group) {
        float const* const v = sums[r] + column_group * 4;
        store_float4(first + (r * kColumnGroups + column_group) * kThreads, v[0], v[1], v[2], v[3]);
      }
    }
  }

  // Row and column, in the tile, of the first accumulator of float4 number `place`.
  static __device__ __forceinline__ int row(int place) {
    int const thread = place % kThreads, r = place / kThreads / kColumnGroups;
    int const first = Warpgroups::kDown == 1 ? 0 : thread / 128 * Warpgroups::kRows * 64;
    return first + r * 64 + thread % 128 / 32 * 16 + thread % 32 / 4;
  }
  static __device__ __forceinline__ int column(int place) {
    int const thread = place % kThreads, column_group = place / kThreads % kColumnGroups;
    return (Warpgroups::kAcross == 1 ? 0 : thread / 128 * Warpgroups::kColumns) + column_group * 8 + thread % 4 * 2;
  }
};

// The body of the second kernel; `Kernel` is the first one. A load from L2 takes about a microsecond. Many warps hide
// that time, each of which loads a few parts at a time.
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
    int const groups = kWarps / params.shares;  // groups of 32 float4s that a CTA adds up: a float4 a lane
    int const blocks_of_tile = Sums::kCount / 32 / groups;
    int const tile = blockIdx.x / blocks_of_tile;
    int const place = (blockIdx.x % blocks_of_tile * groups + warp / params.shares) * 32 + lane;
    int const tile_row = tile % parts.tiles_down, rest = tile / parts.tiles_down;
    int const matrix = rest / parts.tiles_across, tile_column = rest - matrix * parts.tiles_across;
    int const row = tile_row * Kernel::TileM + Sums::row(place);
    int const column = tile_column * Kernel::TileN + Sums::column(place);
    EpilogueParams const& epilogue = params.epilogue;
    bool const exists = Kernel::kSwapped ? row < epilogue.n && column < epilogue.m  //
                                         : row < epilogue.m && column < epilogue.n;
    int const parts_per_share = (parts.count + params.shares - 1) / params.shares, begin = share * parts_per_share;
    int const end = exists ? min(parts.count, begin + parts_per_share) : begin;
    float4 const* const from = parts.sums + int64_t(tile) * Sums::kCount + place;
    int64_t const step = int64_t(parts.tiles()) * Sums::kCount;
    if constexpr (Kernel::kPdl) {
      allow_next_kernel();  // it waits for this kernel, and is launched while the first one ends
      wait_for_previous_kernel();
    }
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (int first = begin; first < end; first += kAtOnce) {
      float4 addends[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (first + i < end) {
          addends[i] = __ldcg(from + (first + i) * step);
        }
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (first + i < end) {
          add(sum, addends[i]);
        }
      }
    }
    if (params.shares > 1) {
      shared[warp][lane] = sum;
      __syncthreads();
      if (share != 0) {
        return;
      }
      for (int source = 1; source < params.shares; ++source) {
        add(sum, shared[warp + source][lane]);
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
  static __device__ __forceinline__ void add(float4& sum, float4 const& addend) {
    sum.x += addend.x, sum.y += addend.y, sum.z += addend.z, sum.w += addend.w;
  }
};

}  // namespace tilewright::sm90

// Defines the second kernel, NAME_combine, of the kernel NAME, and the function TRAITS::combining_entry, which returns
// its address. TRAITS: the struct that a generated file defines. COMBINE: the second kernel's body, which
// COMBINE::kThreads threads run with parameters of type PARAMS.
#define TILEWRIGHT_COMBINING_KERNEL(NAME, TRAITS, COMBINE, PARAMS) \
  extern "C" __global__ void __launch_bounds__(COMBINE::kThreads)  \
      NAME##_combine(__grid_constant__ PARAMS const params) {      \
    TILEWRIGHT_DEVICE_CODE(COMBINE kernel; kernel(params);)        \
  }                                                                \
  void const* TRAITS::combining_entry() { return reinterpret_cast<void const*>(&::NAME##_combine); }

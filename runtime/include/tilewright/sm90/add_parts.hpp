// The second kernel of a split k through a workspace (parts.hpp), for lean kernels with forms (gemm/plain_form.hpp).
//
// AddParts and Combine (parts.hpp) take the same parameters and store the same bits. AddParts is for launches on cold
// instruction caches: where D is the sum alone, 1.0 kB of code follow the wait for the first kernel, in Combine 3.9 kB
// (docs/hopper_launches.md). Combine stays in the kernels without forms, those of mma.sync (gemm/mma.hpp) among them.
// AddParts could serve them, too, but their machine code would change, and they would have to run on a GPU again.
//
// | step | what a thread does |
// |---|---|
// | 1 | computes which float4 it adds up, which parts of it, and where D's elements lie, from the parameters alone |
// | 2 | lets the next kernel start, and waits until the first kernel is done |
// | 3 | adds up its parts in the order of k, kAtOnce loads at a time |
// | 4 | if 2 or 4 warps share the parts of a float4: hands its sum to the first of them, which adds the sums up |
// | 5 | stores D |
#pragma once

#include <cstdint>

#include "tilewright/sm90/element_epilogue.hpp"
#include "tilewright/sm90/parts.hpp"

namespace tilewright::sm90 {

// Stores the four sums of a float4 (TileSums) to a D of 16 bits, with nothing added or scaled. `d`: the address of the
// first sum's element. (`row`, `column`): the first sum's place in the kernel's own plane, whose extents are `end_row`
// and `end_column`. Unless operands are swapped, `end_column` is even, and two columns are stored as one word.
template <class ElementD, bool kSwapped>
__device__ __forceinline__ void store_float4_to_d(uint16_t* d, int64_t ld, float const (&values)[4], int row,
                                                  int column, int end_row, int end_column) {
  uint32_t const above = ElementD::pack(values[0], values[1]), below = ElementD::pack(values[2], values[3]);
  bool const both = row + 8 < end_row;
  if (row >= end_row || column >= end_column) {
    return;
  }
  if constexpr (kSwapped) {
    d[0] = static_cast<uint16_t>(above);
    if (both) {
      d[8] = static_cast<uint16_t>(below);
    }
    if (column + 1 < end_column) {
      d[ld] = static_cast<uint16_t>(above >> 16);
      if (both) {
        d[ld + 8] = static_cast<uint16_t>(below >> 16);
      }
    }
  } else {
    *reinterpret_cast<uint32_t*>(d) = above;
    if (both) {
      *reinterpret_cast<uint32_t*>(d + 8 * ld) = below;
    }
  }
}

// The body of the second kernel; `Kernel` is the first one. D is the sum alone, in rows that are aligned for TMA, where
// the epilogue's `n_boxes` is not 0 (`Maker::combining_epilogue`).
template <class Kernel>
struct AddParts {
  using Sums = typename Kernel::TileSums;
  using ElementD = typename Kernel::ElementD;
  static constexpr int kThreads = kCombineThreads, kWarps = kCombineWarps;
  static constexpr int kAtOnce = kCombineAtOnce;
  static constexpr bool kSwapped = Kernel::kSwapped;
  static_assert(kWarps == 4 && Sums::kCount % kThreads == 0, "one, two or four warps share the parts of 32 float4s");

  __device__ __forceinline__ void operator()(CombineParams const& params) const {
    __shared__ float4 shared[kWarps][32];
    Parts const& parts = params.parts;
    EpilogueParams const& epilogue = params.epilogue;
    int const shares = params.shares, log_shares = shares >> 1;  // the logarithms of 1, 2 and 4 are 0, 1 and 2
    int const lane = threadIdx.x % 32, warp = threadIdx.x / 32, share = warp & (shares - 1);
    constexpr unsigned kBlocks = Sums::kCount / kThreads;  // CTAs for a tile, if one warp adds up all parts
    unsigned const tile = (blockIdx.x >> log_shares) / kBlocks;
    int const block = static_cast<int>(blockIdx.x - (tile * kBlocks << log_shares));
    int const place = ((block << (2 - log_shares)) + (warp >> log_shares)) * 32 + lane;
    int const rest = static_cast<int>(tile / static_cast<unsigned>(parts.tiles_down));
    int const matrix = parts.matrices > 1 ? rest / parts.tiles_across : 0;
    int const row = (static_cast<int>(tile) - rest * parts.tiles_down) * Kernel::TileM + Sums::row(place);
    int const column = (rest - matrix * parts.tiles_across) * Kernel::TileN + Sums::column(place);
    int const end_row = kSwapped ? epilogue.n : epilogue.m, end_column = kSwapped ? epilogue.m : epilogue.n;
    int const parts_per_share = (parts.count + shares - 1) >> log_shares, begin = share * parts_per_share;
    bool const exists = row < end_row && column < end_column, plain = epilogue.n_boxes > 0;
    int count = exists ? min(parts.count - begin, parts_per_share) : 0;
    int64_t const step = int64_t(parts.tiles()) * Sums::kCount;
    float4 const* from = parts.sums + (int64_t(tile) * Sums::kCount + place + begin * step);
    int64_t const ld = epilogue.ld_d;
    int64_t const first = matrix * epilogue.batch_stride_d + (kSwapped ? column * ld + row : row * ld + column);
    void* d = static_cast<uint8_t*>(epilogue.d) + first * ElementD::kBytes;
    if constexpr (Kernel::kPdl) {
      allow_next_kernel();  // as in Combine
      wait_for_previous_kernel();
    }
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 1
    for (; count > 0; count -= kAtOnce) {
      float4 addends[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (i < count) {
          addends[i] = __ldcg(from + i * step);
        }
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (i < count) {
          add(sum, addends[i]);
        }
      }
      from += kAtOnce * step;
    }
    if (shares > 1) {
      shared[warp][lane] = sum;
      __syncthreads();
      if (share != 0) {
        return;
      }
#pragma unroll
      for (int source = 1; source < kWarps; ++source) {
        if (source < shares) {
          add(sum, shared[warp + source][lane]);
        }
      }
    }
    float const values[4] = {sum.x, sum.y, sum.z, sum.w};
    if constexpr (ElementD::kBytes == 2) {
      if (__builtin_expect(plain, 1)) {  // so that this code lies next, and no jump leads to it
        store_float4_to_d<ElementD, kSwapped>(static_cast<uint16_t*>(d), ld, values, row, column, end_row, end_column);
        return;
      }
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      int const r = row + e / 2 * 8, c = column + e % 2;
      store_element<ElementD, Kernel::kActivation>(epilogue, values[e], kSwapped ? c : r, kSwapped ? r : c, matrix);
    }
  }

 private:
  static __device__ __forceinline__ void add(float4& sum, float4 const& addend) {
    sum.x += addend.x, sum.y += addend.y, sum.z += addend.z, sum.w += addend.w;
  }
};

}  // namespace tilewright::sm90

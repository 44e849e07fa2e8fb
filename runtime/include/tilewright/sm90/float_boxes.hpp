// Sums of F32 to D by TMA, so that the next tile is multiplied while they are on their way; or added to what D holds,
// which L2 does, so that nobody waits for it.
#pragma once

#include <cstdint>

#include "tilewright/sm90/ptx.hpp"

namespace tilewright::sm90 {

// Of the tile of a warpgroup: 64 * Rows rows, N columns, a piece of some columns at a time. Each warp stores its 16
// rows.
template <int Rows, int N, int kMostBuffers = 2>
struct FloatBoxes {
  // Accumulators, 8 columns each, of a piece: 4, a swizzled row of 128 bytes, which is one line of L2, so that no line
  // is written, or added to, twice; else an odd number, so that the 32 bytes of a row that four threads write lie in
  // other banks than those of the next rows.
  static constexpr int quads_of_piece() {
    int quads = N % 32 == 0 ? 4 : 11;
    while (quads > 1 && N / 8 % quads != 0) {
      quads -= 2;
    }
    return quads > 1 ? quads : N / 8;
  }
  static constexpr int kQuads = quads_of_piece(), kPieces = N / 8 / kQuads;
  static constexpr bool kSwizzled = kQuads == 4;
  static constexpr int kBoxBytes = kQuads * 32, kBoxRows = 16, kBoxColumns = kQuads * 8;
  static constexpr int kBuffers = Rows * kPieces < kMostBuffers ? Rows * kPieces : kMostBuffers;
  static constexpr int kBufferBytes = kBoxBytes * kBoxRows, kWarpBytes = kBuffers * kBufferBytes;
  static constexpr int kBytes = 4 * kWarpBytes;  // of a warpgroup
  static constexpr CUtensorMapSwizzle kSwizzle = kSwizzled ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE;

  CUtensorMap const* map;
  uint32_t buffers;  // of the warp
  bool leader;       // issues the stores
  int used = 0;

  // `kBytes` of shared memory for each warpgroup, from a multiple of 1024 on.
  __device__ __forceinline__ FloatBoxes(CUtensorMap const* d, uint32_t shared)
      : map(d), buffers(shared + static_cast<int>(threadIdx.x) / 32 * kWarpBytes), leader(elect_one()) {}

  // The warpgroup's sums, whose first is D's at (row, column).
  template <bool kAdd>
  __device__ __forceinline__ void store(float const (&sums)[Rows][N / 2], int row, int column, int matrix) {
    int const lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
#pragma unroll
      for (int piece = 0; piece < kPieces; ++piece) {
        uint32_t const buffer = buffers + used * kBufferBytes;
        used = used + 1 < kBuffers ? used + 1 : 0;
        // At most kBuffers - 1 bulk groups stay pending: those of the subtiles that use the other buffers. Valid
        // because every subtile commits one group.
        if (leader) {
          wait_for_stores<kBuffers - 1>();
        }
        __syncwarp();
#pragma unroll
        for (int quad = 0; quad < kQuads; ++quad) {
          float const* const v = sums[r] + (piece * kQuads + quad) * 4;
          store_pair_shared(buffer + place(lane / 4, quad, lane % 4), v[0], v[1]);
          store_pair_shared(buffer + place(lane / 4 + 8, quad, lane % 4), v[2], v[3]);
        }
        fence_async_proxy();
        __syncwarp();
        if (leader) {
          store_float_box<kAdd>(buffer, map, column + piece * kBoxColumns, row + r * 64 + warp * 16, matrix);
          commit_stores();
        }
      }
    }
  }

  // Before the CTA ends: TMA still reads the shared memory of the last pieces.
  __device__ __forceinline__ void drain() const {
    if (leader) {
      wait_for_stores<0>();
    }
  }

 private:
  // Where a box has the pair of columns `pair` of quad `quad` of a row.
  static __device__ __forceinline__ int place(int row, int quad, int pair) {
    int const unit = quad * 2 + pair / 2;
    return row * kBoxBytes + ((kSwizzled ? unit ^ (row & 7) : unit) << 4) + pair % 2 * 8;
  }
};

}  // namespace tilewright::sm90

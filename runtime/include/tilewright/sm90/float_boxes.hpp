// The epilogue of an F32 D that TMA stores: the next tile is multiplied while the stores run. TMA can also add the sums
// to what D holds. L2 does the additions, so no thread waits for D.
#pragma once

#include <cstdint>

#include "tilewright/sm90/ptx.hpp"

namespace tilewright::sm90 {

// Stores a warpgroup's sums, 64 * Rows rows and N columns, a subtile of some columns at a time. Each warp fills and
// stores boxes of its own 16 rows, in the steps of epilogue.hpp.
template <int Rows, int N, int kMostBuffers = 2>
struct FloatBoxes {
  // Column groups (8 columns) of a subtile. Four make a swizzled row of 128 bytes: one line of L2, which is written or
  // added to once. If N is no multiple of 32 columns, an odd number: the 32 bytes of a row that four threads write then
  // lie in other banks than those of the next rows.
  static constexpr int column_groups_of_subtile() {
    int column_groups = N % 32 == 0 ? 4 : 11;
    while (column_groups > 1 && N / 8 % column_groups != 0) {
      column_groups -= 2;
    }
    return column_groups > 1 ? column_groups : N / 8;
  }
  static constexpr int kColumnGroups = column_groups_of_subtile(), kSubtiles = N / 8 / kColumnGroups;
  static constexpr bool kSwizzled = kColumnGroups == 4;
  static constexpr int kBoxBytes = kColumnGroups * 32, kBoxRows = 16, kBoxColumns = kColumnGroups * 8;
  static constexpr int kBuffers = Rows * kSubtiles < kMostBuffers ? Rows * kSubtiles : kMostBuffers;
  static constexpr int kBufferBytes = kBoxBytes * kBoxRows, kWarpBytes = kBuffers * kBufferBytes;
  static constexpr int kBytes = 4 * kWarpBytes;  // of a warpgroup
  static constexpr CUtensorMapSwizzle kSwizzle = kSwizzled ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE;

  CUtensorMap const* map;
  uint32_t buffers;  // of this warp
  bool leader;       // whether this thread issues the TMA stores
  int used = 0;

  // `shared`: `kBytes` for each warpgroup, starting at a multiple of 1024.
  __device__ __forceinline__ FloatBoxes(CUtensorMap const* d, uint32_t shared)
      : map(d), buffers(shared + static_cast<int>(threadIdx.x) / 32 * kWarpBytes), leader(elect_one()) {}

  // Stores the warpgroup's sums, whose first is D's at (row, column). `kAdd`: adds them to D.
  template <bool kAdd>
  __device__ __forceinline__ void store(float const (&sums)[Rows][N / 2], int row, int column, int matrix) {
    int const lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
#pragma unroll
      for (int subtile = 0; subtile < kSubtiles; ++subtile) {
        uint32_t const buffer = buffers + used * kBufferBytes;
        used = used + 1 < kBuffers ? used + 1 : 0;
        // At most kBuffers - 1 bulk groups stay pending: those of the subtiles that use the other buffers. Valid
        // because every subtile commits one group.
        if (leader) {
          wait_for_stores<kBuffers - 1>();
        }
        __syncwarp();
#pragma unroll
        for (int column_group = 0; column_group < kColumnGroups; ++column_group) {
          float const* const v = sums[r] + (subtile * kColumnGroups + column_group) * 4;
          store_pair_shared(buffer + place(lane / 4, column_group, lane % 4), v[0], v[1]);
          store_pair_shared(buffer + place(lane / 4 + 8, column_group, lane % 4), v[2], v[3]);
        }
        fence_async_proxy();
        __syncwarp();
        if (leader) {
          store_float_box<kAdd>(buffer, map, column + subtile * kBoxColumns, row + r * 64 + warp * 16, matrix);
          commit_stores();
        }
      }
    }
  }

  // Finish: waits until TMA has read the shared memory of the last subtiles, because the CTA's end frees it.
  __device__ __forceinline__ void drain() const {
    if (leader) {
      wait_for_stores<0>();
    }
  }

 private:
  // Offset, in a box, of pair `pair` (0 to 3) of columns of a column group of row `row`.
  static __device__ __forceinline__ int place(int row, int column_group, int pair) {
    int const unit = column_group * 2 + pair / 2;
    return row * kBoxBytes + ((kSwizzled ? unit ^ (row & 7) : unit) << 4) + pair % 2 * 8;
  }
};

}  // namespace tilewright::sm90

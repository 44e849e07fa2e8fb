// Split-k reduction through distributed shared memory. The CTAs of a cluster that share a tile each have the sums of
// one k range. Each CTA adds up the sums of all of them, in the order of k, for some subtiles of its own. So the result
// has the same bits every time, and needs neither a workspace nor atomics.
//
// | step | who | then |
// |---|---|---|
// | `store_sums` | each consumer thread, to its own CTA's shared memory | |
// | cluster barrier | all warps of the cluster | all sums can be read |
// | `reduce` | each consumer warpgroup, from all CTAs' shared memory | |
// | cluster barrier | all warps of the cluster | the memory can be overwritten, and CTAs may end |
#pragma once

#include <cstdint>

#include "tilewright/sm90/cluster.hpp"
#include "tilewright/sm90/ptx.hpp"

namespace tilewright::sm90 {

// Sums lie in the stages' memory by column groups: 16 bytes (4 accumulators) of each consumer thread, thread after
// thread. `Rows`, `N`: 64-row slices and columns of a warpgroup. `kThreads`: of all consumers.
template <int Rows, int N, int kThreads>
struct ClusterReduction {
  // How many subtiles of `column_groups` column groups `reduce` loads at the same time.
  static constexpr int together(int column_groups) {
    return Rows * N > 128 || column_groups > 2 ? 1 : 4 / column_groups;
  }

  static constexpr int kBytes = Rows * (N / 8) * kThreads * 16;

  // Address of the calling thread's sums of a column group.
  static __device__ __forceinline__ uint32_t place(uint32_t shared, int r, int column_group) {
    return shared + ((r * (N / 8) + column_group) * kThreads + static_cast<int>(threadIdx.x)) * 16;
  }

  // Stores the calling thread's sums to its own CTA's shared memory.
  static __device__ __forceinline__ void store_sums(uint32_t shared, float const (&sums)[Rows][N / 2]) {
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
#pragma unroll
      for (int column_group = 0; column_group < N / 8; ++column_group) {
        float const* const v = sums[r] + column_group * 4;
        store_floats(place(shared, r, column_group), v[0], v[1], v[2], v[3]);
      }
    }
  }

  // Sets `sums` to the cluster's sums of `Count` subtiles, each of `ColumnGroups` column groups: subtiles `first`,
  // `first + step` and so on, as far as they exist. A load from another SM's shared memory takes some thousand clocks,
  // so the loads of all these subtiles and of several splits are issued before the first is used.
  template <int Count, int ColumnGroups>
  static __device__ __forceinline__ void reduce(uint32_t shared, int first, int step, ClusterShape const& shape,
                                                ClusterPlace const& place_in, float (&sums)[Count][ColumnGroups * 4]) {
    constexpr int kSubtiles = Rows * (N / 8 / ColumnGroups);
    // Splits whose loads are in flight together. With more splits, accumulators of the main loop spill.
    constexpr int kAtOnce = Rows * N > 288 || ColumnGroups > 4 ? 1 : ColumnGroups > 2 ? 2 : 4;
#pragma unroll
    for (float (&sum)[ColumnGroups* 4] : sums) {
#pragma unroll
      for (float& value : sum) {
        value = 0.0f;
      }
    }
#pragma unroll 1
    for (int split = 0; split < shape.splits; split += kAtOnce) {
      float4 loaded[kAtOnce][Count][ColumnGroups];
#pragma unroll
      for (int p = 0; p < kAtOnce; ++p) {
        if (split + p < shape.splits) {
          uint32_t const from = cluster_address(place(shared, 0, 0), place_in.rank(shape, split + p));
#pragma unroll
          for (int subtile = 0; subtile < Count; ++subtile) {
            if (first + subtile * step < kSubtiles) {
#pragma unroll
              for (int i = 0; i < ColumnGroups; ++i) {
                loaded[p][subtile][i] =
                    load_cluster(from + ((first + subtile * step) * ColumnGroups + i) * kThreads * 16);
              }
            }
          }
        }
      }
#pragma unroll
      for (int p = 0; p < kAtOnce; ++p) {
        if (split + p < shape.splits) {
#pragma unroll
          for (int subtile = 0; subtile < Count; ++subtile) {
#pragma unroll
            for (int i = 0; i < ColumnGroups; ++i) {
              float4 const& addend = loaded[p][subtile][i];
              float* const sum = sums[subtile] + i * 4;
              sum[0] += addend.x, sum[1] += addend.y, sum[2] += addend.z, sum[3] += addend.w;
            }
          }
        }
      }
    }
  }
};

}  // namespace tilewright::sm90

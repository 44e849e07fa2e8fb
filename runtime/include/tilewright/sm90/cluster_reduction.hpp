// Split-k reduction through distributed shared memory: the CTAs of a cluster that share a tile add up their sums, each
// CTA for a part of the tile, in the order of k. Needs neither a workspace nor atomics, and gives the same bits every
// time.
#pragma once

#include <cstdint>

#include "tilewright/sm90/cluster.hpp"
#include "tilewright/sm90/ptx.hpp"

namespace tilewright::sm90 {

// Sums lie in the stages' memory by column groups (4 accumulators): 16 bytes of each consumer thread, thread after
// thread.
template <int Rows, int N, int kThreads>
struct ClusterReduction {
  // How many subtiles of `column_groups` column groups can be loaded at the same time.
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

  // Adds up the cluster's sums of `Count` subtiles, each of `ColumnGroups` column groups, in the order of k: subtiles
  // `first`, `first + step` and so on, as far as they exist. Another SM's shared memory answers after some thousand
  // clocks, so the loads of all these subtiles and of several splits are issued before any is used.
  template <int Count, int ColumnGroups>
  static __device__ __forceinline__ void reduce(uint32_t shared, int first, int step, ClusterShape const& shape,
                                                ClusterPlace const& place_in, float (&sums)[Count][ColumnGroups * 4]) {
    constexpr int kSubtiles = Rows * (N / 8 / ColumnGroups);
    // Splits whose loads are in flight together. With more, accumulators of the main loop spill.
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

// A CTA's place in its cluster, whose shape is a run-time argument: `m` x `n` CTAs compute neighbouring tiles, and
// `splits` CTAs compute k ranges of the same tile.
#pragma once

#include <cstdint>

#include "tilewright/sm90/cluster_shape.hpp"
#include "tilewright/sm90/ptx.hpp"

namespace tilewright::sm90 {

// The number of this CTA's cluster in a grid of one dimension, and the number of clusters.
__device__ __forceinline__ int cluster_index() {
  uint32_t index;
  asm volatile("mov.u32 %0, %%clusterid.x;" : "=r"(index));
  return static_cast<int>(index);
}
__device__ __forceinline__ int cluster_count() {
  uint32_t count;
  asm volatile("mov.u32 %0, %%nclusterid.x;" : "=r"(count));
  return static_cast<int>(count);
}

// The place of this CTA. CTAs with the same `m` read the same rows of A, CTAs with the same `n` the same rows of B, if
// they have the same `split`.
struct ClusterPlace {
  int m, n, split;

  __device__ __forceinline__ explicit ClusterPlace(ClusterShape const& shape) {
    int const rank = static_cast<int>(cluster_rank());
    m = rank & (shape.m - 1);
    n = rank >> shape.log_m & (shape.n - 1);
    split = rank >> shape.log_mn;
  }

  __device__ __forceinline__ int rank(ClusterShape const& shape, int other_split) const {
    return m + (n << shape.log_m) + (other_split << shape.log_mn);
  }

  // The CTAs that read the same rows of A, of B, and of either, with this CTA: bit i stands for the CTA of rank i.
  __device__ __forceinline__ uint16_t sharers_of_a(ClusterShape const& shape) const {
    // `n` bits, one every `m` ranks.
    uint32_t const every = shape.m == 1 ? 0xFF : shape.m == 2 ? 0x55 : shape.m == 4 ? 0x11 : 0x01;
    return static_cast<uint16_t>((every & ((1u << (shape.m * shape.n)) - 1)) << rank_at(shape, 0));
  }
  __device__ __forceinline__ uint16_t sharers_of_b(ClusterShape const& shape) const {
    return static_cast<uint16_t>(((1u << shape.m) - 1) << (rank_at(shape, n) - m));
  }
  __device__ __forceinline__ int sharers(ClusterShape const& shape) const {
    return sharers_of_a(shape) | sharers_of_b(shape);
  }

 private:
  __device__ __forceinline__ int rank_at(ClusterShape const& shape, int column) const {
    return m + (column << shape.log_m) + (split << shape.log_mn);
  }
};

}  // namespace tilewright::sm90

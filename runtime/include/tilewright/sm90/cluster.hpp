// What the thread blocks (CTAs) of a cluster share: `m` x `n` of them work on neighbouring tiles, `splits` of them on
// parts of one tile's k. The shape is a run-time argument.
#pragma once

#include <cstdint>

#include "tilewright/sm90/ptx.hpp"

namespace tilewright::sm90 {

constexpr int kMostCtas = 8;  // of a cluster that every GPU takes

// `m` and `n` are powers of two; the splits, which come last in a CTA's rank, any number.
struct ClusterShape {
  int m, n, splits;
  int log_m, log_mn;

  ClusterShape() = default;
  ClusterShape(int m_ctas, int n_ctas, int k_parts)
      : m(m_ctas), n(n_ctas), splits(k_parts), log_m(log2(m)), log_mn(log_m + log2(n)) {}

  __host__ __device__ int size() const { return splits << log_mn; }

  // Whether it is one that kernels take.
  bool legal() const {
    auto const power_of_two = [](int x) { return x > 0 && (x & (x - 1)) == 0; };
    return power_of_two(m) && power_of_two(n) && splits > 0 && m * n <= kMostCtas && size() <= kMostCtas;
  }

 private:
  static int log2(int power) {
    int log = 0;
    while ((1 << log) < power) {
      ++log;
    }
    return log;
  }
};

// This CTA's cluster among those of a grid of one dimension, and how many there are.
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

// One CTA's place in its cluster. CTAs of one row (m) read the same rows of A, those of one column (n) the same of B.
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

  // The CTAs, as bits by rank, that read the same rows of A, and of B.
  __device__ __forceinline__ uint16_t sharers_of_a(ClusterShape const& shape) const {
    // A bit every `m` ranks, `n` of them.
    uint32_t const every = shape.m == 1 ? 0xFF : shape.m == 2 ? 0x55 : shape.m == 4 ? 0x11 : 0x01;
    return static_cast<uint16_t>((every & ((1u << (shape.m * shape.n)) - 1)) << rank_at(shape, 0));
  }
  __device__ __forceinline__ uint16_t sharers_of_b(ClusterShape const& shape) const {
    return static_cast<uint16_t>(((1u << shape.m) - 1) << (rank_at(shape, n) - m));
  }

 private:
  __device__ __forceinline__ int rank_at(ClusterShape const& shape, int column) const {
    return m + (column << shape.log_m) + (split << shape.log_mn);
  }
};

// How the CTAs that read the same rows share the work of loading them: each a slice of every k tile, where the slices
// are whole 8-row atoms of the swizzle, else a whole k tile in turn. Of a matrix with fewer rows than a tile no more
// than those: a row of 128 bytes that is not there costs TMA 3.7 clocks, one that is there 1.7. What a stage holds in
// its place is multiplied, and not stored.
struct Slices {
  int parts;  // CTAs that share
  int rows;   // of a box
  int turns;  // 1: every k tile; else `parts`

  static Slices of(int tile_rows, int parts, int matrix_rows = 0x7FFFFFFF) {
    int const held = matrix_rows < tile_rows ? matrix_rows : tile_rows;
    int const atoms = (held + 8 * parts - 1) / (8 * parts);  // of a slice
    bool const slices = parts > 1 && 8 * parts * atoms <= tile_rows;
    return {parts, slices ? 8 * atoms : held, slices ? 1 : parts};
  }

  // That arrive with every k tile.
  int loaded() const { return turns == 1 ? rows * parts : rows; }
};

}  // namespace tilewright::sm90

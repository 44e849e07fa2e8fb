// The shape of a cluster, and how its CTAs share loads: what the host passes to a kernel.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace tilewright::sm90 {

constexpr int kMostCtas = 8;  // of a cluster, on every GPU

// `m` and `n` are powers of two. `splits` is any number and the slowest part of a CTA's rank.
struct ClusterShape {
  int m, n, splits;
  int log_m, log_mn;

  ClusterShape() = default;
  ClusterShape(int m_ctas, int n_ctas, int k_parts)
      : m(m_ctas), n(n_ctas), splits(k_parts), log_m(log2(m)), log_mn(log_m + log2(n)) {}

  __host__ __device__ int size() const { return splits << log_mn; }

  // Whether kernels accept this shape.
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

// How the `count` CTAs that read the same rows of an operand share its loads by multicast. Where the rows divide into
// whole 8-row atoms of the swizzle, each CTA loads its slice of every k tile (period 1). Otherwise each loads a whole k
// tile in every `count` of them (period `count`).
//
// A matrix with fewer rows than a tile has boxes of its own rows only: a row of 128 bytes outside of the matrix costs
// TMA 3.7 clocks, a row inside 1.7. The stage keeps what it held in the other rows, which is multiplied but not stored.
struct Slices {
  int rows;        // of a box
  int16_t count;   // CTAs that share
  int16_t period;  // k tiles from one that a CTA loads to the next

  static Slices of(int tile_rows, int count, int matrix_rows = 0x7FFFFFFF) {
    int const loaded = matrix_rows < tile_rows ? matrix_rows : tile_rows;
    int const atoms = (loaded + 8 * count - 1) / (8 * count);  // of a slice
    bool const slices = count > 1 && 8 * count * atoms <= tile_rows;
    return {slices ? 8 * atoms : loaded, static_cast<int16_t>(count), static_cast<int16_t>(slices ? 1 : count)};
  }

  // Rows that arrive with every k tile.
  int loaded() const { return period == 1 ? rows * count : rows; }
};

}  // namespace tilewright::sm90

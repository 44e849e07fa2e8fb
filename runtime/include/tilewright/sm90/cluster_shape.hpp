// The shape of a cluster, and how its CTAs share loads. The host computes both and passes them to a kernel.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace tilewright::sm90 {

constexpr int kMostCtas = 8;  // of a cluster, on every GPU

// `m` x `n` CTAs for neighbouring tiles, powers of two, times `splits` CTAs for each tile, any number. The CTA at row i
// and column j that has split s has rank i + j * m + s * m * n.
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

// How the `count` CTAs that read the same rows of an operand share its loads by multicast:
//
// | rows of the tile | each CTA loads | period |
// |---|---|---|
// | divide into `count` slices of whole 8-row atoms of the swizzle | its slice of every k tile | 1 |
// | do not | all rows of one in `count` k tiles | `count` |
//
// A matrix with fewer rows than a tile has boxes of its own rows only: a row of 128 bytes outside of the matrix costs
// TMA 3.7 clocks, a row inside 1.7. The stage's other rows keep what they held. They are multiplied, and not stored.
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

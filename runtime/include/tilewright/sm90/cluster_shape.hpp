// The shape of a cluster, and how its CTAs share what they load: what the host says of it to a kernel.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

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

// How the CTAs that read the same rows share the work of loading them: each a slice of every k tile, where the slices
// are whole 8-row atoms of the swizzle, else a whole k tile in turn. Of a matrix with fewer rows than a tile no more
// than those: a row of 128 bytes that is not there costs TMA 3.7 clocks, one that is there 1.7. What a stage holds in
// its place is multiplied, and not stored.
struct Slices {
  int rows;       // of a box
  int16_t parts;  // CTAs that share
  int16_t turns;  // 1: every k tile; else `parts`

  static Slices of(int tile_rows, int parts, int matrix_rows = 0x7FFFFFFF) {
    int const held = matrix_rows < tile_rows ? matrix_rows : tile_rows;
    int const atoms = (held + 8 * parts - 1) / (8 * parts);  // of a slice
    bool const slices = parts > 1 && 8 * parts * atoms <= tile_rows;
    return {slices ? 8 * atoms : held, static_cast<int16_t>(parts), static_cast<int16_t>(slices ? 1 : parts)};
  }

  // That arrive with every k tile.
  int loaded() const { return turns == 1 ? rows * parts : rows; }
};

}  // namespace tilewright::sm90

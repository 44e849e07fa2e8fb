// The factors of the rows of FP8 activations, by which a kernel multiplies the rows of D. Operands are swapped, so rows
// of D are columns of the kernel's tile.
#pragma once

#include <cstdint>

namespace tilewright::mixed_fp8_gemm {

// The factors of the rows of D that are `Columns` columns of a tile of the kernel: the lanes of a warp hold 32 of them.
// They are loaded before the main loop, which hides the time of the loads.
template <int Columns>
struct FactorsOfTile {
  static constexpr int kWords = (Columns + 31) / 32;
  float own[kWords];

  // Multiplies a thread's sums. Called by whole warps, whose lanes exchange the factors.
  template <int Count>
  __device__ __forceinline__ void multiply(float (&sums)[Count]) const {
    static_assert(Count == Columns / 2);
#pragma unroll
    for (int group = 0; group < Count / 4; ++group) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        int const lane = group % 4 * 8 + static_cast<int>(threadIdx.x) % 4 * 2 + i;
        float const factor = __shfl_sync(~0u, own[group / 4], lane);
        sums[group * 4 + i] *= factor, sums[group * 4 + i + 2] *= factor;
      }
    }
  }
};

struct RowFactors {
  float const* row_factors;  // of D's rows, or null for 1

  // Multiplies a thread's sums by the factors of D's rows, which are the kernel's columns, starting with `column`. D
  // has `rows` rows. `before`: how many factors stand before that of D's first row.
  template <int Count>
  __device__ __forceinline__ void scale_rows(int column, int rows, float (&sums)[Count], long before = 0) const {
    if (row_factors == nullptr) {
      return;
    }
#pragma unroll
    for (int group = 0; group < Count / 4; ++group) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        int const row = column + group * 8 + static_cast<int>(threadIdx.x) % 4 * 2 + i;
        float const factor = row < rows ? row_factors[before + row] : 0.0f;
        sums[group * 4 + i] *= factor, sums[group * 4 + i + 2] *= factor;
      }
    }
  }

  // Brings the factor of `row` to the L1 cache, if D has that row. `shared`: an even address.
  __device__ __forceinline__ void bring(int row, int rows, uint32_t shared) const {
    if (row < rows) {
      // Keeps the load, whose value nothing needs. No thread stores: the address is even, which ptxas does not know.
      asm volatile(
          "{\n.reg .pred odd;\n.reg .b32 bit;\nand.b32 bit, %0, 1;\nsetp.ne.b32 odd, bit, 0;\n"
          "@odd st.shared.f32 [%0], %1;\n}\n" ::"r"(shared),
          "f"(row_factors[row])
          : "memory");
    }
  }

  // Loads the factors of a tile's rows. They are 0 for rows that D lacks, and 1 without `row_factors`. `before`: as of
  // scale_rows.
  template <int Columns>
  __device__ __forceinline__ FactorsOfTile<Columns> of_tile(int column, int rows, long before) const {
    FactorsOfTile<Columns> factors;
#pragma unroll
    for (int i = 0; i < factors.kWords; ++i) {
      int const row = column + i * 32 + static_cast<int>(threadIdx.x) % 32;
      factors.own[i] = row_factors == nullptr ? 1.0f : row < rows ? row_factors[before + row] : 0.0f;
    }
    return factors;
  }
};

}  // namespace tilewright::mixed_fp8_gemm

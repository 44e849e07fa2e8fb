// The factors of the rows of FP8 activations.
#pragma once

namespace tilewright::mixed_fp8_gemm {

struct RowFactors {
  float const* row_factors;  // of D's rows, or null for 1

  // Multiplies sums by the factors of D's rows, which are the kernel's columns, starting with `column`. D has `rows`
  // rows; `before`: factors before the first row's.
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
};

}  // namespace tilewright::mixed_fp8_gemm

// Which elements of an FP8 operand share an FP32 scale factor, and where the factors of blocks lie in global memory.
#pragma once

#include <cstdint>

namespace tilewright::sm90 {

constexpr int kScaleBlock = 128;  // elements along k that share a factor; also rows, with kBlocks

// The elements of an operand that share a factor.
enum class Scales {
  kNone,    // there are no factors
  kRows,    // 1x128: 128 of k of one row
  kBlocks,  // 128x128: 128 of k of 128 rows
};

// The factors of an operand's 128x128 blocks in global memory. Threads load them, not TMA.
struct BlockScales {
  float const* scales = nullptr;
  int64_t matrix_stride = 0;          // elements between matrices
  int64_t row_stride = 0;             // and between blocks
  int k_stride = 0, rows = 0, k = 0;  // blocks

  // The address of the first factor along k of the block that row `row` lies in. A row behind the operand has the last
  // block's: it is not stored.
  __device__ __forceinline__ float const* at(int matrix, int row) const {
    int const block = row / kScaleBlock;
    return scales + matrix * matrix_stride + (block < rows ? block : rows - 1) * row_stride;
  }
};

}  // namespace tilewright::sm90

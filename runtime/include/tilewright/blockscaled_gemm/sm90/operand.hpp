// An operand's tile as it lies in shared memory: packed data as TMA wrote it, and scale factors.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "tilewright/blockscaled_gemm/sm90/decode.hpp"
#include "tilewright/sm90/matrices.hpp"

namespace tilewright::blockscaled_gemm::sm90 {

using namespace tilewright::sm90;

constexpr int kAtomBytes = 512;  // scale factors of 128 rows and 4 columns: the atom of the 128x4 layout

// The place of row `row` (of any number) in its atoms.
__host__ __device__ constexpr int atom_row(int row) { return row % 32 * 16 + row % 128 / 32 * 4; }

// `kRows` rows of `kTileK` elements.
//
// Data lies in boxes of 128 (or 64) bytes a row, their 16-byte chunks swizzled by TMA so that the warps' reads
// below meet no bank conflicts.
template <class Format, int kRows, int kTileK>
struct OperandTile {
  using Decode = Decoder<Format>;
  static constexpr int kRowBytes = kTileK * Decode::kBits / 8;
  static constexpr int kWidth = kRowBytes < 128 ? kRowBytes : 128;  // of a box
  static constexpr int kBoxes = kRowBytes / kWidth;
  static constexpr int kBoxBytes = kRows * kWidth;
  static constexpr int kBytes = kBoxes * kBoxBytes;
  static constexpr int kSlotBytes = (kBytes + 1023) / 1024 * 1024;  // a stage's, aligned as the swizzle wants it
  static constexpr int kAtoms = kTileK / Decode::kBlock / 4;        // along k
  static constexpr int kRowBlocks = (kRows + 127) / 128;
  static constexpr int kScaleBytes = kRowBlocks * kAtoms * kAtomBytes;
  static_assert(kTileK % 128 == 0 && kRowBytes % kWidth == 0 && (kWidth == 64 || kWidth == 128));

  // What a chunk's number in its row is XORed with.
  static __device__ __forceinline__ int swizzle(int row) { return kWidth == 128 ? row & 7 : (row >> 1) & 3; }

  // Where 16-byte chunk `chunk` of block `block` (of 128 elements) of a row lies; FP4 has 4 chunks in a block,
  // FP8 has 8.
  static __device__ __forceinline__ int chunk(int row, int block, int chunk) {
    constexpr int kBlocksPerBox = kWidth * 8 / Decode::kBits / 128;
    int const in_row = block % kBlocksPerBox * 4 + chunk;
    return block / kBlocksPerBox * kBoxBytes + row * kWidth + (in_row ^ swizzle(row)) * 16;
  }

  // The row, of 8, that quad `quad` of a warp reads in 16-byte chunks, one a thread. The quads of a quarter
  // warp want 8 different chunks: rows that differ in bit 2 have them where a quad's four are half a box.
  static __device__ __forceinline__ int quad_row(int quad) {
    return Decode::kBits == 4 && kWidth == 128 ? (quad >> 1) | ((quad & 1) << 2) : quad;
  }
};

// Describes an operand of `rows` rows of `row_bytes` bytes to TMA: boxes of `Tile`. A batch stride of 0 is one
// matrix that serves every batch. Strides are in bytes.
template <class Tile>
cudaError_t encode_map(CUtensorMap& map, void const* address, int row_bytes, int rows, int batch, int64_t row_stride,
                       int64_t batch_stride, int box_rows) {
  return encode_matrices(map, {address, row_bytes, rows, batch, row_stride, batch_stride}, Tile::kWidth, box_rows,
                         Tile::kWidth == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B);
}

}  // namespace tilewright::blockscaled_gemm::sm90

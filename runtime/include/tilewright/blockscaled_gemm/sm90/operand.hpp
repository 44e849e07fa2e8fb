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

// The offset of row `row` (modulo 128) in an atom, in bytes.
__host__ __device__ constexpr int atom_row(int row) { return row % 32 * 16 + row % 128 / 32 * 4; }

// A tile of `kRows` rows of `kTileK` elements.
//
// Data lies in TMA boxes whose rows have 128 (or 64) bytes. TMA swizzles their 16-byte chunks, so that warps read
// them without bank conflicts.
template <class Format, int kRows, int kTileK>
struct OperandTile {
  using Decode = Decoder<Format>;
  static constexpr int kRowBytes = kTileK * Decode::kBits / 8;
  static constexpr int kWidth = kRowBytes < 128 ? kRowBytes : 128;  // bytes of a box's row
  static constexpr int kBoxes = kRowBytes / kWidth;
  static constexpr int kBoxBytes = kRows * kWidth;
  static constexpr int kBytes = kBoxes * kBoxBytes;
  static constexpr int kSlotBytes = (kBytes + 1023) / 1024 * 1024;  // of a stage, aligned as the swizzle requires
  static constexpr int kAtoms = kTileK / Decode::kBlock / 4;        // along k
  static constexpr int kRowBlocks = (kRows + 127) / 128;
  static constexpr int kScaleBytes = kRowBlocks * kAtoms * kAtomBytes;
  static_assert(kTileK % 128 == 0 && kRowBytes % kWidth == 0 && (kWidth == 64 || kWidth == 128));

  // The swizzle: the number of a chunk in its row is XORed with this.
  static __device__ __forceinline__ int swizzle(int row) { return kWidth == 128 ? row & 7 : (row >> 1) & 3; }

  // The offset of 16-byte chunk `chunk` of a row's block `block` of 128 elements. A block has 4 chunks of FP4 or 8 of
  // FP8.
  static __device__ __forceinline__ int chunk(int row, int block, int chunk) {
    constexpr int kBlocksPerBox = kWidth * 8 / Decode::kBits / 128;
    int const chunk_in_box = block % kBlocksPerBox * 4 + chunk;
    return block / kBlocksPerBox * kBoxBytes + row * kWidth + (chunk_in_box ^ swizzle(row)) * 16;
  }

  // The row, of 8, that quad `quad` of a warp reads, one 16-byte chunk per thread. The two quads of a quarter warp
  // must read 8 different chunks. Where a quad's four chunks are half a box's row, the two rows must differ in bit 2.
  static __device__ __forceinline__ int quad_row(int quad) {
    return Decode::kBits == 4 && kWidth == 128 ? (quad >> 1) | ((quad & 1) << 2) : quad;
  }
};

// Encodes the tensor map of an operand of `rows` rows of `row_bytes` bytes, with the boxes of `Tile`. Strides are in
// bytes. With a batch stride of 0, one matrix serves every batch.
template <class Tile>
cudaError_t encode_map(CUtensorMap& map, void const* address, int row_bytes, int rows, int batch, int64_t row_stride,
                       int64_t batch_stride, int box_rows) {
  return encode_matrices(map, {address, row_bytes, rows, batch, row_stride, batch_stride}, Tile::kWidth, box_rows,
                         Tile::kWidth == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B);
}

}  // namespace tilewright::blockscaled_gemm::sm90

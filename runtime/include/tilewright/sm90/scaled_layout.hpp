// Where the FP32 scale factors of FP8 operands (block_scales.hpp) lie in shared memory, beside the stages' data.
#pragma once

#include <cstdint>
#include <numeric>

#include "tilewright/sm90/block_scales.hpp"
#include "tilewright/sm90/pipeline.hpp"

namespace tilewright::sm90 {

// How many blocks of 128 rows a tile of `rows` rows can overlap, which begins at a multiple of `rows`.
constexpr int blocks_of(int rows) {
  return (kScaleBlock - std::gcd(rows, kScaleBlock) + rows + kScaleBlock - 1) / kScaleBlock;
}

// `Layout` (pipeline.hpp) with scale factors: behind the epilogue's buffers, every stage has, for each 128 of k, the
// factors of the tile's rows (TMA loads them) or of the 128x128 blocks that the tile overlaps (threads store them).
template <int TileM, int TileN, int Boxes, int Stages, int StoreBytes, Scales kA, Scales kB>
struct ScaledLayout {
  static constexpr int of(Scales scales, int rows) {
    return scales == Scales::kRows ? (Boxes * rows * 4 + 127) / 128 * 128 : 0;  // TMA writes to multiples of 128
  }
  static constexpr int kScalesA = of(kA, TileM), kScalesB = of(kB, TileN);
  // At most one operand has factors of blocks.
  static constexpr int kBlockRows = kA == Scales::kBlocks ? TileM : kB == Scales::kBlocks ? TileN : 0;
  static constexpr int kBlocks = kBlockRows == 0 ? 0 : blocks_of(kBlockRows);
  static constexpr int kBlockBytes = (Boxes * kBlocks * 4 + 15) / 16 * 16;
  using Base = Layout<TileM, TileN, Boxes, Stages, StoreBytes + Stages*(kScalesA + kScalesB + kBlockBytes)>;
  static constexpr int kBoxA = Base::kBoxA, kBoxB = Base::kBoxB;
  static constexpr int kStageA = Base::kStageA, kStageB = Base::kStageB;
  static constexpr int kStoresAt = Base::kStoresAt, kBytes = Base::kBytes;
  static constexpr int kScalesAt = kStoresAt + StoreBytes;
  static constexpr int kBlocksAt = kScalesAt + Stages * (kScalesA + kScalesB);
  // Bytes of a stage's factors that TMA writes. kScalesA and kScalesB are these bytes in whole lines.
  static constexpr int kScaleBytes =
      Boxes * 4 * ((kA == Scales::kRows ? TileM : 0) + (kB == Scales::kRows ? TileN : 0));

  static __device__ __forceinline__ uint32_t a(uint32_t shared, int stage) { return Base::a(shared, stage); }
  static __device__ __forceinline__ uint32_t b(uint32_t shared, int stage) { return Base::b(shared, stage); }
  static __device__ __forceinline__ uint32_t full(uint32_t shared, int stage) { return Base::full(shared, stage); }
  static __device__ __forceinline__ uint32_t empty(uint32_t shared, int stage) { return Base::empty(shared, stage); }
  static __device__ __forceinline__ uint32_t scales_a(uint32_t shared, int stage) {
    return shared + kScalesAt + stage * (kScalesA + kScalesB);
  }
  static __device__ __forceinline__ uint32_t scales_b(uint32_t shared, int stage) {
    return scales_a(shared, stage) + kScalesA;
  }
  static __device__ __forceinline__ uint32_t blocks(uint32_t shared, int stage, int box) {
    return shared + kBlocksAt + stage * kBlockBytes + box * kBlocks * 4;
  }
};

}  // namespace tilewright::sm90

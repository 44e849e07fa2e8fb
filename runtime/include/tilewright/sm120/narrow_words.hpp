// Scale factors of FP8 stages with 64 of k, which is half a box. Words lie as in WordLines. A stage needs two factors
// of a word, or one.
#pragma once

#include "tilewright/sm120/scale_words.hpp"

namespace tilewright::sm120 {

// A stage has one line, as in WordLines with blocks of 128, because a word serves several stages. `kBlock`: elements of
// k that share a factor.
template <class Layout, int TileM, int TileN, int Rows, int N, int kBlock>
struct NarrowWordLines : WordLines<Layout, TileM, TileN, Rows, N, 128> {
  using WordLines<Layout, TileM, TileN, Rows, N, 128>::WordLines;
  static_assert(kBlock == 32 || kBlock == 128);

  // `stage` counts along all of k. Its 64 of k are two blocks of 32, or half of a block of 128.
  static __device__ __forceinline__ int shift(int stage) { return kBlock == 32 ? stage % 2 * 16 : stage / 2 % 4 * 8; }

  static constexpr int byte(int step, int blocks) { return kBlock == 32 ? step * blocks : 0; }
};

}  // namespace tilewright::sm120

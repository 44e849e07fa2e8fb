// Scale factors of FP8 stages that have 64 of k, in half a box: words as WordLines has them, of which a stage needs two
// factors, or one.
#pragma once

#include "tilewright/sm120/scale_words.hpp"

namespace tilewright::sm120 {

// As WordLines, whose stage has one line where a word serves several stages. `kBlock`: elements of k that share a
// factor.
template <class Layout, int TileM, int TileN, int Rows, int N, int kBlock>
struct NarrowWordLines : WordLines<Layout, TileM, TileN, Rows, N, 128> {
  using WordLines<Layout, TileM, TileN, Rows, N, 128>::WordLines;
  static_assert(kBlock == 32 || kBlock == 128);

  // Stage `stage`, counted along all of k, has 64 of k: two blocks of 32, or half of one of 128.
  static __device__ __forceinline__ int shift(int stage) { return kBlock == 32 ? stage % 2 * 16 : stage / 2 % 4 * 8; }

  static constexpr int byte(int step, int blocks) { return kBlock == 32 ? step * blocks : 0; }
};

}  // namespace tilewright::sm120

// Words of scale factors (scale_words.hpp) of operands whose boxes hold 128 of k or more.
#pragma once

#include <cstdint>

#include "tilewright/sm120/scale_words.hpp"

namespace tilewright::sm120 {

// Lines as those of WordLines, with a factor for 32 of k. A box has `kWordsOfBox_` lines, one for each 128 of k: two if
// the box has rows of 128 bytes of FP4.
template <class Layout, int TileM, int TileN, int Rows, int N, int kWordsOfBox_>
struct BoxWordLines : WordLines<Layout, TileM, TileN, Rows, N, 32> {
  using Base = WordLines<Layout, TileM, TileN, Rows, N, 32>;
  static constexpr int kWordsOfBox = kWordsOfBox_;

  __device__ __forceinline__ BoxWordLines(int row, int column) : Base(row, column) {}

  __device__ __forceinline__ uint32_t a(uint32_t shared, int stage, int box, int word, int i) const {
    return Base::a(shared, stage, box * kWordsOfBox + word, 0, i);
  }
  __device__ __forceinline__ uint32_t b(uint32_t shared, int stage, int box, int word, int i) const {
    return Base::b(shared, stage, box * kWordsOfBox + word, 0, i);
  }
};

}  // namespace tilewright::sm120

// Where BlockScaledMainloop loads scale factors from. They lie in words of four factors, the first block of k in the
// lowest byte. A row of a box has kWordsOfBox words.
//
// A lane holds the words of one row of a fragment of A, and of one column of a fragment of B (a_scale_lane and
// b_scale_lane in mma_definition.hpp). One fragment needs the words of some lanes only. The other lanes hold words of
// other fragments, so that one register of a warp has the words of two 64-row slices, or of four 8-column groups.
#pragma once

#include <cstdint>

namespace tilewright::sm120 {

// Slice r of A has its words in register r / 2, in threads 2 (r % 2) and 2 (r % 2) + 1 of each quad.
template <int Rows>
struct SlicesInRegisters {
  static constexpr int kRegistersA = (Rows + 1) / 2;

  // The row whose words this lane holds in register 0, counted from the warpgroup's first row. Each further register
  // has the words of the row that is 128 rows below.
  static __device__ __forceinline__ int row() {
    int const lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, thread = lane % 4;
    return thread / 2 % Rows * 64 + warp * 16 + thread % 2 * 8 + lane / 4;
  }
};

// Words of FP8 operands as DeepGEMM lays them: lines, each with one word of every row of the tile. `kBlock`: elements
// of k that share a factor. With 32, each box of 128 of k has a line. With 128, a word serves four boxes: a stage has
// one line, which is loaded again for each stage.
template <class Layout, int TileM, int TileN, int Rows, int N, int kBlock>
struct WordLines : SlicesInRegisters<Rows> {
  static_assert(kBlock == 32 || kBlock == 128);
  static constexpr int kGroups = N / 8, kRegistersB = (kGroups + 3) / 4, kWordsOfBox = 1;

  uint32_t words_a, words_b;  // bytes from a line to this lane's word

  // `row`, `column`: where the warpgroup's part begins in the tile.
  __device__ __forceinline__ WordLines(int row, int column) {
    int const lane = threadIdx.x % 32;
    words_a = (row + SlicesInRegisters<Rows>::row()) * 4;
    words_b = (column + lane % 4 % kGroups * 8 + lane / 4) * 4;
  }

  // Called before a tile, with its first row and column.
  __device__ __forceinline__ void begin(int, int) {}

  // The shared address from which register `i` of a box's words is loaded.
  __device__ __forceinline__ uint32_t a(uint32_t shared, int stage, int box, int, int i) const {
    return Layout::scales_a(shared, stage) + words_a + (line(box) * TileM + i * 128) * 4;
  }
  __device__ __forceinline__ uint32_t b(uint32_t shared, int stage, int box, int, int i) const {
    return Layout::scales_b(shared, stage) + words_b + (line(box) * TileN + i * 32) * 4;
  }

  // The register, and the thread of each quad, that have the words of 8-column group `group`.
  static constexpr __device__ __forceinline__ int register_of(int group) { return group / 4; }
  static constexpr __device__ __forceinline__ int thread_of(int group) { return group % 4; }

  // The bits by which a word is shifted to the right, so that the factors of box `box` begin at its lowest byte. `box`
  // counts along all of k.
  static __device__ __forceinline__ int shift(int box) { return kBlock == 128 ? box % 4 * 8 : 0; }

  // The first byte of the factors of a box's step `step`, which has `blocks` blocks.
  static constexpr int byte(int step, int blocks) { return kBlock == 32 ? step * blocks % 4 : 0; }

 private:
  static __device__ __forceinline__ int line(int box) { return kBlock == 32 ? box : 0; }
};

// Words in atoms of the 128x4 layout. An atom has one word of each of 128 rows, that of row r at byte (r % 32) * 16 +
// r / 32 * 4. A stage has the atoms of each 128 rows in the order of k. For a tile of at most 32 columns, a stage has
// only the 16 bytes of each of these columns.
//
// The lanes of a quad hold words of columns that are 32 apart. These words lie side by side, so a load has no bank
// conflicts.
template <class Layout, int TileM, int TileN, int Rows, int N, int kWordsOfBox_>
struct AtomWords : SlicesInRegisters<Rows> {
  static constexpr int kWordsOfBox = kWordsOfBox_;
  static constexpr int kGroups = N / 8, kThreads = kGroups <= 4 ? 1 : kGroups / 4 < 4 ? kGroups / 4 : 4;
  static constexpr int kRegistersB = kGroups <= 4 ? kGroups : kGroups / kThreads;
  static_assert(kGroups <= 4 || kGroups % 4 == 0);
  // Whether a tile has a part of an atom's rows or columns. Such a tile begins at any multiple of its own extent.
  static constexpr bool kPartialA = TileM < 128, kPartialB = TileN < 128;
  static_assert((kPartialA ? 128 % TileM : TileM % 128) == 0 && (kPartialB ? 128 % TileN : TileN % 128) == 0);

  uint32_t words_a, words_b;              // bytes from a stage's atoms to this lane's word
  uint32_t in_atom_a = 0, in_atom_b = 0;  // bytes from an atom to the tile's first words in it

  __device__ __forceinline__ AtomWords(int row, int column) {
    int const lane = threadIdx.x % 32;
    words_a = place<Layout::kBlockScalesA>(row + SlicesInRegisters<Rows>::row());
    words_b = place<Layout::kBlockScalesB>(column + lane % 4 % kThreads * 32 + lane / 4);
  }

  __device__ __forceinline__ void begin(int tile_row, int tile_column) {
    in_atom_a = kPartialA ? tile_row % 128 / 32 * 4 : 0;
    in_atom_b = kPartialB ? tile_column % 128 / 32 * 4 : 0;
  }

  __device__ __forceinline__ uint32_t a(uint32_t shared, int stage, int box, int word, int i) const {
    return Layout::scales_a(shared, stage) + words_a + in_atom_a + (box * kWordsOfBox + word) * Layout::kAtomA +
           i * Layout::kBlockScalesA;
  }
  __device__ __forceinline__ uint32_t b(uint32_t shared, int stage, int box, int word, int i) const {
    return Layout::scales_b(shared, stage) + words_b + in_atom_b + (box * kWordsOfBox + word) * Layout::kAtomB +
           i % 4 * 128 + i / 4 * Layout::kBlockScalesB;
  }

  static constexpr __device__ __forceinline__ int register_of(int group) { return group % 4 + group / 16 * 4; }
  static constexpr __device__ __forceinline__ int thread_of(int group) { return group / 4 % 4; }

  static __device__ __forceinline__ int shift(int) { return 0; }
  static constexpr int byte(int step, int blocks) { return step * blocks % 4; }

 private:
  template <int kBlockBytes>
  static __device__ __forceinline__ uint32_t place(int row) {
    return row / 128 * kBlockBytes + row % 32 * 16 + row % 128 / 32 * 4;
  }
};

}  // namespace tilewright::sm120

// How the consumer warpgroups of a kernel of mma.sync divide a tile, and store it in any way.
#pragma once

namespace tilewright::sm120 {

// Whether two warpgroups halve a tile's columns. Otherwise they halve its rows. A warp has 16 rows of each 64-row slice
// and all columns of its warpgroup, and loads them from shared memory itself. So a warpgroup's part should be as square
// as possible:
//
// | halved | warps that read a row | warps that read a column |
// |---|---|---|
// | rows | 1 | 8 |
// | columns | 2 | 4 |
//
// `whole_boxes`: columns lie in boxes of 64, and a warpgroup's columns must divide 64 or be a multiple of it.
constexpr bool halves_columns(int tile_m, int tile_n, bool whole_boxes) {
  return tile_n % 16 == 0 && (tile_m / 64 % 2 == 1 || tile_n > tile_m / 4) &&
         (!whole_boxes || tile_n == 64 || tile_n % 128 == 0);
}

// Cooperative: all consumer warpgroups compute one tile together. There are two of them, unless the tile does not
// divide. The constants are those of sm90::Cooperative. `kMnB`: the operand whose rows are the tile's columns is
// MN-major.
template <int TileM, int TileN, bool kMnB>
struct Cooperative {
  static constexpr int kAcross = halves_columns(TileM, TileN, kMnB) ? 2 : 1;
  static constexpr int kDown = kAcross == 1 && TileM / 64 % 2 == 0 ? 2 : 1;
  static constexpr int kConsumers = kDown * kAcross, kOfTile = kConsumers;
  static constexpr int kRows = TileM / 64 / kDown, kColumns = TileN / kAcross;  // 64-row slices, columns
  static constexpr int kThreads = (kConsumers + 1) * 128;                       // with the producer's
  static_assert(TileM % 64 == 0 && kColumns % 8 == 0);
};

// Stores a warpgroup's sums with any C, bias and alignment of D. `row`, `column`: of the first sum, in the plane of the
// kernel's own operands. `fates`: what happens to each row (sm90/row_fate.hpp), where rows differ.
template <class Store, int Rows, int Count, class... Fates>
__device__ __forceinline__ void store_any(Store& store, float const (&sums)[Rows][Count], int row, int column,
                                          int matrix, Fates const&... fates) {
#pragma unroll
  for (int r = 0; r < Rows; ++r) {
#pragma unroll
    for (int subtile = 0; subtile < Store::kSubtiles; ++subtile) {
      float values[Store::kColumnGroups * 4];
      Store::Subtile::take(sums[r], subtile, values);
      store.store_any(values, row + r * 64, column + subtile * Store::kColumns, matrix, fates...);
    }
  }
}

}  // namespace tilewright::sm120

// How the consumer warpgroups of a kernel of mma.sync divide a tile.
#pragma once

namespace tilewright::sm120 {

// Whether two warpgroups halve a tile's columns, else its rows. Every warp loads its own rows and columns from shared
// memory, so a warpgroup's part should be as square as it can be: a warp has 16 rows of each 64 (kRows of them) and all
// of the warpgroup's columns. Halved rows are read by 4 warps and columns by 8; halved columns the other way round.
// `whole_boxes`: columns come in boxes of 64, which the columns of a warpgroup divide or are multiples of.
constexpr bool halves_columns(int tile_m, int tile_n, bool whole_boxes) {
  return tile_n % 16 == 0 && (tile_m / 64 % 2 == 1 || tile_n > tile_m / 4) &&
         (!whole_boxes || tile_n == 64 || tile_n % 128 == 0);
}

// Cooperative: all consumer warpgroups compute one tile together; two of them, unless the tile does not divide. The
// constants are those of sm90::Cooperative. `kMnB`: the operand whose rows are the tile's columns is MN-major.
template <int TileM, int TileN, bool kMnB>
struct Cooperative {
  static constexpr int kAcross = halves_columns(TileM, TileN, kMnB) ? 2 : 1;
  static constexpr int kDown = kAcross == 1 && TileM / 64 % 2 == 0 ? 2 : 1;
  static constexpr int kConsumers = kDown * kAcross, kOfTile = kConsumers;
  static constexpr int kRows = TileM / 64 / kDown, kColumns = TileN / kAcross;  // 64-row slices, columns
  static constexpr int kThreads = (kConsumers + 1) * 128;                       // with the producer's
  static_assert(TileM % 64 == 0 && kColumns % 8 == 0);
};

}  // namespace tilewright::sm120

// What the host tells a kernel about rows that belong to groups, and the tiles that follow from it alone.
#pragma once

#include <cstdint>

#include "tilewright/grouped_gemm/args.h"
#include "tilewright/grouped_gemm/tile.hpp"
#include "tilewright/sm90/scheduler.hpp"

namespace tilewright::grouped_gemm {

struct Groups {
  int grouping;         // tilewright_grouping
  int const* layout;    // group_of_row, group_ends, rows_valid or group_k
  int groups;           // how many
  int rows;             // of D; of each group's own matrix of D with rows_valid
  int alignment;        // rows; with group_ends, a group starts at a multiple of it
  int k;                // of all groups
  int k_unit;           // groups that divide k have multiples of it: elements of a k tile
  bool zeroes;          // padding is zeroed, also tiles that hold nothing else
  int columns;          // blocks along n
  int swizzle;          // blocks of rows that follow one another before the next column; as Raster's
  sm90::Raster raster;  // where the host knows all tiles
  sm90::Shares shares;
};

// Mask of the 64-row slices of the tile of `kRows` rows at `row` that hold at least one row before `end`: bit i stands
// for rows row + 64 i to row + 64 i + 63.
template <int kRows>
__device__ __forceinline__ uint32_t slices_before(int end, int row) {
  int const rows = max(0, min(end - row, kRows));
  return (1u << (rows + 63) / 64) - 1;
}

// Sets `tile` to that of block number `index`, where the host knows all tiles: that of the CTA in row `cluster_row` of
// the `cluster_rows` rows of a cluster.
template <int kRows>
__device__ __forceinline__ void known_tile(Groups const& groups, int index, int cluster_rows, int cluster_row,
                                           Tile& tile) {
  sm90::Block const block(groups.raster, index);
  tile.row = (block.row * cluster_rows + cluster_row) * kRows, tile.column = block.column;
  tile.matrix = tile.group = block.matrix;
  tile.rows = {groups.rows, groups.rows};
  tile.row_slices = slices_before<kRows>(groups.rows, tile.row);
  tile.flags = Tile::kEvery | Tile::kNoneLeft;
}

}  // namespace tilewright::grouped_gemm

// The tiles that follow from the groups' parameters (params.hpp) alone, where the host knows all tiles.
#pragma once

#include <cstdint>

#include "tilewright/grouped_gemm/params.hpp"
#include "tilewright/grouped_gemm/tile.hpp"
#include "tilewright/sm90/scheduler.hpp"

namespace tilewright::grouped_gemm {

// Mask of the 64-row slices of the tile of `kRows` rows at `row` that hold at least one row before `end`: bit i stands
// for rows row + 64 i to row + 64 i + 63.
template <int kRows>
__device__ __forceinline__ uint32_t slices_before(int end, int row) {
  int const rows = max(0, min(end - row, kRows));
  return (1u << (rows + 63) / 64) - 1;
}

// Sets `tile` to a CTA's tile of block number `index`. The CTA is in row `cluster_row` of the `cluster_rows` rows of
// its cluster.
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

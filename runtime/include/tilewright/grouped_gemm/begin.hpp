// What a CTA has of a tile.
#pragma once

#include "tilewright/grouped_gemm/args.h"
#include "tilewright/grouped_gemm/tile.hpp"
#include "tilewright/sm90/cluster.hpp"

namespace tilewright::grouped_gemm {

// In the kernel's own A and B. `Kernel` is that of kernel.hpp.
template <class Kernel>
struct Begin {
  using Params = typename Kernel::Params;
  static constexpr bool kSwapped = Kernel::kSwapped;

  int a_row, b_row;        // the first of each: D's row and column, or where operands are swapped, the reverse
  int a_matrix, b_matrix;  // of the operands, and of their factors
  int k, tiles;            // the first k tile, and how many

  __device__ __forceinline__ Begin(Params const& params, sm90::ClusterPlace const& place, Tile const& tile) {
    int const column =
        (tile.column * (kSwapped ? params.cluster.m : params.cluster.n) + (kSwapped ? place.m : place.n)) *
        Kernel::kTileColumns;
    int const of_a = params.one_a ? 0 : tile.matrix, of_b = params.one_b ? 0 : tile.group;
    a_row = kSwapped ? column : tile.row, b_row = kSwapped ? tile.row : column;
    a_matrix = kSwapped ? of_b : of_a, b_matrix = kSwapped ? of_a : of_b;
    k = by_k(params) ? tile.cleared : params.first_k_tile(place.split);
    tiles = k_tiles(params, place, tile);
  }

  static __device__ __forceinline__ bool by_k(Params const& params) {
    return Kernel::kParts && params.groups.grouping == TILEWRIGHT_GROUPING_K_SIZES;
  }

  // What of k this CTA multiplies for a tile, in k tiles.
  static __device__ __forceinline__ int k_tiles(Params const& params, sm90::ClusterPlace const& place,
                                                Tile const& tile) {
    if (by_k(params)) {
      return tile.end;
    }
    // Sums of padding alone are not stored: they are computed where a branch around wgmma would cost registers.
    return Kernel::kScaled && tile.is(Tile::kPadding) ? 0 : params.k_tiles(place.split);
  }
};

}  // namespace tilewright::grouped_gemm

// What a CTA needs of a tile to load and multiply it: where its operands begin, and which k tiles it multiplies.
#pragma once

#include "tilewright/grouped_gemm/args.h"
#include "tilewright/grouped_gemm/form_code.hpp"
#include "tilewright/grouped_gemm/tile.hpp"
#include "tilewright/sm90/cluster.hpp"

namespace tilewright::grouped_gemm {

// The fields are those of the kernel's own A and B, which are the caller's B and A where operands are swapped. `Kernel`
// is kernel.hpp's, or has the same members.
template <class Kernel>
struct CtaTile {
  using Params = typename Kernel::Params;
  static constexpr bool kSwapped = Kernel::kSwapped;

  int a_row, b_row;        // first row of each operand: D's row and column; swapped, D's column and row
  int a_matrix, b_matrix;  // which matrix of each operand, and of its scale factors
  int first_k_tile, k_tiles;

  __device__ __forceinline__ CtaTile(Params const& params, sm90::ClusterPlace const& place, Tile const& tile) {
    sm90::ClusterShape const& cluster = Kernel::Cluster::shape(params);
    int const column =
        (tile.column * (kSwapped ? cluster.m : cluster.n) + (kSwapped ? place.m : place.n)) * Kernel::kTileColumns;
    int const of_a = params.broadcast_a ? 0 : tile.matrix, of_b = params.broadcast_b ? 0 : tile.group;
    a_row = kSwapped ? column : tile.row, b_row = kSwapped ? tile.row : column;
    a_matrix = kSwapped ? of_b : of_a, b_matrix = kSwapped ? of_a : of_b;
    first_k_tile = groups_divide_k(params) ? tile.k_tiles.first : params.first_k_tile(place.split);
    k_tiles = count_k_tiles(params, place, tile);
  }

  // Whether each group is a part of k.
  static __device__ __forceinline__ bool groups_divide_k(Params const& params) {
    return Kernel::kGroupsOfK && params.groups.grouping == TILEWRIGHT_GROUPING_K_SIZES;
  }

  // How many k tiles this CTA multiplies for a tile.
  static __device__ __forceinline__ int count_k_tiles(Params const& params, sm90::ClusterPlace const& place,
                                                      Tile const& tile) {
    if (groups_divide_k(params)) {
      return tile.k_tiles.count;
    }
    // The products of a tile of padding are not stored. Kernels without scale factors compute them all the same,
    // because a branch around wgmma would cost registers.
    return Kernel::kScaled && tile.is(Tile::kPadding) ? 0 : params.k_tiles(place.split);
  }
};

}  // namespace tilewright::grouped_gemm

// The tiles of a CTA where the host knows all tiles: no queue is needed.
#pragma once

#include "tilewright/grouped_gemm/groups.hpp"
#include "tilewright/grouped_gemm/tile.hpp"
#include "tilewright/sm90/scheduler.hpp"

namespace tilewright::grouped_gemm {

// Has the functions of a TileQueue's readers. Each warp computes the tiles itself. `cluster`: the number of the CTA's
// cluster in the grid. Its CTAs compute tiles in `cluster_rows` rows; this CTA is in row `cluster_row`.
template <int kRows>
class KnownTiles {
 public:
  __device__ __forceinline__ KnownTiles(Groups const& groups, int cluster, int cluster_rows, int cluster_row)
      : groups_(groups), share_(groups.shares.of(cluster)), cluster_rows_(cluster_rows), cluster_row_(cluster_row) {}

  // Sets `tile` to the CTA's current tile. Returns false after the last one.
  __device__ __forceinline__ bool wait(Tile& tile) const {
    if (share_.index >= share_.end) {
      return false;
    }
    known_tile<kRows>(groups_, share_.index, cluster_rows_, cluster_row_, tile);
    return true;
  }

  // Computes the current tile again, so that no registers hold it during the main loop.
  __device__ __forceinline__ void read(Tile& tile) const {
    int index = share_.index;
    asm volatile("" : "+r"(index));  // hides the value: else the compiler would keep what `wait` computed
    known_tile<kRows>(groups_, index, cluster_rows_, cluster_row_, tile);
  }

  __device__ __forceinline__ void pop(Tile const&) { share_.index += share_.step; }

  __device__ __forceinline__ bool pop_and_wait(Tile const& tile, Tile& next) {
    pop(tile);
    return wait(next);
  }

 private:
  Groups const& groups_;
  sm90::Shares::Share share_;
  int cluster_rows_, cluster_row_;
};

}  // namespace tilewright::grouped_gemm

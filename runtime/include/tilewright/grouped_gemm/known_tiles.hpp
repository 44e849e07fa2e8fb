// The tiles of a CTA where the host knows all of them.
#pragma once

#include "tilewright/grouped_gemm/groups.hpp"
#include "tilewright/grouped_gemm/tile.hpp"
#include "tilewright/sm90/scheduler.hpp"

namespace tilewright::grouped_gemm {

// The readers' side of a TileQueue without a queue: each warp computes the tiles itself. The CTA is no cluster's.
template <int kRows>
class KnownTiles {
 public:
  __device__ __forceinline__ explicit KnownTiles(Groups const& groups)
      : groups_(groups), share_(groups.shares.of(static_cast<int>(blockIdx.x))) {}

  // Sets `tile` to the CTA's current tile. Returns false after the last one.
  __device__ __forceinline__ bool wait(Tile& tile) const {
    if (share_.index >= share_.end) {
      return false;
    }
    known_tile<kRows>(groups_, share_.index, 1, 0, tile);
    return true;
  }

  // Computes the current tile again, so that no registers hold it during the main loop.
  __device__ __forceinline__ void read(Tile& tile) const {
    int index = share_.index;
    asm volatile("" : "+r"(index));  // else the compiler would keep what `wait` computed
    known_tile<kRows>(groups_, index, 1, 0, tile);
  }

  __device__ __forceinline__ void pop(Tile const&) { share_.index += share_.step; }

  __device__ __forceinline__ bool pop_and_wait(Tile const& tile, Tile& next) {
    pop(tile);
    return wait(next);
  }

 private:
  Groups const& groups_;
  sm90::Shares::Share share_;
};

}  // namespace tilewright::grouped_gemm

// What an epilogue does to each row of D, in tiles that also have rows of other groups, or padding.
#pragma once

namespace tilewright::sm90 {

// What a tile stores to a row of D: its sums (kStored), zeros (kCleared), or nothing (kLeft).
enum class RowFate { kStored, kCleared, kLeft };

// The fates of a tile whose rows are all stored. Grouped kernels have TileRowFates (grouped_gemm/tile.hpp) in its
// place.
struct EveryRow {
  __device__ __forceinline__ bool every() const { return true; }      // whether every row is stored
  __device__ __forceinline__ bool none_left() const { return true; }  // whether TMA may store the whole tile
  __device__ __forceinline__ RowFate operator()(int) const { return RowFate::kStored; }
  __device__ __forceinline__ int column(int n) const { return n; }  // the column of D of the product's column `n`
};

}  // namespace tilewright::sm90

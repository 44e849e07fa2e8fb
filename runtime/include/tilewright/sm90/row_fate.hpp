// What happens to each row of D in a tile that also has rows of other groups, or padding.
#pragma once

namespace tilewright::sm90 {

// What a tile stores to a row of D: its sums, zeros, or nothing.
enum class RowFate { kStored, kCleared, kLeft };

// A tile that stores all rows that D has.
struct EveryRow {
  __device__ __forceinline__ bool every() const { return true; }      // whether every row is stored
  __device__ __forceinline__ bool none_left() const { return true; }  // whether TMA may store the whole tile
  __device__ __forceinline__ RowFate operator()(int) const { return RowFate::kStored; }
  __device__ __forceinline__ int column(int n) const { return n; }  // of D, for column `n` of the product
};

}  // namespace tilewright::sm90

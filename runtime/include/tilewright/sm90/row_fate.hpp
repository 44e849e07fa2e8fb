// What becomes of D's rows where a tile has some that are not its own (rows of other groups, padding).
#pragma once

namespace tilewright::sm90 {

// What a tile does to a row of D: its sums are stored, or zeros, or nothing is.
enum class RowFate { kStored, kCleared, kLeft };

// A tile whose rows all are stored, as far as D has them.
struct EveryRow {
  __device__ __forceinline__ bool every() const { return true; }      // none is cleared
  __device__ __forceinline__ bool none_left() const { return true; }  // all can go to D by TMA
  __device__ __forceinline__ RowFate operator()(int) const { return RowFate::kStored; }
  __device__ __forceinline__ int column(int n) const { return n; }  // of D, in which a column of the product lies
};

}  // namespace tilewright::sm90

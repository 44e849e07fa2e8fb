// A tile of D as the warps of a CTA tell it each other, and what becomes of its rows and columns.
#pragma once

#include <cstdint>

#include "tilewright/sm90/divisor.hpp"
#include "tilewright/sm90/pipeline.hpp"
#include "tilewright/sm90/ptx.hpp"
#include "tilewright/sm90/row_fate.hpp"

namespace tilewright::grouped_gemm {

// Columns of D that are skipped: `gap` of them behind the first `left` of each head of left + right columns.
struct Heads {
  sm90::Divisor head;
  int right, gap;
  bool skipped;  // whether there are such

  __device__ __forceinline__ int column(int n) const { return skipped ? n + head.divide(n + right) * gap : n; }
};

// A tile of D, in the caller's terms: rows of A, columns of B.
struct Tile {
  int row, column;
  int matrix, group;  // of A and D; of B
  int end;            // rows from here on are not the group's; of a part of k: its units
  int cleared;        // of these, those before here are padding that may be written; the first of those units
  uint32_t parts;     // bits: those of the tile's 64 rows of which some are the group's
  uint32_t flags;

  // That all rows are the group's; that none is left as it is in D; that padding is to be written; that each row has
  // its group in `group_of_row`; that there is no further tile; that no row is a group's.
  static constexpr uint32_t kEvery = 1, kNoneLeft = 2, kClears = 4, kIndexed = 8, kEnd = 16, kPadding = 32;
  static constexpr int kBytes = 32;

  __device__ __forceinline__ bool is(uint32_t flag) const { return (flags & flag) != 0; }
};

// What becomes of a tile's rows (sm90/row_fate.hpp).
struct RowsOf {
  Tile const& tile;
  int const* index;
  int groups;
  Heads const& heads;

  __device__ __forceinline__ bool every() const { return tile.is(Tile::kEvery); }
  __device__ __forceinline__ bool none_left() const { return tile.is(Tile::kNoneLeft) && !heads.skipped; }
  __device__ __forceinline__ int column(int n) const { return heads.column(n); }
  __device__ __forceinline__ sm90::RowFate operator()(int row) const {
    bool own = row < tile.end, padding = row < tile.cleared;
    if (tile.is(Tile::kIndexed)) {
      int const group = own ? __ldg(index + row) : groups - 1;
      padding = static_cast<uint32_t>(group) >= static_cast<uint32_t>(groups) && tile.is(Tile::kClears);
      own = own && group == tile.group;
    }
    return own ? sm90::RowFate::kStored : padding ? sm90::RowFate::kCleared : sm90::RowFate::kLeft;
  }
};

// Tiles on their way from the warp that decides to those that load and multiply. As many as may be ahead of what is
// multiplied: a tile may have less k than the ring has stages.
class TileQueue {
 public:
  static constexpr int kSlots = 8, kBytes = kSlots * (Tile::kBytes + 16);

  __device__ __forceinline__ explicit TileQueue(uint32_t memory) : memory_(memory) {}

  // Initialises the mbarriers of slot `slot`, which `readers` warps read. One thread does so for every slot.
  static __device__ __forceinline__ void start(uint32_t memory, int slot, int readers) {
    sm90::barrier_init(full(memory, slot), 1);
    sm90::barrier_init(empty(memory, slot), readers);
  }

  // By one thread.
  __device__ __forceinline__ void push(Tile const& tile) {
    sm90::barrier_wait(empty(memory_, at_.stage), at_.phase ^ 1);
    uint32_t const to = memory_ + at_.stage * Tile::kBytes;
    sm90::store_words(to, tile.row, tile.column, tile.matrix, tile.group);
    sm90::store_words(to + 16, tile.end, tile.cleared, tile.parts, tile.flags);
    sm90::barrier_arrive(full(memory_, at_.stage));
    at_.next();
  }

  // By whole warps: waits for the next tile. False where there is none.
  __device__ __forceinline__ bool wait(Tile& tile) const {
    sm90::barrier_wait(full(memory_, at_.stage), at_.phase);
    read(tile);
    return !tile.is(Tile::kEnd);
  }

  // The tile that was waited for: what is read again need not be kept in registers.
  __device__ __forceinline__ void read(Tile& tile) const {
    uint32_t const from = memory_ + at_.stage * Tile::kBytes;
    uint32_t words[8];
    sm90::load_words(from, reinterpret_cast<uint32_t (&)[4]>(words[0]));
    sm90::load_words(from + 16, reinterpret_cast<uint32_t (&)[4]>(words[4]));
    tile.row = words[0], tile.column = words[1], tile.matrix = words[2], tile.group = words[3];
    tile.end = words[4], tile.cleared = words[5], tile.parts = words[6], tile.flags = words[7];
  }

  // Gives the slot back that `tile` was read from, after both loads of the tile have returned.
  __device__ __forceinline__ void pop(Tile const& tile) {
    uint32_t const loaded = static_cast<uint32_t>(tile.row) | tile.flags;  // a word of either load
    __syncwarp();
    if (threadIdx.x % 32 == 0) {
      sm90::barrier_arrive(empty(memory_, at_.stage) + sm90::zero_after(loaded));
    }
    at_.next();
  }

  // Gives the slot of `tile` back, and waits for the next tile. False where there is none.
  __device__ __forceinline__ bool follow(Tile const& tile, Tile& next) {
    pop(tile);
    return wait(next);
  }

 private:
  static __device__ __forceinline__ uint32_t full(uint32_t memory, int slot) {
    return memory + kSlots * Tile::kBytes + slot * 8;
  }
  static __device__ __forceinline__ uint32_t empty(uint32_t memory, int slot) {
    return full(memory, slot) + kSlots * 8;
  }

  uint32_t memory_;
  sm90::Position<kSlots> at_{};
};

}  // namespace tilewright::grouped_gemm

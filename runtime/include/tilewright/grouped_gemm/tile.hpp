// A tile of D as one warp of a CTA describes it to the other warps, the queue through which it does, and what happens
// to each of the tile's rows and columns.
#pragma once

#include <cstdint>

#include "tilewright/sm90/divisor.hpp"
#include "tilewright/sm90/pipeline.hpp"
#include "tilewright/sm90/ptx.hpp"
#include "tilewright/sm90/row_fate.hpp"

namespace tilewright::grouped_gemm {

// Columns of D that the product skips. The product's columns come in heads of `left` + `right` columns. In D, each head
// has a gap of `gap` columns between the two, which stays untouched:
//
//   product   left right left right
//   D         left gap right left gap right
struct Heads {
  sm90::Divisor head;  // left + right
  int right, gap;      // columns
  bool skipped;        // whether D has such gaps

  // The column of D that holds column `n` of the product.
  __device__ __forceinline__ int column(int n) const { return skipped ? n + head.divide(n + right) * gap : n; }
};

// A tile of D, in the caller's terms: rows of A, columns of B.
struct Tile {
  // Which rows the tile stores and zeroes.
  struct Rows {
    int end;          // rows starting here do not belong to the group
    int cleared_end;  // rows from `end` to here are padding that may be zeroed
  };
  // The group's part of k, where groups divide k: in k tiles.
  struct KRange {
    int count, first;
  };

  int row, column;  // the first row; which block of columns (a block is the columns that a cluster computes at once)
  int matrix;       // which matrix of A and of D
  int group;        // which matrix of B
  union {
    Rows rows;       // unless groups divide k
    KRange k_tiles;  // where groups divide k (TILEWRIGHT_GROUPING_K_SIZES), and every row is stored
  };
  uint32_t row_slices;  // mask of the tile's 64-row slices that hold at least one row of the group
  uint32_t flags;

  static constexpr uint32_t kEvery = 1;     // every row of the tile belongs to the group
  static constexpr uint32_t kNoneLeft = 2;  // every row is stored or zeroed: TMA may store the whole tile
  static constexpr uint32_t kClears = 4;    // with kIndexed: rows of padding are zeroed
  static constexpr uint32_t kIndexed = 8;   // `group_of_row` says each row's group
  static constexpr uint32_t kEnd = 16;      // this is no tile: the queue ends here
  static constexpr uint32_t kPadding = 32;  // no tile of the cluster's block holds a row of the group
  static constexpr int kBytes = 32;         // in the queue

  __device__ __forceinline__ bool is(uint32_t flag) const { return (flags & flag) != 0; }
};

// What happens to each row of a tile: the grouped counterpart of sm90::EveryRow (sm90/row_fate.hpp).
struct TileRowFates {
  Tile const& tile;
  int const* index;  // group_of_row, where the tile is kIndexed
  int groups;
  Heads const& heads;

  __device__ __forceinline__ bool every() const { return tile.is(Tile::kEvery); }
  __device__ __forceinline__ bool none_left() const { return tile.is(Tile::kNoneLeft) && !heads.skipped; }
  __device__ __forceinline__ int column(int n) const { return heads.column(n); }
  __device__ __forceinline__ sm90::RowFate operator()(int row) const {
    bool own = row < tile.rows.end, padding = row < tile.rows.cleared_end;
    if (tile.is(Tile::kIndexed)) {
      int const group = own ? __ldg(index + row) : groups - 1;
      padding = static_cast<uint32_t>(group) >= static_cast<uint32_t>(groups) && tile.is(Tile::kClears);
      own = own && group == tile.group;
    }
    return own ? sm90::RowFate::kStored : padding ? sm90::RowFate::kCleared : sm90::RowFate::kLeft;
  }
};

// A ring in shared memory through which the scheduling warp sends tiles to the warps that load and multiply. Its slots
// have two mbarriers each, `full` and `empty`, as stages do (sm90/pipeline.hpp). The number of slots bounds how many
// tiles loads can be ahead of products, where tiles have less k than the ring of stages holds.
class TileQueue {
 public:
  static constexpr int kSlots = 8, kBytes = kSlots * (Tile::kBytes + 16);

  __device__ __forceinline__ explicit TileQueue(uint32_t memory) : memory_(memory) {}

  // Initialises the mbarriers of slot `slot`, which `readers` warps read. One thread calls it for every slot.
  static __device__ __forceinline__ void start(uint32_t memory, int slot, int readers) {
    sm90::barrier_init(full(memory, slot), 1);
    sm90::barrier_init(empty(memory, slot), readers);
  }

  // Waits for a free slot and writes `tile` to it. Called by one thread.
  __device__ __forceinline__ void push(Tile const& tile) {
    sm90::barrier_wait(empty(memory_, at_.stage), at_.phase ^ 1);
    uint32_t const to = memory_ + at_.stage * Tile::kBytes;
    sm90::store_words(to, tile.row, tile.column, tile.matrix, tile.group);
    sm90::store_words(to + 16, tile.rows.end, tile.rows.cleared_end, tile.row_slices, tile.flags);
    sm90::barrier_arrive(full(memory_, at_.stage));
    at_.next();
  }

  // Waits for the next tile and reads it. Returns false at the end of the queue. Called by whole warps.
  __device__ __forceinline__ bool wait(Tile& tile) const {
    sm90::barrier_wait(full(memory_, at_.stage), at_.phase);
    read(tile);
    return !tile.is(Tile::kEnd);
  }

  // Reads the current tile again, so that no registers hold it during the main loop.
  __device__ __forceinline__ void read(Tile& tile) const {
    uint32_t const from = memory_ + at_.stage * Tile::kBytes;
    uint32_t words[8];
    sm90::load_words(from, reinterpret_cast<uint32_t (&)[4]>(words[0]));
    sm90::load_words(from + 16, reinterpret_cast<uint32_t (&)[4]>(words[4]));
    tile.row = words[0], tile.column = words[1], tile.matrix = words[2], tile.group = words[3];
    tile.rows.end = words[4], tile.rows.cleared_end = words[5], tile.row_slices = words[6], tile.flags = words[7];
  }

  // Frees the slot that `tile` was read from, when both loads of it have returned (`zero_after`).
  __device__ __forceinline__ void pop(Tile const& tile) {
    uint32_t const loaded = static_cast<uint32_t>(tile.row) | tile.flags;  // one word of each load
    __syncwarp();
    if (threadIdx.x % 32 == 0) {
      sm90::barrier_arrive(empty(memory_, at_.stage) + sm90::zero_after(loaded));
    }
    at_.next();
  }

  // Frees the slot of `tile` and waits for the next tile. Returns false at the end of the queue.
  __device__ __forceinline__ bool pop_and_wait(Tile const& tile, Tile& next) {
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

// The scheduler of persistent CTAs of `mixed_grouped_gemm` and `mixed_fp8_grouped_gemm`: it finds the tiles that a CTA
// computes. The device reads which rows belong to which group, so that a graph can be replayed with other groups. One
// warp reads 32 groups, or the rows of a tile, at a time, and sends tiles to the other warps (grouped_gemm::TileQueue).
// All CTAs of a cluster find the same tiles.
//
// Compared with grouped_gemm/work.hpp, tiles of a cluster have the same rows, padding is always zeroed, and no grouping
// divides k.
#pragma once

#include <cstdint>

#include "tilewright/grouped_gemm/tile.hpp"
#include "tilewright/sm90/scheduler.hpp"

namespace tilewright::mixed_grouped_gemm {

using grouped_gemm::Tile;
using grouped_gemm::TileQueue;

enum class Grouping { kRowIndex, kEnds, kRowsValid };

struct Groups {
  Grouping grouping;
  int const* layout;    // group_of_row, group_ends or rows_valid
  int groups;           // the number of groups
  int rows;             // rows of D; with kRowsValid, of each group's own matrix of D
  int alignment;        // with kEnds, groups begin at multiples of it
  int columns;          // blocks along n; a block is the tiles that a cluster computes at once
  int swizzle;          // tiles of rows that follow one another before the next column
  sm90::Raster raster;  // of all tiles, with kRowIndex
};

// Schedules tiles of `kRows` rows of D.
template <int kRows>
class TileScheduler {
 public:
  __device__ __forceinline__ TileScheduler(Groups const& groups, int index, int step)
      : groups_(groups), index_(index), step_(step) {
    if (groups_.grouping != Grouping::kRowIndex) {
      load_groups();
    }
  }

  // Sets `tile` to the next tile. Returns false after the last tile. Called by all threads of the warp.
  __device__ __forceinline__ bool next(Tile& tile) {
    return groups_.grouping == Grouping::kRowIndex ? next_of_rows(tile) : next_of_groups(tile);
  }

 private:
  static constexpr int kLoads = (kRows + 31) / 32;  // rows of a tile for each lane
  static constexpr uint32_t kAllLanes = ~0u, kNoGroup = ~0u;

  // The next tile with row indices. A tile is computed once for each group that has rows in it, in the order of the
  // groups. The first group zeroes the tile's padding. A tile of padding alone is not computed.
  __device__ __forceinline__ bool next_of_rows(Tile& tile) {
    int const lane = threadIdx.x % 32;
    while (true) {
      if (!more_) {
        if (index_ >= groups_.raster.blocks) {
          return false;
        }
        sm90::Block const block(groups_.raster, index_);
        index_ += step_;
        row_ = block.row * kRows, column_ = block.column, last_group_ = -1;
#pragma unroll
        for (int i = 0; i < kLoads; ++i) {
          group_of_lane_row_[i] = i * 32 + lane < kRows ? group_of(row_ + i * 32 + lane) : kNoGroup;
        }
      }
      uint32_t least = kNoGroup;  // the first group that is yet to be computed
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        uint32_t const group = group_of_lane_row_[i];
        least = min(least, group != kNoGroup && static_cast<int>(group) > last_group_ ? group : kNoGroup);
      }
      least = __reduce_min_sync(kAllLanes, least);
      more_ = least != kNoGroup;
      if (!more_) {
        continue;
      }
      bool other_groups = false, padding = false;
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        bool const exists = i * 32 + lane < kRows && row_ + i * 32 + lane < groups_.rows;
        other_groups = other_groups || (group_of_lane_row_[i] != least && group_of_lane_row_[i] != kNoGroup);
        padding = padding || (group_of_lane_row_[i] == kNoGroup && exists);
      }
      other_groups = __any_sync(kAllLanes, other_groups);
      padding = __any_sync(kAllLanes, padding);
      bool const clears = last_group_ < 0;
      bool const none_left = !other_groups && (clears || !padding);
      tile.row = row_, tile.column = column_;
      tile.matrix = 0, tile.group = static_cast<int>(least);
      tile.rows = {groups_.rows, 0};
      tile.flags = Tile::kIndexed | (none_left ? Tile::kNoneLeft : 0) | (other_groups || padding ? 0 : Tile::kEvery) |
                   (clears ? Tile::kClears : 0);
      last_group_ = static_cast<int>(least);
      return true;
    }
  }

  // The group of a row of D; kNoGroup where the row is padding or outside of D.
  __device__ __forceinline__ uint32_t group_of(int row) const {
    uint32_t const group = row < groups_.rows ? static_cast<uint32_t>(__ldg(groups_.layout + row)) : kNoGroup;
    return group < static_cast<uint32_t>(groups_.groups) ? group : kNoGroup;
  }

  // The next tile with ends or counts of groups. A tile begins where its group begins, or a multiple of `kRows` rows
  // later. Its padding is zeroed up to the next group's first row.
  __device__ __forceinline__ bool next_of_groups(Tile& tile) {
    while (true) {
      uint32_t const holds = __ballot_sync(kAllLanes, index_ < first_index_ + blocks_through_ * groups_.columns);
      if (holds != 0) {
        int const lane = __ffs(static_cast<int>(holds)) - 1;  // the lane with the group that holds block `index_`
        int const blocks = __shfl_sync(kAllLanes, blocks_, lane);
        int const before = __shfl_sync(kAllLanes, blocks_through_, lane) - blocks;
        int const start = __shfl_sync(kAllLanes, start_, lane), end = __shfl_sync(kAllLanes, end_, lane);
        int const cleared_end = __shfl_sync(kAllLanes, cleared_end_, lane);
        int const within = index_ - first_index_ - before * groups_.columns;
        index_ += step_;
        // The order of sm90::Raster with `down`: `swizzle` tiles of rows, then the next column.
        int const first = within / (groups_.swizzle * groups_.columns) * groups_.swizzle;
        int const swizzle = min(groups_.swizzle, blocks - first);
        int const rest = within - first * groups_.columns;
        tile.column = rest / swizzle;
        tile.row = start + (first + rest - tile.column * swizzle) * kRows;
        tile.group = first_group_ + lane;
        tile.matrix = groups_.grouping == Grouping::kRowsValid ? tile.group : 0;
        tile.rows = {end, cleared_end};
        bool const every = tile.row + kRows <= end;
        bool const none_left = every || cleared_end >= min(tile.row + kRows, groups_.rows);
        tile.flags = (every ? Tile::kEvery : 0) | (none_left ? Tile::kNoneLeft : 0);
        return true;
      }
      first_index_ += __shfl_sync(kAllLanes, blocks_through_, 31) * groups_.columns;
      first_group_ += 32;
      if (first_group_ >= groups_.groups) {
        return false;
      }
      load_groups();
    }
  }

  // Reads 32 groups starting at `first_group_`, one to a lane. Clamped, so that no row outside of D is read or written
  // whatever `layout` holds.
  __device__ __forceinline__ void load_groups() {
    int const lane = threadIdx.x % 32, group = first_group_ + lane;
    bool const exists = group < groups_.groups;
    auto const read = [&](int which) { return max(0, min(__ldg(groups_.layout + which), groups_.rows)); };
    start_ = 0, end_ = exists ? read(group) : 0, cleared_end_ = groups_.rows;
    if (groups_.grouping == Grouping::kEnds) {
      start_ = aligned(exists && group > 0 ? read(group - 1) : 0);
      cleared_end_ = min(aligned(end_), groups_.rows);
    }
    blocks_ = exists && end_ > start_ ? (end_ - start_ + kRows - 1) / kRows : 0;
    blocks_through_ = blocks_;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      int const earlier = __shfl_up_sync(kAllLanes, blocks_through_, step);
      blocks_through_ += lane >= step ? earlier : 0;
    }
  }

  // The first row at or after `row` at which a group may begin.
  __device__ __forceinline__ int aligned(int row) const {
    return (row + groups_.alignment - 1) / groups_.alignment * groups_.alignment;
  }

  Groups const& groups_;
  int index_, step_;  // the next block of this cluster, and the distance to the one after it

  // The 32 groups starting at `first_group_`, one to a lane.
  int first_group_ = 0;
  int first_index_ = 0;                        // number of the first block of these groups
  int start_ = 0, end_ = 0, cleared_end_ = 0;  // rows: of the group, and where padding ends that is zeroed
  int blocks_ = 0, blocks_through_ = 0;        // tiles of rows of the group, and summed over lanes up to this one

  // With row indices, the tile in progress: its place in D, the groups of this lane's rows, the last group that was
  // computed, and whether there may be another.
  uint32_t group_of_lane_row_[kLoads];
  int row_ = 0, column_ = 0, last_group_ = -1;
  bool more_ = false;
};

}  // namespace tilewright::mixed_grouped_gemm

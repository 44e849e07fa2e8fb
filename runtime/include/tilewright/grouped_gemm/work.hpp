// Which tiles a persistent CTA computes when rows belong to groups, each with a B of its own. What says which rows are
// of which group is read on the device, so that a graph can be replayed with other groups.
//
// A warp of the producer's decides, 32 groups (or the rows of a tile) at a time, and tells those that load and multiply
// (TileQueue).
#pragma once

#include <cstdint>

#include "tilewright/grouped_gemm/args.h"
#include "tilewright/grouped_gemm/tile.hpp"
#include "tilewright/sm90/scheduler.hpp"

namespace tilewright::grouped_gemm {

struct Groups {
  int grouping;       // tilewright_grouping
  int const* layout;  // group_of_row, group_ends, rows_valid or group_k
  int groups;
  int rows;             // of D; of each group's where those have their own
  int alignment;        // of group_ends
  int k;                // of all groups
  int unit;             // of k, whose multiples parts are
  bool zeroes;          // tiles that hold padding alone are zeroed
  int columns;          // blocks of n
  int high;             // blocks of rows that are neighbours in the order
  sm90::Raster raster;  // of groupings whose tiles the host knows
  sm90::Shares shares;
};

// The k of a group that `given`, its entry in `group_k`, and `left`, what other groups leave of k, allow: whole units,
// so that an entry that is no multiple of `unit` counts as the multiple below it. Nothing beyond k is read, whatever
// `group_k` says.
__device__ __forceinline__ int size_of_part(int given, int left, int unit) {
  return max(0, min(given, left)) / unit * unit;
}

// Of tiles with `kRows` rows. Those of `down` CTAs of a cluster lie below each other, and this one's is that of number
// `place`: all of them compute for one group at a time, whose B they share, also those that have no row of it.
template <int kRows>
class Work {
 public:
  __device__ __forceinline__ Work(Groups const& groups, sm90::Shares::Share const& share, int down, int place)
      : groups_(groups), index_(share.index), step_(share.step), until_(share.end), down_(down), place_(place) {
    if (groups_.grouping == TILEWRIGHT_GROUPING_ROW_INDEX) {
      more_ = false;
      index_ -= step_;
    } else if (!known()) {
      load_groups();
    }
  }

  // The next tile, its column in those that a cluster computes at once; false where there is none. All threads of the
  // warp ask.
  __device__ __forceinline__ bool next(Tile& tile) {
    if (groups_.grouping == TILEWRIGHT_GROUPING_ROW_INDEX) {
      return next_of_rows(tile);
    }
    if (known()) {
      if (index_ >= until_) {
        return false;
      }
      sm90::Block const block(groups_.raster, index_);
      index_ += step_;
      tile.row = (block.row * down_ + place_) * kRows, tile.column = block.column;
      tile.matrix = tile.group = block.matrix;
      tile.end = tile.cleared = groups_.rows;
      tile.parts = slices_before(groups_.rows, tile.row);
      tile.flags = Tile::kEvery | Tile::kNoneLeft;
      if (groups_.grouping == TILEWRIGHT_GROUPING_K_SIZES) {
        for (; batch_ < tile.group; ++batch_) {
          start_ += part_of_k();
        }
        tile.end = part_of_k() / groups_.unit, tile.cleared = start_ / groups_.unit;
      }
      return true;
    }
    return next_of_groups(tile);
  }

 private:
  static constexpr int kLoads = (kRows + 31) / 32;
  static constexpr uint32_t kAll = ~0u;

  // Mask of the 64-row slices of the tile at `row` that hold at least one row before `end`: bit i stands for rows
  // row + 64 i to row + 64 i + 63.
  static __device__ __forceinline__ uint32_t slices_before(int end, int row) {
    int const rows = max(0, min(end - row, kRows));
    return (1u << (rows + 63) / 64) - 1;
  }

  // Whether the host knows all tiles.
  __device__ __forceinline__ bool known() const {
    return groups_.grouping == TILEWRIGHT_GROUPING_NONE || groups_.grouping == TILEWRIGHT_GROUPING_K_SIZES;
  }

  // The k of group `batch_`, which begins at `start_`.
  __device__ __forceinline__ int part_of_k() const {
    return size_of_part(__ldg(groups_.layout + batch_), groups_.k - start_, groups_.unit);
  }

  // Row indices: the tiles of a cluster are computed once for each group that has rows in any of them, the smallest
  // first.
  __device__ __forceinline__ bool next_of_rows(Tile& tile) {
    int const lane = threadIdx.x % 32;
    while (true) {
      if (!more_) {
        index_ += step_;
        if (index_ >= until_) {
          return false;
        }
        sm90::Block const block(groups_.raster, index_);
        row_ = (block.row * down_ + place_) * kRows, column_ = block.column;
#pragma unroll
        for (int i = 0; i < kLoads; ++i) {
          of_row_[i] = i * 32 + lane < kRows ? group_of(i * 32 + lane) : kAll;
        }
        last_ = -1;
      }
      uint32_t own = kAll;
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        own = min(own, behind_last(of_row_[i]));
      }
      uint32_t least = own;
#pragma unroll 1
      for (int row = lane - place_ * kRows; row < (down_ - place_) * kRows; row += 32) {
        if (row < 0 || row >= kRows) {
          least = min(least, behind_last(group_of(row)));  // another CTA's
        }
      }
      least = __reduce_min_sync(kAll, least);
      more_ = least != kAll;
      if (!more_) {
        if (last_ >= 0 || !groups_.zeroes) {
          continue;
        }
        tile.row = row_, tile.column = column_;
        tile.matrix = tile.group = 0;
        tile.end = 0, tile.cleared = groups_.rows;
        tile.parts = 0;
        tile.flags = Tile::kPadding | Tile::kNoneLeft;
        return true;
      }
      bool others = false, padding = false;
      uint32_t parts = 0;
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        bool const there = i * 32 + lane < kRows && row_ + i * 32 + lane < groups_.rows;
        others = others || (of_row_[i] != least && of_row_[i] != kAll);
        padding = padding || (of_row_[i] == kAll && there);
        parts |= __any_sync(kAll, of_row_[i] == least) ? 1u << (i / 2) : 0;
      }
      others = __any_sync(kAll, others);
      padding = __any_sync(kAll, padding);
      // Padding is zeroed with the first group that has rows in the tile. A tile of padding alone, which is computed
      // because another of the cluster has rows, is left unless padding is to be zeroed: as it is without a cluster.
      bool const clears = last_ < 0 && (groups_.zeroes || __any_sync(kAll, own != kAll));
      bool const none_left = !others && (clears || !padding);
      tile.row = row_, tile.column = column_;
      tile.matrix = 0, tile.group = static_cast<int>(least);
      tile.end = groups_.rows, tile.cleared = 0;
      tile.parts = parts;
      tile.flags = Tile::kIndexed | (none_left ? Tile::kNoneLeft : 0) | (others || padding ? 0 : Tile::kEvery) |
                   (clears ? Tile::kClears : 0);
      last_ = static_cast<int>(least);
      return true;
    }
  }

  // The group of a row, so many behind the first of this CTA's tile; kAll where it has none.
  __device__ __forceinline__ uint32_t group_of(int row) const {
    bool const there = row_ + row < groups_.rows;
    uint32_t const group = there ? static_cast<uint32_t>(__ldg(groups_.layout + row_ + row)) : kAll;
    return group < static_cast<uint32_t>(groups_.groups) ? group : kAll;
  }

  // A group that is yet to be computed, or kAll.
  __device__ __forceinline__ uint32_t behind_last(uint32_t group) const {
    return group != kAll && static_cast<int>(group) > last_ ? group : kAll;
  }

  // Ends, or counts, of groups: tiles begin with their group.
  __device__ __forceinline__ bool next_of_groups(Tile& tile) {
    while (true) {
      uint32_t const holds = __ballot_sync(kAll, index_ < base_ + through_ * groups_.columns);
      if (holds != 0) {
        int const of = __ffs(static_cast<int>(holds)) - 1;
        int const tiles = __shfl_sync(kAll, tiles_, of);
        int const before = __shfl_sync(kAll, through_, of) - tiles;
        int const start = __shfl_sync(kAll, start_, of), end = __shfl_sync(kAll, end_, of);
        int const cleared = __shfl_sync(kAll, cleared_, of);
        int const within = index_ - base_ - before * groups_.columns;
        index_ += step_;
        // Neighbours of a row of blocks first, as sm90::Raster has it.
        int const first = within / (groups_.high * groups_.columns) * groups_.high;
        int const high = min(groups_.high, tiles - first);
        int const rest = within - first * groups_.columns;
        int const column = rest / high, block = first + rest - column * high;
        bool const own = groups_.grouping == TILEWRIGHT_GROUPING_ROWS_VALID;
        int const row_of_all = start + block * down_ * kRows, row = row_of_all + place_ * kRows;
        tile.column = column;
        tile.group = batch_ + of;
        tile.matrix = own ? tile.group : 0;
        tile.end = end;
        tile.cleared = groups_.zeroes || row < end ? cleared : 0;  // a tile of padding alone is left
        bool const every = row + kRows <= end, padding = row_of_all >= end;
        bool const none_left = every || tile.cleared >= min(row + kRows, groups_.rows);
        tile.flags = (every ? Tile::kEvery : 0) | (none_left ? Tile::kNoneLeft : 0) | (padding ? Tile::kPadding : 0);
        tile.parts = slices_before(end, row);
        tile.row = row;
        return true;
      }
      base_ += __shfl_sync(kAll, through_, 31) * groups_.columns;
      batch_ += 32;
      if (batch_ >= groups_.groups) {
        return false;
      }
      load_groups();
    }
  }

  // 32 groups, one to a lane.
  __device__ __forceinline__ void load_groups() {
    int const lane = threadIdx.x % 32, group = batch_ + lane;
    bool const there = group < groups_.groups;
    // Whatever they say, no row outside of D is read or written.
    int const given = there ? max(0, min(__ldg(groups_.layout + group), groups_.rows)) : 0;
    start_ = 0, end_ = given, cleared_ = groups_.rows;
    if (groups_.grouping == TILEWRIGHT_GROUPING_ENDS) {
      int const before = there && group > 0 ? max(0, min(__ldg(groups_.layout + group - 1), groups_.rows)) : 0;
      start_ = aligned(before);
      // What lies behind the last group is nobody's: it is zeroed, or left as it is.
      bool const last = groups_.zeroes && group == groups_.groups - 1;
      cleared_ = last ? groups_.rows : min(aligned(end_), groups_.rows);
    }
    int const upto = groups_.zeroes ? cleared_ : end_;
    int const rows = kRows * down_;  // of a block
    tiles_ = there && upto > start_ ? (upto - start_ + rows - 1) / rows : 0;
    through_ = tiles_;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      int const other = __shfl_up_sync(kAll, through_, step);
      through_ += lane >= step ? other : 0;
    }
  }

  // The next row at which a group may begin.
  __device__ __forceinline__ int aligned(int row) const {
    return (row + groups_.alignment - 1) / groups_.alignment * groups_.alignment;
  }

  Groups const& groups_;
  int index_, step_, until_, down_, place_;  // blocks; where those end that the host knows
  // Of the 32 groups from `batch_` on, one to a lane: rows, where padding ends that may be written, blocks of tiles
  // below each other, with those of the lanes before; blocks before.
  int batch_ = 0, base_ = 0;
  int start_ = 0, end_ = 0, cleared_ = 0, tiles_ = 0, through_ = 0;
  // Of a tile of row indices: the group of the lane's rows, the last that was computed, whether there may be more.
  uint32_t of_row_[kLoads];
  int row_ = 0, column_ = 0, last_ = -1;
  bool more_ = false;
};

}  // namespace tilewright::grouped_gemm

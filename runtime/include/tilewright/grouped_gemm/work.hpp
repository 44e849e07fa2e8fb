// Which tiles a persistent CTA computes when rows belong to groups and each group has its own B. The device reads which
// rows belong to which group, so that a graph can be replayed with other groups.
//
// One warp of the producer schedules: it looks at 32 groups (or at the rows of a tile) at a time and sends tiles to the
// warps that load and multiply (TileQueue).
#pragma once

#include <cstdint>

#include "tilewright/grouped_gemm/args.h"
#include "tilewright/grouped_gemm/form.hpp"
#include "tilewright/grouped_gemm/groups.hpp"
#include "tilewright/grouped_gemm/tile.hpp"
#include "tilewright/sm90/scheduler.hpp"

namespace tilewright::grouped_gemm {

// The k of a group: `requested`, its entry in `group_k`, rounded down to a multiple of `unit` and limited to `left`,
// what earlier groups leave of k. So nothing beyond k is read, whatever `group_k` says.
__device__ __forceinline__ int size_of_group(int requested, int left, int unit) {
  return max(0, min(requested, left)) / unit * unit;
}

// Schedules tiles of `kRows` rows. `cluster_rows` CTAs of a cluster compute tiles that lie below each other; this CTA's
// is number `cluster_row` of them. All of them compute for the same group at a time and share its B, also those whose
// tile holds no row of the group. `kForm`: a form in which the device reads groups; `kClusters`: that has clusters.
template <int kRows, Form kForm = Form::kAny, bool kClusters = kForm == Form::kAny>
class TileScheduler {
 public:
  __device__ __forceinline__ TileScheduler(Groups const& groups, sm90::Shares::Share const& share, int cluster_rows,
                                           int cluster_row)
      : groups_(groups),
        index_(share.index),
        step_(share.step),
        index_end_(share.end),
        cluster_rows_(cluster_rows),
        cluster_row_(cluster_row) {
    if (rows_have_groups()) {
      index_ -= step_;
    }
  }

  // Sets `tile` to the first tile where no memory tells which it is. Returns false where `next` has to be asked.
  __device__ __forceinline__ bool first(Tile& tile) {
    return groups_.grouping == TILEWRIGHT_GROUPING_NONE && next_known(tile);
  }

  // In a form: reads what tells the first tile, and sets what loads need of `tile`. Called before `next`, by all
  // threads of the warp. Returns false if only `next` can tell. With row indices `next` sets the same tile, with more
  // fields; else the tile after it.
  __device__ __forceinline__ bool begin(Tile& tile) {
    if (!rows_have_groups()) {
      load_groups();
      return next_of_groups(tile);
    }
    index_ += step_;
    if (index_ >= index_end_) {
      return false;
    }
    read_rows();
    more_ = true;
    uint32_t const least = __reduce_min_sync(kAllLanes, least_of_others(least_of_lane()));
    tile.row = row_, tile.column = column_;
    tile.matrix = 0, tile.group = static_cast<int>(least);
    tile.flags = 0;
    return least != kNoGroup;
  }

  // Reads the first groups. Called before `next`.
  __device__ __forceinline__ void start() {
    if (!host_knows_tiles() && !rows_have_groups()) {
      load_groups();
    }
  }

  // Sets `tile` to the next tile; its column counts blocks, of all columns that a cluster computes at once. Returns
  // false after the last tile. Called by all threads of the warp.
  __device__ __forceinline__ bool next(Tile& tile) {
    if (rows_have_groups()) {
      return next_of_rows(tile);
    }
    if (host_knows_tiles()) {
      if (!next_known(tile)) {
        return false;
      }
      if (groups_.grouping == TILEWRIGHT_GROUPING_K_SIZES) {
        for (; first_group_ < tile.group; ++first_group_) {
          start_ += k_of_group();
        }
        tile.k_tiles = {k_of_group() / groups_.k_unit, start_ / groups_.k_unit};
      }
      return true;
    }
    return next_of_groups(tile);
  }

 private:
  static constexpr int kLoads = (kRows + 31) / 32;  // rows of a tile for each lane
  static constexpr uint32_t kAllLanes = ~0u, kNoGroup = ~0u;

  // Whether the host knows all tiles: rows do not depend on what the device reads.
  __device__ __forceinline__ bool host_knows_tiles() const {
    return kForm == Form::kAny &&
           (groups_.grouping == TILEWRIGHT_GROUPING_NONE || groups_.grouping == TILEWRIGHT_GROUPING_K_SIZES);
  }

  // Whether the device reads each row's group.
  __device__ __forceinline__ bool rows_have_groups() const {
    return kForm == Form::kAny ? groups_.grouping == TILEWRIGHT_GROUPING_ROW_INDEX : kForm == Form::kRows;
  }

  // The next tile where the host knows all of them.
  __device__ __forceinline__ bool next_known(Tile& tile) {
    if (index_ >= index_end_) {
      return false;
    }
    known_tile<kRows>(groups_, index_, cluster_rows_, cluster_row_, tile);
    index_ += step_;
    return true;
  }

  // The k of group `first_group_`, whose part of k begins at `start_`.
  __device__ __forceinline__ int k_of_group() const {
    return size_of_group(__ldg(groups_.layout + first_group_), groups_.k - start_, groups_.k_unit);
  }

  // With row indices: a cluster computes its tiles once for each group that has rows in any of them, in the order of
  // the groups.
  __device__ __forceinline__ bool next_of_rows(Tile& tile) {
    int const lane = threadIdx.x % 32;
    while (true) {
      if (!more_) {
        index_ += step_;
        if (index_ >= index_end_) {
          return false;
        }
        read_rows();
      }
      uint32_t const own = least_of_lane();
      uint32_t least = own;
      if constexpr (kForm == Form::kAny) {
#pragma unroll 1
        for (int row = lane - cluster_row_ * kRows; row < (cluster_rows_ - cluster_row_) * kRows; row += 32) {
          if (row < 0 || row >= kRows) {
            least = min(least, if_after_last(group_of(row)));  // another CTA's
          }
        }
      } else {
        least = least_of_others(own);
      }
      least = __reduce_min_sync(kAllLanes, least);
      more_ = least != kNoGroup;
      if (!more_) {
        if (last_group_ >= 0 || !groups_.zeroes) {
          continue;
        }
        tile.row = row_, tile.column = column_;
        tile.matrix = tile.group = 0;
        tile.rows = {0, groups_.rows};
        tile.row_slices = 0;
        tile.flags = Tile::kPadding | Tile::kNoneLeft;
        return true;
      }
      bool other_groups = false, padding = false;
      uint32_t row_slices = 0;
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        bool const exists = i * 32 + lane < kRows && row_ + i * 32 + lane < groups_.rows;
        other_groups = other_groups || (group_of_lane_row_[i] != least && group_of_lane_row_[i] != kNoGroup);
        padding = padding || (group_of_lane_row_[i] == kNoGroup && exists);
        row_slices |= __any_sync(kAllLanes, group_of_lane_row_[i] == least) ? 1u << (i / 2) : 0;
      }
      other_groups = __any_sync(kAllLanes, other_groups);
      padding = __any_sync(kAllLanes, padding);
      // The first group that has rows in the tile zeroes its padding. A tile of padding alone is computed here only
      // because another CTA of the cluster has rows. It is left untouched unless padding is to be zeroed, so that the
      // result does not depend on clusters.
      bool const clears = last_group_ < 0 && (groups_.zeroes || __any_sync(kAllLanes, own != kNoGroup));
      bool const none_left = !other_groups && (clears || !padding);
      tile.row = row_, tile.column = column_;
      tile.matrix = 0, tile.group = static_cast<int>(least);
      tile.rows = {groups_.rows, 0};
      tile.row_slices = row_slices;
      tile.flags = Tile::kIndexed | (none_left ? Tile::kNoneLeft : 0) | (other_groups || padding ? 0 : Tile::kEvery) |
                   (clears ? Tile::kClears : 0);
      last_group_ = static_cast<int>(least);
      return true;
    }
  }

  // Begins block number `index_`: reads the groups of this tile's rows.
  __device__ __forceinline__ void read_rows() {
    int const lane = threadIdx.x % 32;
    sm90::Block const block(groups_.raster, index_);
    row_ = (block.row * cluster_rows_ + cluster_row_) * kRows, column_ = block.column;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      group_of_lane_row_[i] = i * 32 + lane < kRows ? group_of(i * 32 + lane) : kNoGroup;
    }
    last_group_ = -1;
  }

  // The least group of this lane's rows that is yet to be computed.
  __device__ __forceinline__ uint32_t least_of_lane() const {
    uint32_t least = kNoGroup;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      least = min(least, if_after_last(group_of_lane_row_[i]));
    }
    return least;
  }

  // The same of the rows of the cluster's other CTAs, if it is less than `least`: in a form, all loads of a CTA's rows
  // are in flight together.
  __device__ __forceinline__ uint32_t least_of_others(uint32_t least) const {
    int const lane = threadIdx.x % 32;
#pragma unroll 1
    for (int cta = 1; kClusters && cta < cluster_rows_; ++cta) {
      int const first = ((cluster_row_ ^ cta) - cluster_row_) * kRows;
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        if (i * 32 + lane < kRows) {
          least = min(least, if_after_last(group_of(first + i * 32 + lane)));
        }
      }
    }
    return least;
  }

  // The group of row `row_ + row` of D; kNoGroup where the row is padding or outside of D.
  __device__ __forceinline__ uint32_t group_of(int row) const {
    bool const exists = row_ + row < groups_.rows;
    uint32_t const group = exists ? static_cast<uint32_t>(__ldg(groups_.layout + row_ + row)) : kNoGroup;
    return group < static_cast<uint32_t>(groups_.groups) ? group : kNoGroup;
  }

  // `group` if it is yet to be computed for these tiles, else kNoGroup.
  __device__ __forceinline__ uint32_t if_after_last(uint32_t group) const {
    return group != kNoGroup && static_cast<int>(group) > last_group_ ? group : kNoGroup;
  }

  // With ends or counts of groups: no tile holds rows of two groups.
  __device__ __forceinline__ bool next_of_groups(Tile& tile) {
    while (true) {
      uint32_t const holds = __ballot_sync(kAllLanes, index_ < first_index_ + blocks_through_ * groups_.columns);
      if (holds != 0) {
        int const lane = __ffs(static_cast<int>(holds)) - 1;  // of the group that holds block `index_`
        int const blocks = __shfl_sync(kAllLanes, blocks_, lane);
        int const before = __shfl_sync(kAllLanes, blocks_through_, lane) - blocks;
        int const start = __shfl_sync(kAllLanes, start_, lane), end = __shfl_sync(kAllLanes, end_, lane);
        int const cleared_end = __shfl_sync(kAllLanes, cleared_end_, lane);
        int const within = index_ - first_index_ - before * groups_.columns;
        index_ += step_;
        // `swizzle` blocks of rows, then the next column: the order of sm90::Raster with `down`.
        int const first = within / (groups_.swizzle * groups_.columns) * groups_.swizzle;
        int const swizzle = min(groups_.swizzle, blocks - first);
        int const rest = within - first * groups_.columns;
        int const column = rest / swizzle, block = first + rest - column * swizzle;
        bool const own_matrix = groups_.grouping == TILEWRIGHT_GROUPING_ROWS_VALID;
        int const cluster_start = start + block * cluster_rows_ * kRows, row = cluster_start + cluster_row_ * kRows;
        tile.column = column;
        tile.group = first_group_ + lane;
        tile.matrix = own_matrix ? tile.group : 0;
        tile.rows.end = end;
        tile.rows.cleared_end = groups_.zeroes || row < end ? cleared_end : 0;  // else it is all padding, and left
        bool const every = row + kRows <= end, padding = cluster_start >= end;
        bool const none_left = every || tile.rows.cleared_end >= min(row + kRows, groups_.rows);
        tile.flags = (every ? Tile::kEvery : 0) | (none_left ? Tile::kNoneLeft : 0) | (padding ? Tile::kPadding : 0);
        tile.row_slices = slices_before<kRows>(end, row);
        tile.row = row;
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

  // Reads 32 groups starting at `first_group_`, one to a lane.
  __device__ __forceinline__ void load_groups() {
    int const lane = threadIdx.x % 32, group = first_group_ + lane;
    bool const exists = group < groups_.groups;
    // Clamped, so that no row outside of D is read or written whatever `layout` holds.
    int const end_or_count = exists ? max(0, min(__ldg(groups_.layout + group), groups_.rows)) : 0;
    start_ = 0, end_ = end_or_count, cleared_end_ = groups_.rows;
    if (groups_.grouping == TILEWRIGHT_GROUPING_ENDS) {
      int const before = exists && group > 0 ? max(0, min(__ldg(groups_.layout + group - 1), groups_.rows)) : 0;
      start_ = aligned(before);
      // Rows after the last group belong to no group: they are zeroed with padding, or left untouched.
      bool const last = groups_.zeroes && group == groups_.groups - 1;
      cleared_end_ = last ? groups_.rows : min(aligned(end_), groups_.rows);
    }
    int const end = groups_.zeroes ? cleared_end_ : end_;
    int const rows = kRows * cluster_rows_;  // of a block
    blocks_ = exists && end > start_ ? (end - start_ + rows - 1) / rows : 0;
    blocks_through_ = blocks_;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      int const earlier_blocks = __shfl_up_sync(kAllLanes, blocks_through_, step);
      blocks_through_ += lane >= step ? earlier_blocks : 0;
    }
  }

  // The first row at or after `row` at which a group may begin.
  __device__ __forceinline__ int aligned(int row) const {
    return (row + groups_.alignment - 1) / groups_.alignment * groups_.alignment;
  }

  Groups const& groups_;
  // Blocks of this cluster: the next one and the step to the one after it. `index_end_`: after the last one, where the
  // host knows all of them.
  int index_, step_, index_end_;
  int cluster_rows_, cluster_row_;

  // The 32 groups starting at `first_group_`, one to a lane (with `group_k`: group `first_group_`, in elements of k).
  int first_group_ = 0;
  int first_index_ = 0;                        // number of the first block of these groups
  int start_ = 0, end_ = 0, cleared_end_ = 0;  // rows: of the group, and where padding ends that may be zeroed
  int blocks_ = 0, blocks_through_ = 0;        // blocks of rows of the group, and summed over lanes up to this one

  // With row indices, the tile in progress: its place in D, the groups of this lane's rows, the last group that was
  // computed, and whether there may be another.
  uint32_t group_of_lane_row_[kLoads];
  int row_ = 0, column_ = 0, last_group_ = -1;
  bool more_ = false;
};

}  // namespace tilewright::grouped_gemm

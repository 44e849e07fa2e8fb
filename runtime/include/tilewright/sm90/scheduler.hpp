// Which tiles a persistent CTA computes, in which order.
#pragma once

#include <cstdint>

#include "tilewright/sm90/divisor.hpp"

namespace tilewright::sm90 {

// The order in which clusters go through a grid of blocks of tiles (a block is what a cluster computes at once):
// `group` neighbours of one direction at a time, then on along the other, so that the blocks that are computed at
// the same time share rows of A and of B in L2.
struct Raster {
  int blocks;                              // of all matrices
  int across;                              // blocks in the direction of the groups
  bool down;                               // which is that of the rows, else that of the columns
  bool many;                               // matrices
  Divisor matrix, group, high, last_high;  // blocks of a matrix and of a group; neighbours of a group, and of the last

  Raster() = default;
  Raster(int rows, int columns, int batch, int neighbours, bool down_rows)
      : blocks(rows * columns * batch), across(down_rows ? rows : columns), down(down_rows), many(batch > 1) {
    int const along = down ? columns : rows;
    int const taken = neighbours < across ? neighbours : across;
    matrix = Divisor(rows * columns);
    group = Divisor(taken * along);
    high = Divisor(taken);
    last_high = Divisor(across % taken != 0 ? across % taken : taken);
  }

  // The order whose first `at_once` blocks, each of block_m x block_n elements, read the fewest rows of A and B.
  static int best_group(int across, int at_once, int64_t group_extent, int64_t other_extent) {
    int best = 1;
    int64_t least = INT64_MAX;
    for (int group = 1; group <= 16 && group < 2 * across; group *= 2) {
      int const high = group < across ? group : across;
      int64_t const read = high * group_extent + (at_once + high - 1) / high * other_extent;
      if (read < least) {
        least = read, best = group;
      }
    }
    return best;
  }
};

// Which blocks each cluster of a grid computes. The GPU runs `standing` clusters at once: they take the first
// `in_turns` blocks in turns. Every other cluster is late: it starts when an SM is free, and computes one block. So a
// slower SM (of 132, up to 8 % slower on the same tiles) computes fewer blocks, and the others wait for it no longer
// than for one.
struct Shares {
  int clusters = 0, standing = 0;
  int in_turns = INT32_MAX;

  // Blocks `index`, `index + step`, and so on, before `end`.
  struct Share {
    int index, step, end;
  };

  __host__ __device__ Share of(int cluster) const {
    int const late = cluster - standing, block = in_turns + late;
    return late < 0 ? Share{cluster, standing, in_turns} : Share{block, 1, block + 1};
  }
};

struct Block {
  int row, column, matrix;

  __device__ __forceinline__ Block(Raster const& raster, int index) {
    matrix = raster.many ? raster.matrix.divide(index) : 0;
    int const within = index - matrix * raster.matrix.divisor();
    int const group = raster.group.divide(within);
    int const first = group * raster.high.divisor();
    int const rest = within - group * raster.group.divisor();
    Divisor const& high = first + raster.high.divisor() > raster.across ? raster.last_high : raster.high;
    int const second = high.divide(rest);
    int const x = first + rest - second * high.divisor();
    row = raster.down ? x : second;
    column = raster.down ? second : x;
  }
};

}  // namespace tilewright::sm90

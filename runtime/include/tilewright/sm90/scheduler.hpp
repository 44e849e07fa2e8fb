// Which tiles a persistent CTA computes, and in which order.
#pragma once

#include <cstdint>

#include "tilewright/sm90/divisor.hpp"

namespace tilewright::sm90 {

// The order in which clusters go through a grid of blocks. A block is the tiles that a cluster computes at once. The
// order takes `swizzle` neighbours in one direction, then advances by one in the other direction, so that blocks that
// run at the same time share rows of A and of B in L2. Such a band, which is `swizzle` blocks wide, runs through the
// whole grid before the next band begins. With a swizzle of 2 along D's rows (`down`), blocks have these numbers:
//
//   0  2  4  6     the first band
//   1  3  5  7
//   8 10 12 14     the second band
//   9 11 13 15
struct Raster {
  int blocks;                     // of all matrices
  int across;                     // blocks in the direction of a band's width
  bool down;                      // that direction is D's rows, otherwise its columns
  bool many;                      // more than one matrix
  Divisor matrix, band;           // blocks of a matrix, and of a band
  Divisor swizzle, last_swizzle;  // width of a band, and of the last band

  Raster() = default;
  Raster(int rows, int columns, int batch, int swizzle_blocks, bool down_rows)
      : blocks(rows * columns * batch), across(down_rows ? rows : columns), down(down_rows), many(batch > 1) {
    int const along = down ? columns : rows;
    int const width = swizzle_blocks < across ? swizzle_blocks : across;
    matrix = Divisor(rows * columns);
    band = Divisor(width * along);
    swizzle = Divisor(width);
    last_swizzle = Divisor(across % width != 0 ? across % width : width);
  }

  // The swizzle whose first `at_once` blocks read the least of A and B. A block has `swizzle_extent` rows in the
  // direction of a band's width and `other_extent` in the other.
  static int best_swizzle(int across, int at_once, int64_t swizzle_extent, int64_t other_extent) {
    int best = 1;
    int64_t least = INT64_MAX;
    for (int swizzle = 1; swizzle <= 16 && swizzle < 2 * across; swizzle *= 2) {
      int const width = swizzle < across ? swizzle : across;
      int64_t const read = width * swizzle_extent + (at_once + width - 1) / width * other_extent;
      if (read < least) {
        least = read, best = swizzle;
      }
    }
    return best;
  }
};

// Which blocks each cluster of a grid computes. The GPU runs `standing` clusters at once, which divide the first
// `in_turns` blocks evenly, round robin. Every other cluster is late: it starts when SMs are free, and computes one
// block. So slower SMs compute fewer blocks (on the same tiles, the 132 SMs of an H200 differ by up to 8 %), and the
// other SMs wait for them no longer than one block takes.
struct Shares {
  int clusters = 0, standing = 0;
  int in_turns = INT32_MAX;

  // Blocks `index`, `index + step` and so on, below `end`.
  struct Share {
    int index, step, end;
  };

  __host__ __device__ Share of(int cluster) const {
    int const late = cluster - standing, block = in_turns + late;
    return late < 0 ? Share{cluster, standing, in_turns} : Share{block, 1, block + 1};
  }
};

// The place in the grid, in blocks, of block number `index` of the order.
struct Block {
  int row, column, matrix;

  __device__ __forceinline__ Block(Raster const& raster, int index) {
    matrix = raster.many ? raster.matrix.divide(index) : 0;
    int const within = index - matrix * raster.matrix.divisor();
    int const band = raster.band.divide(within);
    int const first = band * raster.swizzle.divisor();
    int const rest = within - band * raster.band.divisor();
    Divisor const& swizzle = first + raster.swizzle.divisor() > raster.across ? raster.last_swizzle : raster.swizzle;
    int const along = swizzle.divide(rest);
    int const across = first + rest - along * swizzle.divisor();
    row = raster.down ? across : along;
    column = raster.down ? along : across;
  }
};

}  // namespace tilewright::sm90

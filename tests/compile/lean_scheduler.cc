// Tries what the lean kernels' scheduler does on the device, on the host, and how a cluster shares loads: see
// test_lean_scheduler.py.
#define __device__
#define __host__
#define __forceinline__ inline

#include "tilewright/sm90/cluster_shape.hpp"
#include "tilewright/sm90/scheduler.hpp"

#include <cstdio>
#include <set>
#include <vector>

using tilewright::sm90::Block;
using tilewright::sm90::Divisor;
using tilewright::sm90::Raster;
using tilewright::sm90::Slices;

namespace {

int failures = 0;

void expect(bool holds, char const* what, int a, int b, int c, int d) {
  if (!holds && ++failures < 10) {
    std::printf("%s: %d %d %d %d\n", what, a, b, c, d);
  }
}

void divide_exactly() {
  for (int divisor : {1, 2, 3, 5, 7, 8, 12, 100, 127, 128, 129, 4095, 4097, 65535, 1 << 20, 2147483647}) {
    Divisor const by(divisor);
    for (int64_t base : {int64_t{0}, int64_t{divisor}, int64_t{divisor} * 3, int64_t{2147483647}}) {
      for (int64_t number = base - 2; number <= base + 2; ++number) {
        if (number >= 0 && number <= 2147483647) {
          expect(by.divide(int(number)) == number / divisor, "divide", int(number), divisor, 0, 0);
        }
      }
    }
  }
}

// Every block of every matrix once, the blocks of a band one after the other.
void visit_every_block_once(int rows, int columns, int batch, int swizzle, bool down) {
  Raster const raster(rows, columns, batch, swizzle, down);
  std::vector<int> visits(size_t(rows) * columns * batch, 0);
  expect(raster.blocks == int(visits.size()), "blocks", rows, columns, batch, swizzle);
  for (int i = 0; i < raster.blocks; ++i) {
    Block const block(raster, i);
    bool const inside = block.row >= 0 && block.row < rows && block.column >= 0 && block.column < columns &&
                        block.matrix == i / (rows * columns);
    expect(inside, "outside", rows, columns, swizzle, i);
    if (inside) {
      ++visits[(size_t(block.matrix) * rows + block.row) * columns + block.column];
    }
    int const across = down ? rows : columns;
    int const along = down ? block.column : block.row;
    if (i % (rows * columns) < (swizzle < across ? swizzle : across)) {
      expect(along == 0, "the first blocks of a band come first", rows, columns, swizzle, i);
    }
  }
  for (int times : visits) {
    expect(times == 1, "visits", rows, columns, swizzle, times);
  }
}

// What the first `at_once` blocks read, each of its rows' and columns' elements once.
int64_t read(Raster const& raster, int at_once, int64_t block_m, int64_t block_n) {
  std::set<int> rows, columns;
  for (int i = 0; i < at_once && i < raster.blocks; ++i) {
    Block const block(raster, i);
    rows.insert(block.row), columns.insert(block.column);
  }
  return int64_t(rows.size()) * block_m + int64_t(columns.size()) * block_n;
}

// The best swizzle reads the least, and of those that read as much it is the smallest.
void read_the_least(int across, int at_once, int64_t swizzle_extent, int64_t other_extent) {
  int best = 1;
  int64_t least = INT64_MAX;
  for (int swizzle : {1, 2, 4, 8, 16}) {
    Raster const raster(across, 1000, 1, swizzle, true);
    int64_t const bytes = read(raster, at_once, swizzle_extent, other_extent);
    if (swizzle < 2 * across && bytes < least) {
      least = bytes, best = swizzle;
    }
  }
  int const found = Raster::best_swizzle(across, at_once, swizzle_extent, other_extent);
  expect(found == best, "best_swizzle", across, at_once, int(swizzle_extent), int(other_extent));
}

// What arrives with a k tile holds the rows that the matrix has, and fits into the tile's stage.
void load_what_fits(int tile_rows, int count, int matrix_rows) {
  Slices const slices = Slices::of(tile_rows, count, matrix_rows);
  int const least = matrix_rows < tile_rows ? matrix_rows : tile_rows;
  bool const fits = slices.loaded() >= least && slices.loaded() <= tile_rows;
  expect(fits, "loaded rows", tile_rows, count, matrix_rows, slices.loaded());
  expect(slices.period == 1 || slices.period == count, "period", tile_rows, count, matrix_rows, slices.period);
  expect(count > 1 || slices.rows == least, "rows that are loaded alone", tile_rows, count, matrix_rows, slices.rows);
}

}  // namespace

int main() {
  divide_exactly();
  for (int tile_rows = 8; tile_rows <= 256; tile_rows += 8) {
    for (int count : {1, 2, 4, 8}) {
      for (int matrix_rows : {1, 8, 20, 64, 1000}) {
        load_what_fits(tile_rows, count, matrix_rows);
      }
    }
  }
  for (int rows : {1, 2, 3, 7, 16, 33}) {
    for (int columns : {1, 2, 5, 8, 19}) {
      for (int swizzle : {1, 2, 4, 8, 16}) {
        for (int batch : {1, 3}) {
          visit_every_block_once(rows, columns, batch, swizzle, true);
          visit_every_block_once(rows, columns, batch, swizzle, false);
        }
      }
    }
  }
  // Of blocks that are higher than wide, a wave takes more of a row than of a column.
  expect(Raster::best_swizzle(64, 64, 256, 64) < Raster::best_swizzle(64, 64, 64, 256), "best_swizzle", 0, 0, 0, 0);
  expect(Raster::best_swizzle(1, 132, 128, 128) == 1, "best_swizzle of one row", 0, 0, 0, 0);
  for (int across : {1, 2, 3, 5, 8, 12, 16, 64}) {
    for (int at_once = 16; at_once <= 132; ++at_once) {
      for (int64_t extent : {64, 128, 160, 256}) {
        read_the_least(across, at_once, extent, 128);
        read_the_least(across, at_once, 128, extent);
      }
    }
  }
  return failures != 0;
}

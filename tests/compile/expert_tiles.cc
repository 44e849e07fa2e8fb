// Tries on the host which tiles the kernels of `mixed_grouped_gemm` compute, and what becomes of their rows: see
// test_expert_tiles.py.
#include "host_threads.hpp"

#include <cstdlib>
#include <cstring>

#define __host__

namespace {

template <class T>
T __ldg(T const* address) {
  return *address;
}
bool __any_sync(unsigned, bool value) { return __ballot_sync(~0u, value) != 0; }
uint32_t __reduce_min_sync(unsigned, uint32_t value) {
  auto const values = gather(value);
  return uint32_t(*std::min_element(values.begin(), values.end()));
}

}  // namespace

#include "tilewright/mixed_grouped_gemm/scheduler.hpp"

using namespace tilewright;
using grouped_gemm::Tile;
using grouped_gemm::TileRowFates;
using mixed_grouped_gemm::Grouping;
using mixed_grouped_gemm::Groups;
using sm90::RowFate;

namespace {

int failures = 0;

void expect(bool holds, char const* what, int a, int b, int c) {
  if (!holds && ++failures < 10) {
    std::printf("%s: %d %d %d\n", what, a, b, c);
  }
}

unsigned state = 1;
int draw(int below) {
  state = state * 1664525u + 1013904223u;
  return int((state >> 8) % unsigned(below));
}

template <int kRows>
std::vector<Tile> tiles_of(Groups const& groups, int clusters) {
  std::vector<Tile> tiles;
  for (int cluster = 0; cluster < clusters; ++cluster) {
    run(32, [&] {
      mixed_grouped_gemm::TileScheduler<kRows> scheduler(groups, cluster, clusters);
      Tile tile{};
      while (scheduler.next(tile)) {
        if (threadIdx.x % 32 == 0) {
          tiles.push_back(tile);
        }
      }
    });
  }
  return tiles;
}

// The group of each row of each matrix of D; -1 is padding.
using Owners = std::vector<std::vector<int>>;

// Each row that counts is stored once for each block of columns, with its group's weight. Padding is cleared at most
// once, or left. A tile says of itself what is so.
template <int kRows>
void check(Groups const& groups, Owners const& owners) {
  std::vector<std::vector<int>> stored(owners.size(), std::vector<int>(size_t(groups.rows) * groups.columns));
  auto cleared = stored;
  for (Tile const& tile : tiles_of<kRows>(groups, 1 + draw(7))) {
    bool const inside = tile.matrix >= 0 && tile.matrix < int(owners.size()) && tile.column >= 0 &&
                        tile.column < groups.columns && tile.row >= 0 && tile.row < groups.rows;
    expect(inside, "a tile lies outside", tile.matrix, tile.row, tile.column);
    if (!inside) {
      continue;
    }
    grouped_gemm::Heads const heads{};
    TileRowFates const fate{tile, groups.layout, groups.groups, heads};
    bool every = true, none_left = true, any = false;
    for (int row = tile.row; row < std::min(tile.row + kRows, groups.rows); ++row) {
      RowFate const now = fate(row);
      int const owner = owners[tile.matrix][row];
      size_t const at = size_t(row) * groups.columns + tile.column;
      every = every && now == RowFate::kStored, none_left = none_left && now != RowFate::kLeft;
      if (now == RowFate::kStored) {
        any = true;
        expect(owner == tile.group, "a row is stored for another group", row, owner, tile.group);
        ++stored[tile.matrix][at];
      } else if (now == RowFate::kCleared) {
        expect(owner < 0, "a row that counts is cleared", row, owner, tile.group);
        ++cleared[tile.matrix][at];
      }
    }
    expect(any, "a tile without rows of its group", tile.row, tile.group, 0);
    expect(!tile.is(Tile::kEvery) || every, "not every row is the group's", tile.row, tile.group, tile.rows.end);
    expect(!tile.is(Tile::kNoneLeft) || none_left, "some rows are left", tile.row, tile.group, tile.rows.end);
  }
  for (size_t matrix = 0; matrix < owners.size(); ++matrix) {
    for (int row = 0; row < groups.rows; ++row) {
      for (int column = 0; column < groups.columns; ++column) {
        size_t const at = size_t(row) * groups.columns + column;
        bool const counts = owners[matrix][row] >= 0;
        expect(stored[matrix][at] == (counts ? 1 : 0), "times that a row is stored", row, column, stored[matrix][at]);
        expect(cleared[matrix][at] <= (counts ? 0 : 1), "times that a row is cleared", row, column,
               cleared[matrix][at]);
      }
    }
  }
}

template <int kRows>
void try_all(int count, int most, int alignment) {
  for (int round = 0; round < 8; ++round) {
    std::vector<int> counts(count);
    for (int& rows : counts) {
      rows = draw(3) == 0 ? 0 : draw(most + 1);
    }
    Groups groups{};
    groups.groups = count, groups.alignment = alignment, groups.columns = 1 + draw(4), groups.swizzle = 1 << draw(4);
    std::vector<int> ends, owner;
    for (int group = 0; group < count; ++group) {
      owner.resize((owner.size() + alignment - 1) / alignment * alignment, -1);
      owner.insert(owner.end(), counts[group], group);
      ends.push_back(int(owner.size()));
    }
    owner.insert(owner.end(), 1 + draw(5), -1);  // rows after the last group
    groups.rows = int(owner.size());
    groups.grouping = Grouping::kEnds, groups.layout = ends.data();
    check<kRows>(groups, {owner});

    std::vector<int> index = owner;
    if (round % 2 == 1) {  // in no order, with numbers that are no group's
      for (int& group : index) {
        group = draw(count + 2) - 1;
      }
    }
    Owners owners{index};
    for (int& group : owners[0]) {
      group = group < count ? group : -1;
    }
    groups.grouping = Grouping::kRowIndex, groups.layout = index.data();
    groups.raster = sm90::Raster((groups.rows + kRows - 1) / kRows, groups.columns, 1, groups.swizzle, draw(2) == 0);
    check<kRows>(groups, owners);

    groups.rows = most;
    Owners masked;
    for (int rows : counts) {
      masked.emplace_back(size_t(rows), int(masked.size()));
      masked.back().resize(most, -1);
    }
    groups.grouping = Grouping::kRowsValid, groups.layout = counts.data();
    check<kRows>(groups, masked);
  }
}

}  // namespace

int main(int, char** arguments) {
  int const rows = std::atoi(arguments[1]), count = std::atoi(arguments[2]), most = std::atoi(arguments[3]);
  int const alignment = std::atoi(arguments[4]);
  switch (rows) {
    case 8:
      try_all<8>(count, most, alignment);
      break;
    case 64:
      try_all<64>(count, most, alignment);
      break;
    default:
      try_all<256>(count, most, alignment);
  }
  return failures > 0;
}

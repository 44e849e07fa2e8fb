// Tries on the host which tiles the kernels of `grouped_gemm` compute, and what becomes of their rows: see
// test_grouped_work.py.
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
  auto const found = gather(value);
  return uint32_t(*std::min_element(found.begin(), found.end()));
}
uint32_t __reduce_add_sync(unsigned, uint32_t value) {
  auto const found = gather(value);
  return uint32_t(std::accumulate(found.begin(), found.end(), 0L));
}

}  // namespace

#include "tilewright/grouped_gemm/groups_of_k.hpp"
#include "tilewright/grouped_gemm/known_tiles.hpp"
#include "tilewright/grouped_gemm/work.hpp"

using namespace tilewright;
using grouped_gemm::Form;
using grouped_gemm::Groups;
using grouped_gemm::Tile;
using grouped_gemm::TileRowFates;
using sm90::RowFate;

namespace {

int failures = 0;
char const* what_of = "";

void expect(bool holds, char const* what, int a, int b, int c) {
  if (!holds && ++failures < 10) {
    std::printf("%s, %s: %d %d %d\n", what_of, what, a, b, c);
  }
}

unsigned state = 1;
int draw(int below) {
  state = state * 1664525u + 1013904223u;
  return int((state >> 8) % unsigned(below));
}

// `standing` clusters, and where the host knows the blocks, one for each of the last `late` blocks.
sm90::Shares shares(Groups const& groups, int standing, int late) {
  bool const known = groups.grouping != TILEWRIGHT_GROUPING_ROWS_VALID && groups.grouping != TILEWRIGHT_GROUPING_ENDS;
  int const last = known ? std::min(late, groups.raster.blocks) : 0;
  return {standing + last, standing, groups.raster.blocks - last};
}

// What clusters of `down` thread blocks each compute, cluster after cluster. Those of one compute tiles below each
// other for the same group, whose B they share. `kForm`: by the code of that form.
template <int kRows, Form kForm = Form::kAny, bool kClusters = true>
std::vector<Tile> tiles_of(Groups const& groups, sm90::Shares const& shares, int down = 1) {
  std::vector<Tile> found;
  for (int index = 0; index < shares.clusters; ++index) {
    std::vector<std::vector<Tile>> of(down);
    for (int place = 0; place < down; ++place) {
      run(32, [&] {
        grouped_gemm::TileScheduler<kRows, kForm, kClusters> scheduler(groups, shares.of(index), down, place);
        Tile tile{};
        auto const keep = [&] {
          if (threadIdx.x % 32 == 0) {
            of[place].push_back(tile);
          }
        };
        bool more = false;
        if constexpr (kForm == Form::kAny) {
          if (scheduler.first(tile)) {
            keep();
          }
          scheduler.start();
          more = scheduler.next(tile);
        } else {
          more = scheduler.begin(tile);
          if constexpr (kForm == Form::kRows) {
            Tile const first = tile;
            bool const found = more;
            more = scheduler.next(tile);
            bool const same = more && tile.row == first.row && tile.column == first.column;
            expect(!found || (same && tile.group == first.group && tile.matrix == first.matrix), "another first tile",
                   tile.row, tile.group, first.group);
            expect(found || !same || tile.is(Tile::kPadding), "a first tile was not found", tile.row, tile.group, 0);
          }
        }
        for (; more; more = scheduler.next(tile)) {
          keep();
        }
      });
      expect(of[place].size() == of[0].size(), "tiles of a cluster", place, int(of[place].size()), int(of[0].size()));
      for (size_t i = 0; i < of[place].size() && i < of[0].size(); ++i) {
        Tile const &own = of[place][i], &first = of[0][i];
        expect(own.group == first.group && own.column == first.column && own.matrix == first.matrix, "another's B",
               own.row, own.group, first.group);
        expect(own.row == first.row + place * kRows, "not below", own.row, first.row, place);
        expect(own.is(Tile::kPadding) == first.is(Tile::kPadding), "multiplied by some alone", own.row, place, 0);
        expect(first.row < groups.rows, "a cluster's tiles lie outside", first.row, groups.rows, down);
      }
      found.insert(found.end(), of[place].begin(), of[place].end());
    }
  }
  return found;
}

// The group of each row of each matrix of D; -1 is padding.
using Owners = std::vector<std::vector<int>>;

// Each row that counts is stored once, by a tile with its group's B; padding is cleared or left, and all of it cleared
// where that is asked; a tile says of itself what is so.
template <int kRows>
void check_rows(Groups const& groups, Owners const& owners, std::vector<Tile> const& tiles, int down) {
  int const rows = groups.rows;
  std::vector<std::vector<int>> stored(owners.size(), std::vector<int>(size_t(rows) * groups.columns));
  auto cleared = stored;
  for (Tile const& tile : tiles) {
    bool const inside = tile.matrix >= 0 && tile.matrix < int(owners.size()) && tile.column >= 0 &&
                        tile.column < groups.columns && tile.row >= 0 && (tile.row < rows || down > 1);
    expect(inside, "a tile lies outside", tile.matrix, tile.row, tile.column);
    if (!inside) {
      continue;
    }
    tilewright::grouped_gemm::Heads const heads{};  // no columns are skipped
    TileRowFates const fate{tile, groups.layout, groups.groups, heads};
    uint32_t row_slices = 0;
    bool every = true, none_left = true, padding_alone = true, clears = false;
    for (int row = tile.row; row < tile.row + kRows; ++row) {
      if (row >= rows) {
        every = every && groups.grouping == TILEWRIGHT_GROUPING_ROW_INDEX;  // whose tiles TMA cuts off there
        continue;
      }
      RowFate const now = fate(row);
      int const owner = owners[tile.matrix][row];
      size_t const at = size_t(row) * groups.columns + tile.column;
      padding_alone = padding_alone && owner < 0;
      clears = clears || now == RowFate::kCleared;
      every = every && now == RowFate::kStored;
      none_left = none_left && now != RowFate::kLeft;
      if (now == RowFate::kStored) {
        row_slices |= 1u << (row - tile.row) / 64;
        expect(owner == tile.group, "a row is stored for another group", row, owner, tile.group);
        ++stored[tile.matrix][at];
      } else if (now == RowFate::kCleared) {
        expect(owner < 0, "a row that counts is cleared", row, owner, tile.group);
        ++cleared[tile.matrix][at];
      }
    }
    expect(!tile.is(Tile::kEvery) || every, "not every row is the group's", tile.row, tile.group, tile.rows.end);
    expect(!tile.is(Tile::kNoneLeft) || none_left, "some rows are left", tile.row, tile.group, tile.rows.end);
    expect(tile.row_slices == row_slices, "another 64 rows have work", tile.row, int(tile.row_slices), int(row_slices));
    // Another thread block of the cluster may have rows of the group.
    expect(tile.is(Tile::kPadding) ? row_slices == 0 : row_slices != 0 || down > 1, "a tile of padding", tile.row,
           int(row_slices), tile.group);
    expect(groups.zeroes || !tile.is(Tile::kPadding), "a tile of padding is computed", tile.row, tile.group, 0);
    // Also where another thread block of the cluster has rows: what becomes of padding does not depend on clusters.
    expect(groups.zeroes || !padding_alone || !clears, "a tile of padding alone is cleared", tile.row, tile.group, 0);
  }
  for (size_t matrix = 0; matrix < owners.size(); ++matrix) {
    for (int i = 0; i < rows * groups.columns; ++i) {
      int const row = i / groups.columns, first = row / kRows * kRows;
      auto const begin = owners[matrix].begin();
      bool const counts = begin[row] >= 0;
      // Padding in a tile with rows that count is always cleared where rows have indices.
      bool const clears = groups.zeroes || (groups.grouping == TILEWRIGHT_GROUPING_ROW_INDEX &&
                                            std::any_of(begin + first, begin + std::min(first + kRows, rows),
                                                        [](int owner) { return owner >= 0; }));
      expect(stored[matrix][i] == (counts ? 1 : 0), "stored", int(matrix), i / groups.columns, stored[matrix][i]);
      expect(!clears || counts || cleared[matrix][i] > 0, "not cleared", int(matrix), i / groups.columns, 0);
    }
  }
}

int up(int row, int alignment) { return (row + alignment - 1) / alignment * alignment; }

template <int kRows>
void check(Groups groups, Owners const& owners) {
  for (bool zeroes : {false, true}) {
    for (int high : {1, 5}) {
      groups.swizzle = high, groups.zeroes = zeroes;
      for (int down : {1, 2, 4}) {
        int const rows = kRows * down;
        groups.raster = sm90::Raster((groups.rows + rows - 1) / rows, groups.columns, 1, high, true);
        auto const of = shares(groups, high == 1 ? 1 : 7, high == 1 ? 0 : 3);
        check_rows<kRows>(groups, owners, tiles_of<kRows>(groups, of, down), down);
        if (groups.grouping == TILEWRIGHT_GROUPING_ROW_INDEX) {
          check_rows<kRows>(groups, owners, tiles_of<kRows, Form::kRows>(groups, of, down), down);
          if (down == 1) {
            check_rows<kRows>(groups, owners, tiles_of<kRows, Form::kRows, false>(groups, of), down);
          }
        } else {
          check_rows<kRows>(groups, owners, tiles_of<kRows, Form::kCounts>(groups, of, down), down);
        }
      }
    }
  }
}

// Rows of so many groups, of which some have none: by ends, by index and by counts.
template <int kRows>
void check_groups(int count, int most, int alignment, int behind) {
  std::vector<int> ends, counts;
  int start = 0;
  for (int group = 0; group < count; ++group) {
    int const taken = draw(3) == 0 ? 0 : draw(most + 1);
    counts.push_back(taken);
    ends.push_back(start + taken);
    start = up(start + taken, alignment);
  }
  Groups groups{};
  groups.groups = count, groups.columns = 2, groups.alignment = alignment;
  groups.rows = std::max(1, start - draw(alignment) + behind);
  groups.rows = std::max(groups.rows, ends.back());
  Owners owners(1, std::vector<int>(groups.rows, -1));
  for (int group = 0; group < count; ++group) {
    std::fill(owners[0].begin() + (ends[group] - counts[group]), owners[0].begin() + ends[group], group);
  }
  what_of = "ends";
  groups.grouping = TILEWRIGHT_GROUPING_ENDS, groups.layout = ends.data();
  check<kRows>(groups, owners);

  what_of = "empty groups end where the one before does, and D with the last row";
  std::vector<int> repeated = ends;
  for (int group = 1; group < count; ++group) {
    repeated[group] = counts[group] == 0 ? repeated[group - 1] : ends[group];
  }
  Groups shorter = groups;
  shorter.rows = std::max(1, repeated.back() + (behind > 0 ? draw(alignment) : 0));
  shorter.layout = repeated.data();
  Owners rest = owners;
  rest[0].resize(shorter.rows, -1);
  check<kRows>(shorter, rest);

  what_of = "ends before the first row";
  std::vector<int> below = ends;
  for (int group = 0; group < count && ends[group] == 0; ++group) {
    below[group] = -1 - draw(1000);
  }
  groups.layout = below.data();
  check<kRows>(groups, owners);

  what_of = "index";
  std::vector<int> index = owners[0];
  for (int& group : index) {
    group = group < 0 ? (draw(2) ? -1 : count + draw(5)) : group;  // a number that is no group's is padding
  }
  groups.grouping = TILEWRIGHT_GROUPING_ROW_INDEX, groups.layout = index.data();
  check<kRows>(groups, owners);

  if (count <= 7) {
    what_of = "index in any order";
    for (int i = 0; i < groups.rows; ++i) {
      index[i] = draw(count + 1) - 1;
    }
    groups.layout = index.data();
    check<kRows>(groups, Owners(1, index));
  }

  what_of = "counts";
  groups.rows = std::max(1, most);
  Owners own(count, std::vector<int>(groups.rows, -1));
  for (int group = 0; group < count; ++group) {
    std::fill(own[group].begin(), own[group].begin() + counts[group], group);
  }
  groups.grouping = TILEWRIGHT_GROUPING_ROWS_VALID, groups.layout = counts.data();
  check<kRows>(groups, own);
}

// Parts of k: each tile of each group's D once, and its part as far as it goes.
template <int kRows>
void check_parts(int count, int unit, int down) {
  what_of = "parts";
  std::vector<int> sizes, starts;
  int k = 0;
  for (int group = 0; group < count; ++group) {
    sizes.push_back(draw(3) == 0 ? 0 : unit * draw(5));
    starts.push_back(k);
    k += sizes.back();
  }
  Groups groups{};
  groups.grouping = TILEWRIGHT_GROUPING_K_SIZES;
  groups.groups = count, groups.rows = 2 * kRows * down + 1, groups.columns = 2, groups.swizzle = 1;
  groups.k = k, groups.k_unit = unit;
  int const rows = (groups.rows + kRows * down - 1) / (kRows * down);
  groups.raster = sm90::Raster(rows, groups.columns, count, 1, true);
  auto given = sizes;
  for (int& size : given) {
    size = size == 0 && draw(2) ? -1 - draw(1000) : size + draw(unit);  // no whole units, or less than nothing
  }
  given.back() += 3 * unit + 1;  // more than there is
  groups.layout = given.data();
  std::vector<int> visits(size_t(count) * rows * down * groups.columns);
  for (Tile const& tile : tiles_of<kRows>(groups, shares(groups, 5, 2), down)) {
    int const group = tile.group;
    expect(tile.matrix == group && tile.row % kRows == 0, "matrix", tile.matrix, group, tile.row);
    expect(tile.k_tiles.count * unit == sizes[group], "units", group, tile.k_tiles.count, sizes[group]);
    expect(tile.k_tiles.first * unit == starts[group], "first unit", group, tile.k_tiles.first, starts[group]);
    expect(tile.is(Tile::kEvery) && !tile.is(Tile::kPadding), "all rows", group, tile.row, 0);
    uint32_t row_slices = 0;
    for (int row = tile.row; row < std::min(tile.row + kRows, groups.rows); ++row) {
      row_slices |= 1u << (row - tile.row) / 64;
    }
    expect(tile.row_slices == row_slices, "other 64 rows have work", tile.row, int(tile.row_slices), int(row_slices));
    ++visits[(size_t(group) * rows * down + tile.row / kRows) * groups.columns + tile.column];
  }
  for (int times : visits) {
    expect(times == 1, "visits", count, unit, times);
  }
  for (int group = 0; group < count; ++group) {  // as a warp of a form reads it, without a queue
    run(32, [&] {
      auto const range =
          unit == 64 ? grouped_gemm::k_range<64>(groups, group) : grouped_gemm::k_range<128>(groups, group);
      expect(range.count * unit == sizes[group], "units of a form", group, range.count, sizes[group]);
      bool const begins = range.first * unit == starts[group];
      expect(begins || range.count == 0, "first unit of a form", group, range.first, starts[group]);
    });
  }
}

// Tiles that a warp computes without a queue: those that the scheduler would send, also when a warp reads a tile again.
// Clusters have `down` thread blocks.
template <int kRows>
void check_known(int count, int down) {
  what_of = "known tiles";
  Groups groups{};
  groups.grouping = TILEWRIGHT_GROUPING_NONE;
  groups.groups = count, groups.rows = 2 * kRows + 1 + draw(kRows), groups.columns = 1 + draw(5);
  for (int late : {0, 2}) {
    int const rows = kRows * down;
    groups.raster = sm90::Raster((groups.rows + rows - 1) / rows, groups.columns, count, 1 + draw(3), late == 0);
    auto const of = shares(groups, 5, late);
    std::vector<Tile> const expected = tiles_of<kRows>(groups, of, down);
    groups.shares = of;
    size_t place = 0;
    for (int cta = 0; cta < of.clusters * down; ++cta) {
      grouped_gemm::KnownTiles<kRows> known(groups, cta / down, down, cta % down);
      Tile tile{}, next{}, again{};
      for (bool more = known.wait(tile); more && place < expected.size(); tile = next, ++place) {
        known.read(again);
        Tile const& sent = expected[place];
        for (Tile const& own : {tile, again}) {
          expect(own.row == sent.row && own.column == sent.column, "another tile", cta, own.row, sent.row);
          expect(own.matrix == sent.matrix && own.group == sent.group, "another matrix", cta, own.matrix, sent.matrix);
          expect(own.row_slices == sent.row_slices && own.flags == sent.flags, "other rows", cta, own.row, 0);
        }
        more = known.pop_and_wait(tile, next);
      }
    }
    expect(place == expected.size(), "tiles", count, int(place), int(expected.size()));
  }
}

// Columns of D that a head's gap leaves out.
void check_heads() {
  what_of = "heads";
  for (int left : {1, 8, 128}) {
    for (int right : {0, 1, 64}) {
      for (int gap : {1, 64, 100}) {
        tilewright::grouped_gemm::Heads const heads{sm90::Divisor(left + right), right, gap, true};
        for (int n = 0; n < 5 * (left + right); ++n) {
          int const head = n / (left + right), within = n % (left + right);
          int const expected = head * (left + gap + right) + within + (within >= left ? gap : 0);
          expect(heads.column(n) == expected, "a column", n, heads.column(n), expected);
        }
      }
    }
  }
  expect(tilewright::grouped_gemm::Heads{}.column(5) == 5, "no heads", 5, 0, 0);
}

}  // namespace

// Words: heads; groups COUNT ROWS MOST ALIGNMENT, of tiles with so many rows and groups with at most that many; known
// COUNT ROWS DOWN; or parts COUNT ROWS DOWN.
int main(int, char** words) {
  if (std::strcmp(words[1], "heads") == 0) {
    check_heads();
    return failures != 0;
  }
  auto const number = [&](int i) { return std::atoi(words[i]); };
  int const count = number(2), rows = number(3);
  state = unsigned(count * 1000 + rows);
  if (std::strcmp(words[1], "groups") == 0) {
    auto const check = rows == 16    ? check_groups<16>
                       : rows == 64  ? check_groups<64>
                       : rows == 128 ? check_groups<128>
                                     : check_groups<256>;
    for (int round = 0; round < (count <= 7 ? 4 : 1); ++round) {  // few groups: also such that the last are empty
      for (int behind : {0, 150}) {
        check(count, number(4), number(5), behind);
      }
    }
  } else if (std::strcmp(words[1], "known") == 0) {
    auto const check = rows == 64 ? check_known<64> : check_known<128>;
    check(count, number(4));
  } else {
    auto const check = rows == 64 ? check_parts<64> : check_parts<128>;
    check(count, rows, number(4));
  }
  return failures != 0;
}

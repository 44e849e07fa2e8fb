// Tries on the host how the kernels of `mqa_logits` share their work: see test_mqa_work.py.
#include "host_threads.hpp"

#include <string>

#include "tilewright/mqa_logits/schedule.hpp"
#include "tilewright/mqa_logits/work.hpp"

using namespace tilewright::mqa_logits;

namespace {

int failures = 0;

void expect(bool holds, char const* what, int a, int b, int c) {
  if (!holds && ++failures < 10) {
    std::printf("%s: %d %d %d\n", what, a, b, c);
  }
}

unsigned state = 1;
int random(int below) {
  state = state * 1664525u + 1013904223u;
  return int((state >> 8) % unsigned(below));
}

// Lengths of tokens; `next_n` of each sequence, or, with indices, runs of tokens.
struct Batch {
  int next_n;
  std::vector<int> lengths, indices;

  int tokens() const { return int(lengths.size()); }
  int const* given() const { return indices.empty() ? nullptr : indices.data(); }
};

// What is worked on together, as [first token, end): sequences, or up to kGroup tokens of one.
std::vector<std::pair<int, int>> groups(Batch const& batch) {
  std::vector<std::pair<int, int>> found;
  for (int first = 0; first < batch.tokens();) {
    int end = first + batch.next_n;
    if (!batch.indices.empty()) {
      for (end = first + 1; end < batch.tokens() && end < first + kGroup; ++end) {
        if (batch.indices[end] != batch.indices[first]) {
          break;
        }
      }
    }
    found.emplace_back(first, end);
    first = end;
  }
  return found;
}

std::vector<int2> schedule(Batch const& batch, int blocks) {
  std::vector<int> out(2 * (blocks + 1), -1);
  ScheduleParams const params{batch.lengths.data(),          batch.given(), out.data(), 2,
                              batch.tokens() / batch.next_n, batch.next_n,  blocks};
  run(64, [&] { ScheduleKernel<64, false>{}(params, nullptr); });
  std::vector<int2> found;
  for (int b = 0; b <= blocks; ++b) {
    found.push_back({out[2 * b], out[2 * b + 1]});
  }
  return found;
}

// By the definition: block b begins at split b * total / blocks of all.
void schedules_are_even(Batch const& batch, int blocks) {
  auto const found = schedule(batch, blocks);
  std::vector<int2> splits;
  for (auto const [first, end] : groups(batch)) {
    int const longest = *std::max_element(batch.lengths.begin() + first, batch.lengths.begin() + end);
    for (int i = 0; i < (longest + kSplit - 1) / kSplit; ++i) {
      splits.push_back({batch.indices.empty() ? first / batch.next_n : first, i});
    }
  }
  int const all = batch.tokens() / batch.next_n;
  for (int64_t b = 0; b <= blocks; ++b) {
    size_t const begins = b * int64_t(splits.size()) / blocks;
    int2 const wanted = begins < splits.size() ? splits[begins] : int2{all, 0};
    expect(found[b].x == wanted.x && found[b].y == wanted.y, "schedule", int(b), found[b].x, found[b].y);
  }
}

// `visits[query][key]`, of the keys of an item that its queries look at; every lane has to agree on the item.
template <int Queries, int Tile>
void visit(Item const& item, std::vector<std::vector<int>>& visits) {
  for (long value : {long(item.query), long(item.key), long(item.tiles), long(item.table_row)}) {
    auto const found = gather(value);
    expect(std::count(found.begin(), found.end(), value) == 32, "lanes differ", item.query, item.key, item.tiles);
  }
  int const lane = threadIdx.x % 32;
  auto const starts = gather(item.mine.start), ends = gather(item.mine.end);
  expect(starts[lane] == starts[lane % Queries], "ranges of lanes", item.query, lane, Queries);
  if (lane < Queries) {
    int const end = std::min(item.mine.end, item.key + item.tiles * Tile);
    for (int key = std::max(item.mine.start, item.key); key < end; ++key) {
      if (item.query + lane < int(visits.size()) && key < int(visits[item.query + lane].size())) {
        ++visits[item.query + lane][key];
      } else {
        expect(false, "no query, or no key", item.query, lane, key);
      }
    }
  }
}

template <int Queries, int Tile>
void pages_are_read_once(Batch const& batch, int blocks, bool per_token) {
  int const width = 1000, keys = 64 * 15;  // columns of the logits, and what the table has room for
  auto const plan = schedule(batch, blocks);
  std::vector<int> last;
  for (int i = batch.next_n - 1; i < batch.tokens(); i += batch.next_n) {
    last.push_back(batch.lengths[i]);
  }
  Logits const logits{nullptr, width, batch.tokens(), width, false};
  Paged const work{per_token ? batch.lengths.data() : last.data(),
                   batch.given(),
                   plan.data(),
                   nullptr,
                   0,
                   batch.tokens(),
                   batch.next_n,
                   keys / 64,
                   64,
                   per_token};
  std::vector<std::vector<int>> visits(batch.tokens(), std::vector<int>(width, 0));
  for (int b = 0; b < blocks; ++b) {
    blockIdx.x = b;
    run(32, [&] {
      work.for_each<Queries, Tile>(logits, [&](Item const& item) {
        int const row = batch.indices.empty() ? item.query / batch.next_n : item.query;
        bool const own =
            batch.indices.empty() ? item.table_row == row : batch.indices[item.table_row] == batch.indices[item.query];
        expect(own, "row of the table", item.query, item.table_row, row);
        expect(item.key % kSplit == 0 && item.tiles > 0, "item", item.query, item.key, item.tiles);
        visit<Queries, Tile>(item, visits);
      });
    });
  }
  for (int i = 0; i < batch.tokens(); ++i) {
    for (int key = 0; key < width; ++key) {
      int const end = std::min(batch.lengths[i], std::min(width, keys));
      expect(visits[i][key] == (key < end), "paged visits", i, key, visits[i][key]);
    }
  }
}

template <int Queries, int Tile>
void ranges_are_read_once(int queries, int keys, int parts, int blocks, bool compressed) {
  std::vector<int> starts, ends;
  for (int i = 0; i < queries; ++i) {
    bool const beyond = i % 5 == 1;  // the last keys, and keys that there are not
    starts.push_back(beyond ? keys - 50 : random(keys + 20) - 10);
    ends.push_back(i % 5 == 0 ? starts.back() : beyond ? keys + 5 : random(keys + 20) - 10);
  }
  int const width = compressed ? 200 : keys;
  Logits const logits{nullptr, width, queries, width, false};
  Ragged const work{starts.data(), ends.data(), queries, keys, parts, compressed};
  std::vector<std::vector<int>> visits(queries, std::vector<int>(keys, 0));
  gridDim.x = blocks;
  for (int b = 0; b < blocks; ++b) {
    blockIdx.x = b;
    run(32, [&] {
      work.for_each<Queries, Tile>(logits, [&](Item const& item) {
        expect(item.tiles > 0 && item.key % 8 == 0, "item", item.query, item.key, item.tiles);
        visit<Queries, Tile>(item, visits);
      });
    });
  }
  for (int i = 0; i < queries; ++i) {
    int const start = std::max(starts[i], 0), end = std::min(ends[i], compressed ? start + width : keys);
    for (int key = 0; key < keys; ++key) {
      expect(visits[i][key] == (key >= start && key < end), "ragged visits", i, key, visits[i][key]);
    }
  }
}

// The entries of a row of a table, from page `first` on, `step` pages at a time as tiles have them.
void pages_are_those_of_the_table(int pages, int first, int step) {
  constexpr int kRows = 3, kRow = 1;
  int const ld = pages + 5;
  std::vector<int32_t> table(kRows * ld);
  for (int32_t& entry : table) {
    entry = random(1 << 20);
  }
  Paged work{};
  work.table = table.data(), work.ld_table = ld, work.pages = pages;
  run(32, [&] {
    Pages walk(work, kRow, first);
    for (int page = first; page < pages; page += step) {
      for (int i = page; i < std::min(page + step, pages); ++i) {
        int const found = walk.at(i);
        expect(found == table[kRow * ld + i], "an entry of the table", pages, first, i);
      }
    }
  });
}

Batch batch_of(int sequences, int next_n, int longest) {
  Batch made{next_n, {}, {}};
  for (int i = 0; i < sequences; ++i) {
    int const length = i % 4 == 1 ? 0 : i % 7 == 3 ? longest : random(longest + 1);
    for (int j = 0; j < next_n; ++j) {
      made.lengths.push_back(std::max(0, length - next_n + 1 + j));
    }
  }
  return made;
}

Batch runs_of(int sequences, int longest) {
  Batch made{1, {}, {}};
  for (int i = 0; i < sequences; ++i) {
    for (int j = random(10); j >= 0; --j) {
      made.lengths.push_back(random(8) == 0 ? 0 : random(longest + 1));
      made.indices.push_back(i);
    }
  }
  return made;
}

}  // namespace

// Words: schedules, ranges or table; or pages, and a number of thread blocks.
int main(int, char** words) {
  std::string const what = words[1];
  if (what == "schedules") {
    for (int blocks : {1, 3, 7, 66, 132}) {
      for (int sequences : {1, 5, 63, 64, 65, 200}) {
        schedules_are_even(batch_of(sequences, 1, 5000), blocks);
        schedules_are_even(batch_of(sequences, 3, 900), blocks);
        schedules_are_even(runs_of(sequences, 2000), blocks);
      }
      schedules_are_even(Batch{1, std::vector<int>(70, 0), {}}, blocks);
    }
  } else if (what == "pages") {
    int const blocks = std::stoi(words[2]);
    for (int next_n : {1, 2, 3, 6}) {
      Batch const batch = batch_of(9, next_n, 1200);
      pages_are_read_once<1, kTile>(batch, blocks, true);
      pages_are_read_once<4, 2 * kTile>(batch, blocks, false);
      pages_are_read_once<8, kTile>(batch, blocks, next_n % 2 == 0);
    }
    Batch const runs = runs_of(9, 1200);
    pages_are_read_once<1, kTile>(runs, blocks, true);
    pages_are_read_once<2, 2 * kTile>(runs, blocks, true);
    pages_are_read_once<8, kTile>(runs, blocks, true);
  } else if (what == "table") {
    for (int pages : {1, 31, 32, 33, 64, 65, 200}) {
      for (int first : {0, 1, 31, 32, 63}) {
        for (int step : {1, 2, 4}) {
          pages_are_those_of_the_table(pages, first, step);
        }
      }
    }
  } else {
    for (int blocks : {1, 4}) {
      for (int parts : {1, 3}) {
        ranges_are_read_once<1, kTile>(23, 700, parts, blocks, false);
        ranges_are_read_once<4, 2 * kTile>(23, 700, parts, blocks, true);
        ranges_are_read_once<8, kTile>(23, 65, parts, blocks, false);
      }
    }
  }
  return failures != 0;
}

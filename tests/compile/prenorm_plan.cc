// Tries how `hc_prenorm` shares its work out, on the host: see test_prenorm_plan.py.
#define __device__
#define __host__
#define __forceinline__ inline

#include "tilewright/hc_prenorm/plan.hpp"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <vector>

using namespace tilewright::hc_prenorm;

namespace {

int failures = 0;

struct Segment {
  int cta, first, last;
};

// Every block of every tile once, by CTAs in the order of k; who adds a tile up takes all of its segments.
void check(int m_tiles, int blocks, int splits, int sms) {
  Plan const plan(m_tiles, blocks, splits, sms);
  auto const expect = [&](bool holds, char const* what) {
    if (!holds && ++failures < 10) {
      std::printf("%s: %d x %d blocks in %d splits on %d SMs\n", what, m_tiles, blocks, splits, sms);
    }
  };
  expect(plan.ctas >= 1 && plan.ctas <= sms, "thread blocks");
  std::map<int, std::vector<Segment>> of_tile;
  int most = 0, least = 1 << 30;
  for (int cta = 0; cta < plan.ctas; ++cta) {
    int mine = 0, begun = 0, ended = 0;
    for_each_segment(plan, cta, [&](int tile, int first, int last) {
      of_tile[tile].push_back({cta, first, last});
      mine += last - first;
      begun += first > 0;
      ended += first == 0 && last < plan.blocks_of(tile % splits);
    });
    expect(begun <= 1 && ended <= 1, "room for sums that are apart");
    most = mine > most ? mine : most, least = mine < least ? mine : least;
  }
  expect(!plan.cut || most - least <= 1, "even shares");
  expect(int(of_tile.size()) == m_tiles * splits, "tiles");
  int end = 0;
  for (int split = 0; split < splits; ++split) {
    expect(plan.first_block(split) == end && plan.blocks_of(split) >= plan.blocks_of(splits - 1), "splits");
    end += plan.blocks_of(split);
  }
  expect(end == blocks, "blocks");
  for (auto const& [tile, segments] : of_tile) {
    int at = 0;
    for (Segment const& one : segments) {
      expect(one.first == at && one.last >= one.first, "the order of k");
      at = one.last;
    }
    expect(at == plan.blocks_of(tile % splits), "the end of k");
    if (!plan.cut) {
      expect(segments.size() == 1, "whole tiles");
      continue;
    }
    Sharers const sharers(plan, tile);
    bool const all = segments.front().cta == sharers.first && segments.back().cta == sharers.last &&
                     int(segments.size()) == sharers.last - sharers.first + 1;
    expect(all || at == 0, "whose sums are added up");
    expect(segments.size() == 1 || segments.front().first == 0, "where the first one's sums are");
  }
}

}  // namespace

// With four numbers: prints the plan, as cost.py's `shares` has it.
int main(int count, char** given) {
  if (count == 5) {
    Plan const plan(std::atoi(given[1]), std::atoi(given[2]), std::atoi(given[3]), std::atoi(given[4]));
    std::printf("%d %d\n", plan.ctas, int(plan.cut));
    return 0;
  }
  for (int m_tiles : {1, 2, 3, 31, 32, 47, 64, 128, 131, 132, 133, 264}) {
    for (int blocks : {1, 2, 7, 16, 112, 120, 448}) {
      for (int splits : {1, 2, 3, 16, 130}) {
        for (int sms : {1, 7, 64, 132, 188}) {
          check(m_tiles, blocks, splits, sms);
        }
      }
    }
  }
  return failures != 0;
}

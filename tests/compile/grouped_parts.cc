// Prints the parts of k that groups have, as `grouped_gemm/tcgen05_parts.hpp` computes them: a line for each, with where
// its factors begin; then a line for each atom of factors: tile of rows, unit of k, place.
//
// Arguments: rows, k, and a size for each group.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tilewright/grouped_gemm/parts.hpp"

using namespace tilewright::grouped_gemm;

int main(int count, char** words) {
  if (count < 4) {
    return 2;
  }
  std::vector<int32_t> sizes;
  for (int i = 3; i < count; ++i) {
    sizes.push_back(std::atoi(words[i]));
  }
  int const rows = std::atoi(words[1]);
  tilewright_grouped_gemm_args args{};
  args.k = std::atoi(words[2]);
  args.group_k = sizes.data();
  args.groups = static_cast<int32_t>(sizes.size());
  for (int group = 0; group < args.groups; ++group) {
    Part const part = part_of(args, group);
    std::printf("part %d %d %lld\n", part.begin, part.units, static_cast<long long>(factors_of_part(rows, part)));
    for (int tile = 0; tile < row_tiles(rows); ++tile) {
      for (int unit = part.begin; unit < part.begin + part.units; ++unit) {
        std::printf("atom %d %d %lld\n", tile, unit, static_cast<long long>(place_of_atom(rows, tile, part, unit)));
      }
    }
  }
  return 0;
}

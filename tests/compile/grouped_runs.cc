// Prints the runs of groups, as `grouped_gemm/tcgen05.hpp` computes them: a line for each, with its padding.
//
// Arguments: grouping (ends or rows_valid), m, row_alignment, zero_padding, and a number for each group.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tilewright/grouped_gemm/runs.hpp"

using namespace tilewright::grouped_gemm;

int main(int count, char** words) {
  if (count < 6) {
    return 2;
  }
  std::vector<int32_t> numbers;
  for (int i = 5; i < count; ++i) {
    numbers.push_back(std::atoi(words[i]));
  }
  tilewright_grouped_gemm_args args{};
  bool const ends = std::strcmp(words[1], "ends") == 0;
  args.grouping = ends ? TILEWRIGHT_GROUPING_ENDS : TILEWRIGHT_GROUPING_ROWS_VALID;
  args.group_ends = args.rows_valid = numbers.data();
  args.m = std::atoi(words[2]);
  args.row_alignment = std::atoi(words[3]);
  args.zero_padding = std::atoi(words[4]);
  args.groups = static_cast<int32_t>(numbers.size());
  for (int i = 0; i < runs_of(args); ++i) {
    Padding padding{};
    Run const run = run_of_group(args, i, padding);
    std::printf("%d %d %d %d %d %d\n", run.matrix, run.begin, run.rows, run.group, padding.begin, padding.end);
  }
  // Where the factors of rows lie in an atom, and the bytes of 300 rows of 200 columns.
  for (int row = 0; row < kScaleRows; ++row) {
    std::printf("%d ", place_in_atom(row));
  }
  std::printf("%d\n", static_cast<int>(scale_bytes(300, 200)));
  // The factors of a row's atoms, for words of 32 and of 128 of k that count up from 1, two numbers apart.
  std::vector<uint32_t> lines(20);
  for (int line = 0; line < 10; ++line) {
    lines[2 * line] = 0x04030201u + 0x04040404u * line;
  }
  for (int block : {32, 128}) {
    for (int atom = 0; atom < 5; ++atom) {
      std::printf("%u ", factors_of_atom(lines.data(), 2, atom, 18, block));
    }
  }
  std::printf("\n");
  return 0;
}

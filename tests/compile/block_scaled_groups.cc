// Prints where the scale factors of groups' rows of A begin, in bytes, as `blockscaled_grouped_gemm/groups.hpp` says,
// and whether a call is possible.
//
// Arguments: m, k, block, row_alignment, zero_padding, how many groups there are, their ends, and where their scale
// factors begin, if that is said.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tilewright/blockscaled_grouped_gemm/groups.hpp"

using namespace tilewright::blockscaled_grouped_gemm;

int main(int count, char** words) {
  std::vector<int32_t> numbers;
  for (int i = 1; i < count; ++i) {
    numbers.push_back(std::atoi(words[i]));
  }
  if (numbers.size() < 6) {
    return 2;
  }
  Call call{};
  call.m = numbers[0], call.k = numbers[1];
  int const block = numbers[2];
  call.row_alignment = numbers[3], call.zero_padding = numbers[4], call.groups = numbers[5];
  call.grouping = TILEWRIGHT_BLOCKSCALED_GROUPING_ENDS;
  call.group_ends = numbers.data() + 6;
  call.scale_begins = int(numbers.size()) > 6 + call.groups ? call.group_ends + call.groups : nullptr;
  auto const groups = as_groups(call);
  for (int i = 0; i < tilewright::grouped_gemm::runs_of(groups); ++i) {
    tilewright::grouped_gemm::Padding padding{};
    auto const run = run_of_group(groups, i, padding);
    std::printf("%d %d %d %d %lld\n", run.begin, run.rows, padding.begin, padding.end,
                static_cast<long long>(offset_of_a(groups, caller(call), run, block)));
  }
  call.grouping = TILEWRIGHT_BLOCKSCALED_GROUPING_ROWS_VALID;
  call.row_alignment = 128, call.zero_padding = 0;
  tilewright::grouped_gemm::Run const own{2, 0, 1, 2};
  std::printf("%d %d %d %lld %d\n", possible(call), as_groups(call).zero_padding, checked(call).row_alignment,
              static_cast<long long>(offset_of_a(as_groups(call), Caller{}, own, block)), as_groups(call).grouping);
  return 0;
}

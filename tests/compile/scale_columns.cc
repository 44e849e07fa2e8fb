// Runs the kernel of `scale_columns` on the host, with groups that no int's sum holds: see
// test_group_sums.py.
#include "host_gpu.hpp"

inline uint32_t __float_as_uint(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}

#include "tilewright/scale_columns/kernel.hpp"

using host::fault;
using host::random;

namespace {

constexpr int kRows = 70, kColumns = 41, kMargin = 4096;
constexpr uint32_t kUntouched = 0x5A5A5A5A;

struct Groups {
  int32_t grouping;
  int alignment, block;
  std::vector<int32_t> values;
};

// The element of k at which each group begins, and that behind its last.
std::vector<std::pair<int64_t, int64_t>> ranges(Groups const& groups) {
  std::vector<std::pair<int64_t, int64_t>> found;
  int64_t begin = 0;
  for (int64_t const value : groups.values) {
    bool const sizes = groups.grouping == TILEWRIGHT_SCALE_GROUPS_K_SIZES;
    int64_t const end = sizes ? begin + std::max<int64_t>(value, 0) : value;
    found.emplace_back(begin, std::max(begin, end));
    begin = sizes ? end : (std::max<int64_t>(end, 0) + groups.alignment - 1) / groups.alignment * groups.alignment;
  }
  return found;
}

// Exponents of `columns` from `first` on of a row: those that there are.
uint32_t word(float const* row, int64_t first, int64_t end) {
  uint32_t found = 0;
  for (int64_t column = first; column < std::min({first + 4, end, int64_t(kColumns)}); ++column) {
    found |= (__float_as_uint(row[column]) >> 23 & 0xff) << 8 * (column - first);
  }
  return found;
}

std::vector<uint32_t> wanted(Groups const& groups, float const* scales, int lines, int padded) {
  std::vector<uint32_t> out(size_t(lines) * padded, 0);
  auto const found = ranges(groups);
  if (groups.grouping == TILEWRIGHT_SCALE_GROUPS_ROW_ENDS) {
    for (auto const [begin, end] : found) {
      for (int64_t row = begin; row < std::min<int64_t>(end, kRows); ++row) {
        for (int line = 0; line < lines; ++line) {
          out[line * padded + row] = word(scales + row * kColumns, line * 4, kColumns);
        }
      }
    }
    return out;
  }
  int64_t line = 0, column = 0;
  for (auto const [begin, end] : found) {
    int64_t const columns = (end - begin + groups.block - 1) / groups.block;
    for (int64_t at = 0; at < columns && line < lines; at += 4, ++line) {
      for (int row = 0; row < kRows; ++row) {
        out[line * padded + row] = word(scales + row * kColumns, column + at, column + columns);
      }
    }
    column += columns;
  }
  return out;
}

void compare(Groups const& groups) {
  using Kernel = tilewright::scale_columns::Kernel<true>;
  // What lies about the scales has other exponents.
  std::vector<float> memory(kMargin + kRows * kColumns + kMargin, 3e38f);
  float* const scales = memory.data() + kMargin;
  for (int i = 0; i < kRows * kColumns; ++i) {
    scales[i] = std::ldexp(1.0f, int(random(200)) - 100);
  }
  bool const rows = groups.grouping == TILEWRIGHT_SCALE_GROUPS_ROW_ENDS;
  int const count = int(groups.values.size()), padded = (kRows + 3) / 4 * 4, lines = (kColumns + 3) / 4 + !rows * count;
  std::vector<uint32_t> out(size_t(lines) * padded, kUntouched);
  tilewright_scale_columns_args args{};
  args.m = kRows, args.columns = kColumns, args.batch = 1, args.lines = lines;
  args.scales = scales, args.groups = groups.values.data(), args.out = out.data();
  args.ld_scales = kColumns, args.ld_out = padded, args.row_major = args.packed = 1;
  args.grouping = groups.grouping, args.group_count = count;
  args.alignment = groups.alignment, args.block = groups.block;
  Kernel::Params params;
  tilewright::LaunchShape shape{};
  if (!Kernel::can_implement(args) || Kernel::make_params(args, params, shape) != cudaSuccess) {
    fault("refused", count);
    return;
  }
  for (blockIdx.x = 0; blockIdx.x < int(shape.grid.x); ++blockIdx.x) {
    run(Kernel::kThreads, [&] { Kernel{}(params, nullptr); });
  }
  auto const right = wanted(groups, scales, lines, padded);
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i] != right[i]) {
      fault("a word of a line, of a row", long(i) / padded, long(i) % padded);
    }
  }
}

}  // namespace

int main() {
  constexpr auto kRowEnds = TILEWRIGHT_SCALE_GROUPS_ROW_ENDS;
  constexpr auto kSizes = TILEWRIGHT_SCALE_GROUPS_K_SIZES, kEnds = TILEWRIGHT_SCALE_GROUPS_K_ENDS;
  constexpr int kMost = INT32_MAX;
  for (int block : {1, 32, 128}) {
    compare({kSizes, 128, block, {5 * block, 0, 9 * block - block / 2, block, 26 * block}});
    compare({kSizes, 128, block, {5 * block, 3 * block, kMost, block, kMost}});
    compare({kSizes, 128, block, {kMost - block, 128}});
    compare({kSizes, 128, block, {-5, kMost - 7, -kMost}});
    std::vector<int32_t> many(70, kMost - 200);
    compare({kSizes, 128, block, many});
    many[0] = 6 * block, many[40] = 0;
    compare({kSizes, 128, block, many});
    compare({kEnds, 160, block, {7 * block, 160 * block + 3 * block, 320 * block}});
    compare({kEnds, 160, block, {7 * block, kMost, kMost}});
    compare({kEnds, 160, block, {-3, kMost - 1, 5}});
  }
  compare({kRowEnds, 32, 128, {3, 40, 70}});
  compare({kRowEnds, 32, 128, {3, kMost}});
  compare({kRowEnds, 32, 128, {-1, kMost - 40, kMost}});
  return host::faults != 0;
}

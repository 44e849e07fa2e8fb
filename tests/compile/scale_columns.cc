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

std::vector<uint32_t> wanted(Groups const& groups, bool packed, float const* scales, int lines, int padded) {
  std::vector<uint32_t> out(size_t(lines) * padded, 0);
  auto const found =
      groups.grouping == TILEWRIGHT_SCALE_GROUPS_NONE ? decltype(ranges(groups)){{0, kRows}} : ranges(groups);
  if (groups.grouping == TILEWRIGHT_SCALE_GROUPS_NONE || groups.grouping == TILEWRIGHT_SCALE_GROUPS_ROW_ENDS) {
    for (auto const [begin, end] : found) {
      for (int64_t row = begin; row < std::min<int64_t>(end, kRows); ++row) {
        for (int line = 0; line < lines; ++line) {
          float const* const columns = scales + row * kColumns;
          out[line * padded + row] = packed ? word(columns, line * 4, kColumns) : __float_as_uint(columns[line]);
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

// How scales lie: rows, or columns (M-major), are contiguous; words of four columns, or FP32 as it is.
struct Layout {
  bool row_major = true, packed = true;
  int batch = 1;
};

void compare(Groups const& groups, Layout const& layout = {}) {
  using Kernel = tilewright::scale_columns::Kernel<true>;
  // What lies about the scales of a matrix has other exponents.
  constexpr int kGap = 3, kMatrix = (kRows + kGap) * (kColumns + kGap);
  std::vector<float> memory(kMargin + layout.batch * kMatrix + kMargin, 3e38f);
  int const ld = (layout.row_major ? kColumns : kRows) + kGap;
  int const count = int(groups.values.size()), padded = (kRows + 3) / 4 * 4;
  bool const along_k = count > 0 && groups.grouping != TILEWRIGHT_SCALE_GROUPS_ROW_ENDS;
  int const lines = layout.packed ? (kColumns + 3) / 4 + along_k * count : kColumns;
  std::vector<uint32_t> right;
  for (int matrix = 0; matrix < layout.batch; ++matrix) {
    std::vector<float> scales(kRows * kColumns);
    for (int i = 0; i < kRows * kColumns; ++i) {
      int const row = i / kColumns, column = i % kColumns;
      scales[i] = std::ldexp(1.0f + float(random(2)) / 2, int(random(200)) - 100);
      memory[kMargin + matrix * kMatrix + (layout.row_major ? row * ld + column : column * ld + row)] = scales[i];
    }
    auto const own = wanted(groups, layout.packed, scales.data(), lines, padded);
    right.insert(right.end(), own.begin(), own.end());
  }
  int const stride = lines * padded;  // of a matrix's lines
  std::vector<uint32_t> out(size_t(layout.batch) * stride, kUntouched);
  tilewright_scale_columns_args args{};
  args.m = kRows, args.columns = kColumns, args.batch = layout.batch, args.lines = lines;
  args.scales = memory.data() + kMargin, args.groups = groups.values.data(), args.out = out.data();
  args.batch_stride_scales = kMatrix, args.batch_stride_out = stride;
  args.ld_scales = ld, args.ld_out = padded, args.row_major = layout.row_major, args.packed = layout.packed;
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
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i] != right[i]) {
      fault("a word of a line, of a row", long(i) / padded, long(i) % padded);
    }
  }
}

void compare_groups(bool row_major) {
  constexpr auto kRowEnds = TILEWRIGHT_SCALE_GROUPS_ROW_ENDS;
  constexpr auto kSizes = TILEWRIGHT_SCALE_GROUPS_K_SIZES, kEnds = TILEWRIGHT_SCALE_GROUPS_K_ENDS;
  constexpr int kMost = INT32_MAX;
  Layout const layout{row_major};
  for (int block : {1, 32, 128}) {
    compare({kSizes, 128, block, {5 * block, 0, 9 * block - block / 2, block, 26 * block}}, layout);
    compare({kSizes, 128, block, {5 * block, 3 * block, kMost, block, kMost}}, layout);
    compare({kSizes, 128, block, {kMost - block, 128}}, layout);
    compare({kSizes, 128, block, {-5, kMost - 7, -kMost}}, layout);
    std::vector<int32_t> many(70, kMost - 200);
    compare({kSizes, 128, block, many}, layout);
    many[0] = 6 * block, many[40] = 0;
    compare({kSizes, 128, block, many}, layout);
    compare({kEnds, 160, block, {7 * block, 160 * block + 3 * block, 320 * block}}, layout);
    compare({kEnds, 160, block, {7 * block, kMost, kMost}}, layout);
    compare({kEnds, 160, block, {-3, kMost - 1, 5}}, layout);
  }
  for (bool packed : {true, false}) {
    compare({kRowEnds, 32, 128, {3, 40, 70}}, {row_major, packed});
    compare({kRowEnds, 32, 128, {3, kMost}}, {row_major, packed});
    compare({kRowEnds, 32, 128, {-1, kMost - 40, kMost}}, {row_major, packed});
  }
}

}  // namespace

// Words: groups or matrices, and what is contiguous, rows or columns.
int main(int, char** words) {
  bool const row_major = std::strcmp(words[2], "rows") == 0;
  if (std::strcmp(words[1], "groups") == 0) {
    compare_groups(row_major);
  } else {
    for (int batch : {1, 3}) {
      compare({TILEWRIGHT_SCALE_GROUPS_NONE, 0, 0, {}}, {row_major, true, batch});
      compare({TILEWRIGHT_SCALE_GROUPS_NONE, 0, 0, {}}, {row_major, false, batch});
    }
  }
  return host::faults != 0;
}

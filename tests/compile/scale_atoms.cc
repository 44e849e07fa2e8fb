// Runs the kernel of `scale_columns` that writes the 128x4 layout on the host, thread by thread, and compares every
// byte with what the layout's formula says: see test_group_sums.py.
#include "host_gpu.hpp"

struct uint4 {
  uint32_t x, y, z, w;
};

using std::min;

#include "tilewright/scale_columns/atom_kernel.hpp"

using host::fault;
using host::random;

namespace {

constexpr int kMargin = 4096, kGap = 3;
constexpr uint8_t kUntouched = 0x5A, kNan = 0xFF;

struct Case {
  int rows, k, block;
  bool words, squares, row_major;  // squares: a scale for 128 rows
  int batch;
};

int ceil_div(int x, int y) { return (x + y - 1) / y; }

// A scale, as its bits, and the byte that it means.
std::pair<uint32_t, uint8_t> draw() {
  switch (random(8)) {
    case 0:
      return {0x00400000, 0};  // 2^-127
    case 1:
      return {0, 0};  // 0
    case 2:
      return {0x7f800000, kNan};  // infinity
    case 3:
      return {1u << 31 | (1 + random(254)) << 23, kNan};  // below 0
    case 4:
      return {(1 + random(254)) << 23 | (1 + random(9)), kNan};  // no power of two
    default: {
      uint8_t const exponent = 1 + random(254);
      return {uint32_t(exponent) << 23, exponent};
    }
  }
}

void compare(Case const& given) {
  using Kernel = tilewright::scale_columns::AtomKernel<true>;
  int const per_column = given.block * (given.words ? 4 : 1);
  int const m = given.squares ? ceil_div(given.rows, 128) : given.rows, columns = ceil_div(given.k, per_column);
  int const blocks = ceil_div(given.k, 128) * 4, padded = ceil_div(given.rows, 128) * 128;  // of bytes, with padding
  int const matrix = (m + kGap) * (columns + kGap), ld = (given.row_major ? columns : m) + kGap;
  std::vector<uint32_t> memory(kMargin + given.batch * matrix + kMargin, 0x7f7fffff);
  std::vector<uint8_t> right(size_t(given.batch) * padded * blocks, 0), out(right.size() + 64, kUntouched);
  for (int b = 0; b < given.batch; ++b) {
    for (int line = 0; line < m; ++line) {
      for (int column = 0; column < columns; ++column) {
        uint8_t bytes[4];
        uint32_t bits = 0;
        for (int i = 0; i < (given.words ? 4 : 1); ++i) {
          auto const [value, byte] = draw();
          bits = given.words ? bits | uint32_t(bytes[i] = random(256)) << 8 * i : value;
          bytes[i] = given.words ? bytes[i] : byte;
        }
        memory[kMargin + b * matrix + (given.row_major ? line * ld + column : column * ld + line)] = bits;
        for (int row = given.squares ? line * 128 : line; row < (given.squares ? (line + 1) * 128 : line + 1); ++row) {
          int const bytes_of_column = per_column / 32;
          for (int i = 0; i < bytes_of_column && row < given.rows; ++i) {
            int const block = column * bytes_of_column + i;
            if (block < blocks) {
              size_t const at = size_t(row / 128) * (blocks / 4) + block / 4;
              right[size_t(b) * padded * blocks + at * 512 + row % 32 * 16 + row % 128 / 32 * 4 + block % 4] =
                  bytes[i / (given.block / 32)];
            }
          }
        }
      }
    }
  }
  tilewright_scale_columns_args args{};
  args.m = m, args.columns = columns, args.batch = given.batch, args.lines = given.rows;
  args.scales = reinterpret_cast<float const*>(memory.data() + kMargin), args.out = out.data();
  args.batch_stride_scales = matrix, args.batch_stride_out = padded * blocks;
  args.ld_scales = ld, args.ld_out = blocks, args.row_major = given.row_major, args.packed = given.words;
  args.grouping = TILEWRIGHT_SCALE_GROUPS_NONE, args.block = given.block;
  Kernel::Params params;
  tilewright::LaunchShape shape{};
  if (!Kernel::can_implement(args) || Kernel::make_params(args, params, shape) != cudaSuccess) {
    fault("refused", given.rows, given.k);
    return;
  }
  for (blockIdx.x = 0; blockIdx.x < int(shape.grid.x); ++blockIdx.x) {
    run(Kernel::kThreads, [&] { Kernel{}(params, nullptr); });
  }
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i] != (i < right.size() ? right[i] : kUntouched)) {
      fault("a byte of a row's words, of k", long(i), given.k);
    }
  }
}

// What no layout is made of.
void refuse() {
  using Kernel = tilewright::scale_columns::AtomKernel<true>;
  tilewright_scale_columns_args args{};
  args.m = 128, args.columns = 4, args.batch = 1, args.lines = 128, args.ld_out = 16, args.block = 128;
  if (!Kernel::can_implement(args)) {
    fault("a right call is refused");
  }
  auto const refused = [&](auto change) {
    tilewright_scale_columns_args wrong = args;
    change(wrong);
    if (Kernel::can_implement(wrong)) {
      fault("a wrong call is taken");
    }
  };
  refused([](auto& wrong) { wrong.block = 64; });
  refused([](auto& wrong) { wrong.lines = 129; });
  refused([](auto& wrong) { wrong.ld_out = 14; });
  refused([](auto& wrong) { wrong.grouping = TILEWRIGHT_SCALE_GROUPS_ROW_ENDS; });
  refused([](auto& wrong) { wrong.columns = 0; });
}

}  // namespace

int main() {
  refuse();
  for (int block : {32, 128}) {
    for (bool words : {false, true}) {
      for (bool squares : {false, true}) {
        for (bool row_major : {false, true}) {
          compare({200, 416, block, words, squares, row_major, 1});
          compare({128, 128 * 17, block, words, squares, row_major, 2});
          compare({3, 32 * 67, block, words, squares, row_major, 3});
        }
      }
    }
  }
  return host::faults != 0;
}

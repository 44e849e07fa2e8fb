// Which elements the thread blocks of a quantising kernel take, and where their scales go, on the host: each scale is
// stored once, at the place that tilewright/quantize/args.h says, and nothing beside them. Prints what is wrong.
#include <cuda_runtime_api.h>
#include <vector_functions.h>

#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

namespace host {

// Exchanges of a warp's lanes: a lane that waits for the others' values is begun again when all have given theirs.
uint32_t given[4][32];
int known = 0, exchanges = 0, lane = 0;  // exchanges that all lanes have come to, and this one; the lane
std::jmp_buf begin;

uint32_t exchange(uint32_t value, int lanes) {
  int const now = exchanges++;
  if (now == known) {
    given[now][lane] = value;
    std::longjmp(begin, 1);
  }
  return given[now][lane ^ lanes];
}

template <class Function>
void warp(Function const& function) {
  bool done = false;
  for (known = 0; !done; ++known) {
    for (lane = 0; lane < 32; ++lane) {
      exchanges = 0;
      if (setjmp(begin) == 0) {
        function(lane);
        done = true;
      }
    }
  }
}

}  // namespace host

inline uint32_t __shfl_xor_sync(unsigned, uint32_t value, int lanes) { return host::exchange(value, lanes); }
inline float __shfl_xor_sync(unsigned, float value, int) { return value; }
inline uint32_t __byte_perm(uint32_t x, uint32_t y, uint32_t selector) {
  uint64_t const both = uint64_t(y) << 32 | x;
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    result |= uint32_t(both >> 8 * (selector >> 4 * i & 7) & 0xFF) << 8 * i;
  }
  return result;
}

#include "tilewright/quantize/geometry.hpp"

namespace {

using namespace tilewright::quantize;

constexpr int kCount = 16;  // elements of a thread
int failures = 0;

struct Case {
  tilewright_scale_layout layout;
  int m, k, groups, ld, blocks, sms;
};

void expect(bool holds, char const* what, Case const& one, int64_t a = 0, int64_t b = 0) {
  if (!holds && ++failures < 10) {
    std::printf("%s: layout %d, m %d, k %d, %d groups, %d blocks on %d SMs: %lld %lld\n", what, int(one.layout), one.m,
                one.k, one.groups, one.blocks, one.sms, static_cast<long long>(a), static_cast<long long>(b));
  }
}

// Not 0, and not kUntouched.
uint8_t code(int group, int row, int column) { return uint8_t(1 + (group * 7 + row * 31 + column * 13) % 200); }
constexpr uint8_t kUntouched = 0xEE;

// By the words of args.h.
int64_t place(Case const& one, int columns, int row, int column) {
  int64_t const tiles = (columns + 3) / 4;
  switch (one.layout) {
    case TILEWRIGHT_SCALES_128X4:
      return (row / 128 * tiles + column / 4) * 512 + row % 32 * 16 + row % 128 / 32 * 4 + column % 4;
    case TILEWRIGHT_SCALES_8X4:
      return (row / 8 * tiles + column / 4) * 32 + row % 8 * 4 + column % 4;
    case TILEWRIGHT_SCALES_LINEAR:
      return int64_t(row) * columns + column;
    case TILEWRIGHT_SCALES_ROW_MAJOR:
      return (int64_t(row) * columns + column) * 4;
    case TILEWRIGHT_SCALES_M_MAJOR:
      return (int64_t(column) * one.ld + row) * 4;
    default:
      return (int64_t(column / 4) * one.ld + row) * 4 + column % 4;
  }
}

// Bytes of a group's scales, and the rows and columns that are written, padding included.
void extents(Case const& one, int columns, int64_t& bytes, int& rows, int& padded) {
  auto const up = [](int x, int y) { return (x + y - 1) / y * y; };
  switch (one.layout) {
    case TILEWRIGHT_SCALES_128X4:
    case TILEWRIGHT_SCALES_8X4:
      rows = up(one.m, one.layout == TILEWRIGHT_SCALES_128X4 ? 128 : 8), padded = up(columns, 4);
      bytes = int64_t(rows) * padded;
      break;
    case TILEWRIGHT_SCALES_LINEAR:
    case TILEWRIGHT_SCALES_ROW_MAJOR:
      rows = one.m, padded = columns;
      bytes = int64_t(rows) * padded * (one.layout == TILEWRIGHT_SCALES_LINEAR ? 1 : 4);
      break;
    case TILEWRIGHT_SCALES_M_MAJOR:
      rows = up(one.m, 4), padded = columns;
      bytes = int64_t(padded) * one.ld * 4;
      break;
    default:
      rows = up(one.m, 4), padded = up(columns, 4);
      bytes = int64_t(padded) * one.ld;
  }
}

template <int kWarps, int kBlock>
void check(Case const& one) {
  constexpr int kLanes = kBlock / kCount;
  bool const bytes = one.layout <= TILEWRIGHT_SCALES_LINEAR, floats = one.layout <= TILEWRIGHT_SCALES_M_MAJOR && !bytes;
  int const columns = (one.k + kBlock - 1) / kBlock;
  int64_t group_bytes;
  int rows, padded;
  extents(one, columns, group_bytes, rows, padded);
  std::vector<uint32_t> room((one.groups * group_bytes + 1024) / 4, kUntouched * 0x01010101u);
  auto* const scales = reinterpret_cast<uint8_t*>(room.data()) + 256;

  tilewright_quantize_args args{};
  args.m = one.m, args.k = one.k, args.groups = one.groups, args.layout = one.layout, args.scales = scales;
  args.ld_x = args.ld_data = one.k, args.batch_stride_x = args.batch_stride_data = int64_t(one.m) * one.k;
  args.ld_scales = one.ld, args.tactic.blocks = one.blocks, args.tactic.sm_count = one.sms;
  expect(takes(args, 16, 8, kCount, bytes), "refused", one);
  Params params{};
  set_params(args, params, 16, 8, kBlock, bytes, kWarps, 32 * kCount);
  expect(params.group_scales == group_bytes, "bytes of a group", one, params.group_scales, group_bytes);
  expect(params.row_x == 2 * one.k && params.row_data == one.k, "bytes of a row", one, params.row_x, params.row_data);
  lengthen_tasks(args, params);
  unsigned const grid = set_grid(args, params);
  int const row_tasks = ((rows + kRows - 1) / kRows + kWarps - 1) / kWarps;
  expect(params.row_tasks == row_tasks && params.total_row_tasks == row_tasks * one.groups, "tasks of rows", one,
         params.row_tasks, row_tasks);
  int64_t const tasks = int64_t(params.total_row_tasks) * params.column_tasks;
  // Long tasks where there are 24 of the shortest for each SM, and 12 of what is left.
  int64_t const shortest = int64_t(row_tasks) * one.groups * ((int64_t(padded) * kBlock + 511) / 512);
  bool const several = shortest >= 24 * one.sms && int64_t(padded) * kBlock > 512;
  expect(params.chunks > 1 == several && params.chunks <= 8, "chunks of a task", one, params.chunks, shortest);
  int64_t const most = one.blocks > 0 ? int64_t(one.blocks) * one.sms : tasks;
  expect(grid == (tasks < most ? tasks : most), "the grid", one, grid, tasks);
  expect(one.blocks > 0 || grid == tasks, "a thread block for each task", one, grid, tasks);

  std::vector<uint8_t> taken(int64_t(one.groups) * one.m * columns * kLanes, 0);  // threads' elements
  for (unsigned index = 0; index < grid; ++index) {
    Task<kWarps> task(params, index);
    do {
      for (int warp = 0; warp < kWarps; ++warp) {
        Quad const quad(params, task.group, task.quad(params, warp));
        if (!quad.exists) {
          continue;
        }
        for (int chunk = 0; chunk < params.chunks; ++chunk) {
          int const first = (task.column_task * params.chunks + chunk) * 32 * kCount;
          for (int lane = 0; lane < 32; ++lane) {
            int const element = first + lane * kCount;
            for (int i = 0; i < kRows; ++i) {
              if (quad.counts(i) && element < one.k) {
                ++taken[((int64_t(task.group) * one.m + quad.row(i)) * columns * kLanes) + element / kCount];
              }
            }
          }
          host::warp([&](int lane) {
            int const column = (first + lane * kCount) / kBlock;
            uint32_t codes[kRows], packed = 0;
            for (int i = 0; i < kRows; ++i) {
              bool const counts = quad.counts(i) && column < columns;
              codes[i] = counts ? code(task.group, quad.row(i), column) : 0;
              packed |= codes[i] << 8 * i;
            }
            if (bytes) {
              store_bytes<kLanes>(params, task.group, quad, column, lane, packed);
            } else {
              store_floats<kLanes>(params, task.group, quad, column, lane, codes);
            }
          });
        }
      }
    } while (task.next(params));
  }

  std::vector<uint8_t> expected(room.size() * 4, kUntouched);
  for (int group = 0; group < one.groups; ++group) {
    for (int row = 0; row < rows; ++row) {
      for (int column = 0; column < padded; ++column) {
        bool const counts = row < one.m && column < columns;
        uint32_t const value = counts ? code(group, row, column) : 0;
        std::memcpy(expected.data() + 256 + group * group_bytes + place(one, columns, row, column), &value,
                    floats ? 4 : 1);
      }
    }
    for (int row = 0; row < one.m; ++row) {
      for (int part = 0; part < (one.k + kCount - 1) / kCount; ++part) {
        int const times = taken[(int64_t(group) * one.m + row) * columns * kLanes + part];
        expect(times == 1, "times that elements are taken", one, row, times);
      }
    }
  }
  expect(std::memcmp(expected.data(), room.data(), expected.size()) == 0, "scales", one);
}

// Rows of a group that count: by its number, if there is one.
void check_rows_valid() {
  int32_t const valid[] = {-3, 0, 5, 8, 9};
  Case const one{TILEWRIGHT_SCALES_LINEAR, 8, 128, 5, 0, 0, 1};
  Params params{};
  params.m = 8, params.quads = 2, params.rows_valid = valid;
  for (int group = 0; group < 5; ++group) {
    int const limit = valid[group] < 0 ? 0 : valid[group] > 8 ? 8 : valid[group];
    Quad const quad(params, group, 1);
    expect(quad.limit == limit, "rows that count", one, group, quad.limit);
    for (int i = 0; i < kRows; ++i) {
      expect(quad.row(i) == 4 + i && quad.counts(i) == (4 + i < limit), "a row that counts", one, group, i);
    }
  }
}

// Of blocks of 128x128: a row of floats for each 128 rows.
void check_squares() {
  for (int m : {1, 128, 129, 300}) {
    Case const one{TILEWRIGHT_SCALES_ROW_MAJOR, m, 384, 2, 0, 0, 1};
    tilewright_quantize_args args{};
    args.m = m, args.k = 384, args.groups = 2, args.layout = TILEWRIGHT_SCALES_ROW_MAJOR;
    Params params{};
    set_params(args, params, 16, 8, 128, false, 32, 128, 128);
    expect(params.group_scales == (m + 127) / 128 * 3 * 4, "bytes of squares' scales", one, params.group_scales);
  }
}

void check_layouts(int m, int k, int groups, int blocks, int sms) {
  int const tight = (m + 3) / 4 * 4;
  for (auto layout : {TILEWRIGHT_SCALES_128X4, TILEWRIGHT_SCALES_8X4, TILEWRIGHT_SCALES_LINEAR}) {
    check<4, 16>({layout, m, k, groups, 0, blocks, sms});
    check<4, 32>({layout, m, k, groups, 0, blocks, sms});
    check<8, 32>({layout, m, k, groups, 0, blocks, sms});
  }
  for (auto layout : {TILEWRIGHT_SCALES_ROW_MAJOR, TILEWRIGHT_SCALES_M_MAJOR, TILEWRIGHT_SCALES_PACKED}) {
    for (int ld : {tight, tight + 12}) {
      check<4, 128>({layout, m, k, groups, ld, blocks, sms});
    }
  }
}

void refuse() {
  Case const one{TILEWRIGHT_SCALES_M_MAJOR, 8, 128, 1, 8, 0, 1};
  tilewright_quantize_args args{};
  args.m = 8, args.k = 128, args.groups = 1, args.layout = TILEWRIGHT_SCALES_M_MAJOR;
  args.ld_x = args.ld_data = 128, args.ld_scales = 8;
  auto const accepted = [&](bool bytes = false, int parts = 1) { return takes(args, 16, 8, kCount, bytes, 1, parts); };
  auto const refused = [&](auto member, auto value, char const* what) {
    auto const before = args.*member;
    args.*member = value;
    expect(!accepted(), what, one);
    args.*member = before;
  };
  using Args = tilewright_quantize_args;
  alignas(16) static char memory[32];
  expect(accepted(), "a good problem", one);
  expect(!accepted(true), "bytes in a layout of floats", one);
  refused(&Args::m, 0, "no rows");
  refused(&Args::k, 120, "k is no multiple of 16");
  refused(&Args::groups, 0, "no groups");
  refused(&Args::ld_x, int64_t(132), "rows of x are no multiple of 16 bytes");
  refused(&Args::ld_data, int64_t(136), "rows of data are no multiple of what is stored at once");
  refused(&Args::batch_stride_x, int64_t(132), "matrices of x are no multiple of 16 bytes");
  refused(&Args::batch_stride_data, int64_t(136), "matrices of data are no multiple of what is stored at once");
  refused(&Args::ld_scales, int64_t(4), "columns of scales overlap");
  refused(&Args::ld_scales, int64_t(10), "columns of scales begin anywhere");
  refused(&Args::layout, int32_t(TILEWRIGHT_SCALES_128X4), "floats in a layout of bytes");
  refused(&Args::x_parts, 2, "two halves");
  refused(&Args::x, static_cast<void*>(memory + 8), "x at 8 bytes");
  refused(&Args::data, static_cast<void*>(memory + 8), "data at 8 bytes");
  refused(&Args::scales, static_cast<void*>(memory + 4), "scales at 4 bytes");
  refused(&Args::weight, static_cast<void const*>(memory + 8), "a weight at 8 bytes");
  expect(!takes(args, 16, 8, kCount, false, 128), "columns of squares' scales", one);
  args.layout = TILEWRIGHT_SCALES_ROW_MAJOR;
  expect(takes(args, 16, 8, kCount, false, 128), "rows of squares' scales", one);
  expect(!accepted(true), "bytes in rows of floats", one);
  args.layout = TILEWRIGHT_SCALES_M_MAJOR;
  args.tactic.blocks = 1, args.tactic.sm_count = 0;
  expect(!accepted(), "blocks on no SMs", one);
}

}  // namespace

int main() {
  refuse();
  check_rows_valid();
  check_squares();
  for (int m : {1, 5, 37, 129, 260}) {
    for (int k : {16, 96, 144, 1040}) {
      for (int groups : {1, 3}) {
        check_layouts(m, k, groups, 0, 132);
        check_layouts(m, k, groups, 1, 3);
        check_layouts(m, k, groups, 2, 4);
      }
    }
  }
  check_layouts(200, 8 * 1024, 1, 0, 1);  // tasks of several chunks
  check_layouts(120, 7 * 1024 + 16, 2, 3, 1);
  return failures != 0;
}

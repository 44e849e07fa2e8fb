// Kernels of `scale_columns` that run on the host, behind the ABI of real ones: into columns, without groups along k;
// and into the 128x4 layout.
#include <cmath>
#include <cstring>

#include "tilewright/host.hpp"
#include "tilewright/scale_columns/args.h"

namespace {

using Args = tilewright_scale_columns_args;

bool in_group(Args const& args, int row) {
  for (int group = 0, begin = 0; group < args.group_count; ++group) {
    if (begin <= row && row < args.groups[group]) {
      return true;
    }
    begin = (args.groups[group] + args.alignment - 1) / args.alignment * args.alignment;
  }
  return args.grouping == TILEWRIGHT_SCALE_GROUPS_NONE;
}

struct Kernel {
  using Args = tilewright_scale_columns_args;
  static constexpr int kThreads = 256, kSharedBytes = 0;

  static bool can_implement(Args const& args) { return args.grouping <= TILEWRIGHT_SCALE_GROUPS_ROW_ENDS; }

  static void run(Args const& args) {
    int64_t const row_step = args.row_major ? args.ld_scales : 1, column_step = args.row_major ? 1 : args.ld_scales;
    int const width = args.packed ? 4 : 1;
    for (int64_t batch = 0; batch < args.batch; ++batch) {
      float const* const scales = args.scales + batch * args.batch_stride_scales;
      uint32_t* const out = static_cast<uint32_t*>(args.out) + batch * args.batch_stride_out;
      for (int64_t line = 0; line < args.lines; ++line) {
        for (int64_t row = 0; row < (args.m + 3) / 4 * 4; ++row) {
          uint32_t value = 0;
          for (int64_t j = 0; j < width && row < args.m && in_group(args, int(row)); ++j) {
            int64_t const column = line * width + j;
            uint32_t bits = 0;
            if (column < args.columns) {
              std::memcpy(&bits, &scales[row * row_step + column * column_step], 4);
            }
            value = args.packed ? value | (bits >> 23 & 0xff) << 8 * j : bits;
          }
          out[line * args.ld_out + row] = value;
        }
      }
    }
  }
};

struct AtomKernel {
  using Args = tilewright_scale_columns_args;
  static constexpr int kThreads = 128, kSharedBytes = 0;

  static bool can_implement(Args const& args) { return args.grouping == TILEWRIGHT_SCALE_GROUPS_NONE; }

  static uint8_t byte(Args const& args, int64_t batch, int64_t row, int64_t block) {
    int64_t const line = args.m == args.lines ? row : row / 128, at = block * 32 / args.block;
    int64_t const column = args.packed ? at / 4 : at;
    if (row >= args.lines || column >= args.columns) {
      return 0;
    }
    int64_t const offset = args.row_major ? line * args.ld_scales + column : column * args.ld_scales + line;
    float const scale = args.scales[batch * args.batch_stride_scales + offset];
    uint8_t bytes[4];
    std::memcpy(bytes, &scale, 4);
    if (args.packed) {
      return bytes[at % 4];
    }
    int exponent;
    if (scale == 0) {
      return std::signbit(scale) ? 255 : 0;
    }
    return scale > 0 && std::frexp(scale, &exponent) == 0.5f && exponent >= -126 ? exponent + 126 : 255;
  }

  static void run(Args const& args) {
    int64_t const tiles = (args.lines + 127) / 128, atoms = args.ld_out / 4;
    auto* out = static_cast<uint8_t*>(args.out);
    for (int64_t batch = 0; batch < args.batch; ++batch) {
      for (int64_t row = 0; row < tiles * 128; ++row) {
        for (int64_t block = 0; block < args.ld_out; ++block) {
          int64_t const atom = (batch * tiles + row / 128) * atoms + block / 4;
          out[atom * 512 + row % 32 * 16 + row % 128 / 32 * 4 + block % 4] = byte(args, batch, row, block);
        }
      }
    }
  }
};

}  // namespace

#define HOST_KERNEL(NAME, KERNEL) TILEWRIGHT_HOST_KERNEL(NAME, KERNEL)
HOST_KERNEL(host_scale_columns, Kernel)
HOST_KERNEL(host_scale_atoms, AtomKernel)

// A kernel of `scale_columns` that runs on the host, behind the ABI of real ones: without groups along k.
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

}  // namespace

TILEWRIGHT_HOST_KERNEL(host_scale_columns, Kernel)

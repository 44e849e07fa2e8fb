// A kernel of `scale_columns` that runs on the host, behind the ABI of real ones: without groups along k.
#include <cstring>

#include "tilewright/abi.h"
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

int32_t can_implement(void const* opaque) {
  Args const& args = *static_cast<Args const*>(opaque);
  return args.grouping <= TILEWRIGHT_SCALE_GROUPS_ROW_ENDS ? TILEWRIGHT_OK : TILEWRIGHT_NOT_SUPPORTED;
}

int64_t workspace_bytes(void const*) { return 0; }

int32_t launch(void const* opaque, void*, void*) {
  Args const& args = *static_cast<Args const*>(opaque);
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
  return TILEWRIGHT_OK;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) tilewright_kernel const tilewright_host_scale_columns = {
    TILEWRIGHT_ABI_VERSION, sizeof(Args), 256, 0, "host_scale_columns", &can_implement, &workspace_bytes, &launch};

// A kernel of `transpose_fp8` that runs on the host, behind the ABI of real ones.
#include <algorithm>

#include "tilewright/host.hpp"
#include "tilewright/transpose_fp8/args.h"

namespace {

using Args = tilewright_transpose_fp8_args;

void turn(Args const& args, char const* x, char* out, int64_t rows, int64_t step) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < args.columns; ++column) {
      out[column * step + row] = x[row * args.ld_x + column];
    }
  }
}

struct Kernel {
  using Args = tilewright_transpose_fp8_args;
  static constexpr int kThreads = 256, kSharedBytes = 0;

  static bool can_implement(Args const& args) { return args.groups == 0 || args.batch == 1; }

  static void run(Args const& args) {
    auto const* const x = static_cast<char const*>(args.x);
    auto* const out = static_cast<char*>(args.out);
    for (int64_t batch = 0; args.groups == 0 && batch < args.batch; ++batch) {
      turn(args, x + batch * args.batch_stride_x, out + batch * args.batch_stride_out, args.rows, args.ld_out);
    }
    for (int64_t group = 0, first = 0; group < args.groups && first < args.rows; ++group) {
      int64_t const rows = std::min<int64_t>(std::max(args.group_rows[group], 0), args.rows - first);
      turn(args, x + first * args.ld_x, out + first * args.columns, rows, rows);
      first += rows;
    }
  }
};

}  // namespace

TILEWRIGHT_HOST_KERNEL(host_transpose_fp8, Kernel)

// `hc_prenorm` kernels that run on the host, behind the ABI of real ones: the definition, in double.
#include <cmath>
#include <cstring>

#include "tilewright/abi.h"
#include "tilewright/hc_prenorm/args.h"

namespace {

using Args = tilewright_hc_prenorm_args;

float of_bits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

float bf16(void const* array, int64_t i) { return of_bits(uint32_t{static_cast<uint16_t const*>(array)[i]} << 16); }

float tf32(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return of_bits((bits + 0xFFF + (bits >> 13 & 1)) & 0xFFFFE000);
}

template <int kColumns>
struct Kernel {
  static int32_t can_implement(void const* opaque) {
    auto const& args = *static_cast<Args const*>(opaque);
    bool const fits = args.n <= kColumns && args.n % 8 == 0 && args.ld_a % 8 == 0 && args.ld_b % 4 == 0 &&
                      (args.splits == 1 || args.normalizes == 0);
    return fits ? TILEWRIGHT_OK : TILEWRIGHT_NOT_SUPPORTED;
  }

  static int64_t workspace_bytes(void const*) { return 0; }

  static int32_t launch(void const* opaque, void*, void*) {
    auto const& args = *static_cast<Args const*>(opaque);
    if (can_implement(opaque) != TILEWRIGHT_OK) {
      return TILEWRIGHT_NOT_SUPPORTED;
    }
    int const blocks = (args.k + 63) / 64, each = blocks / args.splits, more = blocks % args.splits;
    for (int split = 0, begin = 0; split < args.splits; ++split) {
      int const end = begin + each + (split < more ? 1 : 0);
      for (int row = 0; row < args.m; ++row) {
        part(args, split, row, begin * 64, end * 64 < args.k ? end * 64 : args.k);
      }
      begin = end;
    }
    return TILEWRIGHT_OK;
  }

  static void part(Args const& args, int split, int row, int begin, int end) {
    double square = 0;
    for (int k = begin; k < end; ++k) {
      double const x = bf16(args.a, row * args.ld_a + k);
      square += x * x;
    }
    args.squares[split * int64_t(args.m) + row] = static_cast<float>(square);
    double const factor = args.normalizes != 0 ? 1 / std::sqrt(square / args.k + args.epsilon) : 1;
    for (int column = 0; column < args.n; ++column) {
      double sum = 0;
      for (int k = begin; k < end; ++k) {
        sum += double{bf16(args.a, row * args.ld_a + k)} * tf32(args.b[column * args.ld_b + k]);
      }
      args.d[split * args.batch_stride_d + row * args.ld_d + column] = static_cast<float>(sum * factor);
    }
  }
};

}  // namespace

#define HOST_KERNEL(NAME, COLUMNS)                                                                \
  extern "C" __attribute__((visibility("default"))) tilewright_kernel const tilewright_##NAME = { \
      TILEWRIGHT_ABI_VERSION,                                                                     \
      sizeof(Args),                                                                               \
      160,                                                                                        \
      0,                                                                                          \
      #NAME,                                                                                      \
      &Kernel<COLUMNS>::can_implement,                                                            \
      &Kernel<COLUMNS>::workspace_bytes,                                                          \
      &Kernel<COLUMNS>::launch};

HOST_KERNEL(host_prenorm_24, 24)
HOST_KERNEL(host_prenorm_128, 128)

// The kernels of `mixed_grouped_gemm` as the host computes them, in double.
#include <cmath>
#include <cstdint>

#include "host_groups.hpp"
#include "host_mixed_weights.hpp"
#include "tilewright/abi.h"
#include "tilewright/mixed_grouped_gemm/args.h"

namespace {

using Args = tilewright_mixed_grouped_gemm_args;

// `kGated`: D [m, n/2] is silu(gate) * up, of weights with 8 rows of each in turn.
template <class Type, Format kFormat, int kGroup, bool kGated = false>
struct Kernel {
  // A row of A by a row of the group's packed weight, scaled, and an element of the group's bias.
  static double linear(Args const& args, int matrix, int row, int group, int packed_row, int bias_at) {
    auto const* const a = static_cast<uint16_t const*>(args.a) + matrix * args.batch_stride_a + row * args.ld_a;
    bool const floating = kFormat == kMxfp4 || kFormat == kNvfp4;
    int64_t const units = int64_t((args.n + 63) / 64) * ((args.k + 127) / 128);  // of a group
    int64_t const of_unit = 64 * (128 / kGroup) * (floating ? 1 : kFormat == kInt4Zeros ? 4 : 2);
    auto const* const weights = static_cast<uint8_t const*>(args.weight) + group * units * kUnitBytes<kFormat>;
    auto const* const scales = static_cast<uint8_t const*>(args.scale) + group * units * of_unit;
    double sum = 0;
    for (int k = 0; k < args.k; ++k) {
      sum += Type::value(a[k]) * weight_at<Type, kFormat, kGroup>(weights, scales, args.k, packed_row, k);
    }
    sum *= args.alpha * (args.group_factors != nullptr ? args.group_factors[group] : 1.0f);
    auto const* const bias = static_cast<uint16_t const*>(args.bias);
    return bias != nullptr ? sum + Type::value(bias[group * args.n + bias_at]) : sum;
  }

  static int32_t launch(void const* opaque, void*, void*) {
    auto const& args = *static_cast<Args const*>(opaque);
    auto* const d = static_cast<uint16_t*>(args.d);
    int const matrices = args.grouping == kRowsValid ? args.groups : 1;
    for (int matrix = 0; matrix < matrices; ++matrix) {
      for (int row = 0; row < args.m; ++row) {
        int const group = group_of(args, matrix, row);
        if (stays(args, matrix, row)) {
          continue;
        }
        for (int column = 0; column < (kGated ? args.n / 2 : args.n); ++column) {
          double value = 0;
          if (group >= 0 && kGated) {
            int const of_gate = column / 8 * 16 + column % 8;
            double const gate = linear(args, matrix, row, group, of_gate, column);
            value = gate / (1 + std::exp(-gate)) * linear(args, matrix, row, group, of_gate + 8, args.n / 2 + column);
          } else if (group >= 0) {
            value = linear(args, matrix, row, group, column, column);
          }
          d[matrix * args.batch_stride_d + row * args.ld_d + column] = Type::bits(value);
        }
      }
    }
    return TILEWRIGHT_OK;
  }

  static int32_t can_implement(void const* opaque) {
    int const expected =
        kGated ? TILEWRIGHT_MIXED_GROUPED_ACTIVATION_SILU_MUL : TILEWRIGHT_MIXED_GROUPED_ACTIVATION_NONE;
    return static_cast<Args const*>(opaque)->activation == expected ? TILEWRIGHT_OK : TILEWRIGHT_NOT_SUPPORTED;
  }
  static int64_t workspace_bytes(void const*) { return 0; }
};

}  // namespace

#define HOST_KERNEL(NAME, ...)                                                                    \
  extern "C" __attribute__((visibility("default"))) tilewright_kernel const tilewright_##NAME = { \
      TILEWRIGHT_ABI_VERSION,                                                                     \
      sizeof(Args),                                                                               \
      384,                                                                                        \
      0,                                                                                          \
      #NAME,                                                                                      \
      &Kernel<__VA_ARGS__>::can_implement,                                                        \
      &Kernel<__VA_ARGS__>::workspace_bytes,                                                      \
      &Kernel<__VA_ARGS__>::launch};

HOST_KERNEL(host_experts_int4, Bf16, kInt4, 128)
HOST_KERNEL(host_experts_int4_f16, F16, kInt4Zeros, 128)
HOST_KERNEL(host_experts_mxfp4, Bf16, kMxfp4, 32)
HOST_KERNEL(host_experts_nvfp4, Bf16, kNvfp4, 16)
HOST_KERNEL(host_experts_e4m3, Bf16, kE4m3, 128)
HOST_KERNEL(host_experts_int4_silu_mul, Bf16, kInt4, 128, true)
HOST_KERNEL(host_experts_int4_f16_silu_mul, F16, kInt4Zeros, 128, true)
HOST_KERNEL(host_experts_nvfp4_silu_mul, Bf16, kNvfp4, 16, true)

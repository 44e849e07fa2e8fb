// The kernels of `mixed_fp8_grouped_gemm` as the host computes them, in double.
#include <cmath>
#include <cstdint>

#include "host_groups.hpp"
#include "host_mixed_weights.hpp"
#include "tilewright/abi.h"
#include "tilewright/mixed_fp8_grouped_gemm/args.h"

namespace {

using Args = tilewright_mixed_fp8_grouped_gemm_args;

template <class Type, Format kFormat, int kGroup, bool kFast = false>
struct Kernel {
  static int32_t launch(void const* opaque, void*, void*) {
    auto const& args = *static_cast<Args const*>(opaque);
    auto const* const a = static_cast<uint8_t const*>(args.a);
    auto* const d = static_cast<uint16_t*>(args.d);
    auto const* const weights = static_cast<uint8_t const*>(args.weight);
    auto const* const scales = static_cast<uint8_t const*>(args.scale);
    bool const floating = kFormat == kMxfp4 || kFormat == kNvfp4;
    int64_t const units = int64_t((args.n + 63) / 64) * ((args.k + 127) / 128);  // of a group
    int64_t const of_unit = 64 * (128 / kGroup) * (floating ? 1 : kFormat == kInt4Zeros ? 4 : 2);
    int const matrices = args.grouping == kRowsValid ? args.groups : 1;
    for (int matrix = 0; matrix < matrices; ++matrix) {
      for (int row = 0; row < args.m; ++row) {
        int const group = group_of(args, matrix, row);
        if (stays(args, matrix, row)) {
          continue;
        }
        bool const factors = args.group_factors != nullptr && group >= 0;
        double const factor = args.alpha * (factors ? args.group_factors[group] : 1.0f);
        for (int column = 0; column < args.n; ++column) {
          double sum = 0;
          for (int k = 0; group >= 0 && k < args.k; ++k) {
            double weight = exact_weight_at<Type, kFormat, kGroup>(weights + group * units * kUnitBytes<kFormat>,
                                                                   scales + group * units * of_unit, args.k, column, k);
            if (kFast && !(std::abs(weight) <= 6 * args.largest_scale)) {
              weight = std::nan("");
            }
            sum += e4m3(a[matrix * args.batch_stride_a + row * args.ld_a + k]) * weight;
          }
          sum *= factor;
          if (args.a_scale != nullptr) {
            sum *= args.a_scale[matrix * args.m + row];
          }
          if (args.bias != nullptr && group >= 0) {
            sum += Type::value(static_cast<uint16_t const*>(args.bias)[group * args.n + column]);
          }
          d[matrix * args.batch_stride_d + row * args.ld_d + column] = Type::bits(sum);
        }
      }
    }
    return TILEWRIGHT_OK;
  }

  static int32_t can_implement(void const* opaque) {
    bool const relative = !kFast || static_cast<Args const*>(opaque)->largest_scale > 0;
    return relative ? TILEWRIGHT_OK : TILEWRIGHT_NOT_SUPPORTED;
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

HOST_KERNEL(host_fp8_experts_int4, Bf16, kInt4, 128)
HOST_KERNEL(host_fp8_experts_int4_f16, F16, kInt4Zeros, 128)
HOST_KERNEL(host_fp8_experts_mxfp4, Bf16, kMxfp4, 32)
HOST_KERNEL(host_fp8_experts_mxfp4_fast, Bf16, kMxfp4, 32, true)

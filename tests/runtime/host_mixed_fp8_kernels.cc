// The kernels of `mixed_fp8_gemm` as the host computes them, in double.
#include <cmath>
#include <cstdint>

#include "host_mixed_weights.hpp"
#include "tilewright/abi.h"
#include "tilewright/mixed_fp8_gemm/args.h"

namespace {

using Args = tilewright_mixed_fp8_gemm_args;

template <class Type, Format kFormat, int kGroup, bool kFast = false>
struct Kernel {
  static double activated(double value, int activation) {
    switch (activation) {
      case TILEWRIGHT_MIXED_FP8_ACTIVATION_RELU:
        return value > 0 ? value : 0;
      case TILEWRIGHT_MIXED_FP8_ACTIVATION_GELU:
        return 0.5 * value * (1 + std::erf(value / std::sqrt(2.0)));
      case TILEWRIGHT_MIXED_FP8_ACTIVATION_SILU:
        return value / (1 + std::exp(-value));
      default:
        return value;
    }
  }

  static int32_t launch(void const* opaque, void*, void*) {
    auto const& args = *static_cast<Args const*>(opaque);
    auto const* const a = static_cast<uint8_t const*>(args.a);
    for (int row = 0; row < args.m; ++row) {
      for (int column = 0; column < args.n; ++column) {
        double sum = 0;
        for (int k = 0; k < args.k; ++k) {
          double weight = exact_weight_at<Type, kFormat, kGroup>(args.weight, args.scale, args.k, column, k);
          if (kFast && !(std::abs(weight) <= 6 * args.largest_scale)) {
            weight = std::nan("");
          }
          sum += e4m3(a[row * args.ld_a + k]) * weight;
        }
        double value = args.alpha * sum;
        if (args.a_scale != nullptr) {
          value *= static_cast<float const*>(args.a_scale)[row];
        }
        if (args.bias != nullptr) {
          value += Type::value(static_cast<uint16_t const*>(args.bias)[column]);
        }
        static_cast<uint16_t*>(args.d)[row * args.ld_d + column] = Type::bits(activated(value, args.activation));
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

HOST_KERNEL(host_fp8_int4, Bf16, kInt4, 128)
HOST_KERNEL(host_fp8_int4_zp, Bf16, kInt4Zeros, 128)
HOST_KERNEL(host_fp8_int4_f16, F16, kInt4Zeros, 32)
HOST_KERNEL(host_fp8_mxfp4, Bf16, kMxfp4, 32)
HOST_KERNEL(host_fp8_mxfp4_fast, Bf16, kMxfp4, 32, true)

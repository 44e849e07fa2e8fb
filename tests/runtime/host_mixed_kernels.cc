// The kernels of `mixed_gemm` as the host computes them, in double.
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "host_mixed_weights.hpp"
#include "tilewright/abi.h"
#include "tilewright/mixed_gemm/args.h"

namespace {

using Args = tilewright_mixed_gemm_args;

struct F32 {
  static float bits(double value) { return static_cast<float>(value); }
};

// `kGated`: D [m, n/2] is silu(gate) * up, of a weight with 8 rows of each in turn. `kBalanced`: the kernel refuses a D
// that TMA cannot store, and activations, as mixed_gemm/balanced_maker.hpp does.
template <class Type, Format kFormat, int kGroup, class TypeD = Type, bool kGated = false, bool kBalanced = false>
struct Kernel {
  using D = decltype(TypeD::bits(0));

  static double bias(D bits) {
    if constexpr (std::is_same<D, float>::value) {
      return bits;
    } else {
      return Type::value(bits);
    }
  }

  static double activated(double value, int activation) {
    switch (activation) {
      case TILEWRIGHT_MIXED_ACTIVATION_RELU:
        return value > 0 ? value : 0;
      case TILEWRIGHT_MIXED_ACTIVATION_GELU:
        return 0.5 * value * (1 + std::erf(value / std::sqrt(2.0)));
      case TILEWRIGHT_MIXED_ACTIVATION_SILU:
        return value / (1 + std::exp(-value));
      default:
        return value;
    }
  }

  // alpha times a row of A by a row of the packed weight, and an element of the bias.
  static double linear(Args const& args, int row, int packed_row, int bias_at) {
    auto const* const a = static_cast<uint16_t const*>(args.a);
    double sum = 0;
    for (int k = 0; k < args.k; ++k) {
      sum += Type::value(a[row * args.ld_a + k]) *
             weight_at<Type, kFormat, kGroup>(args.weight, args.scale, args.k, packed_row, k);
    }
    double const added = args.bias != nullptr ? bias(static_cast<D const*>(args.bias)[bias_at]) : 0;
    return args.alpha * sum + added;
  }

  static int32_t launch(void const* opaque, void*, void*) {
    auto const& args = *static_cast<Args const*>(opaque);
    if (can_implement(opaque) != TILEWRIGHT_OK) {
      return TILEWRIGHT_NOT_SUPPORTED;
    }
    for (int row = 0; row < args.m; ++row) {
      for (int column = 0; column < (kGated ? args.n / 2 : args.n); ++column) {
        int const gate = column / 8 * 16 + column % 8;
        double value = activated(linear(args, row, kGated ? gate : column, column), args.activation);
        if (kGated) {
          value *= linear(args, row, gate + 8, args.n / 2 + column);
        }
        static_cast<D*>(args.d)[row * args.ld_d + column] = TypeD::bits(value);
      }
    }
    return TILEWRIGHT_OK;
  }

  static int32_t can_implement(void const* opaque) {
    auto const& args = *static_cast<Args const*>(opaque);
    bool const activation = kGated      ? args.activation == TILEWRIGHT_MIXED_ACTIVATION_SILU
                            : kBalanced ? args.activation == TILEWRIGHT_MIXED_ACTIVATION_NONE
                                        : true;
    bool const stored = !kBalanced || (reinterpret_cast<uintptr_t>(args.d) % 16 == 0 && args.ld_d % 8 == 0);
    return activation && stored ? TILEWRIGHT_OK : TILEWRIGHT_NOT_SUPPORTED;
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

HOST_KERNEL(host_mixed_int4, Bf16, kInt4, 128)
HOST_KERNEL(host_mixed_int4_f32, Bf16, kInt4, 128, F32)
HOST_KERNEL(host_mixed_int4_zp, Bf16, kInt4Zeros, 128)
HOST_KERNEL(host_mixed_int4_f16, F16, kInt4Zeros, 32)
HOST_KERNEL(host_mixed_mxfp4, Bf16, kMxfp4, 32)
HOST_KERNEL(host_mixed_nvfp4, Bf16, kNvfp4, 16)
HOST_KERNEL(host_mixed_int4_silu_mul, Bf16, kInt4, 128, Bf16, true)
HOST_KERNEL(host_mixed_int4_f16_silu_mul, F16, kInt4Zeros, 32, F16, true)
HOST_KERNEL(host_mixed_nvfp4_silu_mul, Bf16, kNvfp4, 16, Bf16, true)
HOST_KERNEL(host_mixed_int8, Bf16, kInt8, 128)
HOST_KERNEL(host_mixed_int8_f16, F16, kInt8, 128)
HOST_KERNEL(host_mixed_e4m3, Bf16, kE4m3, 128)
HOST_KERNEL(host_mixed_e4m3_f16, F16, kE4m3, 128)
HOST_KERNEL(host_mixed_int4_balanced, Bf16, kInt4, 128, Bf16, false, true)

// Block-scaled kernels that run on the host, behind the ABI of real ones. Each computes in double, and
// refuses what a real one of its alignment could not read or write.
#include "host_blockscaled_formats.hpp"
#include "tilewright/abi.h"
#include "tilewright/blockscaled_gemm/appended_args.h"
#include "tilewright/gemm/args.h"

namespace {

using Args = tilewright_blockscaled_gemm_args;

// One block of a row of D.
template <class Output, class C>
void store(Args const& args, int64_t batch, int64_t row, int64_t first, double const* values) {
  int64_t const at = batch * args.batch_stride_d + row * args.ld_d + first;
  if constexpr (Output::kBlock == 1) {
    static_cast<Output*>(args.d)[at] = Output::round(values[0]);
  } else {
    auto* bytes = static_cast<uint8_t*>(args.d);
    auto& scale = static_cast<uint8_t*>(args.scale_d)[scale_at(row, first / Output::kBlock, args.n, Output::kBlock)];
    double amax = 0;
    for (int i = 0; i < Output::kBlock; ++i) {
      amax = std::max(amax, std::abs(values[i]));
    }
    double const global = *args.scale_d_global;
    if constexpr (Output::kBits == 4) {
      scale = static_cast<uint8_t>(E4m3::encode(global * amax / 6, 126));
    } else {
      scale = amax == 0 ? 0 : static_cast<uint8_t>(127 + std::ceil(std::log2(global * amax / 448)));
    }
    for (int i = 0; i < Output::kBlock; ++i) {
      double const narrow = amax == 0 ? 0 : values[i] * global / Output::scale(scale);
      if constexpr (Output::kBits == 4) {
        auto& pair = bytes[(at + i) / 2];
        int const shift = (at + i) % 2 * 4;
        pair = static_cast<uint8_t>((pair & ~(15 << shift)) | E2m1::encode(narrow, 7) << shift);
      } else {
        bytes[at + i] = static_cast<uint8_t>(E4m3::encode(narrow, 126));
      }
    }
  }
}

double activated(double x, int32_t activation) {
  switch (activation) {
    case TILEWRIGHT_ACTIVATION_RELU:
      return x > 0 ? x : 0;
    case TILEWRIGHT_ACTIVATION_GELU:
      return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case TILEWRIGHT_ACTIVATION_SILU:
      return x / (1 + std::exp(-x));
    default:
      return x;
  }
}

// `kBiased`: adds a bias and applies the activation of the call.
template <class A, class B, class Output, int kStoreBytes, int kClusterMultiple, bool kBiased = false>
struct Host {
  using Given = std::conditional_t<kBiased, tilewright_blockscaled_gemm_appended_args, Args>;
  // FP4 beside FP8 is read 128 elements at a time.
  static constexpr int64_t kOfA = A::kBits < B::kBits ? 128 : 128 / A::kBits;
  static constexpr int64_t kOfB = B::kBits < A::kBits ? 128 : 128 / B::kBits;
  static constexpr int64_t kOfD = kStoreBytes * 8 / Output::kBits;
  using C = std::conditional_t<(Output::kBits > 8), Output, Bf16>;

  static int32_t can_implement(void const* opaque) {
    auto const& args = *static_cast<Args const*>(opaque);
    bool const fits = args.m > 0 && args.n > 0 && args.k > 0 && args.batch > 0 && args.k % kOfA == 0 &&
                      args.k % kOfB == 0 && args.n % kOfD == 0 && args.n % Output::kBlock == 0 &&
                      args.ld_a % kOfA == 0 && args.ld_b % kOfB == 0 && args.ld_d % kOfD == 0 &&
                      args.batch_stride_a % kOfA == 0 && args.batch_stride_b % kOfB == 0 &&
                      reinterpret_cast<uintptr_t>(args.d) % kStoreBytes == 0 &&
                      args.tactic.cluster_m % kClusterMultiple == 0 && args.tactic.fallback_m % kClusterMultiple == 0;
    return fits ? TILEWRIGHT_OK : TILEWRIGHT_NOT_SUPPORTED;
  }

  static int64_t workspace_bytes(void const* opaque) {
    auto const& args = *static_cast<Args const*>(opaque);
    return args.tactic.splits > 1 ? int64_t(args.tactic.splits) * args.m * args.n * 4 : 0;
  }

  static int32_t launch(void const* opaque, void* workspace, void*) {
    auto const& args = *static_cast<Args const*>(opaque);
    if (can_implement(opaque) != TILEWRIGHT_OK) {
      return TILEWRIGHT_NOT_SUPPORTED;
    }
    if (args.tactic.splits > 1 && workspace == nullptr) {
      return TILEWRIGHT_WORKSPACE_MISSING;
    }
    for (int64_t batch = 0; batch < args.batch; ++batch) {
      for (int64_t row = 0; row < args.m; ++row) {
        for (int64_t first = 0; first < args.n; first += Output::kBlock) {
          double values[32];
          for (int i = 0; i < Output::kBlock; ++i) {
            values[i] = product(args, batch, row, first + i);
            if constexpr (kBiased) {
              auto const& given = *static_cast<Given const*>(opaque);
              auto const* const bias = static_cast<Output const*>(given.bias);
              values[i] = activated(values[i] + (bias ? bias[first + i].value() : 0.0), given.activation);
            }
          }
          store<Output, C>(args, batch, row, first, values);
        }
      }
    }
    return TILEWRIGHT_OK;
  }

 private:
  static void const* ahead(void const* data, int64_t bytes) { return static_cast<char const*>(data) + bytes; }

  static double product(Args const& args, int64_t batch, int64_t row, int64_t column) {
    void const* const a = ahead(args.a, batch * args.batch_stride_a * A::kBits / 8);
    void const* const b = ahead(args.b, batch * args.batch_stride_b * B::kBits / 8);
    void const* const scale_a = ahead(args.scale_a, batch * scales_of_a_matrix(args.m, args.k, A::kBlock));
    void const* const scale_b = ahead(args.scale_b, batch * scales_of_a_matrix(args.n, args.k, B::kBlock));
    double sum = 0;
    for (int64_t p = 0; p < args.k; ++p) {
      sum += scaled<A>(a, scale_a, row, p, args.k, args.ld_a) * scaled<B>(b, scale_b, column, p, args.k, args.ld_b);
    }
    double value = (args.alpha ? *args.alpha : 1.0) * sum;
    if (args.beta != 0) {
      value +=
          args.beta * static_cast<C const*>(args.c)[batch * args.batch_stride_c + row * args.ld_c + column].value();
    }
    return value;
  }
};

}  // namespace

#define HOST_KERNEL(NAME, ...)                                                                    \
  extern "C" __attribute__((visibility("default"))) tilewright_kernel const tilewright_##NAME = { \
      TILEWRIGHT_ABI_VERSION,                                                                     \
      sizeof(Host<__VA_ARGS__>::Given),                                                                               \
      256,                                                                                        \
      100000,                                                                                     \
      #NAME,                                                                                      \
      &Host<__VA_ARGS__>::can_implement,                                                          \
      &Host<__VA_ARGS__>::workspace_bytes,                                                        \
      &Host<__VA_ARGS__>::launch};

HOST_KERNEL(host_nvfp4, Nvfp4, Nvfp4, Bf16, 16, 1)
HOST_KERNEL(host_nvfp4_2sm, Nvfp4, Nvfp4, Bf16, 16, 2)
HOST_KERNEL(host_nvfp4_streamk, Nvfp4, Nvfp4, Bf16, 16, 1)
HOST_KERNEL(host_nvfp4_c, Nvfp4, Nvfp4, Bf16, 16, 1)
HOST_KERNEL(host_nvfp4_f32, Nvfp4, Nvfp4, F32, 16, 1)
HOST_KERNEL(host_nvfp4_f32_bias, Nvfp4, Nvfp4, F32, 16, 1, true)
HOST_KERNEL(host_nvfp4_ultra, Nvfp4, Nvfp4, Bf16, 32, 1)
HOST_KERNEL(host_nvfp4_quantized, Nvfp4, Nvfp4, Nvfp4, 16, 1)
HOST_KERNEL(host_mxfp4, Mxfp4, Mxfp4, Bf16, 16, 1)
HOST_KERNEL(host_mxfp8, Mxfp8, Mxfp8, Bf16, 16, 1)
HOST_KERNEL(host_mxfp8_e5m2, Mxfp8E5m2, Mxfp8, Bf16, 16, 1)
HOST_KERNEL(host_mxfp8_quantized, Mxfp8, Mxfp8, Mxfp8, 16, 1)
HOST_KERNEL(host_mxfp8_e4m3, Mxfp8, Mxfp8, Fp8E4m3, 16, 1)
HOST_KERNEL(host_mxfp8_e5m2_out, Mxfp8, Mxfp8, Fp8E5m2, 16, 1)
HOST_KERNEL(host_mxfp8_mxfp4, Mxfp8, Mxfp4, Bf16, 16, 1)
HOST_KERNEL(host_mxfp4_mxfp8, Mxfp4, Mxfp8, Bf16, 16, 1)
HOST_KERNEL(host_mxfp8_c, Mxfp8, Mxfp8, Bf16, 16, 1)
HOST_KERNEL(host_mxfp8_f32, Mxfp8, Mxfp8, F32, 16, 1)
HOST_KERNEL(host_mxfp4_f32, Mxfp4, Mxfp4, F32, 16, 1)

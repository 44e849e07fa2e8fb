// Block-scaled kernels that run on the host, behind the ABI of real ones. Each computes in double, and
// refuses what a real one of its alignment could not read or write.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "tilewright/abi.h"
#include "tilewright/blockscaled_gemm/args.h"

namespace {

using Args = tilewright_blockscaled_gemm_args;

// A binary float of `kExponent` and `kMantissa` bits and a sign, without infinities; subnormals included.
template <int kExponent, int kMantissa, int kBias>
struct Small {
  static constexpr int kCodes = 1 << (kExponent + kMantissa);
  static double decode(int code) {
    int const exponent = (code >> kMantissa) & ((1 << kExponent) - 1), mantissa = code & ((1 << kMantissa) - 1);
    double const size = exponent == 0 ? std::ldexp(mantissa, 1 - kBias - kMantissa)
                                      : std::ldexp(mantissa + (1 << kMantissa), exponent - kBias - kMantissa);
    return code & kCodes ? -size : size;
  }
  // Nearest, ties to the even code; saturating at the code `largest`.
  static int encode(double value, int largest) {
    int best = 0;
    for (int code = 1; code <= largest; ++code) {
      double const now = std::abs(std::abs(value) - decode(code)), before = std::abs(std::abs(value) - decode(best));
      if (now < before || (now == before && code % 2 == 0)) {
        best = code;
      }
    }
    return std::signbit(value) ? best | kCodes : best;
  }
};
using E2m1 = Small<2, 1, 1>;
using E4m3 = Small<4, 3, 7>;
using E5m2 = Small<5, 2, 15>;

int64_t scale_at(int64_t row, int64_t column, int64_t k, int block) {
  int64_t const tiles = ((k + block - 1) / block + 3) / 4;
  return ((row / 128) * tiles + column / 4) * 512 + (row % 32) * 16 + ((row % 128) / 32) * 4 + column % 4;
}
int64_t scales_of_a_matrix(int64_t rows, int64_t k, int block) {
  return (rows + 127) / 128 * 128 * (((k + block - 1) / block + 3) / 4 * 4);
}
double ue8m0(int code) { return code == 255 ? std::nan("") : std::ldexp(1.0, code - 127); }

template <class Element>
double element(void const* data, int64_t at) {
  auto const* bytes = static_cast<uint8_t const*>(data);
  return Element::decode(Element::kCodes == E2m1::kCodes ? bytes[at / 2] >> (at % 2 * 4) & 15 : bytes[at]);
}

struct Nvfp4 {
  using Element = E2m1;
  static constexpr int kBlock = 16, kBits = 4;
  static double scale(int code) { return (code & 0x7F) == 0x7F ? std::nan("") : E4m3::decode(code); }
};
struct Mxfp4 {
  using Element = E2m1;
  static constexpr int kBlock = 32, kBits = 4;
  static double scale(int code) { return ue8m0(code); }
};
struct Mxfp8 {
  using Element = E4m3;
  static constexpr int kBlock = 32, kBits = 8;
  static double scale(int code) { return ue8m0(code); }
};
struct Mxfp8E5m2 : Mxfp8 {
  using Element = E5m2;
};

template <class Format>
double scaled(void const* data, void const* scales, int64_t row, int64_t column, int64_t k, int64_t ld) {
  int const code = static_cast<uint8_t const*>(scales)[scale_at(row, column / Format::kBlock, k, Format::kBlock)];
  return element<typename Format::Element>(data, row * ld + column) * Format::scale(code);
}

struct Bf16 {
  static constexpr int kBlock = 1, kBits = 16;
  uint16_t bits;
  static Bf16 round(double value) {
    float const narrow = static_cast<float>(value);
    uint32_t wide;
    std::memcpy(&wide, &narrow, sizeof(wide));
    return {static_cast<uint16_t>((wide + 0x7fff + ((wide >> 16) & 1)) >> 16)};
  }
  double value() const {
    uint32_t const wide = uint32_t(bits) << 16;
    float out;
    std::memcpy(&out, &wide, sizeof(out));
    return out;
  }
};
struct F32 {
  static constexpr int kBlock = 1, kBits = 32;
  float bits;
  static F32 round(double value) { return {static_cast<float>(value)}; }
  double value() const { return bits; }
};

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

template <class A, class B, class Output, int kStoreBytes, int kClusterMultiple>
struct Host {
  // FP4 beside FP8 is read 128 elements at a time.
  static constexpr int64_t kOfA = A::kBits < B::kBits ? 128 : 128 / A::kBits;
  static constexpr int64_t kOfB = B::kBits < A::kBits ? 128 : 128 / B::kBits;
  static constexpr int64_t kOfD = kStoreBytes * 8 / Output::kBits;
  using C = std::conditional_t<Output::kBlock == 1, Output, Bf16>;

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
      sizeof(Args),                                                                               \
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
HOST_KERNEL(host_nvfp4_ultra, Nvfp4, Nvfp4, Bf16, 32, 1)
HOST_KERNEL(host_nvfp4_quantized, Nvfp4, Nvfp4, Nvfp4, 16, 1)
HOST_KERNEL(host_mxfp4, Mxfp4, Mxfp4, Bf16, 16, 1)
HOST_KERNEL(host_mxfp8, Mxfp8, Mxfp8, Bf16, 16, 1)
HOST_KERNEL(host_mxfp8_e5m2, Mxfp8E5m2, Mxfp8, Bf16, 16, 1)
HOST_KERNEL(host_mxfp8_quantized, Mxfp8, Mxfp8, Mxfp8, 16, 1)
HOST_KERNEL(host_mxfp8_mxfp4, Mxfp8, Mxfp4, Bf16, 16, 1)
HOST_KERNEL(host_mxfp4_mxfp8, Mxfp4, Mxfp8, Bf16, 16, 1)
HOST_KERNEL(host_mxfp8_c, Mxfp8, Mxfp8, Bf16, 16, 1)
HOST_KERNEL(host_mxfp8_f32, Mxfp8, Mxfp8, F32, 16, 1)
HOST_KERNEL(host_mxfp4_f32, Mxfp4, Mxfp4, F32, 16, 1)

// Kernels that run on the host, behind the ABI of real ones: the binding and the op are tested end to
// end with them on machines without a GPU. Each computes in double, whatever its tile.
#include <cmath>
#include <cstring>

#include "tilewright/abi.h"
#include "tilewright/gemm/args.h"

namespace {

struct Bf16 {
  uint16_t bits;
};
struct E4m3 {
  uint8_t bits;
};

double load(Bf16 value) {
  uint32_t const wide = uint32_t(value.bits) << 16;
  float out;
  std::memcpy(&out, &wide, sizeof(out));
  return out;
}
double load(E4m3 value) {
  int const exponent = value.bits >> 3 & 15, mantissa = value.bits & 7;
  double const size = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  if ((value.bits & 0x7F) == 0x7F) {
    return NAN;
  }
  return (value.bits & 0x80) != 0 ? -size : size;
}
double load(float value) { return value; }
double load(int8_t value) { return value; }

void store(Bf16& to, double value) {
  float const narrow = static_cast<float>(value);
  uint32_t wide;
  std::memcpy(&wide, &narrow, sizeof(wide));
  to.bits = static_cast<uint16_t>((wide + 0x7fff + ((wide >> 16) & 1)) >> 16);
}
void store(E4m3& to, double value) {
  E4m3 best{uint8_t(std::signbit(value) ? 0x80 : 0)};
  for (int bits = 0; bits < 0x7F; ++bits) {  // the nearest, of two such the even one; no further than 448
    E4m3 const one{uint8_t(bits | (best.bits & 0x80))};
    double const nearer = std::fabs(load(best) - value) - std::fabs(load(one) - value);
    if (nearer > 0 || (nearer == 0 && bits % 2 == 0)) {
      best = one;
    }
  }
  to = best;
}
void store(float& to, double value) { to = static_cast<float>(value); }
void store(int32_t& to, double value) { to = static_cast<int32_t>(value); }

double addend(int32_t type, void const* array, int64_t i) {
  switch (type) {
    case TILEWRIGHT_ADDEND_F32:
      return static_cast<float const*>(array)[i];
    case TILEWRIGHT_ADDEND_BF16:
      return load(static_cast<Bf16 const*>(array)[i]);
    case TILEWRIGHT_ADDEND_S32:
      return static_cast<int32_t const*>(array)[i];
    default:
      return NAN;  // nobody adds f16 here
  }
}

template <class Input, class Output, bool kAKMajor, bool kBKMajor, bool kRelu>
int32_t launch(void const* opaque, void* workspace, void*) {
  auto const& args = *static_cast<tilewright_gemm_args const*>(opaque);
  if (args.tactic.splits > 1 && workspace == nullptr) {
    return TILEWRIGHT_WORKSPACE_MISSING;
  }
  auto const* a = static_cast<Input const*>(args.a);
  auto const* b = static_cast<Input const*>(args.b);
  auto* d = static_cast<Output*>(args.d);
  double const scale = (args.scale_a ? *args.scale_a : 1.0) * (args.scale_b ? *args.scale_b : 1.0);
  for (int64_t l = 0; l < args.batch; ++l) {
    for (int64_t i = 0; i < args.m; ++i) {
      for (int64_t j = 0; j < args.n; ++j) {
        double sum = 0;
        for (int64_t p = 0; p < args.k; ++p) {
          int64_t const at = l * args.batch_stride_a + (kAKMajor ? i * args.ld_a + p : p * args.ld_a + i);
          int64_t const bt = l * args.batch_stride_b + (kBKMajor ? j * args.ld_b + p : p * args.ld_b + j);
          sum += load(a[at]) * load(b[bt]);
        }
        double value = args.alpha * scale * sum;
        if (args.beta != 0) {
          value += args.beta * addend(args.type_c, args.c, l * args.batch_stride_c + i * args.ld_c + j);
        }
        if (args.bias != nullptr) {
          value += addend(args.type_bias, args.bias, j);
        }
        if (kRelu && value < 0) {
          value = 0;
        }
        if (args.amax != nullptr) {
          *args.amax = std::fmax(*args.amax, static_cast<float>(std::fabs(value)));
        }
        value *= args.scale_result != nullptr ? *args.scale_result : 1.0;
        store(d[l * args.batch_stride_d + i * args.ld_d + j], value);
      }
    }
  }
  return TILEWRIGHT_OK;
}

// silu of the first half of the product's columns times the other half.
struct SiluMul {};

template <class Activation>
int32_t launch(void const* opaque, void*, void*) {
  auto const& args = *static_cast<tilewright_gemm_args const*>(opaque);
  auto const* a = static_cast<Bf16 const*>(args.a);
  auto const* b = static_cast<Bf16 const*>(args.b);
  auto* d = static_cast<Bf16*>(args.d);
  double const scale = (args.scale_a ? *args.scale_a : 1.0) * (args.scale_b ? *args.scale_b : 1.0);
  if (args.activation != TILEWRIGHT_ACTIVATION_SILU || args.n % 16 != 0 || args.beta != 0) {
    return TILEWRIGHT_NOT_SUPPORTED;
  }
  auto const element = [&](int64_t l, int64_t i, int64_t j) {
    double sum = 0;
    for (int64_t p = 0; p < args.k; ++p) {
      sum += load(a[l * args.batch_stride_a + i * args.ld_a + p]) * load(b[l * args.batch_stride_b + j * args.ld_b + p]);
    }
    return args.alpha * scale * sum + (args.bias != nullptr ? addend(args.type_bias, args.bias, j) : 0.0);
  };
  for (int64_t l = 0; l < args.batch; ++l) {
    for (int64_t i = 0; i < args.m; ++i) {
      for (int64_t j = 0; j < args.n / 2; ++j) {
        double const gate = element(l, i, j);
        store(d[l * args.batch_stride_d + i * args.ld_d + j],
              gate / (1 + std::exp(-gate)) * element(l, i, args.n / 2 + j));
      }
    }
  }
  return TILEWRIGHT_OK;
}

int32_t can_implement(void const* opaque) {
  auto const& args = *static_cast<tilewright_gemm_args const*>(opaque);
  return args.m > 0 && args.n > 0 && args.k > 0 ? TILEWRIGHT_OK : TILEWRIGHT_NOT_SUPPORTED;
}

int64_t workspace_bytes(void const* opaque) {
  auto const& args = *static_cast<tilewright_gemm_args const*>(opaque);
  return args.tactic.splits > 1 ? int64_t(args.tactic.splits) * args.m * args.n * 4 : 0;
}

}  // namespace

constexpr uint32_t kArgs = sizeof(tilewright_gemm_args);

// `ARGS`: the bytes of the argument struct, as the kernel says it.
#define HOST_KERNEL(NAME, VERSION, ARGS, ...)                                                     \
  extern "C" __attribute__((visibility("default"))) tilewright_kernel const tilewright_##NAME = { \
      VERSION, ARGS, 384, 100000, #NAME, &can_implement, &workspace_bytes, &launch<__VA_ARGS__>};

HOST_KERNEL(host_bf16_tn, TILEWRIGHT_ABI_VERSION, kArgs, Bf16, Bf16, true, true, false)
HOST_KERNEL(host_bf16_tn_relu, TILEWRIGHT_ABI_VERSION, kArgs, Bf16, Bf16, true, true, true)
HOST_KERNEL(host_bf16_tn_streamk, TILEWRIGHT_ABI_VERSION, kArgs, Bf16, Bf16, true, true, false)
HOST_KERNEL(host_bf16_nt, TILEWRIGHT_ABI_VERSION, kArgs, Bf16, Bf16, false, false, false)
HOST_KERNEL(host_tf32_tn, TILEWRIGHT_ABI_VERSION, kArgs, float, float, true, true, false)
HOST_KERNEL(host_s8_tn, TILEWRIGHT_ABI_VERSION, kArgs, int8_t, int32_t, true, true, false)
HOST_KERNEL(host_e4m3_lean, TILEWRIGHT_ABI_VERSION, kArgs, E4m3, Bf16, true, true, false)
HOST_KERNEL(host_e4m3_lean_turns, TILEWRIGHT_ABI_VERSION, kArgs, E4m3, Bf16, true, true, false)
HOST_KERNEL(host_e4m3_lean_e4m3, TILEWRIGHT_ABI_VERSION, kArgs, E4m3, E4m3, true, true, false)
HOST_KERNEL(host_bf16_gated, TILEWRIGHT_ABI_VERSION, kArgs, SiluMul)
HOST_KERNEL(host_old_abi, 77, kArgs, Bf16, Bf16, true, true, false)
HOST_KERNEL(host_other_struct, TILEWRIGHT_ABI_VERSION, kArgs + 8, Bf16, Bf16, true, true, false)

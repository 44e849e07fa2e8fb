// Quantising kernels that run on the host, behind the ABI of real ones: the definitions of
// tilewright/reference, operation by operation in float, and the formulae of the scales' layouts.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "tilewright/abi.h"
#include "tilewright/quantize/args.h"

namespace {

using Args = tilewright_quantize_args;

template <class To, class From>
To bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

// A small binary float: of code 0 to `kLargest` without the sign, then NaN, or infinity for E5M2.
template <int kExponent, int kMantissa, int kBias, int kLargest, int kNan>
struct Small {
  static constexpr int kSign = 1 << (kExponent + kMantissa);
  static float decode(int code) {
    int const size = code & (kSign - 1), exponent = size >> kMantissa, mantissa = size & ((1 << kMantissa) - 1);
    float value = exponent == 0 ? std::ldexp(float(mantissa), 1 - kBias - kMantissa)
                                : std::ldexp(float(mantissa + (1 << kMantissa)), exponent - kBias - kMantissa);
    if (size > kLargest) {
      value = size == kLargest + 1 && kMantissa == 2 && kExponent == 5 ? INFINITY : NAN;
    }
    return code & kSign ? -value : value;
  }
  // Nearest, ties to the even code; saturating.
  static int encode(float value) {
    if (std::isnan(value)) {
      return kNan;
    }
    int best = 0;
    double const size = std::abs(double(value));
    bool const saturates = size >= decode(kLargest);
    for (int code = 1; code <= kLargest && !saturates; ++code) {
      double const now = std::abs(size - decode(code)), before = std::abs(size - decode(best));
      best = now < before || (now == before && code % 2 == 0) ? code : best;
    }
    best = saturates ? kLargest : best;
    return std::signbit(value) ? best | kSign : best;
  }
};
using E2m1 = Small<2, 1, 1, 7, 7>;
using E4m3 = Small<4, 3, 7, 0x7E, 0x7F>;
using E5m2 = Small<5, 2, 15, 0x7B, 0x7F>;

float ue8m0(int code) { return code == 255 ? NAN : std::ldexp(1.0f, code - 127); }
int encode_ue8m0(float value) {
  if (std::isnan(value)) {
    return 255;
  }
  int code = 0;
  while (code < 254 && ue8m0(code) < value) {
    ++code;
  }
  return code;
}

struct Bf16 {
  static constexpr int kBytes = 2;
  static float read(char const* at) {
    uint16_t half;
    std::memcpy(&half, at, 2);
    return bits<float>(uint32_t(half) << 16);
  }
  static void write(char* at, float value) {
    uint32_t const wide = bits<uint32_t>(value);
    uint16_t const half = std::isnan(value) ? 0x7FC0 : (wide + 0x7FFF + ((wide >> 16) & 1)) >> 16;
    std::memcpy(at, &half, 2);
  }
};
struct F32 {
  static constexpr int kBytes = 4;
  static float read(char const* at) {
    float value;
    std::memcpy(&value, at, 4);
    return value;
  }
  static void write(char* at, float value) { std::memcpy(at, &value, 4); }
};
struct E4m3In {
  static constexpr int kBytes = 1;
  static float read(char const* at) { return E4m3::decode(static_cast<uint8_t>(*at)); }
  static void write(char*, float) {}
};

// Formats: rows and columns of a block, bits of an element, and what an amax makes.
struct Scale {
  uint32_t stored;  // a byte, or a float's bits
  float factor;
};
template <class Element, int kMax_>
struct Mx {
  using Of = Element;
  static constexpr int kRows = 1, kColumns = 32, kBits = Element::kSign == 8 ? 4 : 8;
  static constexpr bool kFloats = false;
  static Scale encode(float amax, float, bool) {
    int const code = encode_ue8m0(amax / float(kMax_));
    return {uint32_t(code), amax == 0 ? 0.0f : float(1.0 / double(ue8m0(code)))};
  }
};
struct Nvfp4 : Mx<E2m1, 6> {
  static constexpr int kColumns = 16;
  static Scale encode(float amax, float global, bool) {
    int const code = E4m3::encode(global * (amax / 6.0f));
    return {uint32_t(code), amax == 0 ? 0.0f : 1.0f / (E4m3::decode(code) / global)};
  }
};
template <int kHeight, int kWidth = 128>
struct Fp8 {
  using Of = E4m3;
  static constexpr int kRows = kHeight, kColumns = kWidth, kBits = 8;
  static constexpr bool kFloats = true;
  static Scale encode(float amax, float, bool packed) {
    float const share = (amax < 1e-4f ? 1e-4f : amax) / 448.0f;
    if (!packed) {
      return {bits<uint32_t>(share), 1.0f / share};
    }
    int const code = encode_ue8m0(share);
    return {uint32_t(code), float(1.0 / double(ue8m0(code)))};
  }
};

// Where the scale of a row and column lies in its group's, in bytes or floats.
int64_t place(Args const& args, int64_t r, int64_t c, int64_t columns, int block_rows) {
  int64_t const tiles = (columns + 3) / 4;
  switch (args.layout) {
    case TILEWRIGHT_SCALES_128X4:
      return ((r / 128) * tiles + c / 4) * 512 + (r % 32) * 16 + ((r % 128) / 32) * 4 + c % 4;
    case TILEWRIGHT_SCALES_8X4:
      return ((r / 8) * tiles + c / 4) * 32 + (r % 8) * 4 + c % 4;
    case TILEWRIGHT_SCALES_M_MAJOR:
      return c * args.ld_scales + r;
    case TILEWRIGHT_SCALES_PACKED:
      return ((c / 4) * args.ld_scales + r) * 4 + c % 4;
    default:
      return r / block_rows * columns + c;
  }
}

// Bytes of a group's scales, padding included.
int64_t scale_bytes(Args const& args, int64_t columns, int block_rows, bool floats) {
  int64_t const tile = args.layout == TILEWRIGHT_SCALES_128X4 ? 128 : args.layout == TILEWRIGHT_SCALES_8X4 ? 8 : 0;
  if (tile != 0) {
    return (args.m + tile - 1) / tile * tile * ((columns + 3) / 4 * 4);
  }
  if (args.layout == TILEWRIGHT_SCALES_M_MAJOR || args.layout == TILEWRIGHT_SCALES_PACKED) {
    return args.ld_scales * 4 * (args.layout == TILEWRIGHT_SCALES_PACKED ? (columns + 3) / 4 : columns);
  }
  return (args.m + block_rows - 1) / block_rows * columns * (floats ? 4 : 1);
}

enum Fusion { kPlain, kSiluMul, kRmsNorm };

template <class Format, class X, Fusion kFusion>
struct Common {
  static int32_t can_implement(void const* opaque) {
    auto const& args = *static_cast<Args const*>(opaque);
    bool const bytes = args.layout <= TILEWRIGHT_SCALES_LINEAR;
    int const parts = kFusion == kSiluMul ? 2 : 1;
    bool const of_kernel = bytes != Format::kFloats && (args.x_parts == 0 || args.x_parts == parts);
    return of_kernel && args.k % 16 == 0 && args.ld_x * X::kBytes % 16 == 0 ? TILEWRIGHT_OK : TILEWRIGHT_NOT_SUPPORTED;
  }
  static int64_t workspace_bytes(void const*) { return 0; }

  Args const& args;
  int64_t const columns = (args.k + Format::kColumns - 1) / Format::kColumns;

  int64_t valid(int64_t group) const {
    int64_t const given = args.rows_valid == nullptr ? args.m : args.rows_valid[group];
    return given < 0 ? 0 : given < args.m ? given : args.m;
  }
  float global(int64_t group, int64_t row) const {
    return args.global_scale == nullptr ? 1.0f : args.global_scale[args.scale_per_row ? group * args.m + row : 0];
  }
  char* x(int64_t group, int64_t row, int64_t column) const {
    return static_cast<char*>(args.x) + (group * args.batch_stride_x + row * args.ld_x + column) * X::kBytes;
  }
  uint8_t* data(int64_t group, int64_t row, int64_t column) const {
    return static_cast<uint8_t*>(args.data) +
           (group * args.batch_stride_data + row * args.ld_data + column) * Format::kBits / 8;
  }
  uint8_t* scales(int64_t group) const {
    return static_cast<uint8_t*>(args.scales) + group * scale_bytes(args, columns, Format::kRows, Format::kFloats);
  }
  bool packed() const { return args.layout == TILEWRIGHT_SCALES_PACKED; }
};

template <class Format, class X, Fusion kFusion>
struct Quantize : Common<Format, X, kFusion> {
  using Base = Common<Format, X, kFusion>;

  static int32_t launch(void const* opaque, void*, void*) {
    if (Base::can_implement(opaque) != TILEWRIGHT_OK) {
      return TILEWRIGHT_NOT_SUPPORTED;
    }
    Quantize const kernel{{*static_cast<Args const*>(opaque)}};
    for (int64_t group = 0; group < kernel.args.groups; ++group) {
      kernel.group(group);
    }
    return TILEWRIGHT_OK;
  }

  void group(int64_t group) const {
    Args const& args = this->args;
    uint8_t* const scales = this->scales(group);
    std::memset(scales, 0, scale_bytes(args, this->columns, Format::kRows, Format::kFloats));
    int64_t const valid = this->valid(group);
    std::vector<float> values(valid * args.k);
    for (int64_t row = 0; row < valid; ++row) {
      read(group, row, values.data() + row * args.k);
    }
    for (int64_t first = 0; first < valid; first += Format::kRows) {
      int64_t const last = first + Format::kRows < valid ? first + Format::kRows : valid;
      for (int64_t c = 0; c < this->columns; ++c) {
        block(group, first, last, c, values.data(), scales);
      }
    }
  }

  void read(int64_t group, int64_t row, float* values) const {
    Args const& args = this->args;
    double squares = 0;
    for (int64_t i = 0; i < args.k; ++i) {
      values[i] = X::read(this->x(group, row, i));
      squares += double(values[i]) * values[i];
      if (kFusion == kSiluMul) {
        values[i] = values[i] / (1.0f + std::exp(-values[i])) * X::read(this->x(group, row, args.k + i));
      }
    }
    for (int64_t i = 0; kFusion == kRmsNorm && i < args.k; ++i) {
      float const weight = X::read(static_cast<char const*>(args.weight) + i * X::kBytes);
      values[i] = values[i] * float(1 / std::sqrt(squares / args.k + args.epsilon)) * weight;
    }
  }

  void block(int64_t group, int64_t first, int64_t last, int64_t c, float const* values, uint8_t* scales) const {
    Args const& args = this->args;
    int64_t const begin = c * Format::kColumns, end = std::min<int64_t>(begin + Format::kColumns, args.k);
    float amax = 0;
    for (int64_t row = first; row < last; ++row) {
      for (int64_t i = begin; i < end; ++i) {
        float const size = std::abs(values[row * args.k + i]);
        amax = std::isnan(size) || std::isnan(amax) ? NAN : std::max(amax, size);
      }
    }
    for (int64_t row = first; row < last; ++row) {
      Scale const scale = Format::encode(amax, this->global(group, row), this->packed());
      int64_t const at = place(args, row, c, this->columns, Format::kRows);
      if (Format::kFloats && !this->packed()) {
        std::memcpy(scales + at * 4, &scale.stored, 4);
      } else {
        scales[at] = static_cast<uint8_t>(scale.stored);
      }
      for (int64_t i = begin; i < end; ++i) {
        int const code = Format::Of::encode(values[row * args.k + i] * scale.factor);
        uint8_t* const target = this->data(group, row, i);
        if (Format::kBits == 8) {
          *target = static_cast<uint8_t>(code);
        } else {
          *target = static_cast<uint8_t>(i % 2 ? (*target & 15) | code << 4 : (*target & 240) | code);
        }
      }
    }
  }
};

template <class Format, class X>
struct Dequantize : Common<Format, X, kPlain> {
  using Base = Common<Format, X, kPlain>;

  static int32_t launch(void const* opaque, void*, void*) {
    if (Base::can_implement(opaque) != TILEWRIGHT_OK) {
      return TILEWRIGHT_NOT_SUPPORTED;
    }
    Dequantize const kernel{{*static_cast<Args const*>(opaque)}};
    Args const& args = kernel.args;
    for (int64_t group = 0; group < args.groups; ++group) {
      for (int64_t row = 0; row < kernel.valid(group); ++row) {
        for (int64_t i = 0; i < args.k; ++i) {
          int const shift = Format::kBits == 4 ? i % 2 * 4 : 0;
          float const element = Format::Of::decode(*kernel.data(group, row, i) >> shift & ((1 << Format::kBits) - 1));
          X::write(kernel.x(group, row, i), kernel.value(group, row, i, element));
        }
      }
    }
    return TILEWRIGHT_OK;
  }

  float value(int64_t group, int64_t row, int64_t i, float element) const {
    int64_t const at = place(this->args, row, i / Format::kColumns, this->columns, Format::kRows);
    uint8_t const* const scales = this->scales(group);
    if constexpr (Format::kFloats) {
      return element *
             (this->packed() ? ue8m0(scales[at]) : bits<float>(reinterpret_cast<uint32_t const*>(scales)[at]));
    } else if constexpr (Format::kColumns == 16) {
      return element * E4m3::decode(scales[at]) / this->global(group, row);
    } else {
      return element * ue8m0(scales[at]);
    }
  }
};

}  // namespace

#define HOST_KERNEL(NAME, ...)                                                                        \
  extern "C" __attribute__((visibility("default"))) tilewright_kernel const tilewright_##NAME = {     \
      TILEWRIGHT_ABI_VERSION,        sizeof(Args),        256, 0, #NAME, &__VA_ARGS__::can_implement, \
      &__VA_ARGS__::workspace_bytes, &__VA_ARGS__::launch};

using Mxfp4 = Mx<E2m1, 6>;
using Mxfp8 = Mx<E4m3, 448>;
using Mxfp8E5m2 = Mx<E5m2, 57344>;
HOST_KERNEL(host_to_nvfp4_bf16, Quantize<Nvfp4, Bf16, kPlain>)
HOST_KERNEL(host_to_nvfp4_bf16_tma, Quantize<Nvfp4, Bf16, kPlain>)
HOST_KERNEL(host_to_nvfp4_bf16_fast, Quantize<Nvfp4, Bf16, kPlain>)
HOST_KERNEL(host_to_nvfp4_f32, Quantize<Nvfp4, F32, kPlain>)
HOST_KERNEL(host_to_nvfp4_e4m3, Quantize<Nvfp4, E4m3In, kPlain>)
HOST_KERNEL(host_to_nvfp4_silu, Quantize<Nvfp4, Bf16, kSiluMul>)
HOST_KERNEL(host_to_nvfp4_norm, Quantize<Nvfp4, Bf16, kRmsNorm>)
HOST_KERNEL(host_to_mxfp4_bf16, Quantize<Mxfp4, Bf16, kPlain>)
HOST_KERNEL(host_to_mxfp8_bf16, Quantize<Mxfp8, Bf16, kPlain>)
HOST_KERNEL(host_to_mxfp8_f32, Quantize<Mxfp8, F32, kPlain>)
HOST_KERNEL(host_to_mxfp8_e5m2_bf16, Quantize<Mxfp8E5m2, Bf16, kPlain>)
HOST_KERNEL(host_to_rows_bf16, Quantize<Fp8<1>, Bf16, kPlain>)
HOST_KERNEL(host_to_rows_f32, Quantize<Fp8<1>, F32, kPlain>)
HOST_KERNEL(host_to_rows_silu, Quantize<Fp8<1>, Bf16, kSiluMul>)
HOST_KERNEL(host_to_columns_bf16, Quantize<Fp8<128, 1>, Bf16, kPlain>)
HOST_KERNEL(host_to_squares_bf16, Quantize<Fp8<128>, Bf16, kPlain>)
HOST_KERNEL(host_back_nvfp4_bf16, Dequantize<Nvfp4, Bf16>)
HOST_KERNEL(host_back_nvfp4_f32, Dequantize<Nvfp4, F32>)
HOST_KERNEL(host_back_mxfp4_bf16, Dequantize<Mxfp4, Bf16>)
HOST_KERNEL(host_back_mxfp8_bf16, Dequantize<Mxfp8, Bf16>)
HOST_KERNEL(host_back_mxfp8_e5m2_bf16, Dequantize<Mxfp8E5m2, Bf16>)
HOST_KERNEL(host_back_rows_bf16, Dequantize<Fp8<1>, Bf16>)
HOST_KERNEL(host_back_columns_bf16, Dequantize<Fp8<128, 1>, Bf16>)
HOST_KERNEL(host_back_squares_bf16, Dequantize<Fp8<128>, Bf16>)

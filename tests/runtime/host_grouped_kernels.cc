// Scaled and grouped products on the host, behind the ABI of real ones. Each computes in double, whatever its tile.
// Rows of padding stay as they are where none of the 64 that lie between the same multiples counts, unless all are
// zeroed.
#include <cmath>
#include <cstring>
#include <type_traits>

#include "tilewright/abi.h"
#include "tilewright/grouped_gemm/args.h"

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
double load(float value) { return value; }
double load(E4m3 value) {
  int const exponent = value.bits >> 3 & 15, mantissa = value.bits & 7;
  double const magnitude = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  double const known = exponent == 15 && mantissa == 7 ? NAN : magnitude;
  return value.bits & 128 ? -known : known;
}

void store(Bf16& to, double value) {
  float const narrow = static_cast<float>(value);
  uint32_t wide;
  std::memcpy(&wide, &narrow, sizeof(wide));
  to.bits = static_cast<uint16_t>((wide + 0x7fff + ((wide >> 16) & 1)) >> 16);
}
void store(float& to, double value) { to = static_cast<float>(value); }

struct E2m1;  // two to a byte, the even one in the low four bits

// The elements of a matrix.
template <class Input>
struct Elements {
  Input const* at;

  explicit Elements(void const* address) : at(static_cast<Input const*>(address)) {}
  double operator[](int64_t i) const { return load(at[i]); }
};
template <>
struct Elements<E2m1> {
  uint8_t const* at;

  explicit Elements(void const* address) : at(static_cast<uint8_t const*>(address)) {}
  double operator[](int64_t i) const {
    constexpr double kMagnitudes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    int const bits = at[i / 2] >> i % 2 * 4 & 15;
    return bits & 8 ? -kMagnitudes[bits & 7] : kMagnitudes[bits];
  }
};

using Args = tilewright_grouped_gemm_args;

// The group of a row of matrix `matrix` of A; -1 where it is of none.
int group_of(Args const& args, int matrix, int row) {
  switch (args.grouping) {
    case TILEWRIGHT_GROUPING_ROW_INDEX:
      return args.group_of_row[row] < args.groups ? args.group_of_row[row] : -1;
    case TILEWRIGHT_GROUPING_ENDS: {
      int start = 0;
      for (int group = 0; group < args.groups; ++group) {
        if (row >= start && row < args.group_ends[group]) {
          return group;
        }
        start = (args.group_ends[group] + args.row_alignment - 1) / args.row_alignment * args.row_alignment;
      }
      return -1;
    }
    case TILEWRIGHT_GROUPING_ROWS_VALID:
      return row < args.rows_valid[matrix] ? matrix : -1;
    default:
      return matrix;
  }
}

// The UE8M0 factor of a block of k, of words of four.
double factor_in_words(float const* scales, int64_t words_between, int block, int64_t line) {
  uint32_t word;
  std::memcpy(&word, scales + block / 4 * words_between + line, sizeof(word));
  uint32_t const code = word >> block % 4 * 8 & 0xFF;
  return code == 0xFF ? NAN : std::ldexp(1.0, int(code) - 127);
}

double scale_b(Args const& args, int group, int block, int column) {
  int64_t const at = args.scales_k_major ? block + column * args.ld_scale_b : block * args.ld_scale_b + column;
  return args.scale_b[group * args.batch_stride_scale_b + at];
}

// Parts of k without scales: rows of A and B, which have m and n contiguous.
template <class Output>
void multiply_rows(Args const& args) {
  auto const* a = static_cast<Bf16 const*>(args.a);
  auto const* b = static_cast<Bf16 const*>(args.b);
  auto const* c = static_cast<Output const*>(args.c);
  auto* d = static_cast<Output*>(args.d);
  int64_t start = 0;
  for (int64_t g = 0; g < args.groups; start += args.group_k[g], ++g) {
    for (int64_t i = 0; i < args.m; ++i) {
      for (int64_t j = 0; j < args.n; ++j) {
        double sum = c != nullptr ? load(c[g * args.batch_stride_c + i * args.ld_c + j]) : 0;
        for (int64_t p = start; p < start + args.group_k[g]; ++p) {
          sum += load(a[p * args.ld_a + i]) * load(b[p * args.ld_b + j]);
        }
        store(d[g * args.batch_stride_d + i * args.ld_d + j], sum);
      }
    }
  }
}

// The factors of element `p` of k of row `i` of A and column `j` of B, which lie at these addresses. `kBlock`: elements
// of k that share a factor of words of four; 0: factors are F32, of 128.
template <int kBlock>
double factors(Args const& args, float const* scale_a, float const* scale_b, int64_t p, int64_t i, int64_t j) {
  if (kBlock == 0) {
    return double(scale_a[p / 128 * args.ld_scale_a + i]) * scale_b[p / 128 * args.ld_scale_b + j];
  }
  int const block = int(p) / (kBlock + !kBlock);
  return factor_in_words(scale_a, args.ld_scale_a, block, i) * factor_in_words(scale_b, args.ld_scale_b, block, j);
}

// Parts of k: each group's memory follows that of the one before it.
template <class Input, class Output, int kBlock>
void multiply_parts(Args const& args) {
  auto const* c = static_cast<Output const*>(args.c);
  auto* d = static_cast<Output*>(args.d);
  int64_t start = 0;
  for (int64_t g = 0; g < args.groups; ++g) {
    int64_t const k = args.group_k[g];
    auto const* a = static_cast<Input const*>(args.a) + start * args.m;
    auto const* b = static_cast<Input const*>(args.b) + start * args.n;
    for (int64_t i = 0; i < args.m; ++i) {
      for (int64_t j = 0; j < args.n; ++j) {
        double sum = c != nullptr ? load(c[g * args.batch_stride_c + i * args.ld_c + j]) : 0;
        for (int64_t p = 0; p < k; ++p) {
          sum += load(a[i * k + p]) * load(b[j * k + p]) *
                 factors<kBlock>(args, args.scale_a, args.scale_b, start + p, i, j);
        }
        store(d[g * args.batch_stride_d + i * args.ld_d + j], sum);
      }
    }
    start += k;
  }
}

// Whether a row stays as it is: one of 64 that all are padding.
bool stays(Args const& args, int matrix, int row) {
  bool counts = args.zero_padding != 0;
  for (int other = row / 64 * 64; other < row / 64 * 64 + 64 && other < args.m; ++other) {
    counts = counts || group_of(args, matrix, other) >= 0;
  }
  return !counts;
}

// `kColumnsOfScale`: columns of B that share a factor; 0: there are no factors. `kBlock`: as `factors` has it.
template <class Input, class Output, int kColumnsOfScale, bool kRowMajorB = false, int kBlock = 0,
          class InputB = Input>
int32_t launch(void const* opaque, void*, void*) {
  auto const& args = *static_cast<Args const*>(opaque);
  if (args.grouping == TILEWRIGHT_GROUPING_K_SIZES) {
    for (int g = 0; g < args.groups; ++g) {  // kernels of a GPU multiply whole stages
      if (args.group_k[g] % (kColumnsOfScale == 0 ? 64 : 128) != 0) {
        return TILEWRIGHT_NOT_SUPPORTED;
      }
    }
    if constexpr (kColumnsOfScale == 0) {
      multiply_rows<Output>(args);
    } else if constexpr (std::is_same_v<Input, E2m1> || std::is_same_v<InputB, E2m1>) {
      return TILEWRIGHT_NOT_SUPPORTED;
    } else {
      multiply_parts<Input, Output, kBlock>(args);
    }
    return TILEWRIGHT_OK;
  }
  Elements<Input> const a(args.a);
  Elements<InputB> const b(args.b);
  auto const* c = static_cast<Output const*>(args.c);
  auto* d = static_cast<Output*>(args.d);
  bool const own = args.grouping == TILEWRIGHT_GROUPING_NONE || args.grouping == TILEWRIGHT_GROUPING_ROWS_VALID;
  for (int l = 0; l < (own ? args.groups : 1); ++l) {
    for (int i = 0; i < args.m; ++i) {
      int const group = group_of(args, l, i);
      if (stays(args, l, i)) {
        continue;
      }
      for (int j = 0; j < args.n; ++j) {
        double sum = 0;
        for (int p = 0; group >= 0 && p < args.k; ++p) {
          double factor = 1;
          if (kBlock > 0) {
            factor = factors<kBlock>(args, args.scale_a + l * args.batch_stride_scale_a,
                                     args.scale_b + group * args.batch_stride_scale_b, p, i, j);
          } else if (kColumnsOfScale > 0) {
            factor = args.scale_a[l * args.batch_stride_scale_a + p / 128 * args.ld_scale_a + i] *
                     scale_b(args, group, p / 128, j / kColumnsOfScale);
          }
          sum += factor * a[l * args.batch_stride_a + i * args.ld_a + p] *
                 b[group * args.batch_stride_b + (kRowMajorB ? p * args.ld_b + j : j * args.ld_b + p)];
        }
        if (c != nullptr) {
          sum += load(c[l * args.batch_stride_c + i * args.ld_c + j]);
        }
        int const head = args.head_left + args.head_right;
        int const column = head == 0 ? j : j + (j + args.head_right) / head * args.head_gap;
        store(d[l * args.batch_stride_d + i * args.ld_d + column], group < 0 ? 0 : sum);
      }
    }
  }
  return TILEWRIGHT_OK;
}

int32_t can_implement(void const* opaque) {
  auto const& args = *static_cast<Args const*>(opaque);
  return args.m > 0 && args.n > 0 && args.k > 0 && args.groups > 0 ? TILEWRIGHT_OK : TILEWRIGHT_NOT_SUPPORTED;
}

int64_t workspace_bytes(void const*) { return 0; }

}  // namespace

#define HOST_KERNEL(NAME, ...)                                                             \
  extern "C"                                                                               \
      __attribute__((visibility("default"))) tilewright_kernel const tilewright_##NAME = { \
          TILEWRIGHT_ABI_VERSION, sizeof(Args),        384, 100000, #NAME, &can_implement, \
          &workspace_bytes,       &launch<__VA_ARGS__>};

HOST_KERNEL(host_fp8_blocks, E4m3, Bf16, 128)
HOST_KERNEL(host_fp8_blocks_f32, E4m3, float, 128)
HOST_KERNEL(host_fp8_rows, E4m3, Bf16, 1)
HOST_KERNEL(host_fp8_rows_f32, E4m3, float, 1)
HOST_KERNEL(host_bf16, Bf16, Bf16, 0)
HOST_KERNEL(host_bf16_f32, Bf16, float, 0)
HOST_KERNEL(host_bf16_tt, Bf16, Bf16, 0, true)
HOST_KERNEL(host_bf16_f32_nt, Bf16, float, 0)
HOST_KERNEL(host_words_32, E4m3, Bf16, 1, false, 32)
HOST_KERNEL(host_words_32_f32, E4m3, float, 1, false, 32)
HOST_KERNEL(host_fp4, E2m1, Bf16, 1, false, 32)
HOST_KERNEL(host_fp4_f32, E2m1, float, 1, false, 32)
HOST_KERNEL(host_fp8_fp4, E4m3, Bf16, 1, false, 32, E2m1)
HOST_KERNEL(host_fp4_fp8, E2m1, Bf16, 1, false, 32, E4m3)
HOST_KERNEL(host_words_128, E4m3, Bf16, 1, false, 128)
HOST_KERNEL(host_words_128_f32, E4m3, float, 1, false, 128)

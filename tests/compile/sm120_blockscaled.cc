// Runs the `blockscaled_gemm` kernels of mma.sync on the host, all threads of them, with their host code: see
// test_sm120_gemm.py.
#include "host_products.hpp"

#include "tilewright/blockscaled_gemm/mma.hpp"
#include "tilewright/blockscaled_gemm/mma_host.hpp"

using namespace tilewright::blockscaled_gemm;
using host::fault;
using host::Matrix;
using host::random;
using mma::Mxfp4;
using mma::Mxfp8;
using mma::Mxfp8E5m2;
using mma::Nvfp4;
using tilewright::sm90::Activation;
using tilewright::sm90::Bf16;
using tilewright::sm90::E4m3;
using tilewright::sm90::E5m2;
using tilewright::sm90::F16;
using tilewright::sm90::F32;

namespace {

// A kernel, and the one that adds up parts of k.
template <class Kernel>
struct Traits : host::Traits<Kernel> {
  static void const* combining_entry() {
    return host::combining_entry_of<tilewright::sm90::Combine<Kernel>, tilewright::sm90::CombineParams>();
  }
};

struct Shape {
  int m, n, k, batch = 1;
};

struct Options {
  int splits = 1;
  bool c = false, bias = false, odd = false, broadcast_b = false;
  int activation = TILEWRIGHT_ACTIVATION_NONE;
};

// Bytes at a multiple of 16.
struct Bytes {
  std::vector<uint8_t> memory;

  explicit Bytes(size_t size, uint8_t value) : memory(size + 64, value) {}
  uint8_t* data() { return memory.data() + (16 - reinterpret_cast<uintptr_t>(memory.data()) % 16) % 16; }
};

// Random elements of a format, [batch, rows, k], with scale factors in the 128x4 layout. What lies between rows is no
// number where the format has one. Padding of scale factors is 0.
template <class Format>
struct Operand {
  using Element = tilewright::sm120::Decoded<tilewright::sm120::Code<typename Format::Element>>;
  static constexpr int kBlock = Format::kBlock, kBits = Format::kBits;
  int rows, k, batch;
  int64_t stride;  // elements between rows
  int scale_columns, atoms;
  Bytes data, scales;

  Operand(int high, int wide, int matrices)
      : rows(high),
        k(wide),
        batch(matrices),
        stride((wide + 128 / kBits - 1) / (128 / kBits) * (128 / kBits) + 128 / kBits),
        scale_columns((wide + kBlock - 1) / kBlock),
        atoms((scale_columns + 3) / 4),
        data(size_t(stride * high * matrices * kBits / 8), 0xFF),
        scales(size_t((high + 127) / 128 * matrices) * atoms * 512, 0) {
    for (int matrix = 0; matrix < batch; ++matrix) {
      for (int row = 0; row < rows; ++row) {
        for (int x = 0; x < k; ++x) {
          set(matrix, row, x, code());
        }
        for (int x = 0; x < scale_columns; ++x) {
          scales.data()[scale_at(matrix, row, x)] = scale_code();
        }
      }
    }
  }

  // A code of a small number.
  static unsigned code() {
    if (kBits == 4) {
      return random(16);
    }
    int const number = int(random(7)) - 3;  // whole
    for (unsigned bits = 0;; ++bits) {
      if (Element::value(bits) == number) {
        return bits;
      }
    }
  }
  static uint8_t scale_code() {
    constexpr uint8_t kE4m3[] = {0x28, 0x30, 0x34, 0x38, 0x40}, kE8[] = {125, 126, 127, 128};
    return kBlock == 16 ? kE4m3[random(5)] : kE8[random(4)];
  }
  static double scale_value(unsigned bits) {
    using tilewright::sm120::Code, tilewright::sm120::Decoded;
    return kBlock == 16 ? Decoded<Code<tilewright::sm120::Ue4m3>>::value(bits)
                        : Decoded<Code<tilewright::sm120::Ue8m0>>::value(bits);
  }

  void set(int matrix, int row, int x, unsigned bits) {
    int64_t const element = (int64_t(matrix) * rows + row) * stride + x;
    uint8_t& byte = data.data()[element * kBits / 8];
    byte = kBits == 8 ? uint8_t(bits) : element % 2 ? uint8_t((byte & 15) | bits << 4) : uint8_t((byte & 0xF0) | bits);
  }
  double at(int matrix, int row, int x) {
    int64_t const element = (int64_t(matrix) * rows + row) * stride + x;
    unsigned const byte = data.data()[element * kBits / 8];
    return Element::value(kBits == 8    ? byte
                          : element % 2 ? byte >> 4
                                        : byte & 15) *
           scale_value(scales.data()[scale_at(matrix, row, x / kBlock)]);
  }
  // As args.h says.
  int64_t scale_at(int matrix, int row, int column) const {
    int64_t const blocks = (rows + 127) / 128;
    return ((matrix * blocks + row / 128) * atoms + column / 4) * 512 + row % 32 * 16 + row % 128 / 32 * 4 + column % 4;
  }
};

tilewright_tactic tactic_of(int splits) {
  int const decomposition = splits > 1 ? TILEWRIGHT_DECOMPOSE_SPLIT_K : TILEWRIGHT_DECOMPOSE_HEURISTIC;
  return {TILEWRIGHT_RASTER_HEURISTIC, 2, decomposition, splits, 0, 1, 1, 0, 0, host::at_once};
}

double activated(double x, int activation) {
  switch (activation) {
    case TILEWRIGHT_ACTIVATION_RELU:
      return std::max(x, 0.0);
    case TILEWRIGHT_ACTIVATION_GELU:
      return 0.5 * x * (1.0 + std::erf(x / std::sqrt(2.0)));
    case TILEWRIGHT_ACTIVATION_SILU:
      return x / (1.0 + std::exp(-x));
    default:
      return x;
  }
}

// Whether an element of D is `exact`, rounded. Floats compute GELU and SiLU: `error` is how far they may be off.
template <class D>
bool is_rounded(typename D::Stored const& stored, double exact, double error) {
  if (error == 0) {
    typename D::Stored expected{};
    D::store(&expected, 0, float(exact));
    return std::memcmp(&expected, &stored, sizeof expected) == 0;
  }
  typename D::Stored bounds[2]{};
  D::store(bounds, 0, float(exact - error));
  D::store(bounds, 1, float(exact + error));
  auto const value = [](typename D::Stored const& element) { return tilewright::sm90::load(D::kAddend, &element, 0); };
  return value(bounds[0]) <= value(stored) && value(stored) <= value(bounds[1]);
}

// Computes a product by the kernel, and compares every element, and what lies around D, to the bit; with GELU or SiLU,
// to what floats leave of the definition.
template <class A, class B, class D, int TileM, int TileN, int TileK, int Stages, bool kSwapped = false,
          int kStoreBuffers = 2, Activation kActivation = Activation::kNone>
void product(Shape const& shape, Options const& options = {}) {
  using OwnA = std::conditional_t<kSwapped, B, A>;
  using OwnB = std::conditional_t<kSwapped, A, B>;
  using Kernel = mma::Kernel<OwnA, OwnB, D, TileM, TileN, TileK, Stages, kSwapped, kActivation, kStoreBuffers, true>;
  using Calls = mma::Calls<Traits<Kernel>>;
  auto const [m, n, k, batch] = shape;
  Operand<A> a(m, k, batch);
  Operand<B> b(n, k, options.broadcast_b ? 1 : batch);
  constexpr int kVector = 16 / D::kBytes;
  Matrix<D> d(batch, m, n, options.odd ? 5 : (kVector - n % kVector) % kVector + kVector, 9);
  using Added = std::conditional_t<D::kBytes == 1, Bf16, D>;
  Matrix<Added> c(batch, m, n, kVector + (kVector - n % kVector) % kVector, 5);
  Matrix<Added> bias(1, 1, n, 0, 9);
  float const alpha = 0.5f;

  tilewright_blockscaled_gemm_appended_args given{};
  given.bias = options.bias ? bias.data(1) : nullptr;  // it may begin at any element
  given.activation = options.activation;
  tilewright_blockscaled_gemm_args& args = given.base;
  args.m = m, args.n = n, args.k = k, args.batch = batch;
  args.a = a.data.data(), args.b = b.data.data(), args.d = d.data(options.odd ? 1 : 0);
  // The scale factors of a matrix that serves every batch are repeated.
  args.scale_a = a.scales.data();
  args.scale_b = b.scales.data();
  args.c = options.c ? c.data() : nullptr;
  args.alpha = &alpha, args.beta = options.c ? -3.0f : 0.0f;
  args.ld_a = a.stride, args.ld_b = b.stride, args.ld_c = c.stride, args.ld_d = d.stride;
  args.batch_stride_a = a.stride * m, args.batch_stride_b = options.broadcast_b ? 0 : b.stride * n;
  args.batch_stride_c = c.batch_stride, args.batch_stride_d = d.batch_stride;
  args.tactic = tactic_of(options.splits);
  if (Calls::can_implement(&given) != TILEWRIGHT_OK) {
    fault("refused", m, n);
    return;
  }
  std::vector<float4> workspace(Calls::workspace_bytes(&given) / 16 + 1);
  for (float4& sums : workspace) {
    sums = {NAN, NAN, NAN, NAN};
  }
  if (Calls::launch(&given, workspace.data(), nullptr) != TILEWRIGHT_OK) {
    fault("not launched", m, n);
    return;
  }
  auto const* const stored = static_cast<typename D::Stored const*>(args.d);
  for (int64_t i = 0; i < int64_t(d.stored.size()); ++i) {
    int const matrix = int(i / d.batch_stride), row = int(i % d.batch_stride / d.stride), column = int(i % d.stride);
    if (matrix == batch || column >= n) {
      if (std::memcmp(&d.stored[i], stored + i, sizeof stored[i]) != 0) {
        fault("what is not D's", row, column);
      }
      continue;
    }
    double sum = 0;
    for (int x = 0; x < k; ++x) {
      sum += a.at(matrix, row, x) * b.at(options.broadcast_b ? 0 : matrix, column, x);
    }
    sum = sum * alpha + (options.c ? -3.0 * c.at(matrix, row, column) : 0.0);
    sum = activated(sum + (options.bias ? bias.at(0, 0, column) : 0.0), options.activation);
    bool const curved = options.activation > TILEWRIGHT_ACTIVATION_RELU;
    if (!is_rounded<D>(stored[i], sum, curved ? 1e-6 * (1.0 + std::fabs(sum)) : 0.0)) {
      fault("an element", row, column);
    }
  }
}

// A kernel without an activation refuses a call with one.
void refused() {
  using Kernel = mma::Kernel<Nvfp4, Nvfp4, Bf16, 64, 8, 512, 3, false, Activation::kNone, 2, true>;
  alignas(16) static uint8_t bytes[512];
  tilewright_blockscaled_gemm_appended_args given{};
  tilewright_blockscaled_gemm_args& args = given.base;
  args.m = args.n = 8, args.k = 32, args.batch = 1;
  args.a = args.b = args.scale_a = args.scale_b = bytes, args.d = bytes;
  args.ld_a = args.ld_b = 32, args.ld_d = 8;
  args.tactic = tactic_of(1);
  for (int activation : {TILEWRIGHT_ACTIVATION_NONE, TILEWRIGHT_ACTIVATION_RELU, TILEWRIGHT_ACTIVATION_SILU}) {
    given.activation = activation;
    bool const taken = mma::Calls<Traits<Kernel>>::can_implement(&given) == TILEWRIGHT_OK;
    if (taken != (activation == TILEWRIGHT_ACTIVATION_NONE)) {
      fault("an activation", activation);
    }
  }
}

constexpr auto kGiven = Activation::kGiven;

// Extents are odd where they may be. In tiles of 128x128 and 256x128 the warpgroups halve the columns, in those of
// 128x32 the rows.
host::Case const kCases[] = {
    {"nvfp4", [] { product<Nvfp4, Nvfp4, Bf16, 128, 128, 256, 2, false, 1>({200, 264, 528, 2}); }},
    {"nvfp4_narrow", [] { product<Nvfp4, Nvfp4, Bf16, 128, 128, 128, 3>({131, 264, 416}); }},
    {"nvfp4_256_rows", [] { product<Nvfp4, Nvfp4, Bf16, 256, 128, 128, 3, false, 1>({300, 136, 304}); }},
    {"nvfp4_256_columns", [] { product<Nvfp4, Nvfp4, Bf16, 128, 256, 128, 2, false, 1>({70, 300, 304}); }},
    {"nvfp4_rows_halved", [] { product<Nvfp4, Nvfp4, Bf16, 128, 32, 256, 3>({200, 200, 528}); }},
    {"nvfp4_64_rows", [] { product<Nvfp4, Nvfp4, Bf16, 64, 128, 256, 2>({150, 264, 272}); }},
    {"nvfp4_64_columns", [] { product<Nvfp4, Nvfp4, Bf16, 128, 64, 256, 2>({131, 200, 528}); }},
    {"nvfp4_two_boxes", [] { product<Nvfp4, Nvfp4, Bf16, 64, 64, 512, 2>({70, 136, 1296}); }},
    {"nvfp4_f32", [] { product<Nvfp4, Nvfp4, F32, 128, 64, 256, 3>({70, 131, 272}); }},
    {"nvfp4_f16", [] { product<Nvfp4, Nvfp4, F16, 64, 64, 256, 3>({70, 136, 272}); }},
    {"nvfp4_c", [] { product<Nvfp4, Nvfp4, Bf16, 128, 64, 256, 2>({200, 136, 272, 2}, {.c = true}); }},
    {"nvfp4_swapped", [] { product<Nvfp4, Nvfp4, Bf16, 128, 128, 128, 3, true>({200, 264, 304, 2}); }},
    {"nvfp4_swapped_8", [] { product<Nvfp4, Nvfp4, Bf16, 64, 8, 512, 3, true>({141, 200, 1296}); }},
    {"nvfp4_swapped_16", [] { product<Nvfp4, Nvfp4, Bf16, 128, 16, 256, 4, true>({141, 200, 528, 2}); }},
    {"nvfp4_swapped_32", [] { product<Nvfp4, Nvfp4, Bf16, 128, 32, 256, 3, true>({141, 264, 528}); }},
    {"nvfp4_swapped_c", [] { product<Nvfp4, Nvfp4, Bf16, 64, 64, 256, 3, true>({70, 136, 272}, {.c = true}); }},
    {"nvfp4_short", [] { product<Nvfp4, Nvfp4, Bf16, 128, 16, 256, 4, true>({13, 136, 16}); }},
    {"nvfp4_odd_columns", [] { product<Nvfp4, Nvfp4, Bf16, 64, 64, 256, 3>({70, 133, 272}, {.odd = true}); }},
    {"nvfp4_splits", [] { product<Nvfp4, Nvfp4, Bf16, 128, 128, 128, 3>({131, 133, 976}, {.splits = 3}); }},
    {"nvfp4_splits_swapped",
     [] { product<Nvfp4, Nvfp4, Bf16, 128, 16, 256, 4, true>({45, 133, 2064}, {.splits = 5, .c = true}); }},
    {"nvfp4_broadcast", [] { product<Nvfp4, Nvfp4, Bf16, 64, 64, 256, 3>({70, 136, 272, 3}, {.broadcast_b = true}); }},
    {"mxfp4", [] { product<Mxfp4, Mxfp4, Bf16, 128, 128, 256, 2, false, 1>({200, 264, 544, 2}); }},
    {"mxfp4_narrow", [] { product<Mxfp4, Mxfp4, Bf16, 128, 128, 128, 3>({131, 264, 352}); }},
    {"mxfp4_swapped_8", [] { product<Mxfp4, Mxfp4, Bf16, 64, 8, 512, 3, true>({141, 200, 1184}); }},
    {"mxfp8", [] { product<Mxfp8, Mxfp8, Bf16, 128, 128, 128, 2, false, 1>({200, 264, 336, 2}); }},
    {"mxfp8_e5m2", [] { product<Mxfp8, Mxfp8E5m2, Bf16, 128, 64, 128, 2>({131, 136, 304}); }},
    {"mxfp8_swapped_8", [] { product<Mxfp8, Mxfp8, Bf16, 64, 8, 256, 3, true>({141, 200, 592}); }},
    {"mxfp8_two_boxes", [] { product<Mxfp8, Mxfp8, F32, 64, 64, 256, 2>({70, 131, 592}); }},
    {"mxfp8_splits_of_batch",
     [] { product<Mxfp8, Mxfp8, F16, 128, 32, 128, 4>({131, 72, 656, 2}, {.splits = 2, .c = true}); }},
    {"mixed_b", [] { product<Mxfp8, Mxfp4, Bf16, 128, 128, 128, 2, false, 1>({200, 264, 352, 2}); }},
    {"mixed_a", [] { product<Mxfp4, Mxfp8, Bf16, 128, 64, 128, 2>({131, 136, 352}); }},
    {"mixed_a_swapped", [] { product<Mxfp4, Mxfp8E5m2, Bf16, 128, 64, 128, 2, true>({131, 136, 352}); }},
    {"mixed_b_swapped_16", [] { product<Mxfp8, Mxfp4, Bf16, 128, 16, 128, 4, true>({45, 200, 608}, {.splits = 2}); }},
    {"bias", [] { product<Nvfp4, Nvfp4, Bf16, 128, 128, 128, 3>({131, 264, 416, 2}, {.bias = true}); }},
    {"bias_odd_columns",
     [] { product<Mxfp8, Mxfp8, Bf16, 64, 64, 128, 3>({70, 133, 272}, {.c = true, .bias = true, .odd = true}); }},
    {"bias_f32", [] { product<Nvfp4, Nvfp4, F32, 64, 64, 256, 3>({70, 131, 272}, {.c = true, .bias = true}); }},
    {"bias_swapped_8", [] { product<Mxfp4, Mxfp4, F16, 64, 8, 512, 3, true>({21, 200, 1184}, {.bias = true}); }},
    {"bias_splits",
     [] { product<Nvfp4, Nvfp4, Bf16, 128, 128, 128, 3>({131, 133, 976}, {.splits = 3, .bias = true}); }},
    {"e4m3_out",
     [] { product<Nvfp4, Nvfp4, E4m3, 128, 128, 256, 2>({131, 272, 528, 2}, {.c = true, .bias = true}); }},
    {"e5m2_out_swapped", [] { product<Nvfp4, Nvfp4, E5m2, 64, 8, 512, 3, true>({21, 208, 1296}, {.splits = 2}); }},
    {"relu",
     [] {
       product<Mxfp8, Mxfp4, Bf16, 128, 128, 128, 2, false, 1, kGiven>(
           {200, 264, 352, 2}, {.c = true, .bias = true, .activation = TILEWRIGHT_ACTIVATION_RELU});
     }},
    {"gelu_swapped",
     [] {
       product<Nvfp4, Nvfp4, Bf16, 128, 32, 256, 3, true, 2, kGiven>(
           {41, 264, 528}, {.bias = true, .activation = TILEWRIGHT_ACTIVATION_GELU});
     }},
    {"silu_splits",
     [] {
       product<Mxfp8, Mxfp8, F16, 64, 8, 256, 3, true, 2, kGiven>(
           {13, 200, 592}, {.splits = 2, .c = true, .bias = true, .activation = TILEWRIGHT_ACTIVATION_SILU});
     }},
    {"no_activation", [] { product<Mxfp4, Mxfp4, Bf16, 128, 128, 128, 3, false, 1, kGiven>({131, 264, 352}); }},
    {"refused", refused},
    {"mixed_two_boxes", [] { product<Mxfp8, Mxfp4, Bf16, 64, 8, 256, 3, true>({13, 200, 608}); }},
};

}  // namespace

int main(int count, char** words) { return host::run_cases(kCases, count, words); }

// Runs the `grouped_gemm` kernels of FP4, and of FP8 beside FP4, on the host, all threads of them, with their host
// code: see test_sm120_gemm.py.
#include "host_groups.hpp"

#include "tilewright/grouped_gemm/fp4_kernel.hpp"
#include "tilewright/grouped_gemm/host.hpp"

using namespace tilewright::grouped_gemm;
using host::Factors;
using host::fault;
using host::Matrix;
using host::Options;
using host::random;
using host::Rows;
using host::Shape;
using host::Traits;
using tilewright::sm120::E2m1;
using tilewright::sm90::Bf16;
using tilewright::sm90::E4m3;
using tilewright::sm90::F32;

namespace {

// Random elements [matrices, rows, k] of FP4 or FP8, whole numbers or halves up to 6. What lies between rows is not 0.
template <class Element>
struct Operand {
  using Code = tilewright::sm120::Decoded<tilewright::sm120::Code<Element>>;
  static constexpr int kBits = Code::kBits;
  int rows, k;
  int64_t stride, matrix;  // elements between rows, and between matrices
  std::vector<uint8_t> memory;

  Operand(int matrices, int high, int wide)
      : rows(high), k(wide), stride((wide + 31) / 32 * 32 + 32), matrix(stride * high) {
    memory.assign(size_t(matrix * matrices * kBits / 8 + 64), 0x77);
    for (int64_t i = 0; i < matrix * matrices; ++i) {
      if (i % stride < k) {
        set(i, kBits == 4 ? random(16) : whole(int(random(7)) - 3));
      }
    }
  }
  uint8_t* data() { return memory.data() + (16 - reinterpret_cast<uintptr_t>(memory.data()) % 16) % 16; }
  void set(int64_t i, unsigned bits) {
    uint8_t& byte = data()[i * kBits / 8];
    byte = kBits == 8 ? uint8_t(bits) : i % 2 ? uint8_t((byte & 15) | bits << 4) : uint8_t((byte & 0xF0) | bits);
  }
  double at(int of, int row, int x) {
    int64_t const i = of * matrix + row * stride + x;
    unsigned const byte = data()[i * kBits / 8];
    return Code::value(kBits == 8 ? byte : i % 2 ? byte >> 4 : byte & 15);
  }
  // Fills a row of padding with what no other row may get: NaN, or of FP4 the largest number.
  void spoil(int64_t row) {
    for (int x = 0; x < k; ++x) {
      set(row * stride + x, kBits == 8 ? 0x7F : 7);
    }
  }

 private:
  static unsigned whole(int number) {
    unsigned bits = 0;
    while (Code::value(bits) != number) {
      ++bits;
    }
    return bits;
  }
};

// Computes a product by the kernel, and compares every element, and what lies around D, to the bit.
template <class A, class B, class D, int TileM, int TileN, int TileK, int Stages, bool kSwapped = false,
          int kStoreBuffers = 2>
void product(int grouping, Shape const& shape, Options const& options = {}) {
  using Kernel = Fp4Kernel<std::conditional_t<kSwapped, B, A>, std::conditional_t<kSwapped, A, B>, D, TileM, TileN,
                           TileK, Stages, kSwapped, kStoreBuffers, true>;
  using Calls = tilewright::grouped_gemm::Calls<Traits<Kernel>>;
  auto const [m, n, k, groups, alignment] = shape;
  bool const own = grouping == TILEWRIGHT_GROUPING_NONE || grouping == TILEWRIGHT_GROUPING_ROWS_VALID;
  int const batch_a = own && !options.broadcast_a ? groups : 1, batch_d = own ? groups : 1;
  constexpr int kVectorD = 16 / D::kBytes, kBlock = 32;
  Operand<A> a(batch_a, m, k);
  Operand<B> b(groups, n, k);
  int const head = options.left + options.gap + options.right;
  int const wide_d = options.gap == 0 ? n : n / (options.left + options.right) * head;
  Matrix<D> d(batch_d, m, wide_d, (kVectorD - wide_d % kVectorD) % kVectorD + kVectorD, 9);
  Matrix<D> c(batch_d, m, n, kVectorD + (kVectorD - n % kVectorD) % kVectorD, 5);
  Factors scale_a(batch_a, m, (k + kBlock - 1) / kBlock, false), scale_b(groups, n, (k + kBlock - 1) / kBlock, false);
  Rows const rows(grouping, shape);
  for (int64_t row = 0; batch_a * m == int(rows.of.size()) && row < int64_t(rows.of.size()); ++row) {
    if (rows.of[row] < 0) {
      a.spoil(row);
    }
  }

  tilewright_grouped_gemm_args args{};
  args.m = m, args.n = n, args.k = k, args.groups = groups;
  args.a = a.data(), args.b = b.data(), args.d = d.data();
  args.c = options.in_place ? args.d : options.c ? c.data() : nullptr;
  args.scale_a = scale_a.words(), args.scale_b = scale_b.words();
  args.group_of_row = rows.of.data(), args.group_ends = rows.ends.data(), args.rows_valid = rows.valid.data();
  args.ld_a = a.stride, args.ld_b = b.stride, args.ld_d = d.stride;
  args.ld_c = options.in_place ? d.stride : c.stride;
  args.ld_scale_a = scale_a.leading, args.ld_scale_b = scale_b.leading;
  args.batch_stride_a = options.broadcast_a ? 0 : a.matrix, args.batch_stride_b = b.matrix;
  args.batch_stride_d = d.batch_stride, args.batch_stride_c = options.in_place ? d.batch_stride : c.batch_stride;
  args.batch_stride_scale_a = options.broadcast_a ? 0 : scale_a.words_of_matrix();
  args.batch_stride_scale_b = scale_b.words_of_matrix();
  args.grouping = grouping, args.row_alignment = alignment, args.zero_padding = options.zeroes;
  args.head_left = options.left, args.head_gap = options.gap, args.head_right = options.right;
  args.tactic.swizzle = 2, args.tactic.splits = 1, args.tactic.sm_count = host::at_once;
  auto const refused = [&](auto& field, auto value, char const* what) {
    auto const before = field;
    field = value;
    if (Calls::can_implement(&args) == TILEWRIGHT_OK) {
      fault(what);
    }
    field = before;
  };
  refused(args.tactic.cluster_m, 2, "a cluster");
  refused(args.tactic.splits, 2, "a split k");
  refused(args.grouping, int(TILEWRIGHT_GROUPING_K_SIZES), "groups of k");
  refused(args.k, k - 16, "a k that is no multiple of 32");
  refused(a.kBits == 4 ? args.ld_a : args.ld_b, (a.kBits == 4 ? a.stride : b.stride) + 16, "rows of 8 bytes more");
  if (Calls::launch(&args, nullptr, nullptr) != TILEWRIGHT_OK) {
    fault("refused", m, n);
    return;
  }

  auto const* const stored = static_cast<typename D::Stored const*>(args.d);
  for (int64_t i = 0; i < int64_t(d.stored.size()); ++i) {
    int const matrix = int(i / d.batch_stride), row = int(i % d.batch_stride / d.stride), place = int(i % d.stride);
    int const in_head = options.gap == 0 ? 0 : place % head;
    bool const skipped = options.gap != 0 && in_head >= options.left && in_head < options.left + options.gap;
    int const before = options.gap == 0 ? 0 : place / head * options.gap + (in_head >= options.left ? options.gap : 0);
    int const column = place - before;
    bool const inside = matrix < batch_d && place < wide_d && !skipped;
    int const group = inside ? rows.of[own ? matrix * m + row : row] : -1;
    typename D::Stored expected = d.stored[i];  // around D
    if (group >= 0) {
      int const of_a = own && !options.broadcast_a ? matrix : 0;
      double sum = options.in_place ? d.values[i] : options.c ? c.at(matrix, row, column) : 0.0f;
      for (int x = 0; x < k; ++x) {
        sum += a.at(of_a, row, x) * b.at(group, column, x) * scale_a.at(of_a, row, x / kBlock) *
               scale_b.at(group, column, x / kBlock);
      }
      D::store(&expected, 0, float(sum));
    } else if (inside) {
      typename D::Stored zero;
      D::store(&zero, 0, 0.0f);
      bool const is_zero = std::memcmp(&zero, stored + i, sizeof zero) == 0;
      if (options.zeroes && !is_zero) {
        fault("padding that is not zero", row, column);
      }
      expected = is_zero ? zero : expected;
    }
    if (std::memcmp(&expected, stored + i, sizeof expected) != 0) {
      fault(inside ? "an element" : "what is not D's", row, column);
    }
  }
}

constexpr int kNone = TILEWRIGHT_GROUPING_NONE, kIndex = TILEWRIGHT_GROUPING_ROW_INDEX,
              kEnds = TILEWRIGHT_GROUPING_ENDS, kValid = TILEWRIGHT_GROUPING_ROWS_VALID;

template <class D, int TileM, int TileN, int TileK, int Stages, bool kSwapped = false, int kStoreBuffers = 2>
void fp4(int grouping, Shape const& shape, Options const& options = {}) {
  product<E2m1, E2m1, D, TileM, TileN, TileK, Stages, kSwapped, kStoreBuffers>(grouping, shape, options);
}

// Tiles of 128x64 have their columns halved among the warpgroups, those of 128x32 their rows. K of a stage: half a box,
// one, or two.
host::Case const kCases[] = {
    {"fp4", [] { fp4<Bf16, 128, 128, 256, 2, false, 1>(kNone, {200, 264, 672, 2}); }},
    {"fp4_half_a_box", [] { fp4<Bf16, 128, 128, 128, 3>(kNone, {131, 264, 416}); }},
    {"fp4_two_boxes", [] { fp4<Bf16, 64, 64, 512, 2>(kNone, {70, 136, 1184}); }},
    {"fp4_96_columns", [] { fp4<Bf16, 128, 96, 256, 2>(kNone, {200, 200, 544}); }},
    {"fp4_192_rows", [] { fp4<Bf16, 192, 48, 256, 2>(kNone, {200, 104, 544}); }},
    {"fp4_rows_halved", [] { fp4<Bf16, 128, 32, 256, 3>(kNone, {200, 72, 544}); }},
    {"fp4_f32_c", [] { fp4<F32, 64, 64, 256, 2>(kNone, {70, 132, 544}, {.c = true}); }},
    {"fp4_f32_in_place", [] { fp4<F32, 128, 128, 128, 3>(kNone, {131, 132, 416}, {.in_place = true}); }},
    {"fp4_c", [] { fp4<Bf16, 128, 64, 256, 2>(kNone, {131, 136, 544, 2}, {.c = true}); }},
    {"fp4_heads", [] { fp4<Bf16, 64, 64, 256, 3>(kNone, {70, 144, 544}, {.left = 32, .gap = 16, .right = 16}); }},
    {"fp4_broadcast", [] { fp4<Bf16, 64, 64, 256, 3>(kNone, {70, 136, 544, 3}, {.broadcast_a = true}); }},
    {"fp4_swapped_8", [] { fp4<Bf16, 64, 8, 512, 3, true>(kNone, {13, 136, 1184, 2}); }},
    {"fp4_swapped_half_a_box", [] { fp4<Bf16, 128, 128, 128, 3, true>(kNone, {70, 200, 416}); }},
    {"fp4_f32_swapped", [] { fp4<F32, 64, 16, 512, 2, true>(kNone, {19, 132, 1184}, {.c = true}); }},
    {"fp4_index", [] { fp4<Bf16, 128, 64, 256, 2>(kIndex, {500, 136, 544, 5, 1}); }},
    {"fp4_index_zeroes", [] { fp4<Bf16, 128, 64, 128, 4>(kIndex, {700, 72, 288, 3, 256}, {.zeroes = true}); }},
    {"fp4_ends_swapped", [] { fp4<Bf16, 128, 32, 256, 3, true>(kEnds, {150, 136, 544, 4, 8}); }},
    {"fp4_valid", [] { fp4<Bf16, 128, 128, 256, 2, false, 1>(kValid, {200, 136, 544, 4}); }},
    {"fp4_valid_swapped", [] { fp4<Bf16, 64, 16, 512, 3, true>(kValid, {40, 136, 1184, 5}); }},
    {"fp8_fp4", [] { product<E4m3, E2m1, Bf16, 128, 128, 128, 2>(kNone, {200, 264, 416, 2}); }},
    {"fp8_fp4_swapped", [] { product<E4m3, E2m1, Bf16, 128, 16, 128, 4, true>(kNone, {37, 200, 416, 2}); }},
    {"fp8_fp4_swapped_8", [] { product<E4m3, E2m1, Bf16, 64, 8, 256, 3, true>(kNone, {13, 136, 672}); }},
    {"fp8_fp4_f32", [] { product<E4m3, E2m1, F32, 64, 64, 128, 3>(kNone, {70, 132, 416}, {.c = true}); }},
    {"fp8_fp4_index", [] { product<E4m3, E2m1, Bf16, 64, 64, 128, 3>(kIndex, {500, 136, 416, 5, 4}); }},
    {"fp8_fp4_ends", [] { product<E4m3, E2m1, Bf16, 128, 96, 128, 2>(kEnds, {600, 136, 288, 4, 32}); }},
    {"fp8_fp4_valid_swapped", [] { product<E4m3, E2m1, Bf16, 128, 32, 128, 3, true>(kValid, {40, 136, 416, 5}); }},
    {"fp4_fp8", [] { product<E2m1, E4m3, Bf16, 128, 64, 128, 3>(kNone, {131, 136, 416, 2}); }},
    {"fp4_fp8_swapped", [] { product<E2m1, E4m3, Bf16, 64, 16, 256, 2, true>(kNone, {37, 200, 672}); }},
    {"fp4_fp8_valid", [] { product<E2m1, E4m3, Bf16, 64, 64, 128, 3>(kValid, {200, 136, 416, 4}); }},
};

}  // namespace

int main(int count, char** words) { return host::run_cases(kCases, count, words); }

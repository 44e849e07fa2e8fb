// Runs the `grouped_gemm` kernels of mma.sync on the host, all threads of them, with their host code: see
// test_sm120_gemm.py.
#include "host_groups.hpp"

#include "tilewright/grouped_gemm/host.hpp"
#include "tilewright/grouped_gemm/narrow_kernel.hpp"
#include "tilewright/grouped_gemm/packed_kernel.hpp"

using namespace tilewright::grouped_gemm;
using host::Factors;
using host::fault;
using host::Matrix;
using host::Options;
using host::random;
using host::Rows;
using host::Shape;
using host::Traits;
using tilewright::sm90::Bf16;
using tilewright::sm90::E4m3;
using tilewright::sm90::F32;

namespace {

// Computes a product by the kernel, and compares every element, and what lies around D, to the bit. `kMnA`, `kMnB`: the
// caller's A and B, whose k is not contiguous. `kPacked`: the elements of k that share a factor, of packed ones.
// `Boxes`: of a stage; 0: half of one.
template <class A, class D, int TileM, int TileN, int Boxes, int Stages, Scales kOfB, bool kSwapped = false,
          bool kMnA = false, bool kMnB = false, int kPacked = 0>
void product(int grouping, Shape const& shape, Options const& options = {}) {
  constexpr bool kScaled = kOfB != Scales::kNone;
  constexpr Scales kOfA = kScaled ? Scales::kRows : Scales::kNone;
  constexpr int kBlock = kPacked == 0 ? 128 : kPacked;  // elements of k that share a factor
  using Floats = MmaKernel<A, A, D, TileM, TileN, Boxes, Stages, kSwapped, kSwapped ? kMnB : kMnA,
                           kSwapped ? kMnA : kMnB, kSwapped ? kOfB : kOfA, kSwapped ? kOfA : kOfB, 2, true>;
  using Packed = PackedKernel<A, A, D, TileM, TileN, Boxes, Stages, kSwapped, kBlock, 2, true>;
  using Narrow = NarrowKernel<A, A, D, TileM, TileN, Stages, kSwapped, kBlock, 2, true>;
  using Kernel = std::conditional_t<kPacked == 0, Floats, std::conditional_t<Boxes == 0, Narrow, Packed>>;
  using Calls = tilewright::grouped_gemm::Calls<Traits<Kernel>>;
  auto const [m, n, k, groups, alignment] = shape;
  bool const by_k = grouping == TILEWRIGHT_GROUPING_K_SIZES;
  bool const own = grouping == TILEWRIGHT_GROUPING_NONE || grouping == TILEWRIGHT_GROUPING_ROWS_VALID;
  int const batch_a = own && !options.broadcast_a ? groups : 1, batch_b = by_k ? 1 : groups,
            batch_d = by_k || own ? groups : 1;
  constexpr int kVector = 16 / A::kBytes, kVectorD = 16 / D::kBytes;
  bool const flat = by_k && kScaled;  // matrices of groups of k lie behind one another
  auto const gap = [&](int extent) { return flat ? 0 : (kVector - extent % kVector) % kVector + kVector; };
  int const wide_a = kMnA ? m : k, wide_b = kMnB ? n : k;
  Matrix<A> a(batch_a, kMnA ? k : m, wide_a, gap(wide_a), 3), b(batch_b, kMnB ? k : n, wide_b, gap(wide_b), 3);
  int const heads = options.gap == 0 ? 0 : n / (options.left + options.right);
  int const wide_d = n + heads * options.gap;
  Matrix<D> d(batch_d, m, wide_d, (kVectorD - wide_d % kVectorD) % kVectorD + kVectorD, 9);
  Matrix<D> c(batch_d, m, n, kVectorD, 5);
  int const k_blocks = (k + kBlock - 1) / kBlock;
  Factors scale_a(batch_a, m, k_blocks, false);
  Factors scale_b(batch_b, kOfB == Scales::kBlocks ? (n + 127) / 128 : n, k_blocks, options.k_major);

  Rows const rows(grouping, shape);
  if (!by_k && batch_a * m == int(rows.of.size())) {
    for (int row = 0; row < int(rows.of.size()); ++row) {
      for (int x = 0; x < k && rows.of[row] < 0; ++x) {  // padding is NaN
        int64_t const at = row / m * a.batch_stride + row % m * a.stride + x;
        A::store(a.stored.data(), at, NAN);
      }
    }
  }
  std::vector<int> sizes(groups), starts(groups);
  constexpr int kUnit = 128 / A::kBytes;
  for (int g = 0, left = k; by_k && g < groups; ++g) {
    sizes[g] = g == 1 ? 0 : g == groups - 1 ? left : int(random(left / kUnit + 1)) * kUnit;
    starts[g] = k - left;
    left -= sizes[g];
  }

  tilewright_grouped_gemm_args args{};
  args.m = m, args.n = n, args.k = k, args.groups = groups;
  args.a = a.data(), args.b = b.data(), args.d = d.data();
  args.c = options.in_place ? args.d : options.c ? c.data() : nullptr;
  if (kScaled) {
    args.scale_a = kPacked == 0 ? scale_a.data() : scale_a.words();
    args.scale_b = kPacked == 0 ? scale_b.data() : scale_b.words();
  }
  args.group_of_row = rows.of.data(), args.group_ends = rows.ends.data(), args.rows_valid = rows.valid.data();
  args.group_k = sizes.data();
  args.ld_a = a.stride, args.ld_b = b.stride, args.ld_d = d.stride;
  args.ld_c = options.in_place ? d.stride : c.stride;
  args.ld_scale_a = scale_a.leading, args.ld_scale_b = scale_b.leading;
  args.batch_stride_a = options.broadcast_a ? 0 : a.batch_stride, args.batch_stride_b = b.batch_stride;
  args.batch_stride_d = d.batch_stride, args.batch_stride_c = options.in_place ? d.batch_stride : c.batch_stride;
  args.batch_stride_scale_a = kPacked == 0 ? scale_a.matrix : scale_a.words_of_matrix();
  args.batch_stride_scale_b = kPacked == 0 ? scale_b.matrix : scale_b.words_of_matrix();
  args.batch_stride_scale_a *= !options.broadcast_a;
  args.grouping = grouping, args.row_alignment = alignment, args.zero_padding = options.zeroes;
  args.scales_k_major = options.k_major;
  args.head_left = options.left, args.head_gap = options.gap, args.head_right = options.right;
  args.tactic.swizzle = 2, args.tactic.splits = 1, args.tactic.sm_count = host::at_once;
  for (int32_t* const field : {&args.tactic.cluster_m, &args.tactic.cluster_n, &args.tactic.splits}) {
    int32_t const before = *field;
    *field = 2;
    if (Calls::can_implement(&args) == TILEWRIGHT_OK) {
      fault("a cluster, or a split k");
    }
    *field = before;
  }
  std::vector<CUtensorMap> workspace(Calls::workspace_bytes(&args) / sizeof(CUtensorMap));
  if (Calls::launch(&args, workspace.data(), nullptr) != TILEWRIGHT_OK) {
    fault("refused", m, n);
    return;
  }

  auto const* const stored = static_cast<typename D::Stored const*>(args.d);
  for (int64_t i = 0; i < int64_t(d.stored.size()); ++i) {
    int const matrix = int(i / d.batch_stride), row = int(i % d.batch_stride / d.stride), place = int(i % d.stride);
    int const head = options.left + options.gap + options.right, in_head = options.gap == 0 ? 0 : place % head;
    bool const skipped = options.gap != 0 && in_head >= options.left && in_head < options.left + options.gap;
    int const before = options.gap == 0 ? 0 : place / head * options.gap + (in_head >= options.left ? options.gap : 0);
    int const column = place - before;
    bool const inside = matrix < batch_d && place < wide_d && !skipped;
    int const group = !inside ? -1 : by_k ? matrix : rows.of[own ? matrix * m + row : row];
    typename D::Stored expected = d.stored[i];  // around D
    if (inside && group >= 0) {
      int const of_a = own && !options.broadcast_a ? matrix : 0, of_b = by_k ? 0 : group;
      int const first = by_k ? starts[group] : 0, count = by_k ? sizes[group] : k;
      double sum = 0;
      for (int x = first; x < first + count; ++x) {
        double scale = 1;
        if constexpr (kScaled) {
          scale = scale_a.at(of_a, row, x / kBlock) *
                  scale_b.at(of_b, kOfB == Scales::kBlocks ? column / 128 : column, x / kBlock);
        }
        int64_t const in_a = first * int64_t(m) + int64_t(row) * count + x - first;
        int64_t const in_b = first * int64_t(n) + int64_t(column) * count + x - first;
        sum += scale *
               (flat   ? a.values[in_a]
                : kMnA ? a.at(of_a, x, row)
                       : a.at(of_a, row, x)) *
               (flat   ? b.values[in_b]
                : kMnB ? b.at(of_b, x, column)
                       : b.at(of_b, column, x));
      }
      sum += options.in_place ? d.values[i] : options.c ? c.at(matrix, row, column) : 0.0f;
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
              kEnds = TILEWRIGHT_GROUPING_ENDS, kValid = TILEWRIGHT_GROUPING_ROWS_VALID,
              kOfK = TILEWRIGHT_GROUPING_K_SIZES;
constexpr Scales kBlocks = Scales::kBlocks, kRows = Scales::kRows, kPlain = Scales::kNone;

// With packed scale factors of `kBlock` of k.
template <class D, int TileM, int TileN, int Boxes, int Stages, int kBlock, bool kSwapped = false>
void packed(int grouping, Shape const& shape, Options const& options = {}) {
  product<E4m3, D, TileM, TileN, Boxes, Stages, kRows, kSwapped, false, false, kBlock>(grouping, shape, options);
}

// Tiles of 128x64 have their columns halved among the warpgroups, those of 128x32 their rows. A tile of 96 columns may
// meet two blocks of 128.
host::Case const kCases[] = {
    {"scaled", [] { product<E4m3, Bf16, 128, 64, 1, 3, kBlocks>(kNone, {200, 264, 400, 2}); }},
    {"scaled_k_major", [] { product<E4m3, Bf16, 128, 96, 1, 2, kBlocks>(kNone, {131, 392, 272}, {.k_major = true}); }},
    {"scaled_two_boxes", [] { product<E4m3, Bf16, 64, 32, 2, 3, kBlocks>(kNone, {70, 136, 656}); }},
    {"scaled_rows_halved", [] { product<E4m3, Bf16, 128, 32, 1, 3, kBlocks>(kNone, {200, 72, 272}); }},
    {"scaled_swapped", [] { product<E4m3, Bf16, 64, 16, 2, 3, kBlocks, true>(kNone, {37, 200, 656, 2}); }},
    {"scaled_swapped_wide", [] { product<E4m3, Bf16, 128, 48, 1, 3, kBlocks, true>(kNone, {53, 272, 272}); }},
    {"scaled_swapped_8", [] { product<E4m3, Bf16, 128, 8, 1, 3, kBlocks, true>(kNone, {9, 272, 400}); }},
    {"scaled_c", [] { product<E4m3, Bf16, 128, 64, 1, 3, kBlocks>(kNone, {131, 136, 272}, {.c = true}); }},
    {"scaled_f32_c", [] { product<E4m3, F32, 64, 64, 1, 2, kBlocks>(kNone, {70, 132, 272}, {.c = true}); }},
    {"scaled_f32_in_place",
     [] { product<E4m3, F32, 128, 64, 1, 2, kRows>(kNone, {131, 132, 272}, {.in_place = true}); }},
    {"scaled_f32_swapped", [] { product<E4m3, F32, 64, 16, 2, 3, kBlocks, true>(kNone, {19, 132, 272}, {.c = true}); }},
    {"scaled_columns", [] { product<E4m3, Bf16, 128, 96, 1, 2, kRows>(kNone, {200, 200, 400}); }},
    {"scaled_columns_swapped", [] { product<E4m3, Bf16, 64, 32, 1, 3, kRows, true>(kNone, {37, 200, 400, 2}); }},
    {"scaled_heads",
     [] { product<E4m3, Bf16, 64, 64, 1, 3, kBlocks>(kNone, {70, 144, 272}, {.left = 32, .gap = 16, .right = 16}); }},
    {"scaled_broadcast",
     [] { product<E4m3, Bf16, 64, 64, 1, 3, kBlocks>(kNone, {70, 136, 272, 3}, {.broadcast_a = true}); }},
    {"index", [] { product<E4m3, Bf16, 64, 64, 1, 3, kBlocks>(kIndex, {500, 136, 272, 4, 64}); }},
    {"index_across_tiles", [] { product<E4m3, Bf16, 128, 64, 1, 3, kBlocks>(kIndex, {500, 136, 272, 5, 1}); }},
    {"index_zeroes",
     [] { product<E4m3, Bf16, 128, 64, 1, 3, kBlocks>(kIndex, {700, 72, 144, 3, 256}, {.zeroes = true}); }},
    {"index_swapped", [] { product<E4m3, Bf16, 64, 16, 2, 3, kBlocks, true>(kIndex, {150, 136, 272, 4, 4}); }},
    {"ends", [] { product<E4m3, Bf16, 128, 64, 1, 3, kBlocks>(kEnds, {600, 136, 272, 4, 32}); }},
    {"ends_zeroes",
     [] { product<E4m3, F32, 64, 64, 1, 2, kBlocks>(kEnds, {600, 136, 144, 4, 128}, {.zeroes = true}); }},
    {"ends_swapped", [] { product<E4m3, Bf16, 64, 32, 1, 3, kBlocks, true>(kEnds, {150, 136, 272, 4, 8}); }},
    {"valid", [] { product<E4m3, Bf16, 128, 64, 1, 3, kBlocks>(kValid, {200, 136, 272, 4}); }},
    {"valid_swapped", [] { product<E4m3, Bf16, 64, 16, 2, 3, kBlocks, true>(kValid, {40, 136, 272, 5}); }},
    {"of_k", [] { product<E4m3, F32, 128, 64, 1, 2, kRows>(kOfK, {144, 132, 1280, 4}, {.c = true}); }},
    {"of_k_in_place", [] { product<E4m3, F32, 64, 64, 1, 2, kRows>(kOfK, {72, 72, 1280, 4}, {.in_place = true}); }},
    {"bf16_index", [] { product<Bf16, Bf16, 128, 64, 1, 3, kPlain>(kIndex, {500, 136, 200, 4, 32}); }},
    {"bf16_ends_c", [] { product<Bf16, Bf16, 64, 64, 1, 3, kPlain>(kEnds, {500, 136, 200, 4, 1}, {.c = true}); }},
    {"bf16_valid_swapped", [] { product<Bf16, F32, 64, 16, 2, 3, kPlain, true>(kValid, {40, 136, 200, 5}); }},
    {"bf16_tt", [] { product<Bf16, Bf16, 128, 64, 1, 3, kPlain, false, false, true>(kValid, {200, 136, 200, 4}); }},
    {"bf16_tt_swapped",
     [] { product<Bf16, Bf16, 64, 32, 1, 3, kPlain, true, false, true>(kIndex, {150, 136, 200, 4, 4}); }},
    {"bf16_of_k",
     [] { product<Bf16, F32, 128, 64, 1, 2, kPlain, false, true, true>(kOfK, {136, 72, 640, 4}, {.c = true}); }},
    {"bf16_of_k_in_place",
     [] { product<Bf16, F32, 128, 64, 1, 2, kPlain, false, true, true>(kOfK, {136, 72, 640, 3}, {.in_place = true}); }},
    {"packed_32", [] { packed<Bf16, 128, 128, 1, 2, 32>(kNone, {200, 264, 656, 2}); }},
    {"packed_128", [] { packed<Bf16, 128, 64, 1, 3, 128>(kNone, {200, 200, 1296, 2}); }},
    {"packed_128_two_boxes", [] { packed<Bf16, 64, 32, 2, 3, 128>(kNone, {70, 136, 1296}); }},
    {"packed_32_two_boxes", [] { packed<F32, 64, 32, 2, 2, 32>(kNone, {70, 136, 656}, {.c = true}); }},
    {"packed_32_of_192_rows", [] { packed<Bf16, 192, 48, 1, 2, 32>(kNone, {200, 104, 272}); }},
    {"packed_128_swapped_8", [] { packed<Bf16, 64, 8, 2, 3, 128, true>(kNone, {13, 136, 1296}); }},
    {"packed_32_swapped_24", [] { packed<Bf16, 64, 24, 1, 3, 32, true>(kNone, {37, 136, 400}); }},
    {"packed_128_index", [] { packed<Bf16, 128, 64, 1, 3, 128>(kIndex, {500, 136, 784, 5, 1}); }},
    {"packed_32_ends_swapped", [] { packed<Bf16, 128, 32, 1, 3, 32, true>(kEnds, {150, 136, 272, 4, 8}); }},
    {"packed_32_of_k", [] { packed<F32, 128, 64, 1, 2, 32>(kOfK, {144, 132, 1280, 4}, {.c = true}); }},
    {"narrow_32", [] { packed<Bf16, 128, 128, 0, 3, 32>(kNone, {200, 264, 656, 2}); }},
    {"narrow_128", [] { packed<Bf16, 128, 64, 0, 5, 128>(kNone, {200, 200, 1296, 2}); }},
    {"narrow_128_short", [] { packed<Bf16, 64, 64, 0, 3, 128>(kNone, {70, 136, 48}); }},
    {"narrow_32_f32_c", [] { packed<F32, 128, 128, 0, 3, 32>(kNone, {131, 132, 400}, {.c = true}); }},
    {"narrow_32_c", [] { packed<Bf16, 64, 128, 0, 4, 32>(kNone, {70, 136, 336}, {.c = true}); }},
    {"narrow_128_swapped", [] { packed<Bf16, 64, 16, 0, 6, 128, true>(kNone, {37, 136, 1104}); }},
    {"narrow_128_index", [] { packed<Bf16, 128, 96, 0, 4, 128>(kIndex, {500, 136, 784, 5, 1}); }},
    {"narrow_32_ends", [] { packed<Bf16, 128, 64, 0, 4, 32>(kEnds, {600, 136, 336, 4, 32}); }},
    {"narrow_32_valid_swapped", [] { packed<Bf16, 128, 32, 0, 5, 32, true>(kValid, {40, 136, 336, 5}); }},
    {"packed_128_valid", [] { packed<Bf16, 64, 64, 1, 3, 128>(kValid, {200, 136, 784, 4}); }},
};

}  // namespace

int main(int count, char** words) { return host::run_cases(kCases, count, words); }

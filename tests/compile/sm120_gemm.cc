// Runs the `gemm` kernels of mma.sync on the host, all threads of them, with their host code: see test_sm120_gemm.py.
#include "host_products.hpp"

#include "tilewright/gemm/lean_host.hpp"
#include "tilewright/gemm/mma.hpp"
#include "tilewright/sm90/add_parts.hpp"

using namespace tilewright::gemm;
using host::fault;
using host::Matrix;
using host::random;
using tilewright::sm90::Bf16;
using tilewright::sm90::E4m3;
using tilewright::sm90::E5m2;
using tilewright::sm90::F16;
using tilewright::sm90::F32;

namespace {

// A kernel, and the one that adds up parts of k.
template <class Kernel, template <class> class Adds>
struct Traits : host::Traits<Kernel> {
  static void const* combining_entry() {
    return host::combining_entry_of<Adds<Kernel>, tilewright::sm90::CombineParams>();
  }
};

struct Shape {
  int m, n, k, batch = 1;
};

struct Options {
  int splits = 1;
  bool c = false;
  int c_type = -1;  // of D's, unless it is given
  bool bias = false;
  int activation = TILEWRIGHT_ACTIVATION_NONE;
  bool odd = false;     // D's rows begin anywhere
  bool scaled = false;  // scale_a, scale_b; of D of FP8 scale_result and amax
  bool broadcast_b = false;
  bool along_n = false;
  float alpha = 2.0f;
};

// Computes a product by the kernel, and compares every element, and what lies around D, to the bit.
// `mn_a`, `mn_b`: of the caller's A and B, whose k is not contiguous.
template <class A, class B, class D, int TileM, int TileN, int Boxes, int Stages, bool kSwapped = false,
          bool kMnCallerA = false, bool kMnCallerB = false, class Sum = tilewright::sm120::PlainSum,
          mma::Schedule kSchedule = mma::Schedule::kCooperative,
          tilewright::sm90::Activation kActivation = tilewright::sm90::Activation::kNone,
          template <class> class Adds = tilewright::sm90::Combine>
void product(Shape const& shape, Options const& options = {}) {
  using OwnA = std::conditional_t<kSwapped, B, A>;
  using OwnB = std::conditional_t<kSwapped, A, B>;
  using Kernel = mma::Kernel<OwnA, OwnB, kSwapped ? kMnCallerB : kMnCallerA, kSwapped ? kMnCallerA : kMnCallerB, D,
                             TileM, TileN, Boxes, Stages, kSchedule, kSwapped, Sum, kActivation, true>;
  using Calls = mma::Calls<Traits<Kernel, Adds>>;
  auto const [m, n, k, batch] = shape;
  constexpr int kVector = 16 / A::kBytes;
  auto const gap = [](int extent, int multiple) { return (multiple - extent % multiple) % multiple + multiple; };
  int const wide_a = kMnCallerA ? m : k, wide_b = kMnCallerB ? n : k;
  Matrix<A> a(batch, kMnCallerA ? k : m, wide_a, gap(wide_a, kVector), 3);
  Matrix<B> b(options.broadcast_b ? 1 : batch, kMnCallerB ? k : n, wide_b, gap(wide_b, kVector), 3);
  constexpr int kVectorD = 16 / D::kBytes;
  int const shift = options.odd ? 1 : 0;
  Matrix<D> d(batch, m, n, options.odd ? 5 : gap(n, kVectorD), 9);
  Matrix<Bf16> c16(batch, m, n, options.odd ? 3 : gap(n, 8), 5);
  Matrix<F32> c32(batch, m, n, 1, 5);
  Matrix<F32> bias(1, 1, n, 0, 7);
  bool const c_is_f32 = options.c_type == TILEWRIGHT_ADDEND_F32 || D::kBytes == 4;
  float const scale_a = options.scaled ? 0.5f : 1.0f, scale_b = options.scaled ? 4.0f : 1.0f;
  float const scale_result = 0.25f;
  float amax = 0.0f;

  tilewright_gemm_args args{};
  args.m = m, args.n = n, args.k = k, args.batch = batch;
  args.a = a.data(), args.b = b.data(), args.d = d.data(shift);
  args.ld_a = a.stride, args.ld_b = b.stride, args.ld_d = d.stride;
  args.batch_stride_a = a.batch_stride, args.batch_stride_b = options.broadcast_b ? 0 : b.batch_stride;
  args.batch_stride_d = d.batch_stride;
  args.alpha = options.alpha, args.beta = options.c ? -3.0f : 0.0f;
  args.type_c = c_is_f32 ? TILEWRIGHT_ADDEND_F32 : TILEWRIGHT_ADDEND_BF16;
  args.c = c_is_f32 ? static_cast<void*>(c32.data()) : c16.data();
  args.ld_c = c_is_f32 ? c32.stride : c16.stride, args.batch_stride_c = c_is_f32 ? c32.batch_stride : c16.batch_stride;
  args.type_bias = options.bias ? TILEWRIGHT_ADDEND_F32 : int32_t(D::kAddend);
  args.bias = options.bias ? bias.data() : nullptr;
  args.activation = options.activation;
  if (options.scaled) {
    args.scale_a = &scale_a, args.scale_b = &scale_b, args.scale_result = &scale_result, args.amax = &amax;
  }
  args.tactic = {options.along_n ? TILEWRIGHT_RASTER_ALONG_N : TILEWRIGHT_RASTER_HEURISTIC,
                 2,
                 options.splits > 1 ? TILEWRIGHT_DECOMPOSE_SPLIT_K : TILEWRIGHT_DECOMPOSE_HEURISTIC,
                 options.splits,
                 0,
                 1,
                 1,
                 0,
                 0,
                 host::at_once};
  if (Calls::can_implement(&args) != TILEWRIGHT_OK) {
    fault("refused", m, n);
    return;
  }
  // Kernels of mma.sync are launched without clusters.
  tilewright_gemm_args down = args, across = args;
  down.tactic.cluster_m = across.tactic.cluster_n = 2;
  for (tilewright_gemm_args const* clustered : {&down, &across}) {
    if (Calls::can_implement(clustered) == TILEWRIGHT_OK ||
        Calls::launch(clustered, nullptr, nullptr) == TILEWRIGHT_OK) {
      fault("a cluster", m, n);
    }
  }
  std::vector<float4> workspace(Calls::workspace_bytes(&args) / 16 + 1);
  for (float4& sums : workspace) {
    sums = {NAN, NAN, NAN, NAN};
  }
  if (Calls::launch(&args, workspace.data(), nullptr) != TILEWRIGHT_OK) {
    fault("not launched", m, n);
    return;
  }
  float largest = 0.0f;
  auto const* const stored = static_cast<typename D::Stored const*>(args.d);
  for (int64_t i = 0; i < int64_t(d.stored.size()); ++i) {
    int const matrix = int(i / d.batch_stride), row = int(i % d.batch_stride / d.stride), column = int(i % d.stride);
    typename D::Stored expected = d.stored[i];  // around D
    if (matrix < batch && column < n) {
      double sum = 0;
      for (int x = 0; x < k; ++x) {
        sum += double(kMnCallerA ? a.at(matrix, x, row) : a.at(matrix, row, x)) *
               (kMnCallerB ? b.at(options.broadcast_b ? 0 : matrix, x, column)
                           : b.at(options.broadcast_b ? 0 : matrix, column, x));
      }
      sum *= double(options.alpha) * scale_a * scale_b;
      sum += options.bias ? bias.at(0, 0, column) : 0.0f;
      sum += options.c ? -3.0 * (c_is_f32 ? c32.at(matrix, row, column) : c16.at(matrix, row, column)) : 0.0;
      sum = options.activation == TILEWRIGHT_ACTIVATION_RELU ? std::max(sum, 0.0) : sum;
      largest = std::max(largest, float(std::fabs(sum)));
      D::store(&expected, 0, float(D::kBytes == 1 && options.scaled ? sum * scale_result : sum));
    }
    if (std::memcmp(&expected, stored + i, sizeof expected) != 0) {
      fault(matrix < batch && column < n ? "an element" : "what is not D's", row, column);
    }
  }
  if (D::kBytes == 1 && options.scaled && amax != largest) {
    fault("amax");
  }
}

// A product whose parts of k AddParts adds up, which kernels with split forms have (sm90/add_parts.hpp).
template <class D, int TileM, int TileN, bool kSwapped>
void parts(Shape const& shape, Options const& options) {
  product<Bf16, Bf16, D, TileM, TileN, 1, 3, kSwapped, false, false, tilewright::sm120::PlainSum,
          mma::Schedule::kCooperative, tilewright::sm90::Activation::kNone, tilewright::sm90::AddParts>(shape, options);
}

using tilewright::sm120::PromotedSum;
constexpr auto kPingpong = mma::Schedule::kPingpong;
constexpr auto kGiven = tilewright::sm90::Activation::kGiven;

// Extents are odd where they may be: TMA wants whole 16 bytes between lines alone. Tiles of 128x128 have their columns
// halved among the warpgroups, those of 128x32 their rows.
host::Case const kCases[] = {
    {"bf16_tn", [] { product<Bf16, Bf16, Bf16, 128, 128, 1, 2>({200, 264, 329, 2}); }},
    {"bf16_tt", [] { product<Bf16, Bf16, Bf16, 128, 128, 1, 2, false, false, true>({131, 264, 329}); }},
    {"bf16_nn", [] { product<Bf16, Bf16, Bf16, 128, 64, 1, 3, false, true, false>({200, 136, 201, 2}); }},
    {"bf16_nt", [] { product<Bf16, Bf16, Bf16, 128, 64, 1, 3, false, true, true>({131, 200, 137}); }},
    {"bf16_nt_rows", [] { product<Bf16, Bf16, F32, 256, 64, 1, 2, false, true, true>({300, 67, 137}); }},
    {"bf16_tt_256_columns", [] { product<Bf16, Bf16, F32, 64, 256, 1, 2, false, false, true>({70, 300, 137}); }},
    {"bf16_rows_halved", [] { product<Bf16, Bf16, Bf16, 128, 32, 1, 4>({200, 72, 265}); }},
    {"bf16_192_rows", [] { product<Bf16, Bf16, Bf16, 192, 48, 1, 2>({200, 104, 265}); }},
    {"bf16_two_boxes", [] { product<Bf16, Bf16, Bf16, 64, 64, 2, 2>({90, 136, 410}); }},
    {"bf16_swapped_8", [] { product<Bf16, Bf16, Bf16, 64, 8, 2, 4, true>({13, 200, 410}); }},
    {"bf16_swapped_24", [] { product<Bf16, Bf16, Bf16, 64, 24, 1, 4, true>({37, 200, 265}); }},
    {"bf16_swapped_128x8", [] { product<Bf16, Bf16, Bf16, 128, 8, 1, 4, true>({9, 272, 265}); }},
    {"bf16_swapped_tt", [] { product<Bf16, Bf16, Bf16, 128, 40, 1, 3, true, false, true>({53, 272, 265}); }},
    {"bf16_swapped_nn", [] { product<Bf16, Bf16, F32, 64, 64, 1, 3, true, true, false>({72, 131, 137}); }},
    {"bf16_one_stage_of_k", [] { product<Bf16, Bf16, Bf16, 64, 32, 1, 4>({130, 136, 17}); }},
    {"bf16_pingpong",
     [] {
       product<Bf16, Bf16, Bf16, 64, 64, 1, 3, false, false, false, tilewright::sm120::PlainSum, kPingpong>(
           {200, 264, 329});
     }},
    {"bf16_pingpong_short",
     [] {
       product<Bf16, Bf16, Bf16, 64, 48, 1, 4, false, false, false, tilewright::sm120::PlainSum, kPingpong>(
           {200, 264, 49, 2});
     }},
    {"f16_tn", [] { product<F16, F16, F16, 64, 96, 1, 3>({99, 200, 201}); }},
    {"e4m3_exact", [] { product<E4m3, E4m3, Bf16, 128, 64, 1, 3, false, false, false, PromotedSum>({131, 136, 530}); }},
    {"e4m3_exact_two_boxes",
     [] { product<E4m3, E4m3, F32, 64, 24, 2, 3, false, false, false, PromotedSum>({90, 51, 1041}); }},
    {"e4m3_fast", [] { product<E4m3, E4m3, Bf16, 128, 128, 1, 2>({131, 136, 530}, {.scaled = true}); }},
    {"e5m2_e4m3_swapped", [] { product<E5m2, E4m3, Bf16, 64, 32, 1, 4, true>({37, 136, 530}); }},
    {"e4m3_out", [] { product<E4m3, E4m3, E4m3, 128, 64, 1, 3>({131, 144, 33}, {.scaled = true}); }},
    {"e5m2_out_swapped", [] { product<E4m3, E5m2, E5m2, 64, 32, 1, 4, true>({37, 144, 33}, {.scaled = true}); }},
    {"odd_columns", [] { product<Bf16, Bf16, Bf16, 128, 64, 1, 3>({131, 133, 137}, {.odd = true}); }},
    {"odd_columns_swapped", [] { product<Bf16, Bf16, Bf16, 64, 48, 1, 3, true>({51, 133, 137}, {.odd = true}); }},
    {"last_columns", [] { product<Bf16, Bf16, Bf16, 64, 64, 1, 3>({70, 133, 137}); }},
    {"c_in_boxes", [] { product<Bf16, Bf16, Bf16, 128, 128, 1, 2>({200, 136, 137, 2}, {.c = true}); }},
    {"c_in_boxes_swapped", [] { product<Bf16, Bf16, Bf16, 64, 64, 1, 3, true>({70, 136, 137}, {.c = true}); }},
    {"c_of_f32",
     [] { product<Bf16, Bf16, Bf16, 64, 64, 1, 3>({70, 136, 137, 2}, {.c = true, .c_type = TILEWRIGHT_ADDEND_F32}); }},
    {"c_and_bias", [] { product<Bf16, Bf16, F32, 64, 96, 1, 3>({70, 133, 137}, {.c = true, .bias = true}); }},
    {"relu",
     [] {
       product<Bf16, Bf16, Bf16, 64, 64, 1, 3, false, false, false, tilewright::sm120::PlainSum,
               mma::Schedule::kCooperative, kGiven>({70, 136, 137},
                                                    {.bias = true, .activation = TILEWRIGHT_ACTIVATION_RELU});
     }},
    {"splits", [] { product<Bf16, Bf16, Bf16, 64, 64, 1, 3>({70, 133, 650}, {.splits = 3}); }},
    {"splits_of_batch", [] { product<Bf16, Bf16, F32, 128, 64, 1, 3>({131, 70, 461, 2}, {.splits = 2, .c = true}); }},
    {"splits_swapped",
     [] { product<E4m3, E4m3, Bf16, 64, 16, 1, 4, true, false, false, PromotedSum>({13, 133, 1300}, {.splits = 7}); }},
    {"splits_pingpong",
     [] {
       product<Bf16, Bf16, Bf16, 64, 64, 1, 3, false, false, false, tilewright::sm120::PlainSum, kPingpong>(
           {70, 133, 450}, {.splits = 2});
     }},
    {"parts", [] { parts<Bf16, 64, 64, false>({70, 136, 650}, {.splits = 3, .alpha = 1}); }},
    {"parts_by_two_warps", [] { parts<Bf16, 128, 24, false>({131, 72, 450}, {.splits = 7, .alpha = 1}); }},
    {"parts_by_four_warps", [] { parts<F32, 64, 40, false>({70, 88, 700}, {.splits = 10, .alpha = 1}); }},
    {"parts_swapped", [] { parts<Bf16, 64, 16, true>({13, 136, 700}, {.splits = 10, .alpha = 1}); }},
    {"parts_of_batch", [] { parts<Bf16, 64, 64, false>({70, 136, 300, 2}, {.splits = 2, .alpha = 1}); }},
    {"parts_scaled", [] { parts<Bf16, 64, 16, true>({13, 136, 450, 2}, {.splits = 5, .scaled = true}); }},
    {"parts_and_c", [] { parts<Bf16, 64, 64, false>({70, 136, 300, 2}, {.splits = 3, .c = true, .bias = true}); }},
    {"parts_odd", [] { parts<Bf16, 64, 64, false>({70, 133, 300}, {.splits = 4, .odd = true, .alpha = 1}); }},
    {"parts_of_odd_columns", [] { parts<Bf16, 64, 24, false>({23, 133, 450}, {.splits = 6, .alpha = 1}); }},
    {"broadcast_b",
     [] { product<Bf16, Bf16, Bf16, 64, 64, 1, 3>({70, 136, 137, 3}, {.broadcast_b = true, .along_n = true}); }},
};

}  // namespace

int main(int count, char** words) { return host::run_cases(kCases, count, words); }

// Runs the `reduced_gemm` kernels of mma.sync on the host, all threads of them, with their host code: see
// test_sm120_gemm.py.
#include "host_products.hpp"

#include "tilewright/reduced_gemm/mma_kernel.hpp"

using namespace tilewright::reduced_gemm;
using host::fault;
using host::Matrix;
using tilewright::sm90::Bf16;
using tilewright::sm90::F16;
using tilewright::sm90::F32;

namespace {

template <class Kernel>
struct Traits : host::Traits<Kernel> {
  static void const* combining_entry() { return host::combining_entry_of<Combine<Kernel>, CombineParams>(); }
};

// Computes a product by the kernel, and compares every element, and what lies around D, to the bit.
template <class Element, class D, int TileM, int TileN, int Stages>
void product(int m, int n, int k, int batch, bool c, bool broadcast_a = false) {
  using Host = MmaHost<Traits<MmaKernel<Element, TileM, TileN, Stages, true>>>;
  int const gap = 8 - k % 8;
  Matrix<Element> a(broadcast_a ? 1 : batch, m, k, gap, 2), b(batch, n, k, gap, 2);
  Matrix<D> d(1, m, n, 3, 9), added(1, m, n, 1, 9);
  tilewright_reduced_gemm_args args{};
  args.m = m, args.n = n, args.k = k, args.batch = batch;
  args.a = a.data(), args.b = b.data(), args.d = d.data(), args.c = added.data();
  args.ld_a = a.stride, args.ld_b = b.stride, args.ld_c = added.stride, args.ld_d = d.stride;
  args.batch_stride_a = broadcast_a ? 0 : a.batch_stride, args.batch_stride_b = b.batch_stride;
  args.alpha = 2.0f, args.beta = c ? -3.0f : 0.0f;
  args.f32 = D::kBytes == 4;
  args.tactic.sm_count = host::at_once, args.tactic.swizzle = args.tactic.splits = 1;
  std::vector<float4> workspace(Host::workspace_bytes(args) / 16, float4{NAN, NAN, NAN, NAN});
  tilewright_tactic const alone = args.tactic;
  args.tactic.cluster_m = 2;
  if (Host::can_implement(args)) {
    fault("a cluster");
  }
  args.tactic = alone;
  if (!Host::can_implement(args) || Host::enqueue({}, args, workspace.data(), nullptr) != cudaSuccess) {
    fault("refused", m, n);
    return;
  }
  auto const* const stored = static_cast<typename D::Stored const*>(args.d);
  for (int64_t i = 0; i < int64_t(d.stored.size()); ++i) {
    int const row = int(i / d.stride), column = int(i % d.stride);
    typename D::Stored expected = d.stored[i];  // around D
    if (row < m && column < n) {
      double sum = 0;
      for (int matrix = 0; matrix < batch; ++matrix) {
        for (int x = 0; x < k; ++x) {
          sum += double(a.at(broadcast_a ? 0 : matrix, row, x)) * b.at(matrix, column, x);
        }
      }
      D::store(&expected, 0, float(2 * sum - (c ? 3.0 * added.at(0, row, column) : 0.0)));
    }
    if (std::memcmp(&expected, stored + i, sizeof expected) != 0) {
      fault("an element", row, column);
    }
  }
}

host::Case const kCases[] = {
    {"reduced", [] { product<Bf16, Bf16, 128, 64, 3>(131, 70, 137, 5, false); }},
    {"reduced_f32", [] { product<Bf16, F32, 128, 96, 3>(130, 99, 72, 9, true); }},
    {"reduced_f16", [] { product<F16, F16, 192, 128, 2>(200, 130, 265, 1, true); }},
    {"reduced_one_a", [] { product<Bf16, Bf16, 128, 128, 3>(100, 129, 67, 4, false, true); }},
};

}  // namespace

int main(int count, char** words) {
  host::at_once = 7;  // parts of k
  return host::run_cases(kCases, count, words);
}

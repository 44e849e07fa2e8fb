// Runs the device code that `tilewright new-family` writes, thread by thread, on the host: see
// test_new_family_device.py.
#include <cmath>
#include <type_traits>

#include "host_gpu.hpp"
#include "tilewright/host.hpp"

namespace {

using __nv_bfloat16 = tilewright::Bf16;

float rsqrtf(float value) { return 1 / std::sqrt(value); }

}  // namespace

#include "tilewright/relu_rows/kernel.hpp"

namespace {

constexpr int kGap = 3;  // elements between rows, which no kernel writes

template <class Element, int kRows, int kThreads>
void check(int m, int n) {
  using Kernel = tilewright::relu_rows::Kernel<Element, kRows, kThreads>;
  int const ld = n + kGap;
  Element const untouched(-77.0f);
  std::vector<Element> x(m * ld), out(m * ld, untouched);
  for (Element& value : x) {
    value = Element(host::random(2001) / 500.0f - 2);
  }
  tilewright_relu_rows_args args{};
  args.m = m, args.n = n, args.x = x.data(), args.out = out.data(), args.ld_x = args.ld_out = ld, args.eps = 0.25f;
  tilewright::LaunchShape shape{};
  typename Kernel::Params params{};
  if (!Kernel::can_implement(args) || Kernel::make_params(args, params, shape) != cudaSuccess) {
    host::fault("refused", m, n);
    return;
  }
  alignas(16) char shared[Kernel::kSharedBytes + 16];
  for (unsigned index = 0; index < shape.grid.x; ++index) {
    blockIdx.x = int(index);
    std::memset(shared, 0xFF, sizeof shared);  // NaN, until a warp writes its sum
    run(Kernel::kThreads, [&] { Kernel{}(params, shared); });
    for (char const* end = shared + Kernel::kSharedBytes; end != shared + sizeof shared; ++end) {
      if (*end != '\xFF') {
        host::fault("shared memory behind its end", index);
      }
    }
  }
  double const tolerance = std::is_same_v<Element, float> ? 1e-6 : 1.0 / 256;
  for (int row = 0; row < m; ++row) {
    double sum = 0;
    for (int column = 0; column < n; ++column) {
      double const value = static_cast<float>(x[row * ld + column]);
      sum += value * value;
    }
    for (int column = 0; column < ld; ++column) {
      double const value = static_cast<float>(out[row * ld + column]);
      double const expected = column < n ? static_cast<float>(x[row * ld + column]) / std::sqrt(sum / n + 0.25) : -77.0;
      if (!(std::abs(value - expected) <= tolerance * std::abs(expected))) {
        host::fault("wrong", row, column);
      }
    }
  }
}

template <class Element>
void check_all(int m, int n) {
  check<Element, 4, 32>(m, n);
  check<Element, 1, 128>(m, n);
  check<Element, 1, 512>(m, n);
  check<Element, 2, 96>(m, n);
}

}  // namespace

int main() {
  for (unsigned const order : {0u, 1u, 2u}) {
    disorder = order;
    check_all<float>(7, 45), check_all<float>(1, 1), check_all<float>(4, 1100);
    check_all<__nv_bfloat16>(7, 45), check_all<__nv_bfloat16>(5, 1024);
  }
  return host::faults != 0;
}

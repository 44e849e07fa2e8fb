// Uses a library of the tests' host kernels as a C++ program would: loaded, and linked.
#include "tilewright/library.hpp"

#include <cstdio>
#include <functional>
#include <vector>

#include "tilewright/gemm/args.h"

TILEWRIGHT_KERNEL(host_bf16_tn);

namespace {

constexpr tilewright::Choices<tilewright_tactic, 3> kChoices = {
    9, {{2, "m", "two", {0, 2}}, {4, "m", "four", {0, 4}}, {9, "n", "nine", {0, 8}}}};

float number(uint16_t bits) {
  uint32_t const wide = uint32_t(bits) << 16;
  float value;
  __builtin_memcpy(&value, &wide, sizeof(value));
  return value;
}

uint16_t bf16(float value) {
  uint32_t wide;
  __builtin_memcpy(&wide, &value, sizeof(wide));
  return uint16_t(wide >> 16);
}

// The number of wrong elements of a product of small whole numbers.
int multiply(tilewright_kernel const& kernel) {
  int const m = 16, n = 24, k = 32;
  std::vector<uint16_t> a(m * k), b(n * k), d(m * n, 0xFFFF);
  for (int i = 0; i < m * k; ++i) a[i] = bf16(float(i % 5 - 2));
  for (int i = 0; i < n * k; ++i) b[i] = bf16(float(i % 3 - 1));
  tilewright_gemm_args args{};
  args.m = m, args.n = n, args.k = k, args.batch = 1;
  args.a = a.data(), args.b = b.data(), args.d = d.data();
  args.ld_a = args.ld_b = k, args.ld_c = args.ld_d = n;
  args.alpha = 1;
  args.type_c = args.type_bias = TILEWRIGHT_ADDEND_BF16;
  args.tactic.splits = args.tactic.swizzle = 1;
  if (kernel.can_implement(&args) != TILEWRIGHT_OK || kernel.launch(&args, nullptr, nullptr) != TILEWRIGHT_OK) {
    return -1;
  }
  int wrong = 0;
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      float sum = 0;
      for (int x = 0; x < k; ++x) sum += number(a[i * k + x]) * number(b[j * k + x]);
      wrong += number(d[i * n + j]) != sum;
    }
  }
  return wrong;
}

void refused(std::function<void()> const& act) {
  try {
    act();
    std::printf("nothing was refused\n");
  } catch (std::runtime_error const& error) {
    std::printf("%s\n", error.what());
  }
}

}  // namespace

int main(int, char** words) {
  tilewright::Library const library(words[1]);
  tilewright_kernel const& kernel = library.kernel<tilewright_gemm_args>("host_bf16_tn");
  std::printf("loaded: %s, %d wrong\n", kernel.name, multiply(kernel));
  std::printf("linked: %s, %d wrong\n", tilewright_host_bf16_tn.name, multiply(tilewright_host_bf16_tn));
  std::printf("absent: %d\n", library.find("host_absent") == nullptr);
  refused([&] { library.kernel<tilewright_gemm_args>("host_absent"); });
  refused([&] { library.find("host_old_abi"); });
  refused([&] { library.kernel<tilewright_tactic>("host_bf16_tn"); });
  refused([] { tilewright::Library("/nonexistent.so"); });
  for (int value : {1, 2, 3, 4, 8, 9, 10}) {
    auto const* const choice = kChoices.find(value);
    std::printf("%d: %s %d\n", value, choice ? choice->kernel : "none", choice ? choice->tactic.swizzle : 0);
  }
  return 0;
}

// Tries the activations of an epilogue on the host: see test_activations_on_host.py.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <limits>

#define __device__
#define __forceinline__ inline
#define __expf expf

namespace {

struct Index {
  int x;
} threadIdx{0};

uint32_t __float_as_uint(float) { return 0; }
uint32_t __reduce_max_sync(unsigned, uint32_t value) { return value; }
void atomicMax(uint32_t*, uint32_t) {}

}  // namespace

namespace tilewright::sm90 {

enum class Addend : int32_t { kF32, kF16, kBf16 };
inline float load(Addend, void const*, int64_t) { return 0; }

}  // namespace tilewright::sm90

#include "tilewright/sm90/element_epilogue.hpp"

using tilewright::sm90::Activation;

namespace {

int failures = 0;

void expect(char const* what, float x, float actual, double expected) {
  bool const alike = std::isnan(expected) ? std::isnan(actual) : std::fabs(actual - expected) <= 1e-5;
  if (!alike && actual != float(expected)) {
    std::printf("%s of %g is %g, expected %g\n", what, double(x), double(actual), expected);
    ++failures;
  }
}

template <Activation kActivation>
float activated(float x, Activation activation) {
  float values[1] = {x};
  tilewright::sm90::activate<kActivation>(values, activation);
  return values[0];
}

}  // namespace

int main() {
  float const infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (float const x : {-3.0f, -0.5f, 0.0f, 0.5f, 3.0f, infinity, nan}) {
    double const wide = x;
    expect("relu", x, activated<Activation::kGiven>(x, Activation::kRelu), std::isnan(x) ? wide : std::fmax(wide, 0));
    double const gelu = 0.5 * wide * (1 + std::erf(wide * std::sqrt(0.5)));
    expect("gelu", x, activated<Activation::kGiven>(x, Activation::kGelu), gelu);
    expect("silu", x, activated<Activation::kGiven>(x, Activation::kSilu), wide / (1 + std::exp(-wide)));
    expect("none", x, activated<Activation::kGiven>(x, Activation::kNone), wide);
    expect("none", x, activated<Activation::kNone>(x, Activation::kRelu), wide);
  }
  expect("relu", -infinity, activated<Activation::kGiven>(-infinity, Activation::kRelu), 0);
  return failures != 0;
}

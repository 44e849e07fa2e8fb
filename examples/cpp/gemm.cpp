// A BF16 product with a kernel of tilewright, without Python: D[m, 6144] = A[m, 4096] W[6144, 4096]^T.
//
//   gemm LIBRARY M
//
// finds the kernel that selection chooses for M rows, asks it whether it takes the problem and how much workspace it
// needs and, with a GPU, launches it and compares the result with a sum in double. README.md says how to build it.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "qkv_proj.hpp"  // tilewright choices gemm bf16 m=1:64 n=6144 k=4096 --device h200 -o build/qkv_proj.hpp
#include "tilewright/gemm/args.h"
#include "tilewright/library.hpp"

#ifdef EXAMPLE_WITH_CUDA
#include <cuda_runtime.h>
#endif

namespace {

constexpr int kN = 6144, kK = 4096;

tilewright_gemm_args arguments(int m, tilewright_tactic const& tactic) {
  tilewright_gemm_args args{};  // no C, no bias, no scales
  args.m = m;
  args.n = kN;
  args.k = kK;
  args.batch = 1;
  args.ld_a = args.ld_b = kK;  // the layout tn: k is contiguous in both operands
  args.ld_c = args.ld_d = kN;
  args.alpha = 1;
  args.type_c = args.type_bias = TILEWRIGHT_ADDEND_BF16;
  args.tactic = tactic;
  return args;
}

#ifdef EXAMPLE_WITH_CUDA

void check(cudaError_t status) {
  if (status != cudaSuccess) {
    throw std::runtime_error(cudaGetErrorString(status));
  }
}

// BF16 is the upper half of a float.
float number(uint16_t bits) {
  uint32_t const wide = uint32_t(bits) << 16;
  float value;
  __builtin_memcpy(&value, &wide, sizeof(value));
  return value;
}

// Multiples of 1/8 from -1 to 7/8: BF16 holds them exactly.
std::vector<uint16_t> matrix(int rows, int columns, uint32_t seed) {
  std::vector<uint16_t> values(size_t(rows) * columns);
  for (uint16_t& value : values) {
    seed = seed * 1664525u + 1013904223u;
    float const eighths = float(int(seed >> 28) - 8) / 8;
    uint32_t wide;
    __builtin_memcpy(&wide, &eighths, sizeof(wide));
    value = uint16_t(wide >> 16);
  }
  return values;
}

// Memory of the device with a copy of `data`; without data, with NaN everywhere.
void* on_device(void const* data, size_t bytes) {
  void* pointer = nullptr;
  check(cudaMalloc(&pointer, bytes));
  check(data != nullptr ? cudaMemcpy(pointer, data, bytes, cudaMemcpyHostToDevice) : cudaMemset(pointer, 0xFF, bytes));
  return pointer;
}

// Launches the kernel and compares every element. Returns how many are wrong.
int run(tilewright_kernel const& kernel, tilewright_gemm_args args) {
  std::vector<uint16_t> const a = matrix(args.m, kK, 1), w = matrix(kN, kK, 2);
  std::vector<uint16_t> d(size_t(args.m) * kN);
  args.a = on_device(a.data(), a.size() * 2);
  args.b = on_device(w.data(), w.size() * 2);
  args.d = on_device(nullptr, d.size() * 2);
  int64_t const bytes = kernel.workspace_bytes(&args);
  void* const workspace = bytes > 0 ? on_device(nullptr, size_t(bytes)) : nullptr;
  cudaStream_t stream;
  check(cudaStreamCreate(&stream));
  check(cudaDeviceSynchronize());
  int32_t const status = kernel.launch(&args, workspace, stream);
  if (status != TILEWRIGHT_OK) {
    throw std::runtime_error("the launch returned " + std::to_string(status));
  }
  check(cudaStreamSynchronize(stream));
  check(cudaMemcpy(d.data(), args.d, d.size() * 2, cudaMemcpyDeviceToHost));
  int wrong = 0;
  for (int row = 0; row < args.m; ++row) {
    for (int column = 0; column < kN; ++column) {
      double sum = 0;
      for (int k = 0; k < kK; ++k) {
        sum += double(number(a[size_t(row) * kK + k])) * number(w[size_t(column) * kK + k]);
      }
      double const error = number(d[size_t(row) * kN + column]) - sum;
      wrong += !(error * error <= 1e-4 * (sum * sum + 1));  // BF16 has 8 bits; NaN is wrong, too
    }
  }
  return wrong;
}

bool has_gpu() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

#endif  // EXAMPLE_WITH_CUDA

int multiply(std::string const& path, int m) {
  auto const* const choice = tilewright_choices::qkv_proj.find(m);
  if (choice == nullptr) {
    throw std::runtime_error("qkv_proj.hpp has no choice for m = " + std::to_string(m));
  }
  tilewright::Library const library(path);
  tilewright_kernel const& kernel = library.kernel<tilewright_gemm_args>(choice->kernel);
  tilewright_gemm_args const args = arguments(m, choice->tactic);
  std::printf("m = %d: %s of %s\n", m, choice->kernel, choice->module);
  if (kernel.can_implement(&args) != TILEWRIGHT_OK) {
    throw std::runtime_error("the kernel does not take the problem");
  }
  std::printf("takes the problem, with %lld bytes of workspace\n",
              static_cast<long long>(kernel.workspace_bytes(&args)));
#ifdef EXAMPLE_WITH_CUDA
  if (has_gpu()) {
    int const wrong = run(kernel, args);
    std::printf("launched: %d of %d elements are wrong\n", wrong, m * kN);
    return wrong == 0 ? 0 : 1;
  }
  std::printf("no GPU: nothing was launched\n");
#else
  std::printf("compiled without CUDA: nothing was launched\n");
#endif
  return 0;
}

}  // namespace

int main(int count, char** words) {
  if (count != 3) {
    std::fprintf(stderr, "usage: %s LIBRARY M\n", words[0]);
    return 2;
  }
  try {
    return multiply(words[1], std::atoi(words[2]));
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

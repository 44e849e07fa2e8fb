// Kernels of `tilewright doctor --device-self-test`: each runs one instruction form on operands that the host has laid
// out, a probe to a thread block. tools/self_test says where the words of operands and results belong.
//
// A `Probe` has kThreads, kSharedBytes (static), kOperandWords, kResultWords, and
//   static __device__ void run(uint32_t const* operands, uint32_t* results, uint32_t shared_memory);
#pragma once

#include "tilewright/adapter.hpp"
#include "tilewright/self_test/args.h"
#include "tilewright/sm90/ptx.hpp"

namespace tilewright::self_test {

template <class Probe>
struct Kernel {
  using Args = tilewright_self_test_args;
  static constexpr int kThreads = Probe::kThreads, kSharedBytes = Probe::kSharedBytes;

  struct Params {
    uint32_t const* operands;
    uint32_t* results;
  };

  static bool can_implement(Args const& args) { return args.probes > 0; }

  static cudaError_t make_params(Args const& args, Params& params, LaunchShape& shape) {
    params = {static_cast<uint32_t const*>(args.operands), static_cast<uint32_t*>(args.results)};
    shape.grid = dim3(static_cast<unsigned>(args.probes));
    return cudaSuccess;
  }

  __device__ __forceinline__ void operator()(Params const& params, char* shared_memory) const {
    Probe::run(params.operands + blockIdx.x * Probe::kOperandWords, params.results + blockIdx.x * Probe::kResultWords,
               sm90::shared_address(shared_memory));
  }
};

// Copies words to shared memory. `threads` threads take part.
__device__ __forceinline__ void copy_image(uint32_t shared, uint32_t const* words, int count, int threads) {
  for (int i = threadIdx.x; i < count; i += threads) {
    sm90::store_word(shared + i * 4, words[i]);
  }
}

// Registers of sums, as words.
__device__ __forceinline__ void from_word(float& value, uint32_t word) { value = __uint_as_float(word); }
__device__ __forceinline__ void from_word(int32_t& value, uint32_t word) { value = static_cast<int32_t>(word); }
__device__ __forceinline__ uint32_t to_word(float value) { return __float_as_uint(value); }
__device__ __forceinline__ uint32_t to_word(int32_t value) { return static_cast<uint32_t>(value); }

}  // namespace tilewright::self_test

// Defines the kernel NAME, which runs the probe `PROBE`.
#define TILEWRIGHT_SELF_TEST_KERNEL(NAME, ...)                 \
  namespace tilewright::NAME {                                 \
  struct Test {                                                \
    static constexpr bool kPdl = false;                        \
    using Kernel = tilewright::self_test::Kernel<__VA_ARGS__>; \
    static void const* entry();                                \
  };                                                           \
  }                                                            \
  TILEWRIGHT_KERNEL(NAME, tilewright::NAME::Test, tilewright::LaunchedOnce, 1, 1024)

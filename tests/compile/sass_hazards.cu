// Kernels whose machine code holds the races that compile/nvcc/sass_hazards.py looks for, each beside one without:
// test_sass_hazards.py.
#include <cstdint>

#include "tilewright/sm90/ptx.hpp"

namespace ptx = tilewright::sm90;

namespace {

constexpr uint32_t kFull = 0, kEmpty = 8, kData = 1024;

// A thread's 16 bytes of each stage, which a copy fills: the stage is given back where `kEarly` says.
template <bool kEarly>
__device__ __forceinline__ void consume(uint4* out, int stages) {
  for (int stage = 0; stage < stages; ++stage) {
    uint32_t words[4];
    ptx::barrier_wait(kFull, stage & 1);
    ptx::load_words(kData + threadIdx.x * 16, words);
    ptx::barrier_arrive(kEarly ? kEmpty : kEmpty + ptx::zero_after(words[0]));
    out[stage * blockDim.x + threadIdx.x] = make_uint4(words[0] + 1, words[1], words[2], words[3]);
  }
}

}  // namespace

extern "C" __global__ void released_early(uint4* out, int stages) { consume<true>(out, stages); }

extern "C" __global__ void released(uint4* out, int stages) { consume<false>(out, stages); }

extern "C" __global__ void reads_early(int const* in, int* out) {
  int value;
  asm volatile("ld.global.u32 %0, [%1];" : "=r"(value) : "l"(in + threadIdx.x) : "memory");
  ptx::wait_for_previous_kernel();
  out[threadIdx.x] = value;
}

// One branch alone waits.
extern "C" __global__ void reads_early_on_one_path(int const* in, int* out) {
  if (blockIdx.x == 0) {
    ptx::wait_for_previous_kernel();
    out[threadIdx.x] = 0;
  } else {
    int value;
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(value) : "l"(in + threadIdx.x) : "memory");
    out[threadIdx.x] = value;
  }
}

extern "C" __global__ void reads(int const* in, int* out) {
  __shared__ int shared[128];
  shared[threadIdx.x] = threadIdx.x;  // no other kernel's memory
  __syncthreads();
  ptx::wait_for_previous_kernel();
  int const value = in[shared[threadIdx.x ^ 1]];
  ptx::allow_next_kernel();
  out[threadIdx.x] = value;
}

// No launch of it begins early.
extern "C" __global__ void never_waits(int const* in, int* out) { out[threadIdx.x] = in[threadIdx.x]; }

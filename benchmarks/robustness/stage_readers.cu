// Which ways of giving a stage back does racecheck follow, and is a wgmma one of them?
//
//   nvcc -std=c++17 -gencode arch=compute_90a,code=sm_90a -I runtime/include benchmarks/robustness/stage_readers.cu
//   for way in 0 1 2 3 4 5; do compute-sanitizer --tool racecheck ./a.out $way; done; ./a.out late
//
// Four warps read stages that a fifth warp fills by bulk copies; the ways differ in who tells it that a stage is free.
// `late` measures whether the wait for a wgmma ends before the last warp of its warpgroup has issued it. Results:
// benchmarks/results/races.md.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tilewright/sm90/elements.hpp"
#include "tilewright/sm90/ptx.hpp"
#include "tilewright/sm90/wgmma.hpp"
#include "tilewright/sm90/wgmma_registers.hpp"

namespace {

using namespace tilewright;

enum Way { kEveryThread, kLaneOfWarp, kThreadAfterBarrier, kThreadAfterWgmma, kNobody, kOwnStages };
char const* const kWays[] = {"every thread arrives",
                             "a lane of each warp arrives, after __syncwarp",
                             "a thread arrives, after bar.sync",
                             "a thread arrives, after a wgmma",
                             "nobody arrives: a race",
                             "a warp fills its own stages, after __syncwarp"};

constexpr int kStages = 2, kBytes = 2048, kRounds = 12;
constexpr int kReaders = 128, kThreads = kReaders + 32;

// Operand B of the wgmmas, at the beginning of shared memory: ones.
__device__ uint64_t ones(uint32_t shared) {
  for (int i = threadIdx.x; i < 256; i += blockDim.x) {
    sm90::store_word(shared + i * 4, 0x3F803F80);
  }
  sm90::fence_async_proxy();
  return sm90::swizzled_descriptor<128>(shared);
}

__device__ void multiply(float (&d)[4], uint32_t const (&a)[4], uint64_t b) {
  sm90::wgmma_fence();
  sm90::WgmmaRegisters<sm90::Bf16, 8>::run(d, a, b);
  sm90::wgmma_commit();
  sm90::wgmma_wait<0>();
  sm90::hold(d);
}

__device__ void fill(uint32_t stage, uint32_t full, char const* from, int bytes) {
  sm90::barrier_expect(full, bytes);
  sm90::copy_bytes(stage, from, bytes, full, sm90::kEvictFirst);
}

template <Way kWay>
__global__ void __launch_bounds__(kThreads) share(char const* from, uint32_t* to) {
  extern __shared__ __align__(1024) char memory[];
  uint32_t const shared = sm90::shared_address(memory), stages = shared + 1024;
  uint32_t const full = stages + kStages * kBytes, empty = full + 8 * kStages;
  int const thread = threadIdx.x;
  uint64_t const b = ones(shared);
  if (thread == 0) {
    for (int i = 0; i < kStages; ++i) {
      sm90::barrier_init(full + i * 8, 1);
      sm90::barrier_init(empty + i * 8, kWay == kEveryThread ? kReaders : kWay == kLaneOfWarp ? kReaders / 32 : 1);
    }
    sm90::fence_barrier_init();
  }
  __syncthreads();
  float d[4] = {};
  uint32_t sum = 0;
  for (int i = 0; i < kRounds; ++i) {
    int const stage = i % kStages, phase = i / kStages & 1;
    if (thread >= kReaders) {
      if (kWay != kNobody) {
        sm90::barrier_wait(empty + stage * 8, phase ^ 1);
      }
      if (thread == kReaders) {
        fill(stages + stage * kBytes, full + stage * 8, from + i * kBytes, kBytes);
      }
      continue;
    }
    sm90::barrier_wait(full + stage * 8, phase);
    uint32_t words[4];
    sm90::load_words(stages + stage * kBytes + thread * 16, words);
    sum += words[0] ^ words[1] ^ words[2] ^ words[3];
    bool tells = kWay == kEveryThread;
    if (kWay == kLaneOfWarp) {
      __syncwarp();
      tells = thread % 32 == 0;
    } else if (kWay == kThreadAfterBarrier) {
      sm90::named_barrier_sync(1, kReaders);
      tells = thread == 0;
    } else if (kWay == kThreadAfterWgmma) {
      multiply(d, words, b);
      tells = thread == 0;
    }
    if (tells) {
      sm90::barrier_arrive(empty + stage * 8 + sm90::zero_after(words[0]));
    }
  }
  if (thread < kReaders) {
    to[blockIdx.x * kReaders + thread] = sum + __float_as_uint(d[0]);
  }
}

__global__ void __launch_bounds__(32) own(char const* from, uint32_t* to) {
  extern __shared__ __align__(1024) char memory[];
  uint32_t const stages = sm90::shared_address(memory), full = stages + kStages * kBytes;
  int const lane = threadIdx.x;
  if (lane < kStages) {
    sm90::barrier_init(full + lane * 8, 1);
    sm90::fence_barrier_init();
  }
  __syncwarp();
  uint32_t sum = 0, zero = 0;
  for (int i = -kStages; i < kRounds; ++i) {
    int const stage = (i + kStages) % kStages, next = i + kStages;
    if (i >= 0) {
      sm90::barrier_wait(full + stage * 8, i / kStages & 1);
      uint32_t words[4];
      sm90::load_words(stages + stage * kBytes + lane * 16, words);
      sum += words[0] ^ words[1] ^ words[2] ^ words[3];
      zero = sm90::zero_after(words[0]);
      __syncwarp();
    }
    if (lane == 0 && next < kRounds) {
      fill(stages + stage * kBytes, full + stage * 8 + zero, from + next * kBytes, 512);
    }
  }
  to[blockIdx.x * 32 + lane] = sum;
}

struct Times {
  uint64_t issued, waited;  // nanoseconds
};

__device__ uint64_t now() {
  uint64_t time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return time;
}

__global__ void __launch_bounds__(kReaders) late(Times* times, float* to) {
  extern __shared__ __align__(1024) char memory[];
  uint64_t const b = ones(sm90::shared_address(memory));
  int const warp = threadIdx.x / 32;
  float d[4] = {};
  uint32_t a[4] = {0x3F803F80, 0x3F803F80, 0x3F803F80, 0x3F803F80};
  for (int slow = 0; slow < 4; ++slow) {
    __syncthreads();
    uint64_t const start = now();
    for (int i = 0; warp == slow && i < 200; ++i) {
      __nanosleep(1000);
    }
    uint64_t const issued = now();
    multiply(d, a, b);
    uint64_t const waited = now();
    if (threadIdx.x % 32 == 0) {
      times[slow * 4 + warp] = {issued - start, waited - start};
    }
  }
  *to = d[0];
}

template <Way kWay>
void run_shared(char const* from, uint32_t* to) {
  share<kWay><<<4, kThreads, 16384>>>(from, to);
}

}  // namespace

int main(int count, char** arguments) {
  char* from = nullptr;
  uint32_t* to = nullptr;
  Times* times = nullptr;
  cudaMalloc(&from, kBytes * kRounds);
  cudaMalloc(&to, 1 << 16);
  cudaMallocManaged(&times, 16 * sizeof(Times));
  cudaMemset(from, 0, kBytes * kRounds);
  bool const measures = count > 1 && std::strcmp(arguments[1], "late") == 0;
  int const way = count > 1 && !measures ? std::atoi(arguments[1]) : 0;
  if (measures) {
    late<<<1, kReaders, 16384>>>(times, reinterpret_cast<float*>(to));
  } else {
    void (*const runs[])(char const*, uint32_t*) = {run_shared<kEveryThread>, run_shared<kLaneOfWarp>,
                                                    run_shared<kThreadAfterBarrier>, run_shared<kThreadAfterWgmma>,
                                                    run_shared<kNobody>};
    if (way == kOwnStages) {
      own<<<4, 32, 16384>>>(from, to);
    } else {
      runs[way % kOwnStages](from, to);
    }
  }
  std::printf("%s: %s\n", measures ? "late" : kWays[way % 6], cudaGetErrorString(cudaDeviceSynchronize()));
  for (int i = 0; measures && i < 16; ++i) {
    std::printf("warp %d is late: warp %d issues after %5.1f us and has waited after %5.1f us\n", i / 4, i % 4,
                times[i].issued * 1e-3, times[i].waited * 1e-3);
  }
}

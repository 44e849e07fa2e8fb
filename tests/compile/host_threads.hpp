// Threads of a thread block on the host, for tests of what they decide: fibers that run in turn until each of its group
// has come to the same place.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <numeric>
#include <vector>

#define __device__
#define __forceinline__ inline
#define __shared__ static

namespace {

struct Index {
  int x;
};
struct int2 {
  int x, y;
};
Index threadIdx, blockIdx, gridDim;

struct Group {
  int members = 0, arrived = 0;
  long meetings = 0;
};

struct Fiber {
  ucontext_t context;
  std::vector<char> stack = std::vector<char>(64 << 10);
  bool done = false;
};

ucontext_t home;
std::vector<std::unique_ptr<Fiber>> fibers;
std::function<void()> body;
Group block, warps[32];
long slots[32][32];
unsigned disorder = 0;  // threads run in order of their numbers; else in another, which changes

void yield() {
  int const mine = threadIdx.x;
  swapcontext(&fibers[mine]->context, &home);
  threadIdx.x = mine;
}

void meet(Group& group) {
  long const before = group.meetings;
  if (++group.arrived == group.members) {
    group.arrived = 0, ++group.meetings;
    return;
  }
  while (group.meetings == before) {
    yield();
  }
}

void run_fiber() {
  body();
  fibers[threadIdx.x]->done = true;
  swapcontext(&fibers[threadIdx.x]->context, &home);
}

void run(int threads, std::function<void()> what) {
  body = std::move(what);
  block = {threads};
  fibers.clear();
  for (int i = 0; i < threads; ++i) {
    warps[i / 32] = {32};
    fibers.push_back(std::make_unique<Fiber>());
    Fiber& fiber = *fibers.back();
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.data();
    fiber.context.uc_stack.ss_size = fiber.stack.size();
    makecontext(&fiber.context, run_fiber, 0);
  }
  std::vector<int> order(threads);
  std::iota(order.begin(), order.end(), 0);
  for (bool some = true; some;) {
    some = false;
    if (disorder != 0) {
      disorder = disorder * 1664525u + 1013904223u;
      std::rotate(order.begin(), order.begin() + int((disorder >> 8) % unsigned(threads)), order.end());
      std::swap(order[0], order[(disorder >> 16) % unsigned(threads)]);
    }
    for (int const i : order) {
      if (!fibers[i]->done) {
        threadIdx.x = i, some = true;
        swapcontext(&home, &fibers[i]->context);
      }
    }
  }
}

// What the lanes of the thread's warp bring.
std::array<long, 32> gather(long value) {
  int const warp = threadIdx.x / 32;
  slots[warp][threadIdx.x % 32] = value;
  meet(warps[warp]);
  std::array<long, 32> found;
  std::copy(slots[warp], slots[warp] + 32, found.begin());
  meet(warps[warp]);
  return found;
}

bool alone = false;  // whether a thread does the work of its warp, lane by lane
void __syncthreads() { meet(block); }
[[maybe_unused]] void __syncwarp() {
  if (!alone) {
    meet(warps[threadIdx.x / 32]);
  }
}
int __shfl_sync(unsigned, int value, int lane) { return int(gather(value)[lane % 32]); }
int __shfl_up_sync(unsigned, int value, int by) {
  int const lane = threadIdx.x % 32;
  return int(gather(value)[lane >= by ? lane - by : lane]);
}
int __reduce_min_sync(unsigned, int value) {
  auto const found = gather(value);
  return int(*std::min_element(found.begin(), found.end()));
}
int __reduce_max_sync(unsigned, int value) {
  auto const found = gather(value);
  return int(*std::max_element(found.begin(), found.end()));
}
unsigned __ballot_sync(unsigned, bool value) {
  auto const found = gather(value);
  unsigned bits = 0;
  for (int i = 0; i < 32; ++i) {
    bits |= unsigned(found[i]) << i;
  }
  return bits;
}
int __ffs(unsigned bits) { return __builtin_ffs(int(bits)); }
using std::max;
using std::min;

}  // namespace

// Threads of a thread block on the host, for tests of what they decide: fibers that run in turn until each of its group
// has come to the same place.
#pragma once

// glibc's checked longjmp takes a jump to another stack for a fault.
#undef _FORTIFY_SOURCE
#include <setjmp.h>
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

// The first switch to a fiber is swapcontext's, which sets its stack up. All others are jumps: swapcontext makes a
// system call each time, for the mask of signals, and takes 30 times as long.
struct Fiber {
  static constexpr size_t kStackBytes = 64 << 10;

  ucontext_t context;
  jmp_buf place;
  std::unique_ptr<char[]> stack{new char[kStackBytes]};
  bool started = false, done = false;
};

ucontext_t started_from;
jmp_buf home;
std::vector<std::unique_ptr<Fiber>> fibers;  // kept from one run to the next
std::function<void()> body;
Group block, warps[32];
long slots[32][32];
unsigned disorder = 0;  // threads run in order of their numbers; else in another, which changes

void yield() {
  int const mine = threadIdx.x;
  if (_setjmp(fibers[mine]->place) == 0) {
    _longjmp(home, 1);
  }
  threadIdx.x = mine;
}

// Runs a fiber until it yields or ends.
void resume(Fiber& fiber) {
  if (_setjmp(home) != 0) {
    return;
  }
  if (fiber.started) {
    _longjmp(fiber.place, 1);
  }
  fiber.started = true;
  swapcontext(&started_from, &fiber.context);
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
  _longjmp(home, 1);
}

void run(int threads, std::function<void()> what) {
  body = std::move(what);
  block = {threads};
  for (int i = 0; i < threads; ++i) {
    warps[i / 32] = {32};
    if (i == int(fibers.size())) {
      fibers.push_back(std::make_unique<Fiber>());
    }
    Fiber& fiber = *fibers[i];
    fiber.started = fiber.done = false;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = Fiber::kStackBytes;
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
        resume(*fibers[i]);
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
[[maybe_unused]] void __threadfence_block() {}  // a fiber's loads have returned

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

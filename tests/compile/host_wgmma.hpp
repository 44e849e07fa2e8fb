// What headers name of elements.hpp and wgmma.hpp, where no host test calls it.
#pragma once

#include <cstdint>

namespace tilewright::sm90 {

struct E4m3 {};
struct Bf16 {};
template <class A, class B, int N>
void wgmma(float (&)[N / 2], uint64_t, uint64_t, bool);
template <int RowBytes = 128>
uint64_t swizzled_descriptor(uint32_t);
void wgmma_fence();
void wgmma_commit();
template <int Pending>
void wgmma_wait();
template <class Registers>
void hold(Registers&) {}

}  // namespace tilewright::sm90

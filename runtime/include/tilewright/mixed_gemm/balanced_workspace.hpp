// The workspace through which CTAs of a balanced kernel (balanced_phases.hpp) hand partial sums to each other.
#pragma once

#include <cstdint>

namespace tilewright::mixed_gemm {

constexpr int kMaxBalancedCtas = 144;  // the most SMs of an sm_90

// For each CTA, the partial sums of one tile and a flag. A flag that equals `ready` says that the CTA's partial sums
// are stored. `ready` is a random number, because nothing clears the workspace before a launch: it may hold anything.
// The CTA that has seen a flag sets it to 0, because other launches of the process have the same `ready`.
struct BalancedWorkspace {
  char* partials;
  uint64_t* flags;
  uint64_t ready;
};

__device__ __forceinline__ void store_release(uint64_t* address, uint64_t value) {
  asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(address), "l"(value) : "memory");
}
__device__ __forceinline__ uint64_t load_acquire(uint64_t const* address) {
  uint64_t value;
  asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(address) : "memory");
  return value;
}
// Loads four sums from L2. The compiler would move __ldcg over a barrier; it does not move this.
__device__ __forceinline__ void load_partial(float4 const* address, float (&values)[4]) {
  asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(values[0]), "=f"(values[1]), "=f"(values[2]), "=f"(values[3])
               : "l"(address)
               : "memory");
}

}  // namespace tilewright::mixed_gemm

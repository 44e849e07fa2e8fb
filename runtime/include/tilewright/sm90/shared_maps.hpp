// Tensor maps that a warp makes in shared memory, changes there, and copies to global memory, where TMA reads them.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace tilewright::sm90 {

// Changes a map in shared memory: its address, and its row length and row stride, which are equal (bytes).
__device__ __forceinline__ void replace_shared_map(uint32_t map, void const* address, uint32_t row_bytes) {
  asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" ::"r"(map), "l"(address)
               : "memory");
  asm volatile("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 0, %1;" ::"r"(map), "r"(row_bytes)
               : "memory");
  asm volatile("tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%0], 0, %1;" ::"r"(map),
               "l"(uint64_t{row_bytes})
               : "memory");
}

// Copies a map from shared to global memory. Any thread of the GPU that calls `acquire_map` (ptx.hpp) afterwards can
// load by the copy. Called by whole warps.
__device__ __forceinline__ void publish_map(CUtensorMap* map, uint32_t from) {
  asm volatile(
      "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;" ::"l"(
          map),
      "r"(from)
      : "memory");
}

}  // namespace tilewright::sm90

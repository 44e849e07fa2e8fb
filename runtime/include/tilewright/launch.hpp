// How any kernel is launched: what it has in common with every other, whatever its family.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>

namespace tilewright {

struct LaunchShape {
  dim3 grid, block, cluster;
  int smem_bytes;  // dynamic, per CTA
  bool pdl;        // programmatic dependent launch: may start while the stream's previous kernel ends
};

// Makes the device's context current in this thread, which encoding a tensor map wants and a fresh
// thread lacks, and allows the kernel its shared memory: once each, then two comparisons. `Kernel`
// gives each kernel a memory of its own.
template <class Kernel>
cudaError_t prepare(void const* entry, int smem_bytes) {
  static thread_local int bound = -1;
  static std::atomic<uint64_t> allowed{0};  // a bit a device; the driver remembers the rest
  int device = 0;
  if (cudaError_t const error = cudaGetDevice(&device); error != cudaSuccess) {
    return error;
  }
  if (device != bound) {
    if (cudaError_t const error = cudaSetDevice(device); error != cudaSuccess) {
      return error;
    }
    bound = device;
  }
  uint64_t const bit = device < 64 ? uint64_t{1} << device : 0;
  if ((allowed.load(std::memory_order_acquire) & bit) != 0) {
    return cudaSuccess;
  }
  cudaError_t const error = cudaFuncSetAttribute(entry, cudaFuncAttributeMaxDynamicSharedMemorySize, smem_bytes);
  if (error == cudaSuccess) {
    allowed.fetch_or(bit, std::memory_order_release);
  }
  return error;
}

// Enqueues the kernel `entry`, whose one parameter is at `params`.
inline cudaError_t launch(void const* entry, void* params, LaunchShape const& shape, cudaStream_t stream) {
  cudaLaunchAttribute attributes[2];
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim = {shape.cluster.x, shape.cluster.y, shape.cluster.z};
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;

  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.smem_bytes;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = shape.pdl ? 2 : 1;
  return cudaLaunchKernelExC(&config, entry, &params);
}

}  // namespace tilewright

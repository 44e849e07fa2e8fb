// How any kernel is launched: what it has in common with every other, whatever its family.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>

namespace tilewright {

struct LaunchShape {
  dim3 grid, block;
  dim3 cluster;    // that every part of the GPU can hold
  dim3 preferred;  // the cluster to form where there is room: `cluster`, or whole multiples of it
  int smem_bytes;  // dynamic, per CTA
  bool pdl;        // programmatic dependent launch: may start while the stream's previous kernel ends
};

constexpr unsigned kPortableCluster = 8;  // thread blocks of a cluster that every GPU of sm_90 and later takes

// Makes the device's context current in this thread, which encoding a tensor map wants and a fresh
// thread lacks, and allows the kernel its shared memory and large clusters: once each, then two
// comparisons. `Kernel` gives each kernel a memory of its own.
template <class Kernel>
cudaError_t prepare(void const* entry, int smem_bytes, bool large_clusters = false) {
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
  cudaError_t error = cudaFuncSetAttribute(entry, cudaFuncAttributeMaxDynamicSharedMemorySize, smem_bytes);
  if (error == cudaSuccess && large_clusters) {
    error = cudaFuncSetAttribute(entry, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
  }
  if (error == cudaSuccess) {
    allowed.fetch_or(bit, std::memory_order_release);
  }
  return error;
}

// Enqueues the kernel `entry`, whose one parameter is at `params`.
inline cudaError_t launch(void const* entry, void* params, LaunchShape const& shape, cudaStream_t stream) {
  cudaLaunchAttribute attributes[3];
  unsigned count = 0;
  attributes[count].id = cudaLaunchAttributeClusterDimension;
  attributes[count++].val.clusterDim = {shape.cluster.x, shape.cluster.y, shape.cluster.z};
  if (shape.preferred.x != shape.cluster.x || shape.preferred.y != shape.cluster.y) {
    attributes[count].id = cudaLaunchAttributePreferredClusterDimension;
    attributes[count++].val.preferredClusterDim = {shape.preferred.x, shape.preferred.y, shape.preferred.z};
  }
  if (shape.pdl) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }

  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.smem_bytes;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = count;
  return cudaLaunchKernelExC(&config, entry, &params);
}

}  // namespace tilewright

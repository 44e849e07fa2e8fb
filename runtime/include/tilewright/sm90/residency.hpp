// How many clusters of a persistent kernel run at once, as the driver says: GPUs of one name differ in it, because a
// cluster stays within a part of the GPU, whose SMs may be no multiple of it.
#pragma once

#include <array>
#include <atomic>

#include "tilewright/launch.hpp"
#include "tilewright/sm90/cluster_shape.hpp"

namespace tilewright::sm90 {

class Residency {
 public:
  // Clusters of a persistent kernel to launch at most, on `sm_count` SMs.
  static int clusters(Context const& context, void const* entry, LaunchShape const& shape, int sm_count) {
    int const size = static_cast<int>(shape.cluster.x);
    int const limit = sm_count / size > 0 ? sm_count / size : 1;
    int const held = of(context.device, entry, shape.block).held_[size - 1];
    return held > 0 && held < limit ? held : limit;
  }

 private:
  std::array<int, kMostCtas> held_;  // clusters of one more than the index, each CTA on an SM of its own; 0: not known

  // Asked once for each device, or twice where two threads are the first.
  static Residency of(int device, void const* entry, dim3 block) {
    static std::array<std::atomic<Residency const*>, kDevices> known{};
    if (device >= kDevices) {
      return {};
    }
    Residency const* found = known[device].load(std::memory_order_acquire);
    if (found == nullptr) {
      auto const* const made = new Residency(ask(device, entry, block));
      if (known[device].compare_exchange_strong(found, made, std::memory_order_acq_rel)) {
        found = made;
      } else {
        delete made;
      }
    }
    return *found;
  }

  // By a kernel that may have all of an SM's shared memory.
  static Residency ask(int device, void const* entry, dim3 block) {
    Residency found{};
    int most_bytes = 0;
    if (cudaDeviceGetAttribute(&most_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) != cudaSuccess) {
      (void)cudaGetLastError();
      return found;
    }
    for (int size = 1; size <= kMostCtas; ++size) {
      cudaLaunchAttribute cluster{};
      cluster.id = cudaLaunchAttributeClusterDimension;
      cluster.val.clusterDim = {static_cast<unsigned>(size), 1, 1};
      cudaLaunchConfig_t config{};
      config.gridDim = dim3(size);
      config.blockDim = block;
      config.dynamicSmemBytes = most_bytes;
      config.attrs = &cluster;
      config.numAttrs = 1;
      if (cudaOccupancyMaxActiveClusters(&found.held_[size - 1], entry, &config) != cudaSuccess) {
        (void)cudaGetLastError();
        found.held_[size - 1] = 0;
      }
    }
    return found;
  }
};

}  // namespace tilewright::sm90

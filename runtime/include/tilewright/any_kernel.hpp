// Prepares kernels whose host code is compiled once for all of them, in a module's table.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "tilewright/launch.hpp"

namespace tilewright {

// The tag of such kernels, for `allow`, `launch` and sm90::prepare.
struct AnyKernel {};

// Caches functions by context, like the primary template (launch.hpp). That has one list of contexts for each kernel
// type. Kernels that share one type need a hash table of lists, indexed by the kernel's address.
template <>
inline cudaError_t allow<AnyKernel>(Context const& context, void const* entry, LaunchShape const& shape,
                                    CUfunction& function) {
  struct EntryInContext : KernelInContext {
    void const* entry;
  };
  static std::array<std::atomic<EntryInContext const*>, 1024> lists{};
  std::atomic<EntryInContext const*>& list = lists[reinterpret_cast<uintptr_t>(entry) / 16 % lists.size()];
  auto const next = [](EntryInContext const* kernel) { return static_cast<EntryInContext const*>(kernel->next); };
  for (EntryInContext const* kernel = list.load(std::memory_order_acquire); kernel != nullptr; kernel = next(kernel)) {
    if (kernel->entry == entry && kernel->context == context.current) {
      function = kernel->function;
      return cudaSuccess;
    }
  }
  cudaError_t const error = allow_now(context, entry, shape, function);
  if (error == cudaSuccess) {
    auto* const kernel = new EntryInContext{{context.current, function, nullptr}, entry};
    EntryInContext const* head = list.load(std::memory_order_relaxed);
    do {
      kernel->next = head;
    } while (!list.compare_exchange_weak(head, kernel, std::memory_order_release, std::memory_order_relaxed));
  }
  return error;
}

// Enqueues a kernel as tilewright::launch does, but not in clusters of one thread block.
inline cudaError_t launch_without_clusters(Context const& context, void const* entry, void* params,
                                           LaunchShape const& shape, cudaStream_t stream) {
  static auto const enqueue = driver_function<decltype(&cuLaunchKernelEx)>("cuLaunchKernelEx");
  CUfunction function = nullptr;
  if (cudaError_t const error = allow<AnyKernel>(context, entry, shape, function); error != cudaSuccess) {
    return error;
  }
  CUlaunchAttribute pdl{};
  pdl.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  pdl.value.programmaticStreamSerializationAllowed = 1;
  CUlaunchConfig config{};
  config.gridDimX = shape.grid.x, config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = shape.block.x, config.blockDimY = config.blockDimZ = 1;
  config.sharedMemBytes =
      shape.pdl ? spread_bytes(shape, Occupancy::of(context, entry, shape.block)) : shape.smem_bytes;
  config.hStream = stream;
  config.attrs = &pdl;
  config.numAttrs = shape.pdl ? 1 : 0;
  return enqueue == nullptr ? cudaErrorNotSupported
                            : static_cast<cudaError_t>(enqueue(&config, function, &params, nullptr));
}

}  // namespace tilewright

// How any kernel is launched: what it has in common with every other, whatever its family.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <cstdint>

namespace tilewright {

struct LaunchShape {
  dim3 grid, block;
  dim3 cluster;         // that every part of the GPU can hold
  dim3 preferred;       // the cluster to form where there is room: `cluster`, or whole multiples of it
  int smem_bytes;       // dynamic, per CTA
  bool pdl;             // programmatic dependent launch: may start while the stream's previous kernel ends
  bool spread;          // its thread blocks keep off each other's SMs as long as there are enough: see `spread_bytes`
  bool large_clusters;  // may be launched in clusters larger than kPortableCluster
};

constexpr unsigned kPortableCluster = 8;  // thread blocks of a cluster that every GPU of sm_90 and later takes
constexpr int kDevices = 64;              // what is asked once is remembered of so many

// What `launch` of a kernel answers. A CUDA call that fails leaves its error behind, and whoever asks next
// (cudaGetLastError after a launch of another kernel, say) would take it for his: it is taken away.
inline int32_t answer(int32_t status) {
  if (status > 0) {
    (void)cudaGetLastError();
  }
  return status;
}

// A function of the driver, which nothing links with; null where there is no driver, or it lacks the function.
template <class Function>
Function driver_function(char const* name) {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult result{};
  cudaError_t const error = cudaGetDriverEntryPointByVersion(name, &entry, 12000, cudaEnableDefault, &result);
  bool const found = error == cudaSuccess && result == cudaDriverEntryPointSuccess;
  return found ? reinterpret_cast<Function>(entry) : nullptr;
}

// Where a launch goes.
struct Context {
  int device = 0;
  CUcontext handle = nullptr;
};

// The current device and context. Encoding a tensor map wants a context, and a fresh thread has none: the
// device's own is made current there. One that is current stays, also where it is not the device's own (a green
// context, one of another library).
inline cudaError_t current_context(Context& context) {
  static auto const get_current = driver_function<decltype(&cuCtxGetCurrent)>("cuCtxGetCurrent");
  if (cudaError_t const error = cudaGetDevice(&context.device); error != cudaSuccess) {
    return error;
  }
  if (get_current == nullptr) {
    return cudaErrorNotSupported;
  }
  if (get_current(&context.handle) == CUDA_SUCCESS && context.handle != nullptr) {
    return cudaSuccess;
  }
  if (cudaError_t const error = cudaSetDevice(context.device); error != cudaSuccess) {
    return error;
  }
  return get_current(&context.handle) == CUDA_SUCCESS ? cudaSuccess : cudaErrorDeviceUninitialized;
}

// A device, as far as thread blocks share its SMs. All 0 where the driver does not say.
struct Sharing {
  int shared_bytes;              // shared memory of an SM
  int reserved_bytes;            // of which a thread block costs so much beside its own
  int most_bytes;                // that a thread block may ask for
  std::array<int, 4> at_a_time;  // thread blocks in clusters of 1, 2, 4, 8 that run at once, one on each SM

  // Asks the driver, about clusters by a kernel that may have `most_bytes`.
  static Sharing ask(int device, void const* entry, dim3 block) {
    Sharing found{};
    int sms = 0;
    bool known = true;
    auto const get = [&](int& value, cudaDeviceAttr attribute) {
      known = known && cudaDeviceGetAttribute(&value, attribute, device) == cudaSuccess;
    };
    get(sms, cudaDevAttrMultiProcessorCount);
    get(found.shared_bytes, cudaDevAttrMaxSharedMemoryPerMultiprocessor);
    get(found.reserved_bytes, cudaDevAttrReservedSharedMemoryPerBlock);
    get(found.most_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin);
    if (!known) {
      (void)cudaGetLastError();
      return {};
    }
    found.at_a_time[0] = sms;
    for (unsigned i = 1; i < found.at_a_time.size(); ++i) {
      // A cluster stays within a part of the GPU, whose SMs may be no multiple of it.
      unsigned const size = 1u << i;
      cudaLaunchAttribute cluster{};
      cluster.id = cudaLaunchAttributeClusterDimension;
      cluster.val.clusterDim = {size, 1, 1};
      cudaLaunchConfig_t config{};
      config.gridDim = dim3(size);
      config.blockDim = block;
      config.dynamicSmemBytes = found.most_bytes;
      config.attrs = &cluster;
      config.numAttrs = 1;
      int clusters = 0;
      if (cudaOccupancyMaxActiveClusters(&clusters, entry, &config) != cudaSuccess) {
        (void)cudaGetLastError();
        clusters = 0;
      }
      found.at_a_time[i] = clusters * static_cast<int>(size);
    }
    return found;
  }

  // The same, asked once for each device, or twice where two threads are the first.
  static Sharing of(int device, void const* entry, dim3 block) {
    static std::array<std::atomic<Sharing const*>, kDevices> known{};
    if (device >= kDevices) {
      return {};
    }
    Sharing const* found = known[device].load(std::memory_order_acquire);
    if (found == nullptr) {
      auto const* const made = new Sharing(ask(device, entry, block));
      if (known[device].compare_exchange_strong(found, made, std::memory_order_acq_rel)) {
        found = made;
      } else {
        delete made;
      }
    }
    return *found;
  }
};

// The dynamic shared memory to ask for so that no SM gets more thread blocks of a grid than an even spread gives it.
//
// With programmatic launch a grid's thread blocks start while the previous kernel still holds SMs. Those that are
// free first get two or three each, as many as fit, which then share that SM to their end while others stay idle:
// on an H200, NVFP4 products of one wave took 1.4 to 1.6 times as long after a quantising kernel as by themselves.
// A thread block that asks for more than its share of an SM's shared memory waits for another SM instead.
inline int spread_bytes(LaunchShape const& shape, Sharing const& device) {
  unsigned const size = shape.cluster.x * shape.cluster.y * shape.cluster.z;
  unsigned i = 0;
  while (i + 1 < device.at_a_time.size() && (1u << i) < size) {
    ++i;
  }
  int const at_a_time = (1u << i) == size ? device.at_a_time[i] : 0;
  if (at_a_time == 0) {
    return shape.smem_bytes;
  }
  int64_t const blocks = int64_t(shape.grid.x) * shape.grid.y * shape.grid.z;
  int64_t const share = (blocks + at_a_time - 1) / at_a_time;                           // of the fullest SM
  int64_t const least = device.shared_bytes / (share + 1) - device.reserved_bytes + 1;  // one more does not fit
  if (least <= shape.smem_bytes) {
    return shape.smem_bytes;
  }
  return static_cast<int>(least < device.most_bytes ? least : device.most_bytes);
}

// A kernel in a context: allowed what it needs, and as the driver launches it.
struct KernelInContext {
  CUcontext context;
  CUfunction function;
  KernelInContext const* next;
};

// Asks of a context, once, what it has to allow the kernel `entry`: large shared memory and clusters. `Kernel` gives
// each kernel a list of its own of the contexts that have been asked; two threads that are the first both ask.
template <class Kernel>
cudaError_t allow(Context const& context, void const* entry, LaunchShape const& shape, CUfunction& function) {
  static std::atomic<KernelInContext const*> known{nullptr};
  for (KernelInContext const* one = known.load(std::memory_order_acquire); one != nullptr; one = one->next) {
    if (one->context == context.handle) {
      function = one->function;
      return cudaSuccess;
    }
  }
  int most = shape.smem_bytes;
  cudaError_t error = cudaSuccess;
  if (shape.spread && shape.pdl) {
    error = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, context.device);
  }
  if (error == cudaSuccess) {
    error = cudaFuncSetAttribute(entry, cudaFuncAttributeMaxDynamicSharedMemorySize, most);
  }
  if (error == cudaSuccess && shape.large_clusters) {
    error = cudaFuncSetAttribute(entry, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
  }
  if (error == cudaSuccess) {
    error = cudaGetFuncBySymbol(&function, entry);
  }
  if (error == cudaSuccess) {
    auto* const made = new KernelInContext{context.handle, function, known.load(std::memory_order_relaxed)};
    while (!known.compare_exchange_weak(made->next, made, std::memory_order_release, std::memory_order_relaxed)) {
    }
  }
  return error;
}

// Enqueues the kernel `entry`, whose one parameter is at `params`. By the driver: the runtime, which looks for the
// kernel each time, takes 0.2 us more, of 3.
template <class Kernel>
cudaError_t launch(Context const& context, void const* entry, void* params, LaunchShape const& shape,
                   cudaStream_t stream) {
  static auto const enqueue = driver_function<decltype(&cuLaunchKernelEx)>("cuLaunchKernelEx");
  if (enqueue == nullptr) {
    return cudaErrorNotSupported;
  }
  CUfunction function = nullptr;
  if (cudaError_t const error = allow<Kernel>(context, entry, shape, function); error != cudaSuccess) {
    return error;
  }
  CUlaunchAttribute attributes[3];
  unsigned count = 0;
  attributes[count].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attributes[count++].value.clusterDim = {shape.cluster.x, shape.cluster.y, shape.cluster.z};
  if (shape.preferred.x != shape.cluster.x || shape.preferred.y != shape.cluster.y) {
    attributes[count].id = CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION;
    attributes[count++].value.preferredClusterDim = {shape.preferred.x, shape.preferred.y, shape.preferred.z};
  }
  if (shape.pdl) {
    attributes[count].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attributes[count++].value.programmaticStreamSerializationAllowed = 1;
  }

  CUlaunchConfig config{};
  config.gridDimX = shape.grid.x, config.gridDimY = shape.grid.y, config.gridDimZ = shape.grid.z;
  config.blockDimX = shape.block.x, config.blockDimY = shape.block.y, config.blockDimZ = shape.block.z;
  config.sharedMemBytes = shape.spread && shape.pdl
                              ? spread_bytes(shape, Sharing::of(context.device, entry, shape.block))
                              : shape.smem_bytes;
  config.hStream = stream;
  config.attrs = attributes;
  config.numAttrs = count;
  // The runtime has the driver's errors under their numbers.
  return static_cast<cudaError_t>(enqueue(&config, function, &params, nullptr));
}

}  // namespace tilewright

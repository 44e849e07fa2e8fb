// Launches a kernel: what all kernels have in common, whatever their family.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <cstdint>

namespace tilewright {

struct LaunchShape {
  dim3 grid, block;
  dim3 cluster;         // a shape that every part of the GPU can hold
  dim3 preferred;       // the shape to form where there is room: `cluster`, or whole multiples of it
  int smem_bytes;       // dynamic, per CTA
  bool pdl;             // programmatic dependent launch: may start while the stream's previous kernel ends
  bool spread;          // thread blocks do not share an SM while others are idle: see `spread_bytes`
  bool large_clusters;  // may be launched in clusters larger than kPortableCluster
};

constexpr unsigned kPortableCluster = 8;  // thread blocks of a cluster that every GPU of sm_90 and later takes

// The status that a kernel's `launch` returns. A CUDA call that fails leaves its error behind, which the next caller of
// cudaGetLastError would take for its own: this function clears it.
inline int32_t answer(int32_t status) {
  if (status > 0) {
    (void)cudaGetLastError();
  }
  return status;
}

// A function of the driver, in the version of CUDA `version`. Null if there is no driver, or it lacks the function.
// Nothing links with the driver.
template <class Function>
Function driver_function(char const* name, unsigned version = 12000) {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult result{};
  cudaError_t const error = cudaGetDriverEntryPointByVersion(name, &entry, version, cudaEnableDefault, &result);
  bool const found = error == cudaSuccess && result == cudaDriverEntryPointSuccess;
  return found ? reinterpret_cast<Function>(entry) : nullptr;
}

// The key by which a CUDA context is cached. CUDA may reuse the handle of a destroyed context, but never its id.
struct ContextId {
  CUcontext handle = nullptr;
  unsigned long long number = 0;  // of cuCtxGetId; 0 where the driver has no ids

  static ContextId of(CUcontext handle) {
    static auto const get_id = driver_function<decltype(&cuCtxGetId)>("cuCtxGetId");
    ContextId id{handle, 0};
    if (get_id == nullptr || get_id(handle, &id.number) != CUDA_SUCCESS) {
      id.number = 0;
    }
    return id;
  }

  friend bool operator==(ContextId const& x, ContextId const& y) {
    return x.handle == y.handle && x.number == y.number;
  }
  friend bool operator!=(ContextId const& x, ContextId const& y) { return !(x == y); }
};

// The device, contexts and stream of a launch.
struct Context {
  int device = 0;
  ContextId current;  // the kernel is launched as a function of this context
  ContextId sms;      // the kernel runs on the SMs of this context, the stream's: a green context has some of the GPU's
  cudaStream_t stream = nullptr;
};

// The current device and context, and the context of `stream`. Encoding a tensor map needs a context, and a fresh
// thread has none: the device's own is made current there. One that is current stays, also where it is not the
// device's own (a green context, one of another library).
inline cudaError_t current_context(Context& context, cudaStream_t stream) {
  static auto const get_current = driver_function<decltype(&cuCtxGetCurrent)>("cuCtxGetCurrent");
  static auto const get_of_stream = driver_function<decltype(&cuStreamGetCtx)>("cuStreamGetCtx");
  if (cudaError_t const error = cudaGetDevice(&context.device); error != cudaSuccess) {
    return error;
  }
  if (get_current == nullptr) {
    return cudaErrorNotSupported;
  }
  CUcontext current = nullptr;
  if (get_current(&current) != CUDA_SUCCESS || current == nullptr) {
    if (cudaError_t const error = cudaSetDevice(context.device); error != cudaSuccess) {
      return error;
    }
    if (get_current(&current) != CUDA_SUCCESS) {
      return cudaErrorDeviceUninitialized;
    }
  }
  CUcontext of_stream = nullptr;
  if (get_of_stream == nullptr || get_of_stream(stream, &of_stream) != CUDA_SUCCESS || of_stream == nullptr) {
    of_stream = current;
  }
  context.current = ContextId::of(current);
  context.sms = of_stream == current ? context.current : ContextId::of(of_stream);
  context.stream = stream;
  return cudaSuccess;
}

// How much the SMs of a context hold at once, as the driver reports it. GPUs of one name differ: a cluster stays within
// a part of the GPU, whose number of SMs may be no multiple of it, and a green context, a MIG slice or a share of MPS
// has few SMs.
struct Occupancy {
  static constexpr int kUnknown = -1;

  int sms = 0;             // 0 if the driver does not report it; then the numbers of bytes are 0, too
  int shared_bytes = 0;    // shared memory of an SM
  int reserved_bytes = 0;  // of it, taken by each thread block in addition to what the thread block uses
  int most_bytes = 0;      // the most that a thread block may use
  // Clusters of 1 to 8 thread blocks, each on an SM of its own, that run at once. 0: no such cluster ever runs.
  std::array<int, kPortableCluster> clusters = {kUnknown, kUnknown, kUnknown, kUnknown,
                                                kUnknown, kUnknown, kUnknown, kUnknown};

  // The occupancy of a context. The driver is asked once (twice if two threads come first), for the kernel `entry` with
  // thread blocks that use all shared memory. It is asked again if it did not answer.
  static Occupancy const& of(Context const& context, void const* entry, dim3 block);

  // Clusters of one kernel, of `smem_bytes` of dynamic shared memory, that run at once, several on an SM if they fit.
  static int clusters_of(Context const& context, void const* entry, dim3 block, unsigned size, int smem_bytes) {
    cudaLaunchAttribute cluster{};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {size, 1, 1};
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(size);
    config.blockDim = block;
    config.dynamicSmemBytes = smem_bytes;
    config.stream = context.sms != context.current ? context.stream : nullptr;  // whose SMs count
    config.attrs = &cluster;
    config.numAttrs = 1;
    int count = 0;
    if (cudaOccupancyMaxActiveClusters(&count, entry, &config) != cudaSuccess) {
      (void)cudaGetLastError();
      return kUnknown;
    }
    return count;
  }

 private:
  struct Known;

  bool ask(Context const& context, void const* entry, dim3 block) {
    auto const get = [&](int& value, cudaDeviceAttr attribute) {
      return cudaDeviceGetAttribute(&value, attribute, context.device) == cudaSuccess;
    };
    bool const attributes = get(sms, cudaDevAttrMultiProcessorCount) &&
                            get(shared_bytes, cudaDevAttrMaxSharedMemoryPerMultiprocessor) &&
                            get(reserved_bytes, cudaDevAttrReservedSharedMemoryPerBlock) &&
                            get(most_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin);
    if (!attributes ||
        cudaFuncSetAttribute(entry, cudaFuncAttributeMaxDynamicSharedMemorySize, most_bytes) != cudaSuccess) {
      return false;
    }
    static auto const get_resource = driver_function<decltype(&cuCtxGetDevResource)>("cuCtxGetDevResource", 12040);
    CUdevResource resource{};
    if (get_resource != nullptr &&
        get_resource(context.sms.handle, &resource, CU_DEV_RESOURCE_TYPE_SM) == CUDA_SUCCESS &&
        resource.sm.smCount > 0 && resource.sm.smCount < static_cast<unsigned>(sms)) {
      sms = static_cast<int>(resource.sm.smCount);
    }
    for (unsigned size = 1; size <= kPortableCluster; ++size) {
      int const held = clusters_of(context, entry, block, size, most_bytes), most = sms / static_cast<int>(size);
      clusters[size - 1] = held < most ? held : most;
    }
    return true;
  }
};

struct Occupancy::Known {
  ContextId context;
  int device;
  Occupancy occupancy;
  Known const* next;
};

inline Occupancy const& Occupancy::of(Context const& context, void const* entry, dim3 block) {
  static Occupancy const unknown{};
  static std::atomic<Known const*> list{nullptr};
  for (Known const* known = list.load(std::memory_order_acquire); known != nullptr; known = known->next) {
    if (known->context == context.sms && known->device == context.device) {
      return known->occupancy;
    }
  }
  Occupancy occupancy{};
  if (!occupancy.ask(context, entry, block)) {
    (void)cudaGetLastError();
    return unknown;
  }
  auto* const known = new Known{context.sms, context.device, occupancy, list.load(std::memory_order_relaxed)};
  while (!list.compare_exchange_weak(known->next, known, std::memory_order_release, std::memory_order_relaxed)) {
  }
  return known->occupancy;
}

// Sets `at_once` to how many of the kernel's clusters (`shape.cluster`) run at once on `sm_count` SMs, at least one.
// Returns cudaErrorInvalidClusterSize if no such cluster ever runs.
inline cudaError_t clusters_at_once(Context const& context, void const* entry, LaunchShape const& shape, int sm_count,
                                    int& at_once) {
  Occupancy const& occupancy = Occupancy::of(context, entry, shape.block);
  unsigned const size = shape.cluster.x * shape.cluster.y * shape.cluster.z;
  int const sms = occupancy.sms > 0 && occupancy.sms < sm_count ? occupancy.sms : sm_count;
  int const most = sms / static_cast<int>(size);
  int held = size <= kPortableCluster ? occupancy.clusters[size - 1] : Occupancy::kUnknown;
  if (held == 0) {  // with an SM for each thread block; this kernel's may share an SM
    held = Occupancy::clusters_of(context, entry, shape.block, size, shape.smem_bytes);
    int on_an_sm = 0;
    cudaError_t const error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        &on_an_sm, entry, static_cast<int>(shape.block.x * shape.block.y * shape.block.z), shape.smem_bytes);
    if (error != cudaSuccess) {
      return error;
    }
    if (held == 0 || occupancy.sms * on_an_sm < static_cast<int>(size)) {
      return cudaErrorInvalidClusterSize;
    }
  }
  at_once = held > 0 && held < most ? held : most > 0 ? most : 1;
  return cudaSuccess;
}

// The dynamic shared memory to ask for so that no SM gets more thread blocks of a grid than an even spread gives it.
//
// With programmatic launch, thread blocks of a grid start while the previous kernel still holds SMs. The SMs that are
// free first get as many thread blocks as fit, two or three. These share the SM to their end while other SMs stay idle:
// on an H200, NVFP4 products of one wave took 1.4 to 1.6 times as long after a quantising kernel as alone. A thread
// block that asks for more than its share of an SM's shared memory waits for another SM instead. This was measured for
// clusters of 1, 2, 4 and 8.
inline int spread_bytes(LaunchShape const& shape, Occupancy const& occupancy) {
  unsigned const size = shape.cluster.x * shape.cluster.y * shape.cluster.z;
  bool const measured = size <= kPortableCluster && (size & (size - 1)) == 0;
  int const at_a_time = size == 1  ? occupancy.sms
                        : measured ? occupancy.clusters[size - 1] * static_cast<int>(size)
                                   : 0;
  if (at_a_time <= 0) {
    return shape.smem_bytes;
  }
  int64_t const blocks = int64_t(shape.grid.x) * shape.grid.y * shape.grid.z;
  int64_t const share = (blocks + at_a_time - 1) / at_a_time;                                 // of the fullest SM
  int64_t const least = occupancy.shared_bytes / (share + 1) - occupancy.reserved_bytes + 1;  // one more does not fit
  if (least <= shape.smem_bytes) {
    return shape.smem_bytes;
  }
  return static_cast<int>(least < occupancy.most_bytes ? least : occupancy.most_bytes);
}

// A kernel in a context, prepared by `allow_now`: the driver's function.
struct KernelInContext {
  ContextId context;
  CUfunction function;
  KernelInContext const* next;
};

// Allows the kernel `entry` large shared memory and clusters in the current context.
inline cudaError_t allow_now(Context const& context, void const* entry, LaunchShape const& shape,
                             CUfunction& function) {
  int most = shape.smem_bytes;
  cudaError_t error = cudaSuccess;
  if (shape.spread) {  // the most that `spread_bytes` may return, and that `Occupancy` asks about
    error = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, context.device);
  }
  if (error == cudaSuccess) {
    error = cudaFuncSetAttribute(entry, cudaFuncAttributeMaxDynamicSharedMemorySize, most);
  }
  if (error == cudaSuccess && shape.large_clusters) {
    error = cudaFuncSetAttribute(entry, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
  }
  return error == cudaSuccess ? cudaGetFuncBySymbol(&function, entry) : error;
}

// The same, once for each context (twice if two threads come first). `Kernel` is a type: each has its own list of
// contexts.
template <class Kernel>
cudaError_t allow(Context const& context, void const* entry, LaunchShape const& shape, CUfunction& function) {
  static std::atomic<KernelInContext const*> list{nullptr};
  for (KernelInContext const* known = list.load(std::memory_order_acquire); known != nullptr; known = known->next) {
    if (known->context == context.current) {
      function = known->function;
      return cudaSuccess;
    }
  }
  cudaError_t const error = allow_now(context, entry, shape, function);
  if (error == cudaSuccess) {
    auto* const known = new KernelInContext{context.current, function, list.load(std::memory_order_relaxed)};
    while (!list.compare_exchange_weak(known->next, known, std::memory_order_release, std::memory_order_relaxed)) {
    }
  }
  return error;
}

// Enqueues the kernel `entry`, whose one parameter is at `params`, through the driver. The runtime looks the kernel up
// each time, which takes 0.2 us more of 3.
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
  config.sharedMemBytes =
      shape.spread && shape.pdl ? spread_bytes(shape, Occupancy::of(context, entry, shape.block)) : shape.smem_bytes;
  config.hStream = stream;
  config.attrs = attributes;
  config.numAttrs = count;
  // The runtime's errors have the driver's numbers.
  return static_cast<cudaError_t>(enqueue(&config, function, &params, nullptr));
}

}  // namespace tilewright

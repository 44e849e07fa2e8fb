// Loads and launches a `Program`. A module's table includes this header once for all its units.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "tilewright/launch.hpp"
#include "tilewright/program.hpp"

namespace tilewright {

// A program in a context, launched in clusters of some size: the driver's function, and how many of these clusters run
// at once on the context's SMs.
struct LoadedProgram {
  ContextId current, sms;
  unsigned cluster;  // thread blocks
  CUfunction function;
  int clusters_at_once;
  LoadedProgram const* next;
};

// Whether a cluster may divide `k_tiles` tiles of k among `splits` thread blocks (gemm/tcgen05_ranges.py).
inline bool splits_clusters(int splits, int k_tiles) {
  return (splits == 2 || splits == 4 || splits == 8) && splits <= k_tiles;
}

// The driver's functions of a program. All are null where the driver lacks them.
struct ProgramFunctions {
  decltype(&cuLibraryLoadData) load = driver_function<decltype(&cuLibraryLoadData)>("cuLibraryLoadData");
  decltype(&cuLibraryUnload) unload = driver_function<decltype(&cuLibraryUnload)>("cuLibraryUnload");
  decltype(&cuLibraryGetKernel) get_kernel = driver_function<decltype(&cuLibraryGetKernel)>("cuLibraryGetKernel");
  decltype(&cuKernelGetFunction) get_function = driver_function<decltype(&cuKernelGetFunction)>("cuKernelGetFunction");
  decltype(&cuFuncSetAttribute) set_attribute = driver_function<decltype(&cuFuncSetAttribute)>("cuFuncSetAttribute");
  decltype(&cuOccupancyMaxActiveClusters) clusters_at_once =
      driver_function<decltype(&cuOccupancyMaxActiveClusters)>("cuOccupancyMaxActiveClusters");
  decltype(&cuLaunchKernelEx) launch = driver_function<decltype(&cuLaunchKernelEx)>("cuLaunchKernelEx");

  bool complete() const {
    return load && unload && get_kernel && get_function && set_attribute && clusters_at_once && launch;
  }

  static ProgramFunctions const& get() {
    static ProgramFunctions const functions;
    return functions;
  }
};

// A launch's configuration for the driver. Each attribute is one of `attributes`.
struct ProgramLaunch {
  CUlaunchConfig config{};
  CUlaunchAttribute attributes[2] = {};

  ProgramLaunch(LaunchShape const& shape, cudaStream_t stream) {
    attributes[0].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attributes[0].value.clusterDim = {shape.cluster.x, shape.cluster.y, shape.cluster.z};
    attributes[1].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attributes[1].value.programmaticStreamSerializationAllowed = shape.pdl ? 1 : 0;
    config.gridDimX = shape.grid.x, config.gridDimY = shape.grid.y, config.gridDimZ = shape.grid.z;
    config.blockDimX = shape.block.x, config.blockDimY = shape.block.y, config.blockDimZ = shape.block.z;
    config.sharedMemBytes = static_cast<unsigned>(shape.smem_bytes);
    config.hStream = stream;
    config.attrs = attributes;
    config.numAttrs = 2;
  }

  ProgramLaunch(ProgramLaunch const&) = delete;
  ProgramLaunch& operator=(ProgramLaunch const&) = delete;
};

// Loads a program's fat binary, once for a process. The runtime's errors have the driver's numbers.
inline CUresult load_library(Program& program, CUlibrary& library) {
  library = program.library.load(std::memory_order_acquire);
  if (library != nullptr) {
    return CUDA_SUCCESS;
  }
  ProgramFunctions const& driver = ProgramFunctions::get();
  CUlibrary mine = nullptr;
  CUresult const result = driver.load(&mine, program.image, nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  if (program.library.compare_exchange_strong(library, mine, std::memory_order_acq_rel)) {
    library = mine;
  } else {  // another thread was first
    driver.unload(mine);
  }
  return CUDA_SUCCESS;
}

// Makes a program's function in the current context. `shape`: a grid of one cluster.
inline CUresult load_now(Program& program, Context const& context, LaunchShape const& shape, LoadedProgram& loaded) {
  ProgramFunctions const& driver = ProgramFunctions::get();
  CUlibrary library;
  CUkernel kernel;
  CUresult result = load_library(program, library);
  if (result == CUDA_SUCCESS) {
    result = driver.get_kernel(&kernel, library, program.name);
  }
  if (result == CUDA_SUCCESS) {
    result = driver.get_function(&loaded.function, kernel);
  }
  if (result == CUDA_SUCCESS) {
    result = driver.set_attribute(loaded.function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shape.smem_bytes);
  }
  if (result != CUDA_SUCCESS) {
    return result;
  }
  loaded.current = context.current, loaded.sms = context.sms, loaded.cluster = shape.cluster.x;
  ProgramLaunch const one(shape, context.sms != context.current ? context.stream : nullptr);  // whose SMs count
  result = driver.clusters_at_once(&loaded.clusters_at_once, loaded.function, &one.config);
  if (result == CUDA_SUCCESS && loaded.clusters_at_once == 0) {
    return CUDA_ERROR_INVALID_CLUSTER_SIZE;
  }
  return result;
}

// The program in the current context; it is loaded once for each context and size of clusters (twice if two threads
// come first).
inline cudaError_t load(Program& program, Context const& context, LaunchShape const& shape,
                        LoadedProgram const*& loaded) {
  if (!ProgramFunctions::get().complete()) {
    return cudaErrorNotSupported;
  }
  for (loaded = program.loaded.load(std::memory_order_acquire); loaded != nullptr; loaded = loaded->next) {
    if (loaded->current == context.current && loaded->sms == context.sms && loaded->cluster == shape.cluster.x) {
      return cudaSuccess;
    }
  }
  LoadedProgram fresh{};
  if (CUresult const result = load_now(program, context, shape, fresh); result != CUDA_SUCCESS) {
    return static_cast<cudaError_t>(result);
  }
  auto* const kept = new LoadedProgram(fresh);
  kept->next = program.loaded.load(std::memory_order_relaxed);
  while (
      !program.loaded.compare_exchange_weak(kept->next, kept, std::memory_order_release, std::memory_order_relaxed)) {
  }
  loaded = kept;
  return cudaSuccess;
}

// Enqueues a program. `parameters`: the address of each of its kernel's parameters.
inline cudaError_t enqueue(LoadedProgram const& loaded, void** parameters, LaunchShape const& shape,
                           cudaStream_t stream) {
  ProgramLaunch const launch(shape, stream);
  return static_cast<cudaError_t>(ProgramFunctions::get().launch(&launch.config, loaded.function, parameters, nullptr));
}

// Enqueues a program of a matrix product, whose clusters compute tiles one after another. `facts`: of the kernel;
// `make_params(at_once, params)`: makes the parameters for this number of clusters that run at once.
template <class Params, class Facts, class Args, class MakeParams>
cudaError_t enqueue_tiles(Facts const& facts, Context const& context, Args const& args, cudaStream_t stream,
                          MakeParams const& make_params) {
  LaunchShape shape{};
  int const size = facts.cluster_m * facts.cluster_n * args.tactic.splits;
  shape.grid = shape.cluster = shape.preferred = dim3(size);
  shape.block = dim3(facts.threads);
  shape.smem_bytes = facts.shared_bytes;
  shape.pdl = facts.pdl;
  LoadedProgram const* loaded = nullptr;
  if (cudaError_t const error = load(facts.program(), context, shape, loaded); error != cudaSuccess) {
    return error;
  }
  int const at_once = std::max(1, std::min(loaded->clusters_at_once, args.tactic.sm_count / size));
  Params params{};
  if (cudaError_t const error = make_params(at_once, params); error != cudaSuccess) {
    return error;
  }
  shape.grid = dim3(std::min(params.blocks, at_once) * size);
  void* list[Params::kCount];
  params.addresses(list);
  return enqueue(*loaded, list, shape, stream);
}

}  // namespace tilewright

// A CUDA runtime and a driver that print what the host code of a program asks of them, for tests without a GPU. A test
// includes this file once, and says how it prints the parameters of a kernel. `fault`: "load", "cluster", "encode" or
// "launch" fails.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

void print_parameters(void** params);

namespace {

std::string fault;
int loads = 0, launches = 0, context_number = 1;

CUresult answer_to(char const* call) { return fault == call ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS; }

CUresult get_current(CUcontext* context) {
  *context = reinterpret_cast<CUcontext>(uintptr_t(0x1000 * context_number));
  return CUDA_SUCCESS;
}

CUresult get_stream_context(CUstream, CUcontext* context) { return get_current(context); }

CUresult get_id(CUcontext context, unsigned long long* id) {
  *id = reinterpret_cast<uintptr_t>(context);
  return CUDA_SUCCESS;
}

CUresult load(CUlibrary* library, void const* image, CUjit_option*, void**, unsigned, CUlibraryOption*, void**,
              unsigned) {
  ++loads;
  *library = static_cast<CUlibrary>(const_cast<void*>(image));
  return answer_to("load");
}

CUresult unload(CUlibrary) { return CUDA_SUCCESS; }

CUresult get_kernel(CUkernel* kernel, CUlibrary library, char const* name) {
  std::printf("kernel %s\n", name);
  *kernel = reinterpret_cast<CUkernel>(library);
  return CUDA_SUCCESS;
}

CUresult get_function(CUfunction* function, CUkernel kernel) {
  *function = reinterpret_cast<CUfunction>(kernel);
  return CUDA_SUCCESS;
}

CUresult set_attribute(CUfunction, CUfunction_attribute attribute, int value) {
  std::printf("shared %d\n", attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ? value : -1);
  return CUDA_SUCCESS;
}

CUresult clusters_at_once(int* count, CUfunction, CUlaunchConfig const*) {
  *count = fault == "cluster" ? 0 : 66;
  return CUDA_SUCCESS;
}

CUresult encode(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address, cuuint64_t const* extents,
                cuuint64_t const* strides, cuuint32_t const* box, cuuint32_t const*, CUtensorMapInterleave,
                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  std::memset(map, 0, sizeof *map);
  std::printf("map %p: %llu %llu %llu strides %llu %llu box %u %u %u%s\n", address, (unsigned long long)extents[0],
              (unsigned long long)extents[1], (unsigned long long)extents[2], (unsigned long long)strides[0],
              (unsigned long long)strides[1], box[0], box[1], box[2],
              (type == CU_TENSOR_MAP_DATA_TYPE_UINT16 || type == CU_TENSOR_MAP_DATA_TYPE_UINT8) && rank == 3 &&
                      swizzle == CU_TENSOR_MAP_SWIZZLE_128B
                  ? ""
                  : "?");
  return answer_to("encode");
}

CUresult launch_kernel(CUlaunchConfig const* config, CUfunction, void** params, void**) {
  ++launches;
  std::printf("grid %u threads %u shared %u\n", config->gridDimX, config->blockDimX, config->sharedMemBytes);
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    auto const& attribute = config->attrs[i];
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
      std::printf("cluster %u\n", attribute.value.clusterDim.x);
    } else if (attribute.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) {
      std::printf("pdl %d\n", attribute.value.programmaticStreamSerializationAllowed);
    }
  }
  print_parameters(params);
  return answer_to("launch");
}

}  // namespace

extern "C" {

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaGetDriverEntryPointByVersion(char const* name, void** entry, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  struct {
    char const* name;
    void* entry;
  } const known[] = {
      {"cuCtxGetCurrent", reinterpret_cast<void*>(&get_current)},
      {"cuStreamGetCtx", reinterpret_cast<void*>(&get_stream_context)},
      {"cuCtxGetId", reinterpret_cast<void*>(&get_id)},
      {"cuLibraryLoadData", reinterpret_cast<void*>(&load)},
      {"cuLibraryUnload", reinterpret_cast<void*>(&unload)},
      {"cuLibraryGetKernel", reinterpret_cast<void*>(&get_kernel)},
      {"cuKernelGetFunction", reinterpret_cast<void*>(&get_function)},
      {"cuFuncSetAttribute", reinterpret_cast<void*>(&set_attribute)},
      {"cuOccupancyMaxActiveClusters", reinterpret_cast<void*>(&clusters_at_once)},
      {"cuTensorMapEncodeTiled", reinterpret_cast<void*>(&encode)},
      {"cuLaunchKernelEx", reinterpret_cast<void*>(&launch_kernel)},
  };
  for (auto const& function : known) {
    if (std::strcmp(function.name, name) == 0) {
      *entry = function.entry, *result = cudaDriverEntryPointSuccess;
      return cudaSuccess;
    }
  }
  *result = cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

}  // extern "C"

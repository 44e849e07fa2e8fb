// What a compiled kernel asks of CUDA when it is launched, on a machine without a GPU: this file is the CUDA runtime
// that the kernel's object is linked with. It answers as it is told and remembers what it was asked.
//
//   g++ -DKERNEL=tilewright_NAME -DFAMILY=gemm|blockscaled_gemm|quantize [-DHOST='"HEADER"'] launching.cc kernel.o
//
// HEADER has the host's code of a kernel whose module's table includes it.
//
// Prints a line for each case: its name, then `name=value` of what was seen.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tilewright/abi.h"
#include "tilewright/blockscaled_gemm/args.h"
#include "tilewright/gemm/args.h"
#include "tilewright/quantize/args.h"
#ifdef HOST
#include HOST
#endif

namespace {

// An H200: 132 SMs in parts of 16 and 18.
constexpr int kSms = 132, kShared = 233472, kReserved = 1024, kMost = 232448;
int clusters_at_once(unsigned size) { return size <= 2 ? kSms / int(size) : size == 4 ? 32 : 16; }

struct Script {
  CUcontext context = reinterpret_cast<CUcontext>(0x1000);  // that is current; null for none
  cudaError_t get_device = cudaSuccess, set_device = cudaSuccess, set_attribute = cudaSuccess;
  CUresult encode = CUDA_SUCCESS, launch = CUDA_SUCCESS;
} script;

struct Seen {
  int bound = 0, allowed = 0, encoded = 0, encoded_without_context = 0, launched = 0, unknown = 0, most_bytes = 0,
      cleared = 0;
  unsigned smem = 0, cluster = 0;
  dim3 grid;
  bool pdl = false;
} seen;

cudaError_t last_error = cudaSuccess;

cudaError_t fail(cudaError_t error) {
  if (error != cudaSuccess) {
    last_error = error;
  }
  return error;
}

CUresult get_current(CUcontext* context) {
  *context = script.context;
  return CUDA_SUCCESS;
}

CUresult encode(CUtensorMap* map, CUtensorMapDataType, cuuint32_t, void*, cuuint64_t const*, cuuint64_t const*,
                cuuint32_t const*, cuuint32_t const*, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                CUtensorMapFloatOOBfill) {
  ++seen.encoded;
  seen.encoded_without_context += script.context == nullptr;
  std::memset(map, script.encode == CUDA_SUCCESS ? 1 : 0, sizeof *map);
  return script.encode;
}

CUresult launch_kernel(CUlaunchConfig const* config, CUfunction function, void**, void**) {
  ++seen.launched;
  seen.unknown += function != reinterpret_cast<CUfunction>(script.context);
  seen.smem = config->sharedMemBytes;
  seen.grid = dim3(config->gridDimX, config->gridDimY, config->gridDimZ);
  seen.pdl = false;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    auto const& attribute = config->attrs[i];
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
      seen.cluster = attribute.value.clusterDim.x * attribute.value.clusterDim.y * attribute.value.clusterDim.z;
    }
    seen.pdl |= attribute.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  }
  return script.launch;
}

}  // namespace

extern "C" {

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return fail(script.get_device);
}

cudaError_t cudaSetDevice(int) {
  ++seen.bound;
  if (script.set_device == cudaSuccess) {
    script.context = reinterpret_cast<CUcontext>(0x1000);
  }
  return fail(script.set_device);
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = kSms;
      break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = kShared;
      break;
    case cudaDevAttrReservedSharedMemoryPerBlock:
      *value = kReserved;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = kMost;
      break;
    default:
      return fail(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(void const*, cudaFuncAttribute attribute, int value) {
  if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) {
    ++seen.allowed;
    seen.most_bytes = value;
  }
  return fail(script.set_attribute);
}

// A kernel is another one in each context.
cudaError_t cudaGetFuncBySymbol(cudaFunction_t* function, void const*) {
  *function = reinterpret_cast<cudaFunction_t>(script.context);
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, void const*, cudaLaunchConfig_t const* config) {
  auto const& size = config->attrs[0].val.clusterDim;
  *clusters = clusters_at_once(size.x * size.y * size.z);
  return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPointByVersion(char const* name, void** entry, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  *result = cudaDriverEntryPointSuccess;
  if (std::strcmp(name, "cuCtxGetCurrent") == 0) {
    *entry = reinterpret_cast<void*>(&get_current);
  } else if (std::strcmp(name, "cuTensorMapEncodeTiled") == 0) {
    *entry = reinterpret_cast<void*>(&encode);
  } else if (std::strcmp(name, "cuLaunchKernelEx") == 0) {
    *entry = reinterpret_cast<void*>(&launch_kernel);
  } else {
    *result = cudaDriverEntryPointSymbolNotFound;
  }
  return cudaSuccess;
}

cudaError_t cudaGetLastError() {
  cudaError_t const error = last_error;
  last_error = cudaSuccess;
  ++seen.cleared;
  return error;
}

cudaError_t cudaPeekAtLastError() { return last_error; }
cudaError_t cudaMemsetAsync(void*, int, size_t, cudaStream_t) { return cudaSuccess; }
char const* cudaGetErrorString(cudaError_t) { return "told to fail"; }
char const* cudaGetErrorName(cudaError_t) { return "told to fail"; }

// What an object registers its device code with.
void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction(void**, char const*, char*, char const*, int, void*, void*, void*, void*, int*) {}
void __cudaRegisterVar(void**, char*, char*, char const*, int, size_t, int, int) {}
cudaError_t __cudaGetKernel(void**, void const*) { return cudaSuccess; }
cudaError_t __cudaLaunchKernel(void*, dim3, dim3, void**, size_t, cudaStream_t) { return cudaErrorUnknown; }
unsigned __cudaPushCallConfiguration(dim3, dim3, size_t, void*) { return 0; }
cudaError_t __cudaPopCallConfiguration(dim3*, dim3*, size_t*, void*) { return cudaSuccess; }

extern tilewright_kernel const KERNEL;
}

namespace {

alignas(256) char memory[256];

// A problem of a family, one whose operands TMA can move.
struct gemm {
  static auto problem(int m, int n, int k, int splits) {
    tilewright_gemm_args args{};
    args.m = m, args.n = n, args.k = k, args.batch = 1;
    args.a = args.b = memory, args.d = memory;
    args.ld_a = args.ld_b = k, args.ld_d = args.ld_c = n;
    args.alpha = 1.0f;
    args.tactic.swizzle = 1, args.tactic.splits = splits, args.tactic.sm_count = kSms;
    return args;
  }
  static auto impossible() { return problem(64, 64, 1001, 1); }
};

struct blockscaled_gemm {
  static auto problem(int m, int n, int k, int splits) {
    tilewright_blockscaled_gemm_args args{};
    args.m = m, args.n = n, args.k = k, args.batch = 1;
    args.a = args.b = args.scale_a = args.scale_b = memory, args.d = memory;
    args.ld_a = args.ld_b = k, args.ld_d = args.ld_c = n;
    args.tactic.swizzle = 1, args.tactic.splits = splits, args.tactic.sm_count = kSms;
    return args;
  }
  static auto impossible() { return problem(64, 64, 1000, 1); }
};

struct quantize {
  static auto problem(int m, int, int k, int) {
    tilewright_quantize_args args{};
    args.m = m, args.k = k, args.groups = 1;
    args.x = args.data = args.scales = memory;
    args.ld_x = args.ld_data = k, args.ld_scales = m;
    args.tactic.sm_count = kSms;
    return args;
  }
  static auto impossible() { return problem(64, 0, 1000, 1); }
};

template <class Args>
void run(char const* name, Args const& args) {
  void* const workspace = KERNEL.workspace_bytes(&args) > 0 ? memory : nullptr;
  seen = {};
  int const status = KERNEL.launch(&args, workspace, nullptr);
  std::printf(
      "%s status=%d left=%d bound=%d allowed=%d most=%d encoded=%d homeless=%d launched=%d unknown=%d smem=%u "
      "cluster=%u "
      "blocks=%u pdl=%d\n",
      name, status, int(last_error), seen.bound, seen.allowed, seen.most_bytes, seen.encoded,
      seen.encoded_without_context, seen.launched, seen.unknown, seen.smem, seen.cluster,
      seen.grid.x * seen.grid.y * seen.grid.z, int(seen.pdl));
  script = {};
  last_error = cudaSuccess;
}

}  // namespace

// Arguments: m n k splits of further problems.
int main(int count, char** words) {
  auto const good = FAMILY::problem(64, 1024, 1024, 1);
  script.get_device = cudaErrorInsufficientDriver;
  run("no_driver", good);
  script.set_attribute = cudaErrorInvalidValue;
  run("attribute_refused", good);
  run("first", good);
  run("again", good);
  script.context = nullptr;
  run("no_context", good);
  script.context = nullptr;
  script.set_device = cudaErrorDevicesUnavailable;
  run("no_context_to_be_had", good);
  script.context = reinterpret_cast<CUcontext>(0x2000);
  run("another_context", good);
  script.launch = CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  run("launch_refused", good);
  script.encode = CUDA_ERROR_INVALID_VALUE;
  run("map_refused", good);
  run("after_map_refused", good);
  run("impossible", FAMILY::impossible());
  for (int i = 1; i + 3 < count; i += 4) {
    auto const at = [&](int j) { return std::atoi(words[i + j]); };
    run("problem", FAMILY::problem(at(0), at(1), at(2), at(3)));
  }
  return 0;
}

// A CUDA driver that answers what `tilewright/occupancy.py` asks, by cuda.h's own declarations. It holds parts of 16
// and 18 SMs, in which clusters lie whole, and refuses what the real one would: a launch without its device's context,
// with more shared memory than the function may have, a module while a stream may capture. FAKE_DRIVER=old refuses to
// tell of clusters.
#include <cuda.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <utility>

namespace {
constexpr int kDevices = 2;
int retained[kDevices], current = -1, modules, allowed;
CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

CUresult unless_captured(CUresult result) {
  return capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED ? result : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

template <class T>
T handle(int i) {
  return reinterpret_cast<T>(static_cast<intptr_t>(i + 1));
}
}  // namespace

extern "C" {

CUresult cuInit(unsigned flags) { return flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; }

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  *device = ordinal;
  return ordinal < kDevices ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  ++retained[device];
  *context = handle<CUcontext>(device);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  --retained[device];
  return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext context) {
  current = static_cast<int>(reinterpret_cast<intptr_t>(context)) - 1;
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext* context) {
  *context = handle<CUcontext>(current);
  current = -1;
  return CUDA_SUCCESS;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  std::swap(*mode, capture_mode);
  return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule* module, void const* image) {
  ++modules;
  *module = handle<CUmodule>(current);
  bool const known = current >= 0 && std::strncmp(static_cast<char const*>(image), ".version", 8) == 0;
  return unless_captured(known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE);
}

CUresult cuModuleUnload(CUmodule) {
  --modules;
  return unless_captured(CUDA_SUCCESS);
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule, char const* name) {
  *function = handle<CUfunction>(current);
  return std::strcmp(name, "empty") == 0 ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute attribute, int value) {
  allowed = value;
  return attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction function, CUlaunchConfig const* config) {
  char const* const mode = std::getenv("FAKE_DRIVER");
  if (mode != nullptr && std::strcmp(mode, "old") == 0) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  bool const known = function == handle<CUfunction>(current) && config->hStream == nullptr && config->numAttrs == 1 &&
                     config->attrs[0].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION &&
                     static_cast<int>(config->sharedMemBytes) <= allowed && config->blockDimX > 0 &&
                     config->blockDimY == 1 && config->blockDimZ == 1;
  auto const& dim = config->attrs[0].value.clusterDim;
  if (!known || dim.y != 1 || dim.z != 1 || config->gridDimX % dim.x != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *clusters = 0;
  for (int const sms : {16, 16, 16, 16, 16, 18, 18, 16 - 2 * current}) {
    *clusters += sms / static_cast<int>(dim.x);
  }
  return CUDA_SUCCESS;
}

// What is left over: retained contexts, a current one, modules, a capture mode that is not the usual one.
int left_over() {
  return retained[0] + retained[1] + (current >= 0) + modules + (capture_mode != CU_STREAM_CAPTURE_MODE_GLOBAL);
}
}

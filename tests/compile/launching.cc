// What a compiled kernel asks of CUDA when it is launched, on a machine without a GPU: this file is the CUDA runtime
// that the kernel's object is linked with. It answers as it is told and remembers what it was asked.
//
//   g++ -DKERNEL=tilewright_NAME -DFAMILY=gemm|blockscaled_gemm|grouped_gemm|quantize [-DHOST='"HEADER"'] [-DLEAN]
//     launching.cc kernel.o
//
// HEADER has the host's code of a kernel whose module's table includes it. LEAN: it is a lean kernel of `gemm`; GATED:
// one with a gated activation.
//
// Prints a line for each case: its name, then `name=value` of what was seen.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "tilewright/abi.h"
#include "tilewright/blockscaled_gemm/args.h"
#include "tilewright/gemm/args.h"
#include "tilewright/grouped_gemm/args.h"
#include "tilewright/quantize/args.h"
#ifdef HOST
#include HOST
#endif

namespace {

// An H200: 132 SMs in parts of 16 and 18.
constexpr int kSms = 132, kShared = 233472, kReserved = 1024, kMost = 232448;
constexpr int kHandleBits = 48;  // of a kernel's handle: its context. The others say which kernel it is
int clusters_at_once(int sms, unsigned size) {
  return sms < kSms ? sms / int(size) : size <= 2 ? kSms / int(size) : size == 4 ? 32 : 16;
}

struct Script {
  CUcontext context = reinterpret_cast<CUcontext>(0x1000);  // that is current; null for none
  CUcontext stream_context = nullptr;                       // the stream's, where it is not the current one
  unsigned long long reused = 0;                            // added to contexts' ids: their handles are used again
  bool partition_counts = true;                             // clusters are counted in the stream's context
  cudaError_t get_device = cudaSuccess, set_device = cudaSuccess, set_attribute = cudaSuccess;
  CUresult encode = CUDA_SUCCESS, launch = CUDA_SUCCESS;
} script;

struct Seen {
  int bound = 0, allowed = 0, encoded = 0, encoded_without_context = 0, launched = 0, unknown = 0, most_bytes = 0,
      cleared = 0, asked = 0;
  int row = 0;                          // elements of a row of the last tensor map
  int code = 0;                         // the launched kernel, by its place among those that were asked for
  int first_code = 0;                   // of the first of two launches
  unsigned first_blocks = 0, deep = 0;  // thread blocks of its grid, and the grid's last dimension
  unsigned smem = 0, cluster = 0;
  size_t cleared_bytes = 0;  // of the workspace
  int down = 0, group = 0;   // of a lean kernel's raster
  dim3 grid;
  bool pdl = false;
} seen;

cudaError_t last_error = cudaSuccess;
alignas(256) char memory[256];

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

CUcontext of_stream() { return script.stream_context != nullptr ? script.stream_context : script.context; }

CUresult get_id(CUcontext context, unsigned long long* id) {
  *id = reinterpret_cast<uintptr_t>(context) + script.reused;
  return CUDA_SUCCESS;
}

CUresult get_stream_context(CUstream, CUcontext* context) {
  *context = of_stream();
  return *context != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

// A green context at 0x10NN has NN SMs.
int sms_of(CUcontext context) {
  auto const handle = reinterpret_cast<uintptr_t>(context);
  return handle > 0x1000 && handle < 0x1100 ? int(handle - 0x1000) : kSms;
}

CUresult get_resource(CUcontext context, CUdevResource* resource, CUdevResourceType type) {
  if (type != CU_DEV_RESOURCE_TYPE_SM) {
    return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  }
  resource->sm.smCount = unsigned(sms_of(context));
  return CUDA_SUCCESS;
}

CUresult encode(CUtensorMap* map, CUtensorMapDataType, cuuint32_t, void* address, cuuint64_t const* extents,
                cuuint64_t const*, cuuint32_t const*, cuuint32_t const*, CUtensorMapInterleave, CUtensorMapSwizzle,
                CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  ++seen.encoded;
  seen.row = int(extents[0]);
  seen.encoded_without_context += script.context == nullptr;
  bool const aligned = reinterpret_cast<uintptr_t>(address) % 16 == 0;
  CUresult const result = aligned ? script.encode : CUDA_ERROR_INVALID_VALUE;
  std::memset(map, result == CUDA_SUCCESS ? 1 : 0, sizeof *map);
  return result;
}

CUresult launch_kernel(CUlaunchConfig const* config, CUfunction function, void** params, void**) {
  ++seen.launched;
#ifdef LEAN
  auto const& raster = static_cast<tilewright::gemm::lean::Params const*>(params[0])->raster;
  seen.down = raster.down, seen.group = raster.swizzle.divisor();
#endif
  uintptr_t const handle = reinterpret_cast<uintptr_t>(function);
  seen.code = int(handle >> kHandleBits);
  seen.unknown += handle % (uintptr_t(1) << kHandleBits) != reinterpret_cast<uintptr_t>(script.context);
  seen.smem = config->sharedMemBytes;
  seen.grid = dim3(config->gridDimX, config->gridDimY, config->gridDimZ);
  if (seen.launched == 1) {
    seen.first_code = seen.code, seen.deep = seen.grid.z;
    seen.first_blocks = seen.grid.x * seen.grid.y * seen.grid.z;
  }
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
cudaError_t cudaGetFuncBySymbol(cudaFunction_t* function, void const* symbol) {
  static std::vector<void const*> symbols;
  size_t const place = std::find(symbols.begin(), symbols.end(), symbol) - symbols.begin();
  if (place == symbols.size()) {
    symbols.push_back(symbol);
  }
  *function = reinterpret_cast<cudaFunction_t>(reinterpret_cast<uintptr_t>(script.context) | place << kHandleBits);
  return cudaSuccess;
}

// A launch by the runtime, of a kernel that makes tensor maps of groups.
cudaError_t cudaLaunchKernelExC(cudaLaunchConfig_t const*, void const*, void**) {
  ++seen.launched;
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, void const*, cudaLaunchConfig_t const* config) {
  auto const& size = config->attrs[0].val.clusterDim;
  ++seen.asked;
  CUcontext const where = config->stream != nullptr ? of_stream() : script.context;
  *clusters = clusters_at_once(script.partition_counts ? sms_of(where) : kSms, size.x * size.y * size.z);
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void const*, int, size_t smem_bytes) {
  *blocks = kShared / int(smem_bytes + kReserved);
  return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPointByVersion(char const* name, void** entry, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  *result = cudaDriverEntryPointSuccess;
  if (std::strcmp(name, "cuCtxGetCurrent") == 0) {
    *entry = reinterpret_cast<void*>(&get_current);
  } else if (std::strcmp(name, "cuCtxGetId") == 0) {
    *entry = reinterpret_cast<void*>(&get_id);
  } else if (std::strcmp(name, "cuStreamGetCtx") == 0) {
    *entry = reinterpret_cast<void*>(&get_stream_context);
  } else if (std::strcmp(name, "cuCtxGetDevResource") == 0) {
    *entry = reinterpret_cast<void*>(&get_resource);
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
cudaError_t cudaMemsetAsync(void* at, int, size_t bytes, cudaStream_t) {
  size_t const end = static_cast<char*>(at) + bytes - memory;
  seen.cleared_bytes = end > seen.cleared_bytes ? end : seen.cleared_bytes;
  return cudaSuccess;
}
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

int cluster_m = 0;  // of the tactic of a `gemm` problem

// A problem of a family, one whose operands TMA can move.
struct gemm {
  static auto problem(int m, int n, int k, int splits) {
    tilewright_gemm_args args{};
    args.m = m, args.n = n, args.k = k, args.batch = 1;
    args.a = args.b = memory, args.d = memory;
    args.ld_a = args.ld_b = k, args.ld_d = args.ld_c = n;
    args.alpha = 1.0f;
    args.tactic.cluster_m = cluster_m;
    args.tactic.swizzle = 1, args.tactic.splits = splits, args.tactic.sm_count = kSms;
    return args;
  }
  static auto impossible() { return problem(64, 64, 1001, 1); }
  static constexpr auto operands = std::make_tuple(&tilewright_gemm_args::a, &tilewright_gemm_args::b);
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
  using Args = tilewright_blockscaled_gemm_args;
  static constexpr auto operands = std::make_tuple(&Args::a, &Args::b, &Args::scale_a, &Args::scale_b);
};

struct grouped_gemm {
  static auto problem(int m, int n, int k, int splits) {
    tilewright_grouped_gemm_args args{};
    args.m = m, args.n = n, args.k = k, args.groups = 1;
    args.a = args.b = memory, args.d = memory;
    args.scale_a = args.scale_b = reinterpret_cast<float const*>(memory);
    args.group_of_row = args.group_ends = args.rows_valid = reinterpret_cast<int32_t const*>(memory);
    args.ld_a = args.ld_b = k, args.ld_d = args.ld_c = n, args.ld_scale_a = m, args.ld_scale_b = n / 128;
    args.row_alignment = 128;
    args.tactic.cluster_m = cluster_m;
    args.tactic.swizzle = 1, args.tactic.splits = splits, args.tactic.sm_count = kSms;
    return args;
  }
  static auto impossible() { return problem(64, 64, 1000, 1); }
  using Args = tilewright_grouped_gemm_args;
  static constexpr auto operands = std::make_tuple(&Args::a, &Args::b);
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
  using Args = tilewright_quantize_args;
  static constexpr auto operands = std::make_tuple(&Args::x, &Args::data, &Args::scales, &Args::weight);
};

template <class Args>
void run(char const* name, Args const& args, bool has_workspace = true) {
  int64_t const told = KERNEL.workspace_bytes(&args);
  void* const workspace = told > 0 && has_workspace ? memory : nullptr;
  seen = {};
  int const status = KERNEL.launch(&args, workspace, nullptr);
  std::printf(
      "%s status=%d left=%d bound=%d allowed=%d most=%d encoded=%d homeless=%d launched=%d unknown=%d smem=%u "
      "cluster=%u "
      "blocks=%u pdl=%d asked=%d workspace=%lld cleared=%zu row=%d code=%d first_code=%d first_blocks=%u deep=%u\n",
      name, status, int(last_error), seen.bound, seen.allowed, seen.most_bytes, seen.encoded,
      seen.encoded_without_context, seen.launched, seen.unknown, seen.smem, seen.cluster,
      seen.grid.x * seen.grid.y * seen.grid.z, int(seen.pdl), seen.asked, static_cast<long long>(told),
      seen.cleared_bytes, seen.row, seen.code, seen.first_code, seen.first_blocks, seen.deep);
  script = {};
  last_error = cudaSuccess;
}

}  // namespace

CUcontext context_at(uintptr_t handle) { return reinterpret_cast<CUcontext>(handle); }

// A problem of many tiles in contexts of 132 and 16 SMs, the one of `sms` first, and in those of one handle.
void run_contexts(int sms) {
  auto const many = FAMILY::problem(4096, 4096, 1024, 1);
  uintptr_t const primary = 0x1000, green = 0x1010, other = 0x1020;
  for (int i = 0; i < 4; ++i) {
    bool const whole = (sms == kSms) == (i % 2 == 0);
    script.context = context_at(whole ? primary : green);
    run(whole ? "primary" : "green", many);
  }
  script.stream_context = context_at(green);
  run("green_stream", many);
  script.stream_context = context_at(other);
  script.partition_counts = false;
  run("green_stream_by_sms", many);
  script.context = context_at(green), script.reused = 1;
  run("reused_handle", many);
  script.context = context_at(0x1003);
  run("three_sms", many);
  cluster_m = 8;
  auto const clustered = FAMILY::problem(4096, 4096, 1024, 1);
  script.context = context_at(0x1003);
  run("cluster_of_eight_on_three_sms", clustered);
  script.context = context_at(0x1004);
  script.partition_counts = false;
  run("cluster_of_eight_on_four_sms", clustered);
  run("cluster_of_eight", clustered);
  cluster_m = 4;
  auto fours = FAMILY::problem(4096, 4096, 1024, 1);
  run("cluster_of_four", fours);
  fours.tactic.sm_count = 18;
  run("cluster_of_four_for_18_sms", fours);
  fours.tactic.sm_count = 3;
  run("cluster_of_four_for_3_sms", fours);
  cluster_m = 0;
  run("without_workspace", many, false);
  // Stream-K: some of these take more of a workspace on 16 SMs than on 132.
  for (int m = 128; m <= 4096; m += 384) {
    for (int n = 128; n <= 4096; n += 640) {
      auto args = FAMILY::problem(m, n, 4096, 1);
      script.context = context_at(green);
      run("on_16", args);
      args.tactic.sm_count = 16;
      run("for_16", args);
    }
  }
}

#ifdef LEAN
// Which strides a lean kernel takes, and the order of its tiles.
void run_lean() {
  auto const good = gemm::problem(1024, 1024, 1024, 1);
  for (int more : {4, 8}) {
    for (auto member : {&tilewright_gemm_args::ld_a, &tilewright_gemm_args::ld_b}) {
      auto args = good;
      args.*member += more;
      run(more == 4 ? "rows_at_8_bytes" : "rows_at_16_bytes", args);
    }
    for (auto member : {&tilewright_gemm_args::batch_stride_a, &tilewright_gemm_args::batch_stride_b}) {
      auto args = good;
      args.batch = 2;
      args.batch_stride_a = args.batch_stride_b = args.batch_stride_d = 1024 * 1024;
      args.*member += more;
      run(more == 4 ? "rows_at_8_bytes" : "rows_at_16_bytes", args);
    }
  }
  for (int raster : {TILEWRIGHT_RASTER_ALONG_M, TILEWRIGHT_RASTER_ALONG_N}) {
    auto args = good;
    args.tactic.raster = raster, args.tactic.swizzle = 4;
    run("rastered", args);
    std::printf("raster down=%d group=%d\n", seen.down, seen.group);
  }
}
#endif

// A C caller's operands, each of them at a multiple of 4 bytes alone.
void run_misaligned() {
  auto const one = [](auto member) {
    auto args = FAMILY::problem(8, 1024, 1024, 1);
    args.*member = memory + 4;
    run("misaligned", args);
  };
  std::apply([&](auto... members) { (one(members), ...); }, FAMILY::operands);
  run("aligned", FAMILY::problem(8, 1024, 1024, 1));
}

// Products whose operands lie in other ways: rows of D with gaps between them, a C that begins at a multiple of 16
// bytes or at none, parts of k that meet in a workspace, which is missing.
template <class Family>
void run_layouts() {
  if constexpr (std::is_same_v<Family, gemm>) {
    auto apart = gemm::problem(64, 1001, 1024, 1);
    apart.ld_d = 1008;
    run("rows_apart", apart);
    for (int offset : {0, 2}) {
      auto added = gemm::problem(64, 1024, 1024, 1);
      added.c = memory + offset, added.beta = 1.0f, added.type_c = TILEWRIGHT_ADDEND_BF16;
      run(offset == 0 ? "aligned_c" : "misaligned_c", added);
    }
    auto parts = gemm::problem(64, 1024, 1024, 2);
    parts.tactic.decomposition = TILEWRIGHT_DECOMPOSE_SPLIT_K;
    run("parts", parts);
    run("parts_without_workspace", parts, false);
  }
}

// The launches of a dense form by so many tiles of 128 rows of B.
template <class Family>
void run_waves() {
  if constexpr (std::is_same_v<Family, gemm>) {
    for (int blocks : {66, 132, 132 + 10, 132 + 11, 132 + 105, 132 + 106, 264, 264 + 66}) {
      auto args = gemm::problem(64, 128 * blocks, 1024, 1);
#ifdef GATED
      args.activation = TILEWRIGHT_ACTIVATION_SILU;
#endif
      run(std::to_string(blocks).c_str(), args);
    }
  }
}

// The launches of a kernel that has forms: those of a form without clusters have no such attribute, so that 0 is seen.
template <class Family>
void run_forms() {
  if constexpr (std::is_same_v<Family, gemm>) {
    auto good = gemm::problem(64, 1024, 1024, 1);
#ifdef GATED
    good.activation = TILEWRIGHT_ACTIVATION_SILU;
#endif
    static float scale = 1.0f;
    run("lone", good);
    auto args = good;
    args.tactic.cluster_m = 2;
    run("down", args);
    args.tactic.cluster_m = 4;
    run("four_down", args);
    args = good, args.tactic.cluster_n = 4;
    run("four_across", args);
    args.tactic.cluster_m = 2, args.tactic.cluster_n = 2;
    run("square", args);
    args = good, args.tactic.cluster_n = 2;
    run("cluster", args);
    args.alpha = 2.0f;
    run("factor", args);
    args.alpha = 1.0f, args.scale_b = &scale;
    run("factor", args);
    args = good, args.tactic.splits = 2;
    run("splits", args);
    args = good, args.bias = memory, args.type_bias = TILEWRIGHT_ADDEND_BF16;
    run("addend", args);
    args = good, args.d = memory + 8;
    run("misaligned", args);
#ifndef GATED
    args = good, args.c = memory, args.beta = 1.0f, args.type_c = TILEWRIGHT_ADDEND_BF16;
    run("addend", args);
    args = good, args.tactic.splits = 2, args.tactic.decomposition = TILEWRIGHT_DECOMPOSE_SPLIT_K;
    run("parts", args);
    args.tactic.cluster_m = 4;
    run("parts_in_clusters", args);
    args.tactic.cluster_m = 1, args.n = args.ld_d = 16384;
    run("parts_of_waves", args);
    args = good, args.tactic.splits = 2, args.tactic.decomposition = TILEWRIGHT_DECOMPOSE_SPLIT_K;
    args.batch = 2, args.batch_stride_a = args.batch_stride_b = args.batch_stride_d = 1 << 20;
    run("parts_of_batch", args);
    auto const split = [&] {
      auto of_cluster = good;
      of_cluster.tactic.splits = 2;
      return of_cluster;
    };
    args = split(), args.tactic.cluster_m = 2;
    run("splits_in_clusters", args);
    args = split(), args.n = args.ld_d = 16384;
    run("splits_of_waves", args);
    args = split(), args.batch = 2, args.batch_stride_a = args.batch_stride_b = args.batch_stride_d = 1 << 20;
    run("splits_of_batch", args);
    args = split(), args.alpha = 2.0f;
    run("splits_scaled", args);
    args = split(), args.d = memory + 8;
    run("splits_misaligned", args);
    args = split(), args.n = 1001;
    run("splits_odd", args);
    args = gemm::problem(64, 1001, 1024, 1);
    run("odd", args);
#endif
  }
  if constexpr (std::is_same_v<Family, grouped_gemm>) {
    auto const good = grouped_gemm::problem(64, 1024, 1024, 1);
    for (int grouping : {TILEWRIGHT_GROUPING_NONE, TILEWRIGHT_GROUPING_ROW_INDEX, TILEWRIGHT_GROUPING_ROWS_VALID,
                         TILEWRIGHT_GROUPING_ENDS}) {
      auto args = good;
      args.grouping = grouping;
      run("lone", args);
      args.tactic.cluster_n = 2;
      run("cluster", args);
      args.tactic.cluster_n = 0, args.tactic.splits = 2;
      run("splits", args);
      args.tactic.splits = 1, args.c = memory;
      run("addend", args);
      args.c = nullptr, args.head_left = 64, args.head_gap = 8, args.head_right = 64;
      run("heads", args);
    }
  }
}

// Products of groups along k: D is stored, or added to C, which is D or not.
template <class Family>
void run_along_k() {
  if constexpr (std::is_same_v<Family, grouped_gemm>) {
    auto good = grouped_gemm::problem(256, 512, 1024, 1);
    good.grouping = TILEWRIGHT_GROUPING_K_SIZES, good.groups = 2;
    good.group_k = reinterpret_cast<int32_t const*>(memory);
    good.ld_scale_b = 512, good.batch_stride_d = good.batch_stride_c = 256 * 512;
    run("stored", good);
    run("without_workspace", good, false);
    auto args = good;
    args.tactic.cluster_n = 2;
    run("cluster", args);
    args = good, args.c = memory;
    run("added", args);
    args.batch_stride_c *= 2;
    run("apart", args);
    args = good, args.c = memory + 64;
    run("another_c", args);
    args = good, args.groups = 20000;
    run("many", args);
    args = good, args.grouping = TILEWRIGHT_GROUPING_NONE, args.groups = 1;
    run("dense", args);
  }
}

// Arguments: "misaligned", "layouts", "forms", "waves", "along_k" or "lean", or m n k splits of further problems, or
// "contexts" and the SMs of the context that comes first.
int main(int count, char** words) {
#ifdef LEAN
  if (count == 2 && std::strcmp(words[1], "lean") == 0) {
    run_lean();
    return 0;
  }
#endif
  if (count == 2) {
    std::strcmp(words[1], "layouts") == 0 ? run_layouts<FAMILY>()
    : std::strcmp(words[1], "forms") == 0   ? run_forms<FAMILY>()
    : std::strcmp(words[1], "waves") == 0   ? run_waves<FAMILY>()
    : std::strcmp(words[1], "along_k") == 0 ? run_along_k<FAMILY>()
                                            : run_misaligned();
    return 0;
  }
  if (count == 3 && std::strcmp(words[1], "contexts") == 0) {
    run_contexts(std::atoi(words[2]));
    return 0;
  }
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

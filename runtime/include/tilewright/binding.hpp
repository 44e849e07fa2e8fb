// What every module's table shares: its list of kernels, and the layout of tensors, which Apache TVM-FFI passes from
// Python (or any other language). The host compiler alone compiles a table. A table needs no CUDA header, unless it
// holds its kernels' host code, too.
#pragma once

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/string.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string_view>

#include "tilewright/abi.h"
#include "tilewright/args_bytes.hpp"

// The device on which a table's kernels run. Tests bind kernels that run on the host.
#ifndef TILEWRIGHT_DEVICE_TYPE
#define TILEWRIGHT_DEVICE_TYPE kDLCUDA
#endif

namespace tilewright {

namespace ffi = tvm::ffi;

struct KernelEntry {
  char const* name;
  tilewright_kernel const* kernel;  // null where the library was linked without it
};

// The kernels that a table names. Those whose objects were not linked are absent.
class KernelList {
 public:
  // `args_bytes`: of the family's argument struct.
  template <size_t N>
  KernelList(char const* module, KernelEntry const (&entries)[N], ArgsBytes args_bytes)
      : module_(module), begin_(entries), end_(entries + N), args_bytes_(args_bytes) {}

  ffi::Array<ffi::String> names() const {
    ffi::Array<ffi::String> present;
    for (KernelEntry const* entry = begin_; entry != end_; ++entry) {
      if (entry->kernel != nullptr) {
        present.push_back(ffi::String(entry->name));
      }
    }
    return present;
  }

  // Throws KeyError for a kernel that is not here, RuntimeError for one of another ABI.
  tilewright_kernel const& find(ffi::String const& name) const {
    std::string_view const key(name.data(), name.size());
    KernelEntry const* entry =
        std::find_if(begin_, end_, [key](KernelEntry const& candidate) { return key == candidate.name; });
    if (entry == end_) {
      TVM_FFI_THROW(KeyError) << "module " << module_ << " has no kernel named " << key;
    }
    if (entry->kernel == nullptr) {
      TVM_FFI_THROW(KeyError) << "kernel " << key << " of module " << module_ << " is not in this library";
    }
    tilewright_kernel const& kernel = *entry->kernel;
    if (kernel.abi_version != TILEWRIGHT_ABI_VERSION || !args_bytes_.fit(kernel.args_bytes)) {
      TVM_FFI_THROW(RuntimeError) << "kernel " << key << " was compiled for ABI " << kernel.abi_version << " ("
                                  << kernel.args_bytes << " bytes of arguments), its table for ABI "
                                  << TILEWRIGHT_ABI_VERSION << " (" << args_bytes_.whole << " bytes): build it again";
    }
    return kernel;
  }

  ffi::Map<ffi::String, int64_t> attributes(ffi::String const& name) const {
    tilewright_kernel const& kernel = find(name);
    ffi::Map<ffi::String, int64_t> out;
    out.Set("abi_version", kernel.abi_version);
    out.Set("args_bytes", kernel.args_bytes);
    out.Set("threads", kernel.threads);
    out.Set("smem_bytes", kernel.smem_bytes);
    return out;
  }

 private:
  char const* module_;
  KernelEntry const* begin_;
  KernelEntry const* end_;
  ArgsBytes args_bytes_;
};

// The tensor that a packed argument holds, or null where it is None. Throws TypeError otherwise.
inline DLTensor const* tensor_or_null(ffi::AnyView const& argument, char const* what) {
  switch (argument.type_index()) {
    case ffi::TypeIndex::kTVMFFINone:
      return nullptr;
    case ffi::TypeIndex::kTVMFFITensor:
    case ffi::TypeIndex::kTVMFFIDLTensorPtr:
      return argument.cast<DLTensor*>();
    default:
      TVM_FFI_THROW(TypeError) << what << " is a " << argument.GetTypeKey() << "; a tensor is wanted";
      return nullptr;
  }
}

inline DLTensor const& tensor_of(ffi::AnyView const& argument, char const* what) {
  DLTensor const* tensor = tensor_or_null(argument, what);
  if (tensor == nullptr) {
    TVM_FFI_THROW(TypeError) << what << " is None; a tensor is wanted";
  }
  return *tensor;
}

inline char* address(DLTensor const& tensor) { return static_cast<char*>(tensor.data) + tensor.byte_offset; }

inline int64_t element_bytes(DLTensor const& tensor) { return (tensor.dtype.bits * tensor.dtype.lanes + 7) / 8; }

inline int64_t stride(DLTensor const& tensor, int dim) {
  if (tensor.strides != nullptr) {
    return tensor.strides[dim];
  }
  int64_t packed = 1;
  for (int inner = dim + 1; inner < tensor.ndim; ++inner) {
    packed *= tensor.shape[inner];
  }
  return packed;
}

inline int64_t element_count(DLTensor const& tensor) {
  int64_t count = 1;
  for (int dim = 0; dim < tensor.ndim; ++dim) {
    count *= tensor.shape[dim];
  }
  return count;
}

// Whether its elements lie in order and without gaps.
inline bool contiguous(DLTensor const& tensor) {
  int64_t packed = 1;
  for (int dim = tensor.ndim - 1; dim >= 0; --dim) {
    if (tensor.shape[dim] != 1 && stride(tensor, dim) != packed) {
      return false;
    }
    packed *= std::max<int64_t>(tensor.shape[dim], 1);
  }
  return true;
}

// Bytes from a tensor's first element to the end of its last.
inline int64_t span_bytes(DLTensor const& tensor) {
  int64_t last = 0;
  for (int dim = 0; dim < tensor.ndim; ++dim) {
    if (tensor.shape[dim] == 0) {
      return 0;
    }
    last += (tensor.shape[dim] - 1) * stride(tensor, dim);
  }
  return (last + 1) * element_bytes(tensor);
}

// A tensor's bytes: runs of `run` contiguous ones, which begin at multiples of `step` from its address.
// `step` is the greatest common divisor of the strides between runs; 0 where there is one run.
struct Runs {
  int64_t run, step;

  explicit Runs(DLTensor const& tensor) : run(element_bytes(tensor)), step(0) {
    std::array<int, 8> order{};
    int const dims = std::min<int>(tensor.ndim, order.size());
    std::iota(order.begin(), order.begin() + dims, 0);
    std::sort(order.begin(), order.begin() + dims,
              [&tensor](int x, int y) { return stride(tensor, x) < stride(tensor, y); });
    for (int i = 0; i < dims; ++i) {
      int64_t const bytes = stride(tensor, order[i]) * element_bytes(tensor);
      if (tensor.shape[order[i]] == 1) {
        continue;
      }
      if (bytes == run && step == 0) {
        run *= tensor.shape[order[i]];
      } else {
        step = std::gcd(step, bytes);
      }
    }
  }
};

// Whether two tensors may have a byte in common. Exact where one matrix's rows lie beside the other's
// in a wider one; where they are interleaved in other ways the answer is yes.
inline bool overlap(DLTensor const& x, DLTensor const& y) {
  bool const apart = address(y) + span_bytes(y) <= address(x) || address(x) + span_bytes(x) <= address(y);
  if (apart || span_bytes(x) == 0 || span_bytes(y) == 0) {
    return false;
  }
  if (x.ndim > 8 || y.ndim > 8) {
    return true;
  }
  Runs const of_x(x), of_y(y);
  int64_t const step = std::gcd(of_x.step, of_y.step);
  if (step == 0) {
    return true;  // two intervals
  }
  // Modulo `step` each tensor is one interval.
  int64_t const distance = ((address(y) - address(x)) % step + step) % step;
  return distance < of_x.run || distance + of_y.run > step;
}

constexpr int64_t kWorkspaceAlignment = 256;  // what the ABI promises to kernels

// The address of a workspace on `device`, which holds at least `bytes`. Throws ValueError where it does not.
inline void* workspace_of(ffi::AnyView const& argument, DLDevice device, int64_t bytes) {
  DLTensor const& tensor = tensor_of(argument, "workspace");
  if (tensor.device.device_type != device.device_type || tensor.device.device_id != device.device_id) {
    TVM_FFI_THROW(ValueError) << "workspace is on device " << tensor.device.device_id << " of type "
                              << tensor.device.device_type << "; the launch goes to device " << device.device_id
                              << " of type " << device.device_type;
  }
  int64_t const held = element_count(tensor) * element_bytes(tensor);
  if (held < bytes || held != span_bytes(tensor)) {
    TVM_FFI_THROW(ValueError) << "workspace holds " << held << " bytes; " << bytes << " contiguous ones are wanted";
  }
  if (reinterpret_cast<uintptr_t>(address(tensor)) % kWorkspaceAlignment != 0) {
    TVM_FFI_THROW(ValueError) << "workspace is not at a multiple of " << kWorkspaceAlignment << " bytes";
  }
  return address(tensor);
}

// The stream that the caller's framework works on.
inline void* current_stream(DLDevice device) {
  return device.device_type == kDLCPU ? nullptr : TVMFFIEnvGetStream(device.device_type, device.device_id);
}

}  // namespace tilewright

// One row of a table, declared weak: a library may be linked without it.
#define TILEWRIGHT_DECLARE_KERNEL(NAME) extern "C" __attribute__((weak)) tilewright_kernel const tilewright_##NAME;
#define TILEWRIGHT_KERNEL_ENTRY(NAME) {#NAME, &tilewright_##NAME},

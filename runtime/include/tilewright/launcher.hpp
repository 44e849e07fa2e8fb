// The functions that a module's table of any family exports. They take a family's argument struct. The struct's header
// (`tilewright/<family>/args.h`) and the code that fills it are written from the family's declaration.
//
//   abi_version() -> int,  kernels() -> names,  attributes(name) -> map
//   can_implement(name, arguments) -> bool      no GPU is touched
//   workspace_bytes(name, arguments) -> int     no GPU is touched
//   launcher(name, arguments, operands, numbers) -> function of (each operand, each number, workspace) -> int
//   first_planned(launchers) -> a launcher that calls the first whose operands lie as the call's; of any modules
//
// A launcher is made for one layout of operands. It checks that the operands of a call lie so, puts their addresses and
// the call's numbers into its copy of the struct, and launches on the caller's stream. It returns 0, a cudaError_t
// (positive), or a negative status: tilewright_status, or one of `Status`.
#pragma once

#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "tilewright/binding.hpp"

namespace tilewright {

// The status of a call whose operands do not fit. Operands are counted from 0 in the launcher's order. The caller
// raises its own error, or copies the operand.
enum Status : int64_t {
  kMisaligned = -100,  // - i: the address of operand i is not as aligned as the kernel needs
  kUnplanned = -200,   // - i: the layout of operand i is not the one that the launcher was made for
  kOverflow = -300,    // - i: number i is finite, but not as a float
  kAliased = -1000,    // - i - 64 * j: operand j is written, and overlaps operand i, or lies among its elements
};
constexpr int64_t kMostOperands = 64;

// One operand of a launcher, of the numbers
//
//   (offset, alignment, written, twin, device, code, bits, lanes, code, bits, lanes, dimensions or -1, ...)
//
// `offset`: of its pointer in the struct. `twin`: the written operand with which it may be identical, or -1. It may
// have either of two types, described as by DLPack: its own, and uint8 if that may stand for it. The dimensions are
// followed by the extent and the stride of each. -1 is followed by a number of elements, which have any shape and are
// contiguous in order. Without numbers, the operand is absent.
class Operand {
 public:
  explicit Operand(ffi::Array<int64_t> const& description) {
    std::vector<int64_t> const numbers(description.begin(), description.end());
    if (numbers.empty()) {
      return;
    }
    size_t const fixed = 12;
    int64_t const dimensions = numbers.size() < fixed ? 0 : numbers[fixed - 1];
    if (numbers.size() != fixed + (dimensions < 0 ? 1 : 2 * dimensions)) {
      TVM_FFI_THROW(ValueError) << "an operand of " << numbers.size() << " numbers; see tilewright/launcher.hpp";
    }
    present_ = true;
    offset = static_cast<size_t>(numbers[0]);
    alignment = static_cast<uintptr_t>(numbers[1]);
    written = numbers[2] != 0;
    twin = numbers[3];
    device_ = static_cast<int32_t>(numbers[4]);
    for (int i = 0; i < 2; ++i) {
      types_[i] = {static_cast<uint8_t>(numbers[5 + 3 * i]), static_cast<uint8_t>(numbers[6 + 3 * i]),
                   static_cast<uint16_t>(numbers[7 + 3 * i])};
    }
    dimensions_ = static_cast<int32_t>(dimensions);
    layout_.assign(numbers.begin() + fixed, numbers.end());
  }

  size_t offset = 0;
  uintptr_t alignment = 1;
  bool written = false;
  int64_t twin = -1;

  bool fits(DLTensor const* tensor) const {
    if (tensor == nullptr || !present_) {
      return tensor == nullptr && !present_;
    }
    bool const on_device = tensor->device.device_type == TILEWRIGHT_DEVICE_TYPE && tensor->device.device_id == device_;
    if (!on_device || !(same(tensor->dtype, types_[0]) || same(tensor->dtype, types_[1]))) {
      return false;
    }
    if (dimensions_ < 0) {
      return element_count(*tensor) == layout_[0] && contiguous(*tensor);
    }
    if (tensor->ndim != dimensions_) {
      return false;
    }
    for (int i = 0; i < dimensions_; ++i) {
      // The stride of an extent of 1 has no meaning; frameworks set it to anything.
      bool const alike =
          layout_[2 * i] == tensor->shape[i] && (tensor->shape[i] == 1 || layout_[2 * i + 1] == stride(*tensor, i));
      if (!alike) {
        return false;
      }
    }
    return true;
  }

 private:
  static bool same(DLDataType x, DLDataType y) { return x.code == y.code && x.bits == y.bits && x.lanes == y.lanes; }

  bool present_ = false;
  int32_t device_ = 0, dimensions_ = 0;
  DLDataType types_[2]{};
  std::vector<int64_t> layout_;
};

class Launcher {
 public:
  Launcher(tilewright_kernel const& kernel, ffi::Bytes const& arguments,
           ffi::Array<ffi::Array<int64_t>> const& operands, ffi::Array<int64_t> const& numbers)
      : kernel_(&kernel),
        arguments_(arguments.data(), arguments.data() + arguments.size()),
        operands_(operands.begin(), operands.end()),
        numbers_(numbers.begin(), numbers.end()) {
    bool possible = arguments_.size() >= kernel.args_bytes && operands_.size() <= size_t(kMostOperands);
    for (Operand const& operand : operands_) {
      possible = possible && operand.offset + sizeof(void*) <= arguments_.size() && operand.alignment > 0;
    }
    for (int64_t offset : numbers_) {
      possible = possible && offset >= 0 && size_t(offset) + sizeof(float) <= arguments_.size();
    }
    if (!possible) {
      TVM_FFI_THROW(ValueError) << "the arguments have " << arguments_.size() << " bytes; " << kernel.args_bytes
                                << " are wanted, with every operand and number inside them";
    }
  }

  int64_t operator()(ffi::PackedArgs const& call) const {
    size_t const operands = operands_.size(), expected = operands + numbers_.size() + 1;
    if (size_t(call.size()) != expected) {
      TVM_FFI_THROW(TypeError) << "a launcher of " << kernel_->name << " takes " << expected << " arguments, not "
                               << call.size();
    }
    std::array<DLTensor const*, kMostOperands> tensors;
    for (size_t i = 0; i < operands; ++i) {
      tensors[i] = tensor_or_null(call[i], "an operand");
      if (!operands_[i].fits(tensors[i])) {
        return kUnplanned - int64_t(i);
      }
    }
    // The struct has a few hundred bytes, and its members need an alignment of at most 8.
    alignas(16) std::array<char, 1024> arguments;
    if (arguments_.size() > arguments.size()) {
      TVM_FFI_THROW(ValueError) << "arguments of " << arguments_.size() << " bytes";
    }
    std::memcpy(arguments.data(), arguments_.data(), arguments_.size());
    DLTensor const* first = nullptr;
    for (size_t i = 0; i < operands; ++i) {
      if (tensors[i] == nullptr) {
        continue;
      }
      first = first == nullptr ? tensors[i] : first;
      char* const pointer = address(*tensors[i]);
      if (tensors[i]->data == nullptr && element_count(*tensors[i]) > 0) {
        TVM_FFI_THROW(ValueError) << "operand " << i << " has no memory";
      }
      if (reinterpret_cast<uintptr_t>(pointer) % operands_[i].alignment != 0) {
        return kMisaligned - int64_t(i);
      }
      std::memcpy(arguments.data() + operands_[i].offset, &pointer, sizeof(pointer));
    }
    if (int64_t const status = aliased(tensors); status != 0) {
      return status;
    }
    for (size_t i = 0; i < numbers_.size(); ++i) {
      double const wide = call[operands + i].cast<double>();
      if (std::abs(wide) > std::numeric_limits<float>::max() && std::isfinite(wide)) {
        return kOverflow - int64_t(i);
      }
      float const number = static_cast<float>(wide);
      std::memcpy(arguments.data() + numbers_[i], &number, sizeof(number));
    }
    if (first == nullptr) {
      TVM_FFI_THROW(TypeError) << "no operand of " << kernel_->name << " is a tensor";
    }
    ffi::AnyView const& room = call[static_cast<int>(expected) - 1];
    bool const none = room.type_index() == ffi::TypeIndex::kTVMFFINone;
    void* const workspace =
        none ? nullptr : workspace_of(room, first->device, kernel_->workspace_bytes(arguments.data()));
    return kernel_->launch(arguments.data(), workspace, current_stream(first->device));
  }

 private:
  int64_t aliased(std::array<DLTensor const*, kMostOperands> const& tensors) const {
    for (size_t j = 0; j < operands_.size(); ++j) {
      if (tensors[j] == nullptr || !operands_[j].written) {
        continue;
      }
      for (size_t i = 0; i < operands_.size(); ++i) {
        bool const itself = i == j || (operands_[i].twin == int64_t(j) && tensors[i] != nullptr &&
                                       address(*tensors[i]) == address(*tensors[j]));
        if (!itself && tensors[i] != nullptr && overlap(*tensors[i], *tensors[j])) {
          return kAliased - int64_t(i) - kMostOperands * int64_t(j);
        }
      }
    }
    return 0;
  }

  tilewright_kernel const* kernel_;
  std::vector<char> arguments_;
  std::vector<Operand> operands_;
  std::vector<int64_t> numbers_;
};

// The functions that a table exports, for its list of kernels.
struct Table {
  static tilewright_kernel const& find(KernelList const& list, ffi::String const& name, ffi::Bytes const& arguments) {
    tilewright_kernel const& kernel = list.find(name);
    if (arguments.size() < kernel.args_bytes) {
      TVM_FFI_THROW(ValueError) << "the arguments have " << arguments.size() << " bytes; " << kernel.args_bytes
                                << " are wanted";
    }
    return kernel;
  }

  // Copies the struct to memory with the alignment that it needs.
  static std::vector<int64_t> aligned(ffi::Bytes const& arguments) {
    std::vector<int64_t> copy((arguments.size() + sizeof(int64_t) - 1) / sizeof(int64_t));
    std::memcpy(copy.data(), arguments.data(), arguments.size());
    return copy;
  }

  static bool can_implement(KernelList const& list, ffi::String const& name, ffi::Bytes const& arguments) {
    return find(list, name, arguments).can_implement(aligned(arguments).data()) == TILEWRIGHT_OK;
  }

  static int64_t workspace_bytes(KernelList const& list, ffi::String const& name, ffi::Bytes const& arguments) {
    tilewright_kernel const& kernel = find(list, name, arguments);
    std::vector<int64_t> const copy = aligned(arguments);
    if (kernel.can_implement(copy.data()) != TILEWRIGHT_OK) {  // CUTLASS would divide by numbers that it refuses
      TVM_FFI_THROW(ValueError) << name << " does not take the problem";
    }
    return kernel.workspace_bytes(copy.data());
  }

  static ffi::Function launcher(KernelList const& list, ffi::String const& name, ffi::Bytes const& arguments,
                                ffi::Array<ffi::Array<int64_t>> const& operands, ffi::Array<int64_t> const& numbers) {
    return ffi::Function::FromPacked([launcher = Launcher(list.find(name), arguments, operands, numbers)](
                                         ffi::PackedArgs call, ffi::Any* result) { *result = launcher(call); });
  }

  static ffi::Function first_planned(ffi::Array<ffi::Function> const& launchers) {
    return ffi::Function::FromPacked([launchers](ffi::PackedArgs call, ffi::Any* result) {
      for (ffi::Function const& launcher : launchers) {
        launcher.CallPacked(call, result);
        int64_t const status = result->cast<int64_t>();
        if (status > kUnplanned || status <= kUnplanned - kMostOperands) {
          return;
        }
      }
    });
  }
};

}  // namespace tilewright

// The whole of a module's table. KERNELS(X) applies X to the name of each kernel; ARGS is the family's struct,
// with its appended members if there are any.
#define TILEWRIGHT_TABLE(MODULE, KERNELS, ARGS)                                                                 \
  KERNELS(TILEWRIGHT_DECLARE_KERNEL)                                                                            \
  static tilewright::KernelEntry const tilewright_entries[] = {KERNELS(TILEWRIGHT_KERNEL_ENTRY)};               \
  static tilewright::KernelList const tilewright_list(#MODULE, tilewright_entries,                              \
                                                      tilewright::ArgsBytesOf<ARGS>::kValue);                   \
  static int64_t tilewright_abi_version() { return TILEWRIGHT_ABI_VERSION; }                                    \
  static tvm::ffi::Array<tvm::ffi::String> tilewright_kernels() { return tilewright_list.names(); }             \
  static tvm::ffi::Map<tvm::ffi::String, int64_t> tilewright_attributes(tvm::ffi::String const& name) {         \
    return tilewright_list.attributes(name);                                                                    \
  }                                                                                                             \
  static bool tilewright_can_implement(tvm::ffi::String const& name, tvm::ffi::Bytes const& arguments) {        \
    return tilewright::Table::can_implement(tilewright_list, name, arguments);                                  \
  }                                                                                                             \
  static int64_t tilewright_workspace_bytes(tvm::ffi::String const& name, tvm::ffi::Bytes const& arguments) {   \
    return tilewright::Table::workspace_bytes(tilewright_list, name, arguments);                                \
  }                                                                                                             \
  static tvm::ffi::Function tilewright_launcher(tvm::ffi::String const& name, tvm::ffi::Bytes const& arguments, \
                                                tvm::ffi::Array<tvm::ffi::Array<int64_t>> const& operands,      \
                                                tvm::ffi::Array<int64_t> const& numbers) {                      \
    return tilewright::Table::launcher(tilewright_list, name, arguments, operands, numbers);                    \
  }                                                                                                             \
  TVM_FFI_DLL_EXPORT_TYPED_FUNC(abi_version, tilewright_abi_version)                                            \
  TVM_FFI_DLL_EXPORT_TYPED_FUNC(kernels, tilewright_kernels)                                                    \
  TVM_FFI_DLL_EXPORT_TYPED_FUNC(attributes, tilewright_attributes)                                              \
  TVM_FFI_DLL_EXPORT_TYPED_FUNC(can_implement, tilewright_can_implement)                                        \
  TVM_FFI_DLL_EXPORT_TYPED_FUNC(workspace_bytes, tilewright_workspace_bytes)                                    \
  TVM_FFI_DLL_EXPORT_TYPED_FUNC(launcher, tilewright_launcher)                                                  \
  TVM_FFI_DLL_EXPORT_TYPED_FUNC(first_planned, tilewright::Table::first_planned)

// What the tables of all families of kernels on matrices share: how tensors become matrices, what is checked
// of them, and what a table exports. It grows `binding.hpp`, and needs no CUDA header either.
//
// A launcher is made once and takes tensors of any shape; it answers 0, a cudaError_t (positive) or a
// negative status of tilewright_status or tilewright::Status, and throws TypeError or ValueError for
// tensors that are not what the kernel takes.
#pragma once

#include <initializer_list>
#include <limits>
#include <utility>
#include <vector>

#include "tilewright/binding.hpp"
#include "tilewright/tactic.h"

namespace tilewright {

// What a launcher finds in the addresses, which may change from call to call. The caller turns these into
// its own errors, or copies an operand. The operands are counted in the family's order.
enum Status : int64_t {
  kMisaligned = -16,  // -16 - i: the address of operand i is not a multiple of what the kernel wants
  kAliased = -32,     // -32 - i: d overlaps operand i, or lies among its elements so that it may
  kUnplanned = -48,   // -48 - i: operand i is not laid out as the function was fixed to
};

constexpr int64_t kTmaBytes = 16;  // TMA: addresses, leading dimensions and batch strides are multiples of it

// The first numbers of every family's options: (raster, swizzle, decomposition, splits, reduction, cluster_m,
// cluster_n, fallback_m, fallback_n, sm_count).
constexpr size_t kTacticNumbers = 10;

// Throws ValueError unless `values` holds a tactic and `more` numbers.
inline tilewright_tactic tactic_of(ffi::Array<int64_t> const& values, size_t more) {
  if (values.size() != kTacticNumbers + more) {
    TVM_FFI_THROW(ValueError) << "options holds " << values.size() << " numbers; " << kTacticNumbers + more
                              << " are wanted";
  }
  tilewright_tactic tactic{};
  int32_t* const fields[kTacticNumbers] = {
      &tactic.raster,    &tactic.swizzle,   &tactic.decomposition, &tactic.splits,     &tactic.reduction,
      &tactic.cluster_m, &tactic.cluster_n, &tactic.fallback_m,    &tactic.fallback_n, &tactic.sm_count};
  for (size_t i = 0; i < kTacticNumbers; ++i) {
    *fields[i] = static_cast<int32_t>(values[i]);
  }
  return tactic;
}

inline int32_t extent(int64_t value, char const* what) {
  if (value < 0 || value > std::numeric_limits<int32_t>::max()) {
    TVM_FFI_THROW(ValueError) << what << " is " << value << "; 0 to 2147483647 is wanted";
  }
  return static_cast<int32_t>(value);
}

// (m, n, k, batch) of a problem that has no tensors yet, into a family's arguments.
template <class Args>
void set_sizes(Args& args, ffi::Array<int64_t> const& sizes) {
  if (sizes.size() != 4) {
    TVM_FFI_THROW(ValueError) << "sizes holds " << sizes.size() << " numbers; (m, n, k, batch) are wanted";
  }
  args.m = extent(sizes[0], "m");
  args.n = extent(sizes[1], "n");
  args.k = extent(sizes[2], "k");
  args.batch = extent(sizes[3], "batch");
}

// A tensor [rows, columns] or [batch, rows, columns].
struct Matrix {
  int64_t batch, rows, columns;
  int64_t leading;       // elements between neighbours along the other dimension than the contiguous one
  int64_t batch_stride;  // 0 where one matrix serves every batch

  Matrix(DLTensor const& tensor, bool row_major, char const* what) {
    if (tensor.ndim != 2 && tensor.ndim != 3) {
      TVM_FFI_THROW(ValueError) << what << " has " << tensor.ndim << " dimensions; 2 or 3 are wanted";
    }
    int const row = tensor.ndim - 2;
    int const column = row + 1;
    batch = tensor.ndim == 3 ? tensor.shape[0] : 1;
    rows = tensor.shape[row];
    columns = tensor.shape[column];
    batch_stride = batch > 1 ? stride(tensor, 0) : 0;
    int const inner = row_major ? column : row;
    int const outer = row_major ? row : column;
    if (tensor.shape[inner] > 1 && stride(tensor, inner) != 1) {
      TVM_FFI_THROW(ValueError) << what << " has stride " << stride(tensor, inner) << " along its "
                                << (row_major ? "columns" : "rows") << "; the kernel wants 1";
    }
    // The stride of a dimension of size 1 means nothing (frameworks write what they like there), but
    // the tensor map wants a legal one.
    int64_t const unit = std::max<int64_t>(1, kTmaBytes / element_bytes(tensor));
    leading = tensor.shape[outer] > 1 ? stride(tensor, outer) : (tensor.shape[inner] + unit - 1) / unit * unit;
  }
};

inline void check_shape(Matrix const& matrix, int64_t batch, int64_t rows, int64_t columns, char const* what) {
  bool const fits = matrix.rows == rows && matrix.columns == columns && (matrix.batch == batch || matrix.batch == 1);
  if (!fits) {
    TVM_FFI_THROW(ValueError) << what << " is [" << matrix.batch << ", " << matrix.rows << ", " << matrix.columns
                              << "]; [" << batch << ", " << rows << ", " << columns << "] is wanted";
  }
}

// The address of one device float, or null where there is no tensor.
inline float const* scalar_of(DLTensor const* tensor, DLTensor const& d, char const* what) {
  if (tensor == nullptr) {
    return nullptr;
  }
  check_device(*tensor, d, what);
  if (element_count(*tensor) != 1 || tensor->dtype.code != kDLFloat || tensor->dtype.bits != 32) {
    TVM_FFI_THROW(ValueError) << what << " is not one float32";
  }
  return reinterpret_cast<float const*>(address(*tensor));
}

// How a tensor lies, for comparing with the next: (device, dimensions, then extent and stride of each).
class Layout {
 public:
  explicit Layout(ffi::Array<int64_t> const& numbers) : numbers_(numbers.begin(), numbers.end()) {
    if (!numbers_.empty() && (numbers_.size() < 2 || numbers_.size() != 2 + 2 * size_t(numbers_[1]))) {
      TVM_FFI_THROW(ValueError) << "a layout holds " << numbers_.size() << " numbers; (device, dimensions) and two "
                                << "for each dimension are wanted";
    }
  }

  // No numbers are of a tensor that is left out. The stride of an extent of 1 means nothing.
  bool fits(DLTensor const* tensor) const {
    if (tensor == nullptr || numbers_.empty()) {
      return tensor == nullptr && numbers_.empty();
    }
    if (numbers_[0] != tensor->device.device_id || numbers_[1] != tensor->ndim) {
      return false;
    }
    for (int dim = 0; dim < tensor->ndim; ++dim) {
      int64_t const extent = numbers_[2 + 2 * dim];
      if (extent != tensor->shape[dim] || (extent > 1 && numbers_[3 + 2 * dim] != stride(*tensor, dim))) {
        return false;
      }
    }
    return true;
  }

 private:
  std::vector<int64_t> numbers_;
};

struct Operand {
  DLTensor const* tensor;  // null where it is left out
  int64_t alignment;       // bytes of which its address is a multiple; 1 for any
  bool may_be_d;           // d may lie in the same place
};

// The status of the first operand whose address does not do, else 0.
inline int64_t check_addresses(std::initializer_list<Operand> operands, DLTensor const& d) {
  int64_t index = 0;
  for (Operand const& operand : operands) {
    if (operand.tensor != nullptr) {
      if (address(*operand.tensor) == nullptr) {  // no kernel gets here with an empty one
        TVM_FFI_THROW(ValueError) << "operand " << index << " has no memory";
      }
      if (reinterpret_cast<uintptr_t>(address(*operand.tensor)) % operand.alignment != 0) {
        return kMisaligned - index;
      }
      if (operand.tensor != &d && !operand.may_be_d && overlap(*operand.tensor, d)) {
        return kAliased - index;
      }
    }
    ++index;
  }
  return 0;
}

// Launches with the workspace that `given` holds. A launch that needs one and is given none is the kernel's
// to refuse.
inline int64_t launch_with(tilewright_kernel const& kernel, void const* args, ffi::AnyView const& given,
                           DLTensor const& d) {
  bool const none = given.type_index() == ffi::TypeIndex::kTVMFFINone;
  void* workspace = none ? nullptr : workspace_of(given, d, kernel.workspace_bytes(args));
  return kernel.launch(args, workspace, current_stream(d.device));
}

// What a table exports. `Binding` is its family's: Options, made of the numbers that a caller passes;
// `packed`, arguments for sizes alone; `launch`, one call of a launcher.
template <class Binding>
struct MatrixTable {
  using Numbers = ffi::Array<int64_t>;

  static bool can_implement(KernelList const& list, ffi::String const& name, Numbers const& sizes,
                            Numbers const& options) {
    auto const args = Binding::packed(sizes, typename Binding::Options(options));
    return list.find(name).can_implement(&args) == TILEWRIGHT_OK;
  }

  static int64_t workspace_bytes(KernelList const& list, ffi::String const& name, Numbers const& sizes,
                                 Numbers const& options) {
    auto const args = Binding::packed(sizes, typename Binding::Options(options));
    tilewright_kernel const& kernel = list.find(name);
    if (kernel.can_implement(&args) != TILEWRIGHT_OK) {  // CUTLASS divides by what it would have refused
      TVM_FFI_THROW(ValueError) << name << " does not take the problem";
    }
    return kernel.workspace_bytes(&args);
  }

  static ffi::Function launcher(KernelList const& list, ffi::String const& name, Numbers const& options) {
    return ffi::Function::FromPacked(
        [kernel = &list.find(name), parsed = typename Binding::Options(options)](
            ffi::PackedArgs args, ffi::Any* result) { *result = Binding::launch(*kernel, parsed, args); });
  }
};

// `launcher`, but for operands that lie as `layouts` say: others are answered with kUnplanned.
inline ffi::Function fixed(ffi::Function const& launcher, ffi::Array<ffi::Array<int64_t>> const& layouts) {
  std::vector<Layout> known(layouts.begin(), layouts.end());
  return ffi::Function::FromPacked([launcher, known = std::move(known)](ffi::PackedArgs args, ffi::Any* result) {
    if (args.size() < static_cast<int32_t>(known.size())) {
      TVM_FFI_THROW(TypeError) << "a launcher of " << known.size() << " operands takes more than " << args.size();
    }
    for (size_t i = 0; i < known.size(); ++i) {
      if (!known[i].fits(tensor_or_null(args[i], "an operand"))) {
        *result = int64_t{kUnplanned} - static_cast<int64_t>(i);
        return;
      }
    }
    launcher.CallPacked(args, result);
  });
}

}  // namespace tilewright

// The whole of a module's table: KERNELS(X) applies X to the name of each kernel.
//
//   can_implement(name, sizes, options) -> bool      no GPU is touched
//   workspace_bytes(name, sizes, options) -> int     no GPU is touched
//   launcher(name, options) -> function              what it takes is the family's
//   fixed(launcher, layouts) -> function             the same, for operands that lie so
#define TILEWRIGHT_MATRIX_TABLE(MODULE, KERNELS, BINDING)                                                        \
  KERNELS(TILEWRIGHT_DECLARE_KERNEL)                                                                             \
  static tilewright::KernelEntry const tilewright_entries[] = {KERNELS(TILEWRIGHT_KERNEL_ENTRY)};                \
  static tilewright::KernelList const tilewright_list(#MODULE, tilewright_entries, sizeof(BINDING::Args));       \
  TILEWRIGHT_EXPORT_TABLE(tilewright_list)                                                                       \
  static bool tilewright_can_implement(tvm::ffi::String const& name, tvm::ffi::Array<int64_t> const& sizes,      \
                                       tvm::ffi::Array<int64_t> const& options) {                                \
    return tilewright::MatrixTable<BINDING>::can_implement(tilewright_list, name, sizes, options);               \
  }                                                                                                              \
  static int64_t tilewright_workspace_bytes(tvm::ffi::String const& name, tvm::ffi::Array<int64_t> const& sizes, \
                                            tvm::ffi::Array<int64_t> const& options) {                           \
    return tilewright::MatrixTable<BINDING>::workspace_bytes(tilewright_list, name, sizes, options);             \
  }                                                                                                              \
  static tvm::ffi::Function tilewright_launcher(tvm::ffi::String const& name,                                    \
                                                tvm::ffi::Array<int64_t> const& options) {                       \
    return tilewright::MatrixTable<BINDING>::launcher(tilewright_list, name, options);                           \
  }                                                                                                              \
  TVM_FFI_DLL_EXPORT_TYPED_FUNC(can_implement, tilewright_can_implement)                                         \
  TVM_FFI_DLL_EXPORT_TYPED_FUNC(workspace_bytes, tilewright_workspace_bytes)                                     \
  TVM_FFI_DLL_EXPORT_TYPED_FUNC(launcher, tilewright_launcher)                                                   \
  TVM_FFI_DLL_EXPORT_TYPED_FUNC(fixed, tilewright::fixed)

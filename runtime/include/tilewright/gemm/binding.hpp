// Binds the kernels of a `gemm` module: what a table exports, and how tensors become arguments.
//
//   can_implement(name, sizes, options) -> bool      no GPU is touched
//   workspace_bytes(name, sizes, options) -> int     no GPU is touched
//   launcher(name, options) -> function(a, b, c, d, bias, scale_a, scale_b, alpha, beta, workspace) -> int
//
// `sizes` is (m, n, k, batch); `options` is (a_k_major, b_k_major, raster, swizzle, decomposition,
// splits, reduction, sm_count, type of a, of b, of d), where a type is its DLPack code * 256 + its bits;
// c and bias are of d's. A launcher is made once and takes tensors of any shape; it answers 0, a
// cudaError_t (positive) or a negative status of tilewright_status or tilewright::gemm::Status, and
// throws TypeError or ValueError for tensors that are not what the kernel takes.
#pragma once

#include <limits>

#include "tilewright/binding.hpp"
#include "tilewright/gemm/args.h"

namespace tilewright::gemm {

// What a launcher finds in the addresses, which may change from call to call. The caller turns
// them into its own errors, or copies an operand.
enum Status : int64_t {
  kMisaligned = -16,  // -16 a, -17 b, -18 c, -19 d, -20 bias: the address is not a multiple of 16
  kAliased = -32,     // -32 a, -33 b, -34 c, -36 bias, -37 scale_a, -38 scale_b: d overlaps it, or lies
                      // among its elements so that it may (c may be d itself)
};

constexpr int64_t kTmaBytes = 16;

struct Options {
  bool a_k_major, b_k_major;
  int32_t raster, swizzle, decomposition, splits, reduction, sm_count;
  DLDataType a, b, d;

  explicit Options(ffi::Array<int64_t> const& values) {
    if (values.size() != 11) {
      TVM_FFI_THROW(ValueError) << "options holds " << values.size() << " numbers; 11 are wanted";
    }
    a_k_major = values[0] != 0;
    b_k_major = values[1] != 0;
    raster = static_cast<int32_t>(values[2]);
    swizzle = static_cast<int32_t>(values[3]);
    decomposition = static_cast<int32_t>(values[4]);
    splits = static_cast<int32_t>(values[5]);
    reduction = static_cast<int32_t>(values[6]);
    sm_count = static_cast<int32_t>(values[7]);
    a = type(values[8]);
    b = type(values[9]);
    d = type(values[10]);
  }

  static DLDataType type(int64_t number) {
    return {static_cast<uint8_t>(number >> 8), static_cast<uint8_t>(number & 255), 1};
  }

  tilewright_gemm_args arguments() const {
    tilewright_gemm_args args{};
    args.alpha = 1.0f;
    args.raster = raster;
    args.swizzle = swizzle;
    args.decomposition = decomposition;
    args.splits = splits;
    args.reduction = reduction;
    args.sm_count = sm_count;
    return args;
  }
};

inline int32_t extent(int64_t value, char const* what) {
  if (value < 0 || value > std::numeric_limits<int32_t>::max()) {
    TVM_FFI_THROW(ValueError) << what << " is " << value << "; 0 to 2147483647 is wanted";
  }
  return static_cast<int32_t>(value);
}

// The arguments of a problem that has no tensors yet: matrices packed as their layouts say.
inline tilewright_gemm_args packed_arguments(ffi::Array<int64_t> const& sizes, Options const& options) {
  if (sizes.size() != 4) {
    TVM_FFI_THROW(ValueError) << "sizes holds " << sizes.size() << " numbers; (m, n, k, batch) are wanted";
  }
  tilewright_gemm_args args = options.arguments();
  args.m = extent(sizes[0], "m");
  args.n = extent(sizes[1], "n");
  args.k = extent(sizes[2], "k");
  args.batch = extent(sizes[3], "batch");
  args.ld_a = options.a_k_major ? args.k : args.m;
  args.ld_b = options.b_k_major ? args.k : args.n;
  args.ld_c = args.ld_d = args.n;
  args.batch_stride_a = int64_t(args.m) * args.k;
  args.batch_stride_b = int64_t(args.n) * args.k;
  args.batch_stride_c = args.batch_stride_d = int64_t(args.m) * args.n;
  return args;
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

inline float const* scale_of(DLTensor const* tensor, DLTensor const& d, char const* what) {
  if (tensor == nullptr) {
    return nullptr;
  }
  check_device(*tensor, d, what);
  if (element_count(*tensor) != 1 || tensor->dtype.code != kDLFloat || tensor->dtype.bits != 32) {
    TVM_FFI_THROW(ValueError) << what << " is not one float32";
  }
  return reinterpret_cast<float const*>(address(*tensor));
}

// One call of a launcher.
inline int64_t launch(tilewright_kernel const& kernel, Options const& options, ffi::PackedArgs const& packed) {
  if (packed.size() != 10) {
    TVM_FFI_THROW(TypeError) << "a gemm launcher takes 10 arguments, not " << packed.size();
  }
  DLTensor const& a = tensor_of(packed[0], "a");
  DLTensor const& b = tensor_of(packed[1], "b");
  DLTensor const* c = tensor_or_null(packed[2], "c");
  DLTensor const& d = tensor_of(packed[3], "d");
  check_device(a, d, "a");
  check_device(b, d, "b");
  check_device(d, d, "d");
  check_type(a, options.a, "a");
  check_type(b, options.b, "b");
  check_type(d, options.d, "d");

  // b is [k, n]: it lies K-major where its rows are contiguous.
  Matrix const a_matrix(a, options.a_k_major, "a");
  Matrix const b_matrix(b, !options.b_k_major, "b");
  Matrix const d_matrix(d, true, "d");
  check_shape(a_matrix, d_matrix.batch, d_matrix.rows, a_matrix.columns, "a");
  check_shape(b_matrix, d_matrix.batch, a_matrix.columns, d_matrix.columns, "b");

  tilewright_gemm_args args = options.arguments();
  args.m = extent(d_matrix.rows, "m");
  args.n = extent(d_matrix.columns, "n");
  args.k = extent(a_matrix.columns, "k");
  args.batch = extent(d_matrix.batch, "batch");
  args.a = address(a);
  args.b = address(b);
  args.d = address(d);
  args.ld_a = a_matrix.leading;
  args.ld_b = b_matrix.leading;
  args.ld_d = d_matrix.leading;
  args.batch_stride_a = a_matrix.batch_stride;
  args.batch_stride_b = b_matrix.batch_stride;
  args.batch_stride_d = d_matrix.batch_stride;
  args.alpha = static_cast<float>(packed[7].cast<double>());
  args.beta = static_cast<float>(packed[8].cast<double>());

  if (c != nullptr) {
    check_device(*c, d, "c");
    check_type(*c, options.d, "c");
    Matrix const c_matrix(*c, true, "c");
    check_shape(c_matrix, d_matrix.batch, d_matrix.rows, d_matrix.columns, "c");
    args.c = address(*c);
    args.ld_c = c_matrix.leading;
    args.batch_stride_c = c_matrix.batch_stride;
  } else if (args.beta != 0.0f) {
    TVM_FFI_THROW(ValueError) << "beta is " << args.beta << " and c is None";
  }
  DLTensor const* bias = tensor_or_null(packed[4], "bias");
  if (bias != nullptr) {
    check_device(*bias, d, "bias");
    check_type(*bias, options.d, "bias");
    if (bias->ndim != 1 || bias->shape[0] != args.n || (args.n > 1 && stride(*bias, 0) != 1)) {
      TVM_FFI_THROW(ValueError) << "bias is not a contiguous vector of " << args.n << " elements";
    }
    args.bias = address(*bias);
  }
  DLTensor const* scale_a = tensor_or_null(packed[5], "scale_a");
  DLTensor const* scale_b = tensor_or_null(packed[6], "scale_b");
  args.scale_a = scale_of(scale_a, d, "scale_a");
  args.scale_b = scale_of(scale_b, d, "scale_b");

  DLTensor const* const operands[] = {&a, &b, c, &d, bias, scale_a, scale_b};
  for (int i = 0; i < 7; ++i) {
    DLTensor const* const operand = operands[i];
    if (operand == nullptr) {
      continue;
    }
    // The tensor maps want the operands' addresses aligned, vector loads the bias's.
    if (i < 5 && reinterpret_cast<uintptr_t>(address(*operand)) % kTmaBytes != 0) {
      return kMisaligned - i;
    }
    bool const in_place =
        operand == c && args.c == args.d && args.ld_c == args.ld_d && args.batch_stride_c == args.batch_stride_d;
    if (operand != &d && !in_place && overlap(*operand, d)) {
      return kAliased - i;
    }
  }
  // A launch that needs a workspace and is given none is the kernel's to refuse.
  bool const given = packed[9].type_index() != ffi::TypeIndex::kTVMFFINone;
  void* workspace = given ? workspace_of(packed[9], d, kernel.workspace_bytes(&args)) : nullptr;
  return kernel.launch(&args, workspace, current_stream(d.device));
}

inline ffi::Function launcher(KernelList const& list, ffi::String const& name, ffi::Array<int64_t> const& options) {
  return ffi::Function::FromPacked(
      [kernel = &list.find(name), parsed = Options(options)](ffi::PackedArgs args, ffi::Any* result) {
        *result = launch(*kernel, parsed, args);
      });
}

inline bool can_implement(KernelList const& list, ffi::String const& name, ffi::Array<int64_t> const& sizes,
                          ffi::Array<int64_t> const& options) {
  tilewright_gemm_args const args = packed_arguments(sizes, Options(options));
  return list.find(name).can_implement(&args) == TILEWRIGHT_OK;
}

inline int64_t workspace_bytes(KernelList const& list, ffi::String const& name, ffi::Array<int64_t> const& sizes,
                               ffi::Array<int64_t> const& options) {
  tilewright_gemm_args const args = packed_arguments(sizes, Options(options));
  return list.find(name).workspace_bytes(&args);
}

}  // namespace tilewright::gemm

// The whole of a module's table: KERNELS(X) applies X to the name of each kernel.
#define TILEWRIGHT_GEMM_TABLE(MODULE, KERNELS)                                                                    \
  KERNELS(TILEWRIGHT_DECLARE_KERNEL)                                                                              \
  static tilewright::KernelEntry const tilewright_entries[] = {KERNELS(TILEWRIGHT_KERNEL_ENTRY)};                 \
  static tilewright::KernelList const tilewright_list(#MODULE, tilewright_entries, sizeof(tilewright_gemm_args)); \
  TILEWRIGHT_EXPORT_TABLE(tilewright_list)                                                                        \
  static bool tilewright_can_implement(tvm::ffi::String const& name, tvm::ffi::Array<int64_t> const& sizes,       \
                                       tvm::ffi::Array<int64_t> const& options) {                                 \
    return tilewright::gemm::can_implement(tilewright_list, name, sizes, options);                                \
  }                                                                                                               \
  static int64_t tilewright_workspace_bytes(tvm::ffi::String const& name, tvm::ffi::Array<int64_t> const& sizes,  \
                                            tvm::ffi::Array<int64_t> const& options) {                            \
    return tilewright::gemm::workspace_bytes(tilewright_list, name, sizes, options);                              \
  }                                                                                                               \
  static tvm::ffi::Function tilewright_launcher(tvm::ffi::String const& name,                                     \
                                                tvm::ffi::Array<int64_t> const& options) {                        \
    return tilewright::gemm::launcher(tilewright_list, name, options);                                            \
  }                                                                                                               \
  TVM_FFI_DLL_EXPORT_TYPED_FUNC(can_implement, tilewright_can_implement)                                          \
  TVM_FFI_DLL_EXPORT_TYPED_FUNC(workspace_bytes, tilewright_workspace_bytes)                                      \
  TVM_FFI_DLL_EXPORT_TYPED_FUNC(launcher, tilewright_launcher)

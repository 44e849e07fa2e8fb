// Binds the kernels of a `blockscaled_gemm` module (see tilewright/matrix_binding.hpp for what a table exports).
//
//   launcher: (a, b, a_scale, b_scale, c, d, d_scale, alpha, d_global_scale, beta, workspace) -> int
//
// a is [m, bytes of k], its rows contiguous; b is [bytes of k, n], its columns contiguous; either may be of its
// format's type or uint8. Scale factors are contiguous, in the 128x4 layout, padding and all. Statuses count
// the operands in this order, from a to d_global_scale; c may be d itself. Options after the tactic:
// (format of a, of b, of d), numbers of `Format`.
#pragma once

#include "tilewright/blockscaled_gemm/args.h"
#include "tilewright/matrix_binding.hpp"

namespace tilewright::blockscaled_gemm {

enum class Format : int64_t {
  kNvfp4 = 0,
  kMxfp4 = 1,
  kMxfp8 = 2,  // of E4M3
  kMxfp8E5m2 = 3,
  kBf16 = 10,
  kF16 = 11,
  kF32 = 12,
};

inline bool scaled(Format format) { return format <= Format::kMxfp8E5m2; }
inline int64_t elements_per_byte(Format format) { return format <= Format::kMxfp4 ? 2 : 1; }
inline int64_t block(Format format) { return format == Format::kNvfp4 ? 16 : 32; }

// Bytes of the scale factors of one matrix with `rows` rows and `k` columns.
inline int64_t scale_bytes(Format format, int64_t rows, int64_t k) {
  auto const round_up = [](int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; };
  return round_up(rows, 128) * round_up((k + block(format) - 1) / block(format), 4);
}

// Throws TypeError unless a tensor's type is the format's own, or uint8 for a format of bytes.
inline void check_format(DLTensor const& tensor, Format format, char const* what) {
  DLDataType const byte{kDLUInt, 8, 1};
  switch (format) {
    case Format::kBf16:
      return check_type(tensor, {kDLBfloat, 16, 1}, what);
    case Format::kF16:
      return check_type(tensor, {kDLFloat, 16, 1}, what);
    case Format::kF32:
      return check_type(tensor, {kDLFloat, 32, 1}, what);
    case Format::kMxfp8:
      return same_type(tensor.dtype, byte) ? void() : check_type(tensor, {kDLFloat8_e4m3fn, 8, 1}, what);
    case Format::kMxfp8E5m2:
      return same_type(tensor.dtype, byte) ? void() : check_type(tensor, {kDLFloat8_e5m2, 8, 1}, what);
    default:
      return same_type(tensor.dtype, byte) ? void() : check_type(tensor, {kDLFloat4_e2m1fn, 4, 2}, what);
  }
}

// The address of the scale factors of `batch` matrices.
inline char* scales_of(DLTensor const& tensor, DLTensor const& d, Format format, int64_t batch, int64_t rows, int64_t k,
                       char const* what) {
  check_device(tensor, d, what);
  DLDataType const own =
      format == Format::kNvfp4 ? DLDataType{kDLFloat8_e4m3fn, 8, 1} : DLDataType{kDLFloat8_e8m0fnu, 8, 1};
  if (!same_type(tensor.dtype, {kDLUInt, 8, 1})) {
    check_type(tensor, own, what);
  }
  int64_t const wanted = batch * scale_bytes(format, rows, k);
  if (element_count(tensor) != wanted || span_bytes(tensor) != wanted) {
    TVM_FFI_THROW(ValueError) << what << " holds " << element_count(tensor) << " scale factors in "
                              << span_bytes(tensor) << " bytes; " << wanted
                              << " contiguous ones (rows padded to 128, columns to 4) are wanted";
  }
  return address(tensor);
}

struct Binding {
  using Args = tilewright_blockscaled_gemm_args;

  struct Options {
    tilewright_tactic tactic;
    Format a, b, d;

    explicit Options(ffi::Array<int64_t> const& values)
        : tactic(tactic_of(values, 3)),
          a(Format(int64_t(values[kTacticNumbers]))),
          b(Format(int64_t(values[kTacticNumbers + 1]))),
          d(Format(int64_t(values[kTacticNumbers + 2]))) {}
  };

  // The arguments of a problem that has no tensors yet: packed matrices.
  static Args packed(ffi::Array<int64_t> const& sizes, Options const& options) {
    Args args{};
    args.tactic = options.tactic;
    set_sizes(args, sizes);
    args.ld_a = args.ld_b = args.k;
    args.ld_c = args.ld_d = args.n;
    args.batch_stride_a = int64_t(args.m) * args.k;
    args.batch_stride_b = int64_t(args.n) * args.k;
    args.batch_stride_c = args.batch_stride_d = int64_t(args.m) * args.n;
    return args;
  }

  // One call of a launcher.
  static int64_t launch(tilewright_kernel const& kernel, Options const& options, ffi::PackedArgs const& packed) {
    if (packed.size() != 11) {
      TVM_FFI_THROW(TypeError) << "a blockscaled_gemm launcher takes 11 arguments, not " << packed.size();
    }
    DLTensor const& a = tensor_of(packed[0], "a");
    DLTensor const& b = tensor_of(packed[1], "b");
    DLTensor const& a_scale = tensor_of(packed[2], "a_scale");
    DLTensor const& b_scale = tensor_of(packed[3], "b_scale");
    DLTensor const* c = tensor_or_null(packed[4], "c");
    DLTensor const& d = tensor_of(packed[5], "d");
    DLTensor const* d_scale = tensor_or_null(packed[6], "d_scale");
    DLTensor const* alpha = tensor_or_null(packed[7], "alpha");
    DLTensor const* d_global_scale = tensor_or_null(packed[8], "d_global_scale");
    check_device(a, d, "a");
    check_device(b, d, "b");
    check_device(d, d, "d");
    check_format(a, options.a, "a");
    check_format(b, options.b, "b");
    check_format(d, options.d, "d");

    int64_t const per_a = elements_per_byte(options.a), per_b = elements_per_byte(options.b);
    int64_t const per_d = scaled(options.d) ? elements_per_byte(options.d) : 1;
    Matrix const a_matrix(a, true, "a");
    Matrix const b_matrix(b, false, "b");
    Matrix const d_matrix(d, true, "d");
    int64_t const k = a_matrix.columns * per_a, n = d_matrix.columns * per_d;
    check_shape(a_matrix, d_matrix.batch, d_matrix.rows, a_matrix.columns, "a");
    check_shape(b_matrix, d_matrix.batch, k / per_b, n, "b");

    Args args{};
    args.tactic = options.tactic;
    args.m = extent(d_matrix.rows, "m");
    args.n = extent(n, "n");
    args.k = extent(k, "k");
    args.batch = extent(d_matrix.batch, "batch");
    args.a = address(a);
    args.b = address(b);
    args.d = address(d);
    args.scale_a = scales_of(a_scale, d, options.a, a_matrix.batch, args.m, k, "a_scale");
    args.scale_b = scales_of(b_scale, d, options.b, b_matrix.batch, args.n, k, "b_scale");
    if (a_matrix.batch != d_matrix.batch || b_matrix.batch != d_matrix.batch) {
      TVM_FFI_THROW(ValueError) << "a, b and d have batches of " << a_matrix.batch << ", " << b_matrix.batch << " and "
                                << d_matrix.batch << "; equal ones are wanted";
    }
    args.ld_a = a_matrix.leading * per_a;
    args.ld_b = b_matrix.leading * per_b;
    args.ld_d = d_matrix.leading * per_d;
    args.batch_stride_a = a_matrix.batch_stride * per_a;
    args.batch_stride_b = b_matrix.batch_stride * per_b;
    args.batch_stride_d = d_matrix.batch_stride * per_d;
    args.alpha = scalar_of(alpha, d, "alpha");
    args.beta = static_cast<float>(packed[9].cast<double>());

    if (scaled(options.d) != (d_scale != nullptr)) {
      TVM_FFI_THROW(ValueError) << "d_scale goes with a quantised d, and with no other";
    }
    if (d_scale != nullptr) {
      args.scale_d = scales_of(*d_scale, d, options.d, args.batch, args.m, n, "d_scale");
      if (d_global_scale == nullptr) {  // the epilogue reads it, whatever the format
        TVM_FFI_THROW(TypeError) << "d_global_scale is None; a quantised d wants one float32";
      }
      args.scale_d_global = scalar_of(d_global_scale, d, "d_global_scale");
    }
    if (c != nullptr) {
      check_device(*c, d, "c");
      check_type(*c, scaled(options.d) ? DLDataType{kDLBfloat, 16, 1} : d.dtype, "c");
      Matrix const c_matrix(*c, true, "c");
      check_shape(c_matrix, d_matrix.batch, d_matrix.rows, n, "c");
      args.c = address(*c);
      args.ld_c = c_matrix.leading;
      args.batch_stride_c = c_matrix.batch_stride;
    } else if (args.beta != 0.0f) {
      TVM_FFI_THROW(ValueError) << "beta is " << args.beta << " and c is None";
    }

    bool const in_place = args.c == args.d && args.ld_c == args.ld_d && args.batch_stride_c == args.batch_stride_d;
    // The tensor maps want the addresses aligned.
    int64_t const status = check_addresses({{&a, kTmaBytes, false},
                                            {&b, kTmaBytes, false},
                                            {&a_scale, kTmaBytes, false},
                                            {&b_scale, kTmaBytes, false},
                                            {c, kTmaBytes, in_place},
                                            {&d, kTmaBytes, false},
                                            {d_scale, kTmaBytes, false},
                                            {alpha, 1, false},
                                            {d_global_scale, 1, false}},
                                           d);
    return status != 0 ? status : launch_with(kernel, &args, packed[10], d);
  }
};

}  // namespace tilewright::blockscaled_gemm

#define TILEWRIGHT_BLOCKSCALED_GEMM_TABLE(MODULE, KERNELS) \
  TILEWRIGHT_MATRIX_TABLE(MODULE, KERNELS, tilewright::blockscaled_gemm::Binding)

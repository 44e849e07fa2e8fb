// Binds the kernels of a `gemm` module (see tilewright/matrix_binding.hpp for what a table exports).
//
//   launcher: (a, b, c, d, bias, scale_a, scale_b, alpha, beta, workspace) -> int
//
// Statuses count the operands in this order, from a to scale_b; c may be d itself. Options after the
// tactic: (a_k_major, b_k_major, type of a, of b, of d), where a type is its DLPack code * 256 + its bits;
// c and bias are of d's.
#pragma once

#include "tilewright/gemm/args.h"
#include "tilewright/matrix_binding.hpp"

namespace tilewright::gemm {

struct Binding {
  using Args = tilewright_gemm_args;

  struct Options {
    tilewright_tactic tactic;
    bool a_k_major, b_k_major;
    DLDataType a, b, d;

    explicit Options(ffi::Array<int64_t> const& values) : tactic(tactic_of(values, 5)) {
      a_k_major = values[kTacticNumbers] != 0;
      b_k_major = values[kTacticNumbers + 1] != 0;
      a = type(values[kTacticNumbers + 2]);
      b = type(values[kTacticNumbers + 3]);
      d = type(values[kTacticNumbers + 4]);
    }

    static DLDataType type(int64_t number) {
      return {static_cast<uint8_t>(number >> 8), static_cast<uint8_t>(number & 255), 1};
    }

    tilewright_gemm_args arguments() const {
      tilewright_gemm_args args{};
      args.alpha = 1.0f;
      args.tactic = tactic;
      return args;
    }
  };

  // The arguments of a problem that has no tensors yet: matrices packed as their layouts say.
  static Args packed(ffi::Array<int64_t> const& sizes, Options const& options) {
    Args args = options.arguments();
    set_sizes(args, sizes);
    args.ld_a = options.a_k_major ? args.k : args.m;
    args.ld_b = options.b_k_major ? args.k : args.n;
    args.ld_c = args.ld_d = args.n;
    args.batch_stride_a = int64_t(args.m) * args.k;
    args.batch_stride_b = int64_t(args.n) * args.k;
    args.batch_stride_c = args.batch_stride_d = int64_t(args.m) * args.n;
    return args;
  }

  // One call of a launcher.
  static int64_t launch(tilewright_kernel const& kernel, Options const& options, ffi::PackedArgs const& packed) {
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
    args.scale_a = scalar_of(scale_a, d, "scale_a");
    args.scale_b = scalar_of(scale_b, d, "scale_b");

    bool const in_place = args.c == args.d && args.ld_c == args.ld_d && args.batch_stride_c == args.batch_stride_d;
    // The tensor maps want the operands' addresses aligned, vector loads the bias's.
    int64_t const status = check_addresses({{&a, kTmaBytes, false},
                                            {&b, kTmaBytes, false},
                                            {c, kTmaBytes, in_place},
                                            {&d, kTmaBytes, false},
                                            {bias, kTmaBytes, false},
                                            {scale_a, 1, false},
                                            {scale_b, 1, false}},
                                           d);
    return status != 0 ? status : launch_with(kernel, &args, packed[9], d);
  }
};

}  // namespace tilewright::gemm

#define TILEWRIGHT_GEMM_TABLE(MODULE, KERNELS) TILEWRIGHT_MATRIX_TABLE(MODULE, KERNELS, tilewright::gemm::Binding)

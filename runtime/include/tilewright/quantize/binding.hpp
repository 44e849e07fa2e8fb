// Binds the kernels of a `quantize` module (see tilewright/matrix_binding.hpp for what a table exports).
//
//   launcher: (x, weight, global_scale, rows_valid, data, scales, epsilon, workspace) -> int
//
// x is [m, k] or [groups, m, k], its rows contiguous (and 2k wide for a kernel that multiplies two halves); data
// likewise, of its format's type or uint8, FP4 two to a byte. Scales are contiguous with their padding, or, in the
// layouts M_MAJOR and PACKED, [.., m, columns] with strides (.., 1, ld), the padding behind m in the storage.
// Statuses count the operands in this order, from x to scales. Sizes are (m, k, groups); options (sm_count,
// blocks_per_sm, layout, type of x, format, whether there is a global scale for each row, whether the kernel
// dequantises), numbers of `tilewright_scale_layout`, `Number` and `Format`. One that dequantises takes the same and
// writes x. Of two tensors that are written, kAliased is of data; kScalesAliased says the same of scales.
#pragma once

#include "tilewright/matrix_binding.hpp"
#include "tilewright/quantize/args.h"

namespace tilewright::quantize {

enum class Format : int64_t {
  kNvfp4 = 0,
  kMxfp4 = 1,
  kMxfp8 = 2,  // of E4M3
  kMxfp8E5m2 = 3,
  kFp8Rows = 4,     // E4M3 in blocks of 1x128
  kFp8Squares = 5,  // E4M3 in blocks of 128x128
};

enum class Number : int64_t { kBf16 = 10, kF16 = 11, kF32 = 12, kE4m3 = 13 };

constexpr size_t kOptions = 7;
constexpr int64_t kScalesAliased = kAliased - 6;  // - i: the scales overlap operand i of six

inline bool byte_scales(Format format) { return format <= Format::kMxfp8E5m2; }
inline int64_t elements_per_byte(Format format) { return format <= Format::kMxfp4 ? 2 : 1; }
inline int64_t block(Format format) { return format == Format::kNvfp4 ? 16 : byte_scales(format) ? 32 : 128; }

// Bytes of which the address of data is a multiple: what a thread stores of 16 elements, or of 8 floats.
inline int64_t data_alignment(Format format, Number x) {
  return (x == Number::kF32 ? 8 : 16) / elements_per_byte(format);
}

inline void check_number(DLTensor const& tensor, Number number, char const* what) {
  switch (number) {
    case Number::kBf16:
      return check_type(tensor, {kDLBfloat, 16, 1}, what);
    case Number::kF16:
      return check_type(tensor, {kDLFloat, 16, 1}, what);
    case Number::kF32:
      return check_type(tensor, {kDLFloat, 32, 1}, what);
    default:
      return check_type(tensor, {kDLFloat8_e4m3fn, 8, 1}, what);
  }
}

// Throws TypeError unless a tensor is of bytes, or of the type itself.
inline void check_bytes(DLTensor const& tensor, DLDataType own, char const* what) {
  if (!same_type(tensor.dtype, {kDLUInt, 8, 1})) {
    check_type(tensor, own, what);
  }
}

inline DLDataType data_type(Format format) {
  switch (format) {
    case Format::kNvfp4:
    case Format::kMxfp4:
      return {kDLFloat4_e2m1fn, 4, 2};
    case Format::kMxfp8E5m2:
      return {kDLFloat8_e5m2, 8, 1};
    default:
      return {kDLFloat8_e4m3fn, 8, 1};
  }
}

// Throws ValueError unless a tensor holds so many elements without gaps.
inline void check_packed(DLTensor const& tensor, int64_t wanted, char const* what) {
  if (element_count(tensor) != wanted || span_bytes(tensor) != wanted * element_bytes(tensor)) {
    TVM_FFI_THROW(ValueError) << what << " holds " << element_count(tensor) << " elements in " << span_bytes(tensor)
                              << " bytes; " << wanted << " contiguous ones are wanted";
  }
}

struct Binding {
  using Args = tilewright_quantize_args;

  struct Options {
    int32_t sm_count, blocks_per_sm, layout;
    Number x;
    Format format;
    bool scale_per_row, back;

    explicit Options(ffi::Array<int64_t> const& values) {
      if (values.size() != kOptions) {
        TVM_FFI_THROW(ValueError) << "options holds " << values.size() << " numbers; " << kOptions << " are wanted";
      }
      sm_count = extent(values[0], "sm_count");
      blocks_per_sm = extent(values[1], "blocks_per_sm");
      layout = extent(values[2], "layout");
      x = Number(int64_t(values[3]));
      format = Format(int64_t(values[4]));
      scale_per_row = values[5] != 0;
      back = values[6] != 0;
    }

    void set(Args& args) const {
      args.sm_count = sm_count;
      args.blocks_per_sm = blocks_per_sm;
      args.layout = layout;
      args.scale_per_row = scale_per_row;
    }

    bool m_major() const { return layout == TILEWRIGHT_SCALES_M_MAJOR || layout == TILEWRIGHT_SCALES_PACKED; }
  };

  // The arguments of a problem that has no tensors yet: packed matrices.
  static Args packed(ffi::Array<int64_t> const& sizes, Options const& options) {
    if (sizes.size() != 3) {
      TVM_FFI_THROW(ValueError) << "sizes holds " << sizes.size() << " numbers; (m, k, groups) are wanted";
    }
    Args args{};
    options.set(args);
    args.m = extent(sizes[0], "m");
    args.k = extent(sizes[1], "k");
    args.groups = extent(sizes[2], "groups");
    args.ld_x = args.ld_data = args.k;
    args.group_stride_x = args.group_stride_data = int64_t(args.m) * args.k;
    args.ld_scales = round_up(args.m, 4);
    return args;
  }

  // One call of a launcher.
  static int64_t launch(tilewright_kernel const& kernel, Options const& options, ffi::PackedArgs const& given) {
    if (given.size() != 8) {
      TVM_FFI_THROW(TypeError) << "a quantize launcher takes 8 arguments, not " << given.size();
    }
    DLTensor const& x = tensor_of(given[0], "x");
    DLTensor const* weight = tensor_or_null(given[1], "weight");
    DLTensor const* global_scale = tensor_or_null(given[2], "global_scale");
    DLTensor const* rows_valid = tensor_or_null(given[3], "rows_valid");
    DLTensor const& data = tensor_of(given[4], "data");
    DLTensor const& scales = tensor_of(given[5], "scales");
    check_device(x, data, "x");
    check_device(data, data, "data");
    check_device(scales, data, "scales");
    check_number(x, options.x, "x");
    check_bytes(data, data_type(options.format), "data");

    Matrix const x_matrix(x, true, "x");
    Matrix const data_matrix(data, true, "data");
    int64_t const per_byte = elements_per_byte(options.format), k = data_matrix.columns * per_byte;
    int64_t const parts = x_matrix.columns == 2 * k ? 2 : 1;
    check_groups(x_matrix, data_matrix.batch, data_matrix.rows, parts * k);

    Args args{};
    options.set(args);
    args.m = extent(data_matrix.rows, "m");
    args.k = extent(k, "k");
    args.groups = extent(data_matrix.batch, "groups");
    args.x_parts = static_cast<int32_t>(parts);
    args.x = address(x);
    args.data = address(data);
    args.scales = address(scales);
    args.ld_x = x_matrix.leading;
    args.ld_data = data_matrix.leading * per_byte;
    args.group_stride_x = x_matrix.batch_stride;
    args.group_stride_data = data_matrix.batch_stride * per_byte;
    args.epsilon = static_cast<float>(given[6].cast<double>());
    check_scales(scales, options, args);
    if (weight != nullptr) {
      check_device(*weight, data, "weight");
      check_number(*weight, options.x, "weight");
      check_packed(*weight, k, "weight");
      args.weight = address(*weight);
    }
    if (global_scale != nullptr) {
      check_device(*global_scale, data, "global_scale");
      check_type(*global_scale, {kDLFloat, 32, 1}, "global_scale");
      check_packed(*global_scale, options.scale_per_row ? int64_t(args.m) * args.groups : 1, "global_scale");
      args.global_scale = reinterpret_cast<float const*>(address(*global_scale));
    }
    if (rows_valid != nullptr) {
      check_device(*rows_valid, data, "rows_valid");
      check_type(*rows_valid, {kDLInt, 32, 1}, "rows_valid");
      check_packed(*rows_valid, args.groups, "rows_valid");
      args.rows_valid = reinterpret_cast<int32_t const*>(address(*rows_valid));
    }

    auto const check = [&](DLTensor const& written) {
      return check_addresses({{&x, kTmaBytes, false},
                              {weight, kTmaBytes, false},
                              {global_scale, 4, false},
                              {rows_valid, 4, false},
                              {&data, data_alignment(options.format, options.x), false},
                              {&scales, kTmaBytes, false}},
                             written);
    };
    int64_t status = check(options.back ? x : data);
    if (status == 0 && !options.back) {
      status = check(scales);
      status += status <= kAliased ? kScalesAliased - kAliased : 0;
    }
    if (status != 0) {
      return status;
    }
    return launch_with(kernel, &args, given[7], data);
  }

 private:
  static int64_t round_up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

  static void check_groups(Matrix const& x, int64_t groups, int64_t m, int64_t columns) {
    check_shape(x, groups, m, columns, "x");
    if (x.batch != groups) {
      TVM_FFI_THROW(ValueError) << "x has " << x.batch << " groups and data " << groups;
    }
  }

  // Type and extent of the scales; sets `ld_scales`.
  static void check_scales(DLTensor const& scales, Options const& options, Args& args) {
    int64_t const columns = (args.k + block(options.format) - 1) / block(options.format);
    if (byte_scales(options.format)) {
      check_bytes(
          scales,
          options.format == Format::kNvfp4 ? DLDataType{kDLFloat8_e4m3fn, 8, 1} : DLDataType{kDLFloat8_e8m0fnu, 8, 1},
          "scales");
      bool const linear = options.layout == TILEWRIGHT_SCALES_LINEAR;
      int64_t const rows = linear ? args.m : round_up(args.m, options.layout == TILEWRIGHT_SCALES_128X4 ? 128 : 8);
      return check_packed(scales, args.groups * rows * (linear ? columns : round_up(columns, 4)), "scales");
    }
    bool const words = options.layout == TILEWRIGHT_SCALES_PACKED;
    check_type(scales, words ? DLDataType{kDLInt, 32, 1} : DLDataType{kDLFloat, 32, 1}, "scales");
    if (!options.m_major()) {
      int64_t const rows = options.format == Format::kFp8Squares ? (args.m + 127) / 128 : args.m;
      return check_packed(scales, args.groups * rows * columns, "scales");
    }
    int64_t const wide = words ? (columns + 3) / 4 : columns;
    Matrix const matrix(scales, false, "scales");
    check_shape(matrix, args.groups, args.m, wide, "scales");
    args.ld_scales = wide > 1 ? matrix.leading : round_up(args.m, 4);
    if (args.groups > 1 && (matrix.batch != args.groups || matrix.batch_stride != wide * args.ld_scales)) {
      TVM_FFI_THROW(ValueError) << "scales has stride " << matrix.batch_stride << " between groups; "
                                << wide * args.ld_scales << " is wanted";
    }
  }
};

}  // namespace tilewright::quantize

#define TILEWRIGHT_QUANTIZE_TABLE(MODULE, KERNELS) \
  TILEWRIGHT_MATRIX_TABLE(MODULE, KERNELS, tilewright::quantize::Binding)

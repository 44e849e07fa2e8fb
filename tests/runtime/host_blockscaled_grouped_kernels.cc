// The kernels of `blockscaled_grouped_gemm` as the host computes them, in double.
#include "host_blockscaled_formats.hpp"
#include "tilewright/abi.h"
#include "tilewright/blockscaled_grouped_gemm/args.h"

namespace {

using Args = tilewright_blockscaled_grouped_gemm_args;

int first_row(Args const& args, int group) {
  if (args.grouping != TILEWRIGHT_BLOCKSCALED_GROUPING_ENDS || group == 0) {
    return 0;
  }
  return (args.group_ends[group - 1] + args.row_alignment - 1) / args.row_alignment * args.row_alignment;
}

// The group of a row of a matrix; -1 if it is padding.
int group_of(Args const& args, int matrix, int row) {
  if (args.grouping == TILEWRIGHT_BLOCKSCALED_GROUPING_ROWS_VALID) {
    return row < args.rows_valid[matrix] ? matrix : -1;
  }
  if (args.grouping == TILEWRIGHT_BLOCKSCALED_GROUPING_ROW_INDEX) {
    int const group = args.group_of_row[row];
    return group >= 0 && group < args.groups ? group : -1;
  }
  for (int group = 0; group < args.groups; ++group) {
    if (row >= first_row(args, group) && row < args.group_ends[group]) {
      return group;
    }
  }
  return -1;
}

// Whether a row stays as it is: one of 128 that all are padding.
bool stays(Args const& args, int matrix, int row) {
  bool counts = args.zero_padding != 0 || args.row_alignment % 128 != 0;
  for (int other = row / 128 * 128; other < row / 128 * 128 + 128 && other < args.m; ++other) {
    counts = counts || group_of(args, matrix, other) >= 0;
  }
  return !counts;
}

template <class A, class B, class Output>
struct Kernel {
  // FP4 beside FP8 is read 128 elements at a time.
  static constexpr int64_t kOfB = B::kBits < A::kBits ? 128 : 128 / B::kBits;

  static int32_t can_implement(void const* opaque) {
    auto const& args = *static_cast<Args const*>(opaque);
    bool const fits = args.k % kOfB == 0 && args.ld_b % kOfB == 0 && args.batch_stride_b % kOfB == 0;
    return fits ? TILEWRIGHT_OK : TILEWRIGHT_NOT_SUPPORTED;
  }

  static int64_t workspace_bytes(void const*) { return 0; }

  static int32_t launch(void const* opaque, void*, void*) {
    auto const& args = *static_cast<Args const*>(opaque);
    int const matrices = args.grouping == TILEWRIGHT_BLOCKSCALED_GROUPING_ROWS_VALID ? args.groups : 1;
    for (int matrix = 0; matrix < matrices; ++matrix) {
      for (int row = 0; row < args.m; ++row) {
        if (!stays(args, matrix, row)) {
          compute(args, matrix, row, group_of(args, matrix, row));
        }
      }
    }
    return TILEWRIGHT_OK;
  }

 private:
  static void const* ahead(void const* data, int64_t bytes) { return static_cast<char const*>(data) + bytes; }

  static void compute(Args const& args, int matrix, int row, int group) {
    void const* const a = ahead(args.a, matrix * args.batch_stride_a * A::kBits / 8);
    void const* const b = ahead(args.b, group * args.batch_stride_b * B::kBits / 8);
    void const* const scale_a = ahead(args.scale_a, matrix * scales_of_a_matrix(args.m, args.k, A::kBlock));
    void const* const scale_b = ahead(args.scale_b, group * scales_of_a_matrix(args.n, args.k, B::kBlock));
    bool const moved = args.scale_begins != nullptr && group >= 0;
    int const scale_row = moved ? args.scale_begins[group] + row - first_row(args, group) : row;
    double const alpha = args.alpha != nullptr && group >= 0 ? args.alpha[group] : 1.0;
    for (int column = 0; column < args.n; ++column) {
      double sum = 0;
      for (int64_t k = 0; group >= 0 && k < args.k; ++k) {
        int const code = static_cast<uint8_t const*>(scale_a)[scale_at(scale_row, k / A::kBlock, args.k, A::kBlock)];
        sum += element<typename A::Element>(a, row * args.ld_a + k) * A::scale(code) *
               scaled<B>(b, scale_b, column, k, args.k, args.ld_b);
      }
      auto* const d = static_cast<Output*>(args.d) + matrix * args.batch_stride_d + row * args.ld_d;
      d[column] = Output::round(alpha * sum);
    }
  }
};

}  // namespace

#define HOST_KERNEL(NAME, ...)                                                                    \
  extern "C" __attribute__((visibility("default"))) tilewright_kernel const tilewright_##NAME = { \
      TILEWRIGHT_ABI_VERSION,                                                                     \
      sizeof(Args),                                                                               \
      256,                                                                                        \
      100000,                                                                                     \
      #NAME,                                                                                      \
      &Kernel<__VA_ARGS__>::can_implement,                                                        \
      &Kernel<__VA_ARGS__>::workspace_bytes,                                                      \
      &Kernel<__VA_ARGS__>::launch};

HOST_KERNEL(host_groups_nvfp4, Nvfp4, Nvfp4, Bf16)
HOST_KERNEL(host_groups_nvfp4_f32, Nvfp4, Nvfp4, F32)
HOST_KERNEL(host_groups_mxfp4, Mxfp4, Mxfp4, Bf16)
HOST_KERNEL(host_groups_mxfp8, Mxfp8, Mxfp8, Bf16)
HOST_KERNEL(host_groups_mxfp8_mxfp4, Mxfp8, Mxfp4, Bf16)
HOST_KERNEL(host_groups_e5m2_mxfp4, Mxfp8E5m2, Mxfp4, Bf16)

// The kernel of `reduced_gemm` as the host computes it, in double.
#include <cstring>

#include "tilewright/abi.h"
#include "tilewright/reduced_gemm/args.h"

namespace {

double load(void const* array, int64_t i, bool f32) {
  if (f32) {
    return static_cast<float const*>(array)[i];
  }
  uint32_t const wide = uint32_t(static_cast<uint16_t const*>(array)[i]) << 16;
  float out;
  std::memcpy(&out, &wide, sizeof(out));
  return out;
}

void store(void* array, int64_t i, bool f32, double value) {
  float const narrow = static_cast<float>(value);
  if (f32) {
    static_cast<float*>(array)[i] = narrow;
    return;
  }
  uint32_t wide;
  std::memcpy(&wide, &narrow, sizeof(wide));
  static_cast<uint16_t*>(array)[i] = static_cast<uint16_t>((wide + 0x7fff + ((wide >> 16) & 1)) >> 16);
}

int32_t launch(void const* opaque, void* workspace, void*) {
  auto const& args = *static_cast<tilewright_reduced_gemm_args const*>(opaque);
  if (workspace == nullptr) {
    return TILEWRIGHT_WORKSPACE_MISSING;
  }
  for (int64_t i = 0; i < args.m; ++i) {
    for (int64_t j = 0; j < args.n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < args.batch; ++l) {
        for (int64_t p = 0; p < args.k; ++p) {
          sum += load(args.a, l * args.batch_stride_a + i * args.ld_a + p, false) *
                 load(args.b, l * args.batch_stride_b + j * args.ld_b + p, false);
        }
      }
      double value = args.alpha * sum;
      if (args.beta != 0) {
        value += args.beta * load(args.c, i * args.ld_c + j, args.f32);
      }
      store(args.d, i * args.ld_d + j, args.f32, value);
    }
  }
  return TILEWRIGHT_OK;
}

int32_t can_implement(void const*) { return TILEWRIGHT_OK; }
int64_t workspace_bytes(void const* opaque) {
  auto const& args = *static_cast<tilewright_reduced_gemm_args const*>(opaque);
  return int64_t(args.m) * args.n * 4;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) tilewright_kernel const tilewright_host_reduced_gemm = {
    TILEWRIGHT_ABI_VERSION,
    sizeof(tilewright_reduced_gemm_args),
    384,
    0,
    "host_reduced_gemm",
    &can_implement,
    &workspace_bytes,
    &launch};

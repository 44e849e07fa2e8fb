// What the host of a gated kernel tells TMA and the kernel: see test_gated_host.py. This file is the driver that it
// asks.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tilewright/gemm/gated_host.hpp"

namespace {

using namespace tilewright;

CUresult encode(CUtensorMap* map, CUtensorMapDataType, cuuint32_t rank, void*, cuuint64_t const* extents,
                cuuint64_t const* strides, cuuint32_t const* box, cuuint32_t const*, CUtensorMapInterleave,
                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill) {
  // The map holds the text of what was asked for, as far as it has room; TMA's maps have 128 bytes.
  char text[512];
  int length = 0;
  for (cuuint32_t i = 0; i < rank; ++i) {
    length += std::snprintf(text + length, sizeof text - length, "%llu:%llu:%u ", (unsigned long long)extents[i],
                            i == 0 ? 0ull : (unsigned long long)strides[i - 1], box[i]);
  }
  std::snprintf(text + length, sizeof text - length, "%d %d", int(swizzle),
                promotion == CU_TENSOR_MAP_L2_PROMOTION_L2_256B ? 256 : 128);
  std::memset(map, 0, sizeof *map);
  std::strncpy(reinterpret_cast<char*>(map), text, sizeof *map - 1);
  return CUDA_SUCCESS;
}

void print(char const* name, CUtensorMap const& map) {
  std::printf("%s %s\n", name, reinterpret_cast<char const*>(&map));
}

}  // namespace

extern "C" cudaError_t cudaGetDriverEntryPointByVersion(char const*, void** entry, unsigned, unsigned long long,
                                                        cudaDriverEntryPointQueryResult* result) {
  *entry = reinterpret_cast<void*>(&encode);
  *result = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}

// The program launches nothing, so nobody asks these.
extern "C" {
cudaError_t cudaGetDevice(int*) { return cudaErrorNotSupported; }
cudaError_t cudaSetDevice(int) { return cudaErrorNotSupported; }
cudaError_t cudaGetLastError() { return cudaErrorNotSupported; }
cudaError_t cudaDeviceGetAttribute(int*, cudaDeviceAttr, int) { return cudaErrorNotSupported; }
cudaError_t cudaFuncSetAttribute(void const*, cudaFuncAttribute, int) { return cudaErrorNotSupported; }
cudaError_t cudaGetFuncBySymbol(cudaFunction_t*, void const*) { return cudaErrorNotSupported; }
cudaError_t cudaOccupancyMaxActiveClusters(int*, void const*, cudaLaunchConfig_t const*) {
  return cudaErrorNotSupported;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int*, void const*, int, size_t) {
  return cudaErrorNotSupported;
}
}

// tile_m tile_n swapped; m n k batch ld_d; cluster_m cluster_n splits split_k; beta activation; form, and bytes from a
// boundary of 16 to D, alpha, and what else is given: 1, 2 for scales, 4 for a bias.
int main(int, char** words) {
  auto const number = [&](int i) { return std::atoi(words[1 + i]); };
  gemm::lean::Facts facts{};
  facts.tile_m = number(0), facts.tile_n = number(1), facts.swapped = number(2) != 0, facts.tile_k = 64;
  facts.bytes = facts.bytes_d = 2, facts.vector_d = 8, facts.activation = sm90::kSiluMul, facts.boxes = true;
  facts.sums = number(14) != 0 ? 0 : 1;
  facts.epilogue_through_smem = facts.sums != 0, facts.addend_d = sm90::Addend(TILEWRIGHT_ADDEND_BF16);
  facts.box = {64, 16, CU_TENSOR_MAP_SWIZZLE_64B}, facts.shared_box = {32, 16, CU_TENSOR_MAP_SWIZZLE_32B};
  tilewright_gemm_args args{};
  args.m = number(3), args.n = number(4), args.k = number(5), args.batch = number(6);
  args.ld_a = args.ld_b = args.k, args.ld_d = number(7);
  args.batch_stride_a = int64_t(args.m) * args.k, args.batch_stride_b = int64_t(args.n) * args.k;
  args.batch_stride_d = int64_t(args.m) * args.ld_d;
  static float memory[8];
  args.d = reinterpret_cast<void*>(uintptr_t(4096 + number(15)));
  args.scale_a = number(17) & 1 ? memory : nullptr, args.scale_b = number(17) & 2 ? memory : nullptr;
  args.bias = number(17) & 4 ? memory : nullptr, args.type_bias = TILEWRIGHT_ADDEND_BF16;
  args.alpha = float(number(16)), args.beta = float(number(12)), args.activation = number(13);
  args.tactic.cluster_m = number(8), args.tactic.cluster_n = number(9), args.tactic.splits = number(10);
  args.tactic.swizzle = 1, args.tactic.sm_count = 132;
  if (number(11) != 0) {
    args.tactic.decomposition = TILEWRIGHT_DECOMPOSE_SPLIT_K;
  }
  gemm::gated::Maker const maker(facts, args);
  std::printf("takes %d\n", maker.can_implement() ? 1 : 0);
  gemm::lean::Params params{};
  if (!maker.can_implement() || maker.make_params(132, params) != cudaSuccess) {
    return 0;
  }
  print("pairs", facts.swapped ? params.a : params.b);
  print("other", facts.swapped ? params.b : params.a);
  print("d", params.d);
  std::printf("n %d boxes %d stage %d slices %d %d\n", params.epilogue.n, params.epilogue.n_boxes, params.stage_bytes,
              params.slices_a.rows, params.slices_b.rows);
  return 0;
}

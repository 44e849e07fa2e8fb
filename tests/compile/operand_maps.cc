// What L2 is told of two operands, by how they lie: see test_operand_maps.py. This file is the driver that it asks.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tilewright/gemm/lean_operands.hpp"

namespace {

CUtensorMapL2promotion promotions[2];
int encoded = 0;

CUresult encode(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, cuuint64_t const*, cuuint64_t const*,
                cuuint32_t const*, cuuint32_t const*, CUtensorMapInterleave, CUtensorMapSwizzle,
                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill) {
  promotions[encoded++] = promotion;
  return CUDA_SUCCESS;
}

struct Params : tilewright::sm90::ProductParams, tilewright::sm90::ProductMaps {};

}  // namespace

extern "C" cudaError_t cudaGetDriverEntryPointByVersion(char const*, void** entry, unsigned, unsigned long long,
                                                        cudaDriverEntryPointQueryResult* result) {
  *entry = reinterpret_cast<void*>(&encode);
  *result = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}

// Of either operand: batch, bytes from row to row and from matrix to matrix, MN-major or not, read again or not. Then
// whether memory has much more to write, and whether a lean kernel of `gemm` asks, which never says so.
// Prints of either whether L2 keeps it, and the bytes that it fetches at a time.
int main(int, char** words) {
  auto const number = [&](int i) { return std::atoi(words[1 + i]); };
  auto const matrices = [&](int i) {
    return tilewright::sm90::Matrices{nullptr, 1024, 64, number(i), number(i + 1), number(i + 2), number(i + 3) != 0};
  };
  Params params{};
  params.slices_a = params.slices_b = tilewright::sm90::Slices::of(64, 1);
  bool const a_again = number(4) != 0, b_again = number(9) != 0, writes = number(10) != 0, lean = number(11) != 0;
  cudaError_t const error =
      lean ? tilewright::gemm::lean::encode_lean_operands(params, matrices(0), matrices(5), a_again, b_again)
           : tilewright::sm90::encode_operands(params, matrices(0), matrices(5), a_again, b_again, writes);
  if (error != cudaSuccess || encoded != 2) {
    return 1;
  }
  for (int i = 0; i < 2; ++i) {
    bool const kept = (i == 0 ? params.policy_a : params.policy_b) == tilewright::sm90::kPolicyNormal;
    std::printf("%d %d\n", kept ? 1 : 0, promotions[i] == CU_TENSOR_MAP_L2_PROMOTION_L2_256B ? 256 : 128);
  }
  return 0;
}

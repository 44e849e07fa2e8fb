// What a launch tells a kernel of the two operands that it loads.
#pragma once

#include "tilewright/sm90/matrices.hpp"
#include "tilewright/sm90/product_params.hpp"

namespace tilewright::sm90 {

// An operand's map. Of what is read once (not `stays`), L2 fetches 128 bytes at a time: of 256, products of few rows
// took 4 to 7 % longer on an H200 (1x28672x4096 59.8 us for 56.9, 16x4096x7168 17.6 for 16.7). Measured; why is not
// known.
inline cudaError_t encode_operand(CUtensorMap& map, Matrices const& matrices, Slices const& slices, bool stays) {
  return encode_matrices(map, matrices, 128, slices.rows, CU_TENSOR_MAP_SWIZZLE_128B, 1, false,
                         stays ? CU_TENSOR_MAP_L2_PROMOTION_L2_256B : CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
}

// Sets `a`, `b`, `one_a`, `one_b`, `policy_a` and `policy_b` of a kernel's parameters, by its slices, which are set.
// `a_again`: A is read by more than one tile that does not run beside the first; what is read once need not stay in L2,
// but for rows that lie between those of the batch's other matrices. Told that L2 may evict them first, products of 128
// heads took 10 % longer on an H200, with every tile (bhr,hdr->bhd of 4096 x 512 x 128: 207 us for 189): what it
// fetches for one box seems to be gone before the next box asks for it.
template <class Params>
cudaError_t encode_operands(Params& params, Matrices const& a, Matrices const& b, bool a_again, bool b_again) {
  bool const a_stays = a_again || a.interleaved(), b_stays = b_again || b.interleaved();
  params.one_a = a.one();
  params.one_b = b.one();
  params.policy_a = a_stays ? kPolicyNormal : kPolicyEvictFirst;
  params.policy_b = b_stays ? kPolicyNormal : kPolicyEvictFirst;
  cudaError_t const error = encode_operand(params.a, a, params.slices_a, a_stays);
  return error != cudaSuccess ? error : encode_operand(params.b, b, params.slices_b, b_stays);
}

}  // namespace tilewright::sm90

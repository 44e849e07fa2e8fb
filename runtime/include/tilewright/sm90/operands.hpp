// What a launch tells a kernel of the two operands that it loads.
#pragma once

#include "tilewright/sm90/matrices.hpp"
#include "tilewright/sm90/product_params.hpp"

namespace tilewright::sm90 {

// An operand's map, and how long L2 is to keep it. What is read once need not stay, and L2 fetches 128 bytes of it at a
// time: of 256, products of few rows took 4 to 7 % longer on an H200 (1x28672x4096 59.8 us for 56.9, 16x4096x7168 17.6
// for 16.7). So do operands that are both read again (300x5120x25600 122.1 us for 124.2, 640x3584x896 9.26 for 9.40,
// large products the same), but not one that is read again beside one that is read once (of 128 bytes 166x30336x640
// took 18.0 us for 17.2, 64x24576x1536 21.0 for 20.6). Rows that lie between those of the batch's other matrices stay,
// though: told that L2 may evict them first, products of 128 heads took 8 to 10 % longer, with every tile (bhr,hdr->bhd
// of 4096 x 512 x 128 198 us for 183). Of their k, which stages read one after the other, L2 fetches 256 bytes (128:
// 186 us); of their m or n, which boxes of one stage read side by side, 128 (bhd,bhr->hdr 165 us, for 176 with 256).
// Where memory has much more to write than to read, L2 fetches 256 of operands that are both read again (4096x32768x512
// of FP8 took 145.4 us for 160.7 with tiles of 256x128, 141.0 for 143.5 with 192x128). All measured; why is not known.
inline cudaError_t encode_operand(CUtensorMap& map, uint64_t& policy, Matrices const& matrices, Slices const& slices,
                                  bool again, bool other_again, bool writes) {
  bool const between = matrices.interleaved();
  bool const ahead = (again && (!other_again || writes)) || (between && !matrices.mn_major);
  policy = again || between ? kPolicyNormal : kPolicyEvictFirst;
  return encode_matrices(map, matrices, 128, slices.rows, CU_TENSOR_MAP_SWIZZLE_128B, 1, false,
                         ahead ? CU_TENSOR_MAP_L2_PROMOTION_L2_256B : CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
}

// Sets `a`, `b`, `one_a`, `one_b`, `policy_a` and `policy_b` of a kernel's parameters, by its slices, which are set.
// `a_again`: A is read by more than one tile that does not run beside the first. `writes`: memory has much more to
// write than to read.
template <class Params>
cudaError_t encode_operands(Params& params, Matrices const& a, Matrices const& b, bool a_again, bool b_again,
                            bool writes = false) {
  params.one_a = a.one();
  params.one_b = b.one();
  cudaError_t const error = encode_operand(params.a, params.policy_a, a, params.slices_a, a_again, b_again, writes);
  return error != cudaSuccess ? error
                              : encode_operand(params.b, params.policy_b, b, params.slices_b, b_again, a_again, writes);
}

}  // namespace tilewright::sm90

// The host sets the parameters of a kernel that describe its two operands: tensor maps and L2 policies.
#pragma once

#include "tilewright/sm90/matrices.hpp"
#include "tilewright/sm90/product_params.hpp"

namespace tilewright::sm90 {

// Sets an operand's tensor map and its L2 policy: whether L2 evicts its lines first, and whether a miss fetches 128 or
// 256 bytes. `again`, `other_again`: this and the other operand are read again later. `writes`: see encode_operands.
// All choices were measured on an H200. The mechanisms are not known.
//
// | operand | L2 fetches | measured | us | us with the other size |
// |---|---|---|---|---|
// | read once | 128 | 1x28672x4096 | 56.9 | 59.8 |
// | read once | 128 | 16x4096x7168 | 16.7 | 17.6 |
// | both are read again | 128 | 300x5120x25600 | 122.1 | 124.2 |
// | both are read again | 128 | 640x3584x896 | 9.26 | 9.40 |
// | read again, the other once | 256 | 166x30336x640 | 17.2 | 18.0 |
// | read again, the other once | 256 | 64x24576x1536 | 20.6 | 21.0 |
// | both are read again, much more is written | 256 | FP8 4096x32768x512, tiles of 256x128 | 145.4 | 160.7 |
// | both are read again, much more is written | 256 | the same, tiles of 192x128 | 141.0 | 143.5 |
// | rows between other matrices' rows, k-major: stages read k in order | 256 | bhr,hdr->bhd | 183 | 186 |
// | the same, MN-major: boxes of one stage lie side by side | 128 | bhd,bhr->hdr | 165 | 176 |
//
// Operands that are read once are evicted first, except rows that lie between the rows of the batch's other matrices:
// evicted first, products of 128 heads took 8 to 10 % longer with every tile (bhr,hdr->bhd of 4096 x 512 x 128: 198 us
// instead of 183).
inline cudaError_t encode_operand(CUtensorMap& map, uint64_t& policy, Matrices const& matrices, Slices const& slices,
                                  bool again, bool other_again, bool writes) {
  bool const between = matrices.interleaved();
  bool const ahead = (again && (!other_again || writes)) || (between && !matrices.mn_major);
  policy = again || between ? kPolicyNormal : kPolicyEvictFirst;
  return encode_matrices(map, matrices, 128, slices.rows, CU_TENSOR_MAP_SWIZZLE_128B, 1, false,
                         ahead ? CU_TENSOR_MAP_L2_PROMOTION_L2_256B : CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
}

// Sets `a`, `b`, `broadcast_a`, `broadcast_b`, `policy_a` and `policy_b` of a kernel's parameters, whose slices are set
// already. `a_again`: tiles that do not run at the same time read the same rows of A. `writes`: the product writes much
// more memory than it reads.
template <class Params>
cudaError_t encode_operands(Params& params, Matrices const& a, Matrices const& b, bool a_again, bool b_again,
                            bool writes = false) {
  params.broadcast_a = a.one();
  params.broadcast_b = b.one();
  cudaError_t const error = encode_operand(params.a, params.policy_a, a, params.slices_a, a_again, b_again, writes);
  return error != cudaSuccess ? error
                              : encode_operand(params.b, params.policy_b, b, params.slices_b, b_again, a_again, writes);
}

}  // namespace tilewright::sm90

// What a launch tells a kernel of the two operands that it loads.
#pragma once

#include "tilewright/sm90/matrices.hpp"
#include "tilewright/sm90/product_params.hpp"

namespace tilewright::sm90 {

// Sets `a`, `b`, `one_a`, `one_b`, `policy_a` and `policy_b` of a kernel's parameters, by its slices, which are set.
// `a_again`: A is read by more than one tile that does not run beside the first; what is read once need not stay in L2.
template <class Params>
cudaError_t encode_operands(Params& params, Matrices const& a, Matrices const& b, bool a_again, bool b_again) {
  params.one_a = a.one();
  params.one_b = b.one();
  params.policy_a = a_again ? kPolicyNormal : kPolicyEvictFirst;
  params.policy_b = b_again ? kPolicyNormal : kPolicyEvictFirst;
  cudaError_t const error = encode_matrices(params.a, a, 128, params.slices_a.rows, CU_TENSOR_MAP_SWIZZLE_128B);
  return error != cudaSuccess ? error
                              : encode_matrices(params.b, b, 128, params.slices_b.rows, CU_TENSOR_MAP_SWIZZLE_128B);
}

}  // namespace tilewright::sm90

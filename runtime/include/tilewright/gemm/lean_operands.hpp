// The host sets the parameters of a lean `gemm` kernel that describe its two operands.
#pragma once

#include "tilewright/sm90/operands.hpp"

namespace tilewright::gemm::lean {

// As sm90::encode_operands, with one exception: of an operand whose rows do not begin at 128-byte lines, L2 never
// fetches 256 bytes at a time. The 128 bytes of a row that a box holds lie in two lines there, so up to four lines
// would be fetched. Times on an H200, us:
//
// | layout, m x n x k | tile, cluster | 128 bytes | 256 bytes |
// |---|---|---|---|
// | nt 8x16736x344 | 128x64 swapped | 8.5 | 10.3 |
// | tt 191x23968x584 | 128x96 swapped, 1x2 | 16.6 | 17.9 |
// | tn 147x4992x7336 | 128x160 swapped, three splits | 34.5 | 36.5 |
// | nn 312x7504x8136 | 192x128, 1x4 | 71.7 | 81.0 |
template <class Params>
cudaError_t encode_lean_operands(Params& params, sm90::Matrices const& a, sm90::Matrices const& b, bool a_again,
                                 bool b_again) {
  auto const encode = [](CUtensorMap& map, uint64_t& policy, sm90::Matrices const& matrices, sm90::Slices const& slices,
                         bool again, bool other_again) {
    bool const misaligned = matrices.row_stride % 128 != 0;
    return sm90::encode_operand(map, policy, matrices, slices, again, other_again || misaligned, false);
  };
  params.broadcast_a = a.one();
  params.broadcast_b = b.one();
  cudaError_t const error = encode(params.a, params.policy_a, a, params.slices_a, a_again, b_again);
  return error != cudaSuccess ? error : encode(params.b, params.policy_b, b, params.slices_b, b_again, a_again);
}

}  // namespace tilewright::gemm::lean

// The host code of lean `gemm` kernels with a gated activation, compiled once, in a module's table: that of lean
// kernels (lean_host.hpp), except for the operand whose rows are in pairs (sm90/gated.hpp), and D of half the columns.
#pragma once

#include <cstdint>

#include "tilewright/gemm/gated_params.hpp"
#include "tilewright/gemm/lean_host.hpp"
#include "tilewright/sm90/gated.hpp"

namespace tilewright::gemm::gated {

using Args = tilewright_gemm_args;

namespace {  // as in lean_host.hpp

// Checks a problem, makes the parameters of its launch, and launches it.
class Maker {
 public:
  Maker(lean::Facts const& facts, Args const& args) : facts_(facts), args_(args), lean_(facts, args) {}

  // The halves of B have whole groups of 8 rows, there is no C, and one cluster has all k ranges of a tile.
  bool can_implement() const {
    return lean_.can_implement() && args_.n % sm90::kPairedRows == 0 && args_.beta == 0.0f &&
           args_.activation == TILEWRIGHT_ACTIVATION_SILU && sm90::parts_of(args_.tactic) == 1;
  }

  // `at_once`: clusters that run at once.
  cudaError_t make_params(int at_once, lean::Params& params) const {
    cudaError_t error = lean_.make_params(at_once, nullptr, params);
    if (error == cudaSuccess) {
      error = facts_.swapped ? pair(params, params.a, params.slices_a, facts_.tile_m, params.policy_a, params.policy_b)
                             : pair(params, params.b, params.slices_b, facts_.tile_n, params.policy_b, params.policy_a);
    }
    params.epilogue.n /= 2;  // D's
    params.epilogue.n_boxes /= 2;
    return error != cudaSuccess ? error : lean_.encode_d(params);
  }

  cudaError_t enqueue(Context const& context, cudaStream_t stream) const {
    return lean_.enqueue<lean::Params>(
        context, stream, [this](int at_once, lean::Params& params) { return make_params(at_once, params); });
  }

 private:
  lean::Facts const& facts_;
  Args const& args_;
  lean::Maker const lean_;

  // Describes the operand whose rows are in pairs: a tile's multicast slices have whole pairs, and its map has a
  // dimension for the halves. L2 fetches as much at a time as for other operands (encode_lean_operands).
  cudaError_t pair(lean::Params& params, CUtensorMap& map, sm90::Slices& slices, int tile_rows, uint64_t policy,
                   uint64_t other_policy) const {
    constexpr int kRows = sm90::kPairedRows / 2;  // of each half
    int const row_bytes = facts_.tile_k * facts_.bytes;
    params.stage_bytes -= row_bytes * slices.loaded();
    slices = sm90::Slices::of(tile_rows / 2, slices.count, args_.n / 2);
    slices.rows *= 2;
    params.stage_bytes += row_bytes * slices.loaded();
    bool const one = args_.batch == 1 || args_.batch_stride_b == 0;
    auto const stride = cuuint64_t(args_.ld_b * facts_.bytes), half = stride * (args_.n / 2);
    bool const again = policy == sm90::kPolicyNormal, other_again = other_policy == sm90::kPolicyNormal;
    return sm90::encode_boxes<5>(
        map, CU_TENSOR_MAP_DATA_TYPE_UINT8, args_.b,
        {cuuint64_t(args_.k) * facts_.bytes, kRows, 2, cuuint64_t(args_.n / sm90::kPairedRows),
         cuuint64_t(one ? 1 : args_.batch)},
        {stride, half, stride * kRows, one ? 2 * half : cuuint64_t(args_.batch_stride_b * facts_.bytes)},
        {128, kRows, 2, cuuint32_t(slices.rows / sm90::kPairedRows), 1}, CU_TENSOR_MAP_SWIZZLE_128B,
        again && !other_again && stride % 128 == 0 ? CU_TENSOR_MAP_L2_PROMOTION_L2_256B
                                                   : CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
  }
};

// The `Host` (adapter.hpp) of a kernel with these facts.
struct Host {
  using Args = gated::Args;

  lean::Facts const& facts;

  bool can_implement(Args const& args) const { return Maker(facts, args).can_implement(); }

  int64_t workspace_bytes(Args const&) const { return 0; }

  cudaError_t enqueue(Context const& context, Args const& args, void*, cudaStream_t stream) const {
    return Maker(facts, args).enqueue(context, stream);
  }
};

}  // namespace

int32_t can_implement(lean::Facts const& facts, void const* args) {
  return Entries<Host>::can_implement({facts}, args);
}

int64_t workspace_bytes(lean::Facts const& facts, void const* args) {
  return Entries<Host>::workspace_bytes({facts}, args);
}

int32_t launch(lean::Facts const& facts, void const* args, void* workspace, void* stream) {
  return Entries<Host>::launch({facts}, args, workspace, stream);
}

}  // namespace tilewright::gemm::gated

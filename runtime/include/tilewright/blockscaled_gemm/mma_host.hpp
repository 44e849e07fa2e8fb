// The host code of `blockscaled_gemm` kernels of mma.sync (mma_params.hpp), compiled once, in a module's table. It asks
// the host code of lean `gemm` kernels for all that a product of bytes has too, and adds the scale factors.
#pragma once

#include <cstdint>

#include "tilewright/blockscaled_gemm/appended_args.h"
#include "tilewright/blockscaled_gemm/mma_params.hpp"
#include "tilewright/gemm/lean_host.hpp"

namespace tilewright::blockscaled_gemm::mma {

using Args = tilewright_blockscaled_gemm_appended_args;

namespace {

constexpr int kScaleRows = 128, kScaleColumns = 4, kAtomBytes = kScaleRows * kScaleColumns;  // of an atom

// Checks a problem, makes the parameters of its launch, and launches it.
class Maker {
 public:
  Maker(Facts const& facts, Args const& args)
      : facts_(facts), args_(args.base), as_bytes_(bytes_of(facts, args)), plain_(facts.bytes, as_bytes_) {}

  bool can_implement() const {
    tilewright_tactic const& tactic = args_.tactic;
    bool const alone = tactic.cluster_m <= 1 && tactic.cluster_n <= 1 &&
                       (tactic.splits == 1 || tactic.decomposition == TILEWRIGHT_DECOMPOSE_SPLIT_K);
    // The product counts bytes. Where the formats differ, the FP4 operand has half as many.
    bool const rows =
        fits(args_.ld_a, args_.batch_stride_a, own_a()) && fits(args_.ld_b, args_.batch_stride_b, own_b());
    bool const whole = args_.k % (8 / facts_.a.bits) == 0 && args_.k % (8 / facts_.b.bits) == 0;
    return alone && rows && whole && args_.scale_d == nullptr && plain_.can_implement();
  }

  int64_t workspace_bytes() const { return plain_.workspace_bytes(); }

  cudaError_t make_params(int at_once, void* workspace, Params& params) const {
    if (cudaError_t const error = plain_.make_params(at_once, workspace, params); error != cudaSuccess) {
      return error;
    }
    bool const swapped = facts_.bytes.swapped;
    int const rows = swapped ? args_.n : args_.m, columns = swapped ? args_.m : args_.n;
    params.row_blocks_a = sm90::ceil_div(rows, kScaleRows);
    params.row_blocks_b = sm90::ceil_div(columns, kScaleRows);
    params.stage_bytes = stage_bytes(facts_.a, params.slices_a) + stage_bytes(facts_.b, params.slices_b);
    void const* const scales_a = swapped ? args_.scale_b : args_.scale_a;
    void const* const scales_b = swapped ? args_.scale_a : args_.scale_b;
    cudaError_t error = encode_scales(params.scales_a, scales_a, facts_.a, params.row_blocks_a, params.broadcast_a);
    if (error == cudaSuccess) {
      error = encode_scales(params.scales_b, scales_b, facts_.b, params.row_blocks_b, params.broadcast_b);
    }
    if (error == cudaSuccess && facts_.a.row_bytes != kWideRow) {
      error = swapped ? encode(params.a, args_.b, rows, args_.ld_b, args_.batch_stride_b, facts_.a, params.slices_a)
                      : encode(params.a, args_.a, rows, args_.ld_a, args_.batch_stride_a, facts_.a, params.slices_a);
    }
    if (error == cudaSuccess && facts_.b.row_bytes != kWideRow) {
      error = swapped ? encode(params.b, args_.a, columns, args_.ld_a, args_.batch_stride_a, facts_.b, params.slices_b)
                      : encode(params.b, args_.b, columns, args_.ld_b, args_.batch_stride_b, facts_.b, params.slices_b);
    }
    return error;
  }

  cudaError_t enqueue(Context const& context, void* workspace, cudaStream_t stream) const {
    return plain_.enqueue<Params>(context, stream, [this, workspace](int at_once, Params& params) {
      return make_params(at_once, workspace, params);
    });
  }

 private:
  static constexpr int kWideRow = 128;  // bytes of a box's row that the product of bytes has

  Facts const& facts_;
  tilewright_blockscaled_gemm_args const& args_;
  tilewright_gemm_args const as_bytes_;
  gemm::lean::Maker const plain_;

  OperandFacts const& own_a() const { return facts_.bytes.swapped ? facts_.b : facts_.a; }  // of the caller's A
  OperandFacts const& own_b() const { return facts_.bytes.swapped ? facts_.a : facts_.b; }

  // The product of bytes. Extents and strides of elements of 8 bits are those of bytes; FP4 beside FP8 is encoded anew.
  static tilewright_gemm_args bytes_of(Facts const& facts, Args const& given) {
    tilewright_blockscaled_gemm_args const& args = given.base;
    int const per_byte = facts.a.bits == 4 && facts.b.bits == 4 ? 2 : 1;
    tilewright_gemm_args out{};
    out.m = args.m, out.n = args.n, out.batch = args.batch;
    out.k = sm90::ceil_div(args.k, per_byte);
    out.a = args.a, out.b = args.b, out.c = args.c, out.d = args.d;
    out.ld_a = args.ld_a / per_byte, out.ld_b = args.ld_b / per_byte, out.ld_c = args.ld_c, out.ld_d = args.ld_d;
    out.batch_stride_a = args.batch_stride_a / per_byte, out.batch_stride_b = args.batch_stride_b / per_byte;
    out.batch_stride_c = args.batch_stride_c, out.batch_stride_d = args.batch_stride_d;
    out.scale_a = args.alpha;
    out.alpha = 1.0f, out.beta = args.beta;
    out.type_c = out.type_bias = static_cast<int32_t>(facts.bytes.addend_d);
    out.bias = given.bias, out.activation = given.activation;
    out.tactic = args.tactic;
    return out;
  }

  // Whether strides are multiples of TMA's 16 bytes.
  bool fits(int64_t leading, int64_t batch_stride, OperandFacts const& operand) const {
    int const elements = 128 / operand.bits;
    return leading % elements == 0 && (args_.batch == 1 || batch_stride % elements == 0);
  }

  int stage_bytes(OperandFacts const& operand, sm90::Slices const& slices) const {
    return facts_.boxes * operand.row_bytes * slices.loaded() +
           operand.row_blocks * operand.atoms * operand.atom_rows * 16;
  }

  cudaError_t encode(CUtensorMap& map, void const* address, int rows, int64_t leading, int64_t batch_stride,
                     OperandFacts const& operand, sm90::Slices const& slices) const {
    int const per_byte = 8 / operand.bits;
    sm90::Matrices const matrices{address,     args_.k / per_byte, rows,
                                  args_.batch, leading / per_byte, batch_stride / per_byte};
    return sm90::encode_matrices(map, matrices, operand.row_bytes, slices.rows, CU_TENSOR_MAP_SWIZZLE_64B);
  }

  // Words of a row of an atom, 16 bytes for four rows that are 32 apart; atoms along k; blocks of 128 rows, of all
  // matrices. Outside of these, TMA writes zeros, so that what lies beyond k is 0 times 0.
  cudaError_t encode_scales(CUtensorMap& map, void const* address, OperandFacts const& operand, int row_blocks,
                            bool broadcast) const {
    int const atoms = sm90::ceil_div(sm90::ceil_div(args_.k, facts_.block), kScaleColumns);
    cuuint64_t const blocks = cuuint64_t(row_blocks) * (broadcast ? 1 : args_.batch);
    return sm90::encode_boxes<3>(
        map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, address, {kAtomBytes / 4, cuuint64_t(atoms), blocks},
        {kAtomBytes, cuuint64_t(atoms) * kAtomBytes},
        {cuuint32_t(operand.atom_rows * 4), cuuint32_t(operand.atoms), cuuint32_t(operand.row_blocks)},
        CU_TENSOR_MAP_SWIZZLE_NONE);
  }
};

// The `Host` (adapter.hpp) of a kernel with these facts.
struct Host {
  using Args = mma::Args;

  Facts const& facts;

  bool can_implement(Args const& args) const { return Maker(facts, args).can_implement(); }

  int64_t workspace_bytes(Args const& args) const { return Maker(facts, args).workspace_bytes(); }

  cudaError_t enqueue(Context const& context, Args const& args, void* workspace, cudaStream_t stream) const {
    return Maker(facts, args).enqueue(context, workspace, stream);
  }
};

}  // namespace

int32_t can_implement(Facts const& facts, void const* args) { return Entries<Host>::can_implement({facts}, args); }

int64_t workspace_bytes(Facts const& facts, void const* args) { return Entries<Host>::workspace_bytes({facts}, args); }

int32_t launch(Facts const& facts, void const* args, void* workspace, void* stream) {
  return Entries<Host>::launch({facts}, args, workspace, stream);
}

}  // namespace tilewright::blockscaled_gemm::mma

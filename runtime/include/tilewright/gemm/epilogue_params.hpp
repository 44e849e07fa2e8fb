// The epilogue's part of a `gemm` problem's arguments, as our own kernels take it.
#pragma once

#include "tilewright/gemm/args.h"
#include "tilewright/sm90/epilogue_params.hpp"

namespace tilewright::gemm {

// Whether a kernel that is compiled with `activation` can compute the epilogue that the arguments ask for.
inline bool known_epilogue(tilewright_gemm_args const& args, sm90::Activation compiled) {
  auto const valid_type = [](int32_t type) { return type >= TILEWRIGHT_ADDEND_F32 && type <= TILEWRIGHT_ADDEND_BF16; };
  // A launch can name the activations before kGiven.
  int32_t const activations = compiled == sm90::Activation::kNone ? 1 : static_cast<int32_t>(sm90::Activation::kGiven);
  return valid_type(args.type_c) && valid_type(args.type_bias) && args.activation >= 0 && args.activation < activations;
}

// `n_boxes`: columns of D that TMA stores.
inline sm90::EpilogueParams epilogue_params(tilewright_gemm_args const& args, int n_boxes) {
  return {args.beta != 0.0f ? args.c : nullptr,
          args.scale_a,
          args.scale_b,
          args.alpha,
          args.beta,
          n_boxes,
          static_cast<sm90::Activation>(args.activation),
          args.bias,
          args.d,
          args.scale_result,
          args.amax,
          args.ld_c,
          args.ld_d,
          args.batch_stride_c,
          args.batch_stride_d,
          args.m,
          args.n,
          static_cast<sm90::Addend>(args.type_c),
          static_cast<sm90::Addend>(args.type_bias)};
}

}  // namespace tilewright::gemm

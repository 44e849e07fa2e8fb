// The facts and the host's functions of lean `gemm` kernels with a gated activation, whose parameters are those of lean
// kernels. A module's table defines the functions (gated_host.hpp).
#pragma once

#include <cstdint>

#include "tilewright/gemm/lean_params.hpp"

namespace tilewright::gemm::gated {

struct Facts : lean::Facts {
  bool plain_form;  // the code is a form, for products with nothing added, scaled or split (gated_plain_form.hpp)
};

// The functions of tilewright_kernel (abi.h).
int32_t can_implement(Facts const& facts, void const* args);
int64_t workspace_bytes(Facts const& facts, void const* args);
int32_t launch(Facts const& facts, void const* args, void* workspace, void* stream);

}  // namespace tilewright::gemm::gated

// The host's functions of lean `gemm` kernels with a gated activation, whose parameters and facts are those of lean
// kernels. A module's table defines the functions (gated_host.hpp).
#pragma once

#include <cstdint>

#include "tilewright/gemm/lean_params.hpp"

namespace tilewright::gemm::gated {

// The functions of tilewright_kernel (abi.h).
int32_t can_implement(lean::Facts const& facts, void const* args);
int64_t workspace_bytes(lean::Facts const& facts, void const* args);
int32_t launch(lean::Facts const& facts, void const* args, void* workspace, void* stream);

}  // namespace tilewright::gemm::gated

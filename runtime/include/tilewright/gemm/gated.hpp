// The header that generated lean `gemm` kernels with a gated activation for sm_90a include: the kernel, and the
// functions of its descriptor.
#pragma once

#include "tilewright/descriptor.hpp"
#include "tilewright/gemm/gated_kernel.hpp"
#include "tilewright/gemm/gated_params.hpp"
#include "tilewright/gemm/lean_calls.hpp"

namespace tilewright::gemm::gated {

// The functions of a kernel's descriptor (abi.h), or of a plain form's. They pass its Facts to the host code that the
// module's table has once for all kernels (gated_host.hpp).
template <class Traits>
struct Calls {
  using Kernel = typename Traits::Kernel;
  using Args = tilewright_gemm_args;

  static int32_t can_implement(void const* args) { return gated::can_implement(facts(), args); }

  static int64_t workspace_bytes(void const* args) { return gated::workspace_bytes(facts(), args); }

  static int32_t launch(void const* args, void* workspace, void* stream) {
    return gated::launch(facts(), args, workspace, stream);
  }

 private:
  // A local variable, because in C++14 a static member of a template would need a second definition.
  static lean::Facts const& facts() {
    static constexpr lean::Facts kFacts = lean::make_facts<Traits>(nullptr);
    return kFacts;
  }
};

}  // namespace tilewright::gemm::gated

// As TILEWRIGHT_LEAN_GEMM_KERNEL (lean.hpp), without the second kernel.
#define TILEWRIGHT_GATED_GEMM_KERNEL(NAME)                                                                          \
  extern "C" __global__ void __cluster_dims__()                                                                     \
      NAME(__grid_constant__ typename tilewright::NAME::Gemm::Kernel::Params const params);                         \
  TILEWRIGHT_DEFINE_KERNEL(NAME, tilewright::NAME::Gemm, tilewright::gemm::gated::Calls<tilewright::NAME::Gemm>, 1, \
                           1024)
